//! What is tried: a run's own functions, each for itself, so that one that is missing
//! doesn't hide the next.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::unistd::{Pid, sethostname};

use crate::broker::key::no_page;
use crate::cli;
use crate::confine::seccomp::Filters;
use crate::confine::{self, landlock, limits};
use crate::mount::{root::Root, tree};
use crate::ns::{diagnose, init, net};
use crate::plan::command::{Grant, Landlock, LandlockMode, LandlockRule, OnDenial};
use crate::plan::step::{Bind, Identity, Plan, Route, Tmpfs};
use crate::plan::{self, NAMESPACES};
use crate::policy::{self, Limits};
use crate::refusal::Refusal;
use crate::run::{Caller, open_trees};
use crate::sys;
use crate::sys::secret::SecretPage;

use super::row::{Finding, Primitive};
use super::trial::{Found, Report, enters, in_child, in_namespaces};

/// Each kind of namespace for itself; but for the first, in a user namespace of its own.
pub(super) fn namespaces() -> Found {
    const EACH: [(Primitive, &str); 7] = [
        (Primitive::UserNamespace, "CLONE_NEWUSER"),
        (Primitive::MountNamespace, "CLONE_NEWNS"),
        (Primitive::PidNamespace, "CLONE_NEWPID"),
        (Primitive::NetNamespace, "CLONE_NEWNET"),
        (Primitive::IpcNamespace, "CLONE_NEWIPC"),
        (Primitive::UtsNamespace, "CLONE_NEWUTS"),
        (Primitive::CgroupNamespace, "CLONE_NEWCGROUP"),
    ];
    let mut found = Vec::new();
    for (primitive, name) in EACH {
        let made = match name {
            "CLONE_NEWUSER" => enters(&[name]).map(|()| format!("made ({})", sysctls())),
            _ => enters(&["CLONE_NEWUSER", name]).map(|()| "made".to_owned()),
        };
        let is_missing = made.is_err();
        found.push((primitive, made.into()));
        // Without the first there is none of the others.
        if is_missing && primitive == Primitive::UserNamespace {
            break;
        }
    }
    found
}

/// What this host says of user namespaces; a name that isn't there says nothing.
fn sysctls() -> String {
    const NAMES: [&str; 3] = [
        "user/max_user_namespaces",
        "kernel/unprivileged_userns_clone",
        "kernel/apparmor_restrict_unprivileged_userns",
    ];
    let said = NAMES.iter().filter_map(|name| {
        let value = diagnose::sysctl(name)?;
        Some(format!("{} {value}", name.replace('/', ".")))
    });
    said.collect::<Vec<_>>().join(", ")
}

/// What root's supervisor does with the trees that it is given: a plan's sources, opened
/// and id-mapped. A user's are opened in the namespaces.
pub(super) fn trees(plan: &Plan) -> (Found, BTreeMap<PathBuf, OwnedFd>) {
    if plan.identity.route == Route::User {
        return (Vec::new(), BTreeMap::new());
    }
    let row = |finding| vec![(Primitive::IdMappedMounts, finding)];
    match open_trees(plan, None) {
        Ok(trees) => (row(Finding::Ok("made".to_owned())), trees),
        Err(refusal) => (row(Finding::Missing(refusal)), BTreeMap::new()),
    }
}

/// What pid 1 does, up to its new root. `clone` is the clone's bind, if it may be given.
pub(super) fn jail(
    identity: &Identity,
    clone: Option<&Bind>,
    mut trees: BTreeMap<PathBuf, OwnedFd>,
) -> Found {
    in_namespaces(&NAMESPACES, identity, |report| {
        let ids = init::become_command(identity).map(|()| "written".to_owned());
        report.tell(Primitive::IdMaps, ids);
        let named = sethostname("groom-ns")
            .map(|()| "held".to_owned())
            .map_err(|errno| diagnose::capabilities_refused("sethostname", errno));
        if !report.tell(Primitive::Capabilities, named) {
            return;
        }
        let raised = net::raise_loopback().map(|()| "raised".to_owned());
        report.tell(Primitive::Loopback, raised);
        match Root::attach(&small()) {
            Err(refusal) => report.say(Primitive::Tmpfs, Finding::Missing(refusal)),
            Ok(root) => {
                report.tell(Primitive::Tmpfs, Ok("made".to_owned()));
                let tree = clone.and_then(|bind| trees.remove(&bind.target));
                mounts(report, &root, clone, tree.as_ref());
            }
        }
        let dropped = confine::caps::drop_all().map(|()| "emptied".to_owned());
        report.tell(Primitive::CapabilityDrop, dropped);
    })
}

/// Each mount on a folder of its own.
fn mounts(report: &Report, root: &Root, clone: Option<&Bind>, tree: Option<&OwnedFd>) {
    let on = |path: &'static str, mount: &dyn Fn(&Path) -> Result<(), Refusal>| {
        let path = Path::new(path);
        root.dir(path)
            .and_then(|()| mount(path))
            .map(|()| "made".to_owned())
    };
    if let Some(bind) = clone {
        let bound = on("/clone", &|path| match tree {
            Some(tree) => root.put(tree, path, "attach a bind"),
            None => root.put(&tree::open(bind, None, None)?, path, "attach a bind"),
        });
        report.tell(Primitive::BindMounts, bound);
    }
    report.tell(Primitive::Procfs, on("/proc", &|path| root.proc(path)));
    report.tell(Primitive::Devpts, on("/pts", &|path| root.devpts(path)));
    let moved = root.pivot().map(|()| "moved".to_owned());
    report.tell(Primitive::PivotRoot, moved);
}

/// Room for a few folders.
fn small() -> Tmpfs {
    Tmpfs {
        size: "65536".to_owned(),
        inodes: 16,
        mode: 0o755,
    }
}

/// What the command's process does to itself, each step in a child of its own.
pub(super) fn confinement() -> Found {
    let of = |primitive, work: &dyn Fn() -> Result<String, Refusal>| {
        in_child(primitive, |report| {
            report.tell(primitive, work());
        })
    };
    let mut found = of(Primitive::Limits, &|| {
        limits::apply(&plan::resource_limits(&Limits::default())).map(|()| "set".to_owned())
    });
    found.extend(in_child(Primitive::Landlock, |report| {
        report.say(Primitive::Landlock, landlock_here());
    }));
    found.extend(of(Primitive::Seccomp, &|| {
        confine::no_new_privs()?;
        let filters = Filters::compile(&plan::filter(false, OnDenial::Answer))?;
        filters.install().map(|_| "installed".to_owned())
    }));
    found.extend(in_child(Primitive::Seccomp, |report| {
        let filters = Filters::compile(&plan::filter(false, OnDenial::Answer));
        let confined = filters.and_then(|filters| confine::confine_init(&filters));
        if let Err(refusal) = confined {
            report.tell(Primitive::Seccomp, Err(refusal));
        }
    }));
    found.extend(in_child(Primitive::SeccompListener, |report| {
        report.say(Primitive::SeccompListener, listener());
    }));
    found
}

/// The newest ABI that is used, and what this kernel lacks of it.
fn landlock_here() -> Finding {
    let abi = landlock::kernel_abi();
    let judged = policy::landlock::judge(cli::Landlock::Required, abi);
    match judged.and_then(|_| enforce(abi.unwrap_or(0))) {
        Err(refusal) => Finding::Missing(refusal),
        Ok(abi) => match landlock::absent(abi).as_slice() {
            [] => Finding::Ok(format!("ABI {abi}")),
            absent => Finding::Degraded {
                found: format!("ABI {abi}, without {}", absent.join(", ")),
                remedy: "runs work, with fewer second layers; a newer kernel has them".to_owned(),
            },
        },
    }
}

/// Enters a domain with one rule, of all rights that the kernel has.
fn enforce(abi: u32) -> Result<u32, Refusal> {
    confine::no_new_privs()?;
    let abi = abi.min(landlock::NEWEST);
    landlock::enforce(&Landlock {
        mode: LandlockMode::Required,
        abi,
        absent: Vec::new(),
        rules: vec![LandlockRule {
            path: "/".into(),
            grant: Grant::Execute,
        }],
    })
    .map(|()| abi)
}

fn listener() -> Finding {
    let made = confine::no_new_privs().is_ok() && sys::notify::listen(&[libc::SYS_getppid]).is_ok();
    if made {
        return Finding::Ok("made".to_owned());
    }
    Finding::Degraded {
        found: "no listener".to_owned(),
        remedy: "`groom-ns prove` and `run --explain-denials` need it; an outer sandbox has one \
                 already, or denies it"
            .to_owned(),
    }
}

/// What the supervisor needs beside.
pub(super) fn supervisor(parent: Pid) -> Found {
    let held = Caller::hold(parent).map(|_| "made".to_owned());
    vec![
        (Primitive::Pidfds, held.into()),
        (Primitive::LockedMemory, locked_memory()),
    ]
}

/// A run with a broker locks two pages at once: the key's and the token's.
fn locked_memory() -> Finding {
    match SecretPage::new().and_then(|first| Ok((first, SecretPage::new()?))) {
        Ok(_) => Finding::Ok("locked".to_owned()),
        Err(errno) => Finding::Degraded {
            found: format!("mlock: {errno:?}"),
            remedy: no_page(errno).remedy.into_owned(),
        },
    }
}
