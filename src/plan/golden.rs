//! Whole plans, made of made-up facts, against what they looked like last time.
//! `GROOM_NS_BLESS=1 cargo test golden` writes them anew; read the difference.

use std::ffi::CString;
use std::path::PathBuf;

use super::command::{EnvValue, EnvVar, LandlockMode, OnDenial};
use super::step::{Identity, Ids, Inode, Plan, Route, Times};
use crate::broker::provider::Provider;
use crate::broker::upstream::{proxy::Proxy, url::Upstream};
use crate::broker::{self, Config};
use crate::cgroup::Way;
use crate::cli;
use crate::host::{Host, Masks, SystemDir, SystemShape};
use crate::policy::{
    BrokerPolicy, CloneMode, GitCovers, Granted, GrantedKind, Limits, Linked, OutDir, Policy,
};

fn inode(ino: u64) -> Inode {
    Inode { dev: 2049, ino }
}

fn ids(id: u32) -> Ids {
    Ids { uid: id, gid: id }
}

fn granted(path: &str, kind: GrantedKind, ino: u64, owner: u32) -> Granted {
    Granted {
        path: path.into(),
        alias: None,
        kind,
        identity: inode(ino),
        owner: ids(owner),
    }
}

/// A merged-usr host, but for a `/lib64` of its own.
fn host(route: Route) -> Host {
    let dir = |path: &str, ino| SystemDir {
        path: path.into(),
        shape: SystemShape::Dir {
            identity: inode(ino),
            owner: ids(0),
        },
    };
    let link = |path: &str, target: &str| SystemDir {
        path: path.into(),
        shape: SystemShape::Symlink(target.into()),
    };
    Host {
        ids: ids(if route == Route::Root { 0 } else { 1000 }),
        groups: Vec::new(),
        route,
        kernel: "6.1.0".to_owned(),
        landlock: Ok(2),
        system: vec![
            dir("/usr", 2),
            dir("/etc", 3),
            link("/bin", "usr/bin"),
            dir("/lib64", 4),
        ],
        masks: Masks {
            files: vec!["kcore".into(), "keys".into()],
            dirs: vec!["irq".into()],
        },
        warnings: vec!["a warning".to_owned()],
    }
}

fn policy() -> Policy {
    Policy {
        profile: None,
        clone: granted("/home/u/clone", GrantedKind::Dir, 10, 1000),
        clone_mode: CloneMode::Ro,
        linked: None,
        out_dir: None,
        ro_files: Vec::new(),
        uds: None,
        broker: None,
        sockets: Vec::new(),
        env: Vec::new(),
        terminal: Vec::new(),
        term: None,
        times: Times {
            timeout_ms: None,
            grace_ms: 10_000,
        },
        argv: vec![CString::from(c"make"), CString::from(c"a test")],
        landlock: LandlockMode::Required,
        allow_ptrace: false,
        warnings: Vec::new(),
        on_denial: OnDenial::Answer,
        limits: Limits::default(),
    }
}

fn user_plan() -> Plan {
    let identity = Identity {
        route: Route::User,
        host: ids(1000),
        inside: ids(1000),
        groups: vec![27],
    };
    super::make(&policy(), &host(Route::User), identity)
}

/// Everything that a caller can ask for at once.
fn root_plan() -> Plan {
    let mut policy = policy();
    policy.clone_mode = CloneMode::RwGitRo(GitCovers {
        gits: vec![
            ("/home/u/clone/.git".into(), inode(11)),
            ("/home/u/clone/a/b/.git".into(), inode(14)),
        ],
        parents: vec![
            ("/home/u/clone/a".into(), inode(12)),
            ("/home/u/clone/a/b".into(), inode(13)),
        ],
    });
    policy.out_dir = Some(OutDir::Missing {
        path: "/tmp/out".into(),
        alias: Some("/scratch/out".into()),
    });
    let mut tool = granted("/srv/tools-1.2", GrantedKind::Dir, 20, 0);
    tool.alias = Some(PathBuf::from("/srv/tools"));
    // Named twice, and inside another: bound once, after the outer one.
    let inner = granted("/srv/tools-1.2/key", GrantedKind::File, 21, 0);
    policy.ro_files = vec![inner.clone(), tool, inner];
    policy.uds = Some(granted(
        "/run/user/1000/broker",
        GrantedKind::Socket,
        22,
        1000,
    ));
    policy.sockets = vec!["/home/u/clone/.git/fsmonitor--daemon.ipc".into()];
    policy.env = vec![
        EnvVar {
            name: "PATH".to_owned(),
            value: EnvValue::Callers(c"/srv/tools/bin".into()),
        },
        EnvVar {
            name: "TOKEN".to_owned(),
            value: EnvValue::Callers(c"hunter2".into()),
        },
    ];
    policy.terminal = vec![0, 1];
    policy.term = Some("xterm".to_owned());
    policy.times = Times {
        timeout_ms: Some(5_400_000),
        grace_ms: 1500,
    };
    policy.allow_ptrace = true;
    policy.on_denial = OnDenial::Ask;
    let identity = Identity {
        route: Route::Root,
        host: Ids {
            uid: 1000,
            gid: 2_100_000_042,
        },
        inside: ids(1000),
        groups: Vec::new(),
    };
    super::make(&policy, &host(Route::Root), identity)
}

/// Every limit, in a cgroup beside others.
fn limited_plan() -> Plan {
    let mut policy = policy();
    let typed = cli::Limits {
        memory: Some("2G".to_owned()),
        pids: Some("100".to_owned()),
        cpus: Some("1.5".to_owned()),
        tmp_size: Some("512M".to_owned()),
        file_size: Some("1G".to_owned()),
        max_output: Some("64M".to_owned()),
    };
    let way = |_: &[&'static str]| Ok(Way::Beside("/sys/fs/cgroup/ci".into()));
    policy.limits = Limits::judge(&typed, way).expect("limits");
    let identity = Identity {
        route: Route::User,
        host: ids(1000),
        inside: ids(1000),
        groups: Vec::new(),
    };
    super::make(&policy, &host(Route::User), identity)
}

/// The one with a port of the kernel's choice, the other with a port below 1024.
fn broker_plan(route: Route) -> Plan {
    let (provider, shim_port, routes) = match route {
        Route::User => (Provider::Anthropic, 0, vec![]),
        Route::Root => (Provider::Custom, 80, vec!["POST /v2/x"]),
    };
    let added = routes.into_iter().map(broker::route::Route::judge);
    let mut policy = policy();
    policy.broker = Some(BrokerPolicy {
        config: Config {
            provider,
            auth: None,
            upstream: Upstream::judge("https://api.example.com/gw").expect("a URL"),
            roots: Vec::new(),
            proxy: Proxy::default(),
            routes: added.collect::<Result<_, _>>().expect("routes"),
        },
        shim_port,
    });
    // The caller's own word wins.
    policy.env = vec![EnvVar {
        name: "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".to_owned(),
        value: EnvValue::Callers(c"0".into()),
    }];
    made(&policy, route)
}

/// The plan for a command of uid 1000, inside and outside.
fn made(policy: &Policy, route: Route) -> Plan {
    let identity = Identity {
        route,
        host: ids(1000),
        inside: ids(1000),
        groups: Vec::new(),
    };
    super::make(policy, &host(route), identity)
}

/// A clone that is a linked worktree.
fn linked_plan(route: Route) -> Plan {
    let mut policy = policy();
    policy.clone_mode = CloneMode::RwGitRo(GitCovers {
        gits: vec![("/home/u/clone/.git".into(), inode(11))],
        parents: Vec::new(),
    });
    let mut git_dir = granted(
        "/data/main/.git/worktrees/clone",
        GrantedKind::Dir,
        31,
        1000,
    );
    git_dir.alias = Some("/home/u/main/.git/worktrees/clone".into());
    policy.linked = Some(Linked {
        git_dir,
        common: granted("/data/main/.git", GrantedKind::Dir, 30, 1000),
    });
    policy.warnings = vec!["what git lacks".to_owned()];
    made(&policy, route)
}

fn compare(name: &str, found: &str) {
    // By cargo's variable where it is set: the tests may run far from where they were built.
    let root = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let path = root.join("tests/golden").join(name);
    if std::env::var_os("GROOM_NS_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("tests/golden");
        std::fs::write(&path, found).expect("write a golden file");
    }
    let wanted = std::fs::read_to_string(&path).expect("a golden file");
    assert!(found == wanted, "{name} differs:\n{found}");
}

fn json(plan: &Plan) -> String {
    plan.json().expect("a plan is data")
}

#[test]
fn golden_user() {
    compare("user.txt", &user_plan().to_string());
    compare("user.json", &json(&user_plan()));
}

#[test]
fn golden_root() {
    compare("root.txt", &root_plan().to_string());
    compare("root.json", &json(&root_plan()));
}

#[test]
fn golden_limits() {
    let plan = limited_plan();
    compare("limits-user.txt", &plan.to_string());
    let json = serde_json::to_value(&plan).expect("data");
    let limits = serde_json::json!({
        "cgroup": json["cgroup"],
        "max_output": json["max_output"],
        "limits": json["confine"]["limits"],
    });
    let text = serde_json::to_string_pretty(&limits).expect("data");
    compare("limits-user.json", &(text + "\n"));
}

#[test]
fn golden_broker() {
    let user = broker_plan(Route::User);
    compare("broker-user.txt", &user.to_string());
    compare("broker-user.json", &json(&user));
    compare("broker-root.txt", &broker_plan(Route::Root).to_string());
}

#[test]
fn golden_linked() {
    compare("linked-user.txt", &linked_plan(Route::User).to_string());
    compare("linked-root.txt", &linked_plan(Route::Root).to_string());
}

#[test]
fn a_callers_value_is_never_printed() {
    let plan = root_plan();
    for text in [plan.to_string(), json(&plan), format!("{plan:?}")] {
        assert!(
            text.contains("TOKEN") && !text.contains("hunter2"),
            "{text}"
        );
    }
}

#[test]
fn without_landlock_nothing_is_claimed_of_it() {
    let mut host = host(Route::User);
    host.landlock = Err(nix::errno::Errno::ENOSYS);
    let mut policy = policy();
    policy.landlock = LandlockMode::BestEffort;
    let identity = Identity {
        route: Route::User,
        host: ids(1000),
        inside: ids(1000),
        groups: Vec::new(),
    };
    let plan = super::make(&policy, &host, identity);
    assert_eq!(
        (plan.confine.landlock.abi, plan.confine.landlock.rules.len()),
        (0, 0)
    );
    assert!(
        plan.warnings
            .iter()
            .any(|warning| warning.contains("landlock"))
    );
    assert!(
        !plan.to_string().contains("check: reading"),
        "the canary proves landlock alone"
    );
}

#[test]
fn json_has_no_path_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut plan = user_plan();
    plan.exec.cwd.push(std::ffi::OsStr::from_bytes(b"\xff"));
    let refusal = plan.json().expect_err("refused");
    assert_eq!(refusal.reason, crate::refusal::Reason::Path);
    assert!(plan.to_string().contains("/home/u/clone/\\xff"));
}
