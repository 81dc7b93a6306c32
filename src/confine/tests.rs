//! Landlock, seccomp, no_new_privs and capabilities are a thread's, so each test
//! confines a thread of its own and looks from there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::sys::resource::{Resource, getrlimit};

use super::*;
use crate::plan;
use crate::plan::command::{
    self, Check, Grant, Landlock, LandlockMode, LandlockRule, Limit, OnDenial, Seccomp,
};
use crate::sys::{notify, process::exit_at_once};

fn in_thread<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(f).join().unwrap()
}

/// A new folder, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("groom-confine-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn rule(path: impl AsRef<Path>, grant: Grant) -> LandlockRule {
    LandlockRule {
        path: path.as_ref().to_owned(),
        grant,
    }
}

fn domain(rules: Vec<LandlockRule>) -> Landlock {
    let abi = landlock::kernel_abi().unwrap().min(landlock::NEWEST);
    Landlock {
        mode: LandlockMode::Required,
        abi,
        absent: landlock::absent(abi),
        rules,
    }
}

fn errno<T>(outcome: std::io::Result<T>) -> Option<Errno> {
    outcome.err()?.raw_os_error().map(Errno::from_raw)
}

#[test]
fn a_domain_opens_what_is_granted_and_nothing_else() {
    let folder = Folder::new("domain");
    for name in ["granted", "other"] {
        fs::create_dir(folder.path(name)).unwrap();
        fs::write(folder.path(name).join("file"), "x").unwrap();
    }
    let rules = vec![
        rule(folder.path("granted"), Grant::Write),
        // Directory-only rights on a file are left out.
        rule("/dev/null", Grant::Terminal),
        rule(folder.path("other/file"), Grant::Read),
    ];
    let root = folder.0.clone();
    in_thread(move || {
        prctl::set_no_new_privs().unwrap();
        landlock::enforce(&domain(rules)).unwrap();
        fs::rename(root.join("granted/file"), root.join("granted/new")).unwrap();
        fs::write("/dev/null", "x").unwrap();
        fs::read(root.join("other/file")).unwrap();
        assert_eq!(
            errno(fs::write(root.join("other/file"), "y")),
            Some(Errno::EACCES)
        );
        assert_eq!(errno(fs::read_dir(root.join("other"))), Some(Errno::EACCES));
        assert_eq!(
            errno(fs::write(root.join("other/new"), "y")),
            Some(Errno::EACCES)
        );
    });
    assert_eq!(fs::read(folder.path("other/file")).unwrap(), b"x");
}

#[test]
fn read_grants_no_execution_and_execute_does() {
    let folder = Folder::new("execute");
    fs::copy("/bin/true", folder.path("true")).unwrap();
    for (grant, expected) in [(Grant::Read, Some(Errno::EACCES)), (Grant::Execute, None)] {
        let program = folder.path("true");
        let mut rules = vec![rule(&folder.0, grant), rule("/dev/null", Grant::Device)];
        // The loader and libc of a dynamic `true`.
        rules.extend(
            ["/usr", "/lib", "/lib64", "/etc"]
                .iter()
                .filter(|path| Path::new(path).exists())
                .map(|path| rule(path, Grant::Execute)),
        );
        let outcome = in_thread(move || {
            prctl::set_no_new_privs().unwrap();
            landlock::enforce(&domain(rules)).unwrap();
            errno(Command::new(program).status())
        });
        assert_eq!(outcome, expected, "{grant:?}");
    }
}

#[test]
fn landlock_below_the_floor_is_refused_unless_best_effort() {
    for abi in [0, 1] {
        let plan = Landlock {
            abi,
            ..domain(vec![])
        };
        let refusal = landlock::enforce(&plan).unwrap_err();
        assert_eq!(refusal.reason, Reason::Landlock, "{abi}");
    }
    let nothing = Landlock {
        mode: LandlockMode::BestEffort,
        abi: 0,
        ..domain(vec![])
    };
    in_thread(move || {
        landlock::enforce(&nothing).unwrap();
        fs::read_dir("/").unwrap();
    });
}

#[test]
fn an_abi_that_the_kernel_does_not_have_is_refused() {
    let kernel = landlock::kernel_abi().unwrap();
    if kernel >= landlock::NEWEST {
        return; // this kernel has all that could be asked for
    }
    let plan = Landlock {
        abi: landlock::NEWEST,
        ..domain(vec![])
    };
    in_thread(move || {
        prctl::set_no_new_privs().unwrap();
        let refusal = landlock::enforce(&plan).unwrap_err();
        assert_eq!(refusal.reason, Reason::Landlock);
        fs::read_dir("/").unwrap();
    });
}

#[test]
fn a_granted_path_that_is_not_there_is_refused() {
    let plan = domain(vec![rule("/nowhere/at/all", Grant::Read)]);
    let refusal = in_thread(move || {
        prctl::set_no_new_privs().unwrap();
        landlock::enforce(&plan).unwrap_err()
    });
    assert_eq!(refusal.subject, "/nowhere/at/all");
    assert_eq!(refusal.errno.as_deref(), Some("ENOENT"));
}

fn seccomp() -> Seccomp {
    plan::filter(false, OnDenial::Answer)
}

fn not_asked(_: Listener) -> Result<(), Refusal> {
    panic!("a listener that nobody asked for")
}

const VSOCK: Check = Check::Socket {
    family: "AF_VSOCK",
    number: libc::AF_VSOCK,
};

fn install(plan: &Seccomp) -> Result<Option<notify::Listener>, Refusal> {
    Filters::compile(plan).unwrap().install()
}

#[test]
fn without_no_new_privs_or_privilege_no_filter_is_installed() {
    if nix::unistd::geteuid().is_root() {
        in_thread(|| {
            caps::drop_all().unwrap();
            let refusal = install(&seccomp()).unwrap_err();
            assert_eq!(refusal.errno.as_deref(), Some("EACCES"));
        });
    } else {
        let refusal = in_thread(|| install(&seccomp()).unwrap_err());
        assert_eq!(refusal.errno.as_deref(), Some("EACCES"));
    }
}

/// The kernel's own answers; the table's test asks an interpreter.
#[test]
fn the_kernel_answers_as_the_table_says() {
    let folder = Folder::new("filter");
    let file = folder.path("file");
    fs::write(&file, "").unwrap();
    in_thread(move || {
        // The control: the same calls succeed before.
        let mode = |bits| errno(fs::set_permissions(&file, fs::Permissions::from_mode(bits)));
        assert_eq!(mode(0o4700), None);
        assert!(sys::socket::open(libc::AF_NETLINK, libc::SOCK_RAW).is_ok());
        let fails = self_check::run(&[Check::UserNamespace, VSOCK]).is_err();
        assert!(fails, "a thread of many can't unshare: EINVAL, not EPERM");

        prctl::set_no_new_privs().unwrap();
        install(&seccomp()).unwrap();
        assert_eq!(mode(0o4700), Some(Errno::EPERM));
        assert_eq!(mode(0o700), None);
        self_check::run(&[Check::UserNamespace, VSOCK]).unwrap();
        assert!(sys::socket::open(libc::AF_NETLINK, libc::SOCK_RAW).is_ok());
        assert!(Command::new("/bin/true").status().unwrap().success());
    });
}

/// A filter that asks and whose listener is closed: as when the supervisor dies, before
/// the jail does.
#[test]
fn when_nobody_listens_any_more_nobody_else_can() {
    let number = libc::SYS_vhangup;
    // Control: the kernel lets another listen then, who is heard before the older filter.
    let reaches = in_thread(move || {
        prctl::set_no_new_privs().unwrap();
        drop(notify::listen(&[number]).unwrap());
        notify::listen(&[number]).is_ok()
    });
    assert!(reaches, "vacuous: a closed listener is in the way");

    let plan = plan::filter(false, OnDenial::Ask);
    in_thread(move || {
        prctl::set_no_new_privs().unwrap();
        let listener = install(&plan).unwrap().unwrap();
        assert_eq!(notify::listen(&[number]).unwrap_err(), Errno::EBUSY);
        drop(listener);
        assert_eq!(notify::listen(&[number]).unwrap_err(), Errno::EBUSY);
        // Denied nevertheless.
        let alg = sys::socket::open(libc::AF_ALG, libc::SOCK_SEQPACKET);
        assert_eq!(alg.unwrap_err(), Errno::ENOSYS);
    });
}

#[test]
fn capabilities_are_emptied_or_it_is_a_refusal() {
    let root = nix::unistd::geteuid().is_root();
    let (outcome, left) = in_thread(|| (caps::drop_all(), caps::remaining().unwrap()));
    if root {
        outcome.unwrap();
        assert_eq!(left, None);
    } else {
        assert_eq!(outcome.unwrap_err().reason, Reason::Caps);
    }
    // The control: what is looked for is found elsewhere.
    assert!(in_thread(caps::remaining).unwrap().is_some());
}

#[test]
fn a_check_that_is_allowed_or_fails_otherwise_refuses() {
    let folder = Folder::new("check");
    let missing = folder.path("missing");
    fs::write(folder.path("file"), "").unwrap();
    let cases = [
        (
            Check::Canary {
                path: folder.path("file"),
            },
            None,
        ),
        (
            Check::Canary {
                path: missing.clone(),
            },
            Some("ENOENT"),
        ),
        (
            Check::ReadOnly {
                path: folder.0.clone(),
            },
            None,
        ),
        (Check::ReadOnly { path: missing }, Some("ENOENT")),
        (Check::NoPrivileges, None),
        (
            Check::Socket {
                family: "AF_UNIX",
                number: libc::AF_UNIX,
            },
            None,
        ),
    ];
    for (check, errno) in cases {
        let refusal = self_check::run(std::slice::from_ref(&check)).unwrap_err();
        assert_eq!(refusal.reason, Reason::Selfcheck);
        assert_eq!(refusal.errno.as_deref(), errno, "{check:?}");
    }
    assert_eq!(
        fs::read_dir(&folder.0).unwrap().count(),
        1,
        "a check left something behind"
    );
}

#[test]
fn all_steps_together_end_in_a_token() {
    let folder = Folder::new("apply");
    let canary = folder.path("canary");
    fs::write(&canary, "").unwrap();
    let inherited = open(&canary, OFlag::O_RDONLY, Mode::empty()).unwrap();
    let granted = folder.path("granted");
    fs::create_dir(&granted).unwrap();
    let confine = Confine {
        umask: 0o027,
        limits: vec![Limit {
            resource: command::Resource::Nofile,
            soft: 1000,
            hard: u64::MAX,
        }],
        landlock: domain(vec![rule(&granted, Grant::Write)]),
        seccomp: seccomp(),
        self_check: vec![Check::UserNamespace, VSOCK, Check::Canary { path: canary }],
    };
    in_thread(move || {
        apply(
            &confine,
            &Filters::compile(&confine.seccomp).unwrap(),
            not_asked,
        )
        .unwrap();
        assert!(prctl::get_no_new_privs().unwrap());
        fs::write(granted.join("file"), "").unwrap();
        let made = fs::metadata(granted.join("file")).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o640);
    });
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert_eq!(soft, hard.min(1000));
    let flags = fcntl(&inherited, FcntlArg::F_GETFD).unwrap();
    assert_eq!(flags, FdFlag::FD_CLOEXEC.bits());
}

#[test]
fn no_token_without_the_self_check() {
    let confine = Confine {
        umask: 0o027,
        limits: vec![],
        landlock: domain(vec![]),
        seccomp: seccomp(),
        self_check: vec![Check::Socket {
            family: "AF_UNIX",
            number: libc::AF_UNIX,
        }],
    };
    let refusal = in_thread(move || {
        apply(
            &confine,
            &Filters::compile(&confine.seccomp).unwrap(),
            not_asked,
        )
        .unwrap_err()
    });
    assert_eq!(refusal.reason, Reason::Selfcheck);
    assert_eq!(
        refusal.subject,
        "socket(AF_UNIX) was allowed, must be EAFNOSUPPORT"
    );
}

/// A killed process takes its tests along, so this one is run once more, and ends alone.
#[test]
fn pid_1_dies_of_a_call_that_it_does_not_need() {
    const ALONE: &str = "GROOM_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        in_thread(|| {
            confine_init(&Filters::compile(&seccomp()).unwrap()).unwrap();
            exit_at_once(u8::from(fs::read_dir("/").is_err()))
        });
        return;
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "confine::tests::pid_1_dies_of_a_call_that_it_does_not_need",
        ])
        .env(ALONE, "1")
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(libc::SIGSYS));
}
