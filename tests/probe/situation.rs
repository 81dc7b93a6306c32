//! Surroundings in which a command is executed: `probe SITUATION… -- CMD…`.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::process::ExitCode;

use nix::pty::openpty;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, setsid};

use crate::raw::{self, sys};
use crate::{filter, nth, value, world};

/// Makes the surrounding and executes the command in it, as the same process
/// where that is possible: groom-ns then has the caller as its parent.
pub(crate) fn run(situation: &[&str], command: &[&str]) -> ExitCode {
    match situation {
        ["fail-nth", calls, nth, errno] => return nth::fail(calls, nth, errno, command),
        ["signal-at", calls, nth, signal] => return nth::signal_at(calls, nth, signal, command),
        ["hold-nth", calls, nth] => return nth::hold(calls, nth, command),
        ["swap-at", calls, nth, one, other] => {
            return nth::swap_at(calls, nth, [one, other], command);
        }
        ["trace-setup"] => return nth::trace(command),
        ["parent"] => return parent(command),
        ["foreign-proc"] => return foreign_proc(command),
        ["in-pty"] => return in_pty(command),
        ["late-mount", dir, trigger] => return late_mount(dir, trigger, command),
        ["deny-syscall", calls, errno] => filter::deny(calls, errno).expect("a filter"),
        ["no-userns"] => world::no_more_userns().expect("a user namespace"),
        ["few-groups", count] => world::few_groups(count).expect("a user namespace"),
        ["mounts", specs @ ..] => mounts(specs),
        // personality(2): a kernel that calls itself 2.6.
        ["uname26"] => {
            sys(libc::SYS_personality, &[0x002_0000]).expect("a personality");
        }
        ["closed-fds", fds @ ..] => {
            for fd in fds {
                sys(libc::SYS_close, &[value::integer(fd)]).expect("an open descriptor");
            }
        }
        ["with-fds", specs @ ..] => specs.iter().for_each(|spec| with_fd(spec)),
        ["deleted-cwd", dir] => {
            fs::create_dir(dir).expect("a new folder");
            std::env::set_current_dir(dir).expect("the folder");
            fs::remove_dir(dir).expect("the empty folder");
        }
        ["with-groups", groups @ ..] => with_groups(groups),
        ["odd-state"] => odd_state(),
        ["as-user", uid, groups @ ..] => {
            with_groups(groups);
            let id = value::integer(uid);
            sys(libc::SYS_setresgid, &[id; 3]).expect("root's privilege");
            sys(libc::SYS_setresuid, &[id; 3]).expect("root's privilege");
        }
        ["with-key", name] => with_key(name),
        ["new-session"] => {
            setsid().expect("not a group leader yet");
        }
        _ => crate::misused(situation),
    }
    execute(command)
}

/// execve(2); never returns on success.
pub(crate) fn execute(command: &[&str]) -> ! {
    let argv: Vec<CString> = command.iter().map(|word| raw::cstring(word)).collect();
    let error = nix::unistd::execvp(argv.first().expect("a command"), &argv);
    eprintln!("probe: {}: {error:?}", command.join(" "));
    std::process::exit(2);
}

pub(crate) fn exit_code(status: WaitStatus) -> ExitCode {
    let code = match status {
        WaitStatus::Exited(_, code) => code,
        WaitStatus::Signaled(_, signal, _) => 128 + signal as i32,
        other => panic!("not an end: {other:?}"),
    };
    ExitCode::from(u8::try_from(code).expect("an exit code"))
}

/// A private mount namespace with these mounts, done in order:
/// `tmpfs:DIR[:FLAGS]`, `shared:DIR`, `overlay:DIR`, `bind:FROM:TO`,
/// `read-only:PATH`, `file:PATH:TEXT`.
fn mounts(specs: &[&str]) {
    world::own_mounts().expect("a mount namespace");
    for spec in specs {
        let parts: Vec<&str> = spec.split(':').collect();
        let done = match parts.as_slice() {
            ["tmpfs", dir] => world::mount("probe", dir, "tmpfs", 0, "mode=755"),
            ["tmpfs", dir, flags] => {
                world::mount("probe", dir, "tmpfs", value::integer(flags), "mode=755")
            }
            ["shared", dir] => shared_tmpfs(dir),
            ["overlay", dir] => {
                let data = format!("lowerdir={dir}:/usr/share/doc");
                world::mount("probe", dir, "overlay", 0, &data)
            }
            ["bind", from, to] => world::mount(from, to, "", libc::MS_BIND, ""),
            ["read-only", path] => read_only(path),
            ["file", path, text] => {
                fs::write(path, text).expect(path);
                Ok(())
            }
            _ => crate::misused(specs),
        };
        done.unwrap_or_else(|errno| panic!("{spec}: {errno:?}"));
    }
}

fn shared_tmpfs(dir: &str) -> nix::Result<()> {
    world::mount("probe", dir, "tmpfs", 0, "mode=755")?;
    world::mount("none", dir, "", libc::MS_SHARED, "")
}

fn read_only(path: &str) -> nix::Result<()> {
    world::mount(path, path, "", libc::MS_BIND | libc::MS_REC, "")?;
    let flags = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY;
    // What a user namespace locked must be repeated.
    let kept = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    world::mount("none", path, "", flags, "")
        .or_else(|_| world::mount("none", path, "", flags | kept, ""))
}

/// A parent that waits, to be killed by the test.
fn parent(command: &[&str]) -> ExitCode {
    match raw::fork().expect("a child") {
        ForkResult::Child => execute(command),
        ForkResult::Parent { child } => exit_code(waitpid(child, None).expect("the command")),
    }
}

/// A pid namespace with the /proc of another: `unshare --pid --fork`.
fn foreign_proc(command: &[&str]) -> ExitCode {
    world::own_mounts().expect("a mount namespace");
    world::unshare(libc::CLONE_NEWPID).expect("a pid namespace");
    parent(command)
}

/// Runs the command with a shared mount at `dir`, of itself; once the file `trigger` says
/// so, mounts another beneath it, with a file in it, and removes `trigger`.
fn late_mount(dir: &str, trigger: &str, command: &[&str]) -> ExitCode {
    world::own_mounts().expect("a mount namespace");
    let late = format!("{dir}/late");
    world::mount(dir, dir, "", libc::MS_BIND, "").expect("a mount");
    world::mount("none", dir, "", libc::MS_SHARED, "").expect("a shared mount");
    fs::create_dir_all(&late).expect("a mount point");
    let child = match raw::fork().expect("a child") {
        ForkResult::Child => execute(command),
        ForkResult::Parent { child } => child,
    };
    while fs::symlink_metadata(trigger).is_err() {
        let ended = waitpid(child, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
        match ended.expect("the command") {
            WaitStatus::StillAlive => {}
            status => return exit_code(status),
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    world::mount("late", &late, "tmpfs", 0, "mode=755").expect("a mount");
    fs::write(format!("{late}/seen"), "seen").expect("a file");
    fs::remove_file(trigger).expect("the trigger");
    exit_code(waitpid(child, None).expect("the command"))
}

/// `N:PATH` opens a path, `N:socket` makes a socket, as a descriptor that is
/// inherited.
fn with_fd(spec: &str) {
    let (number, what) = spec.split_once(':').expect("N:WHAT");
    let number = value::integer(number);
    let opened = if what == "socket" {
        let args = [libc::AF_UNIX, libc::SOCK_STREAM].map(raw::number);
        sys(libc::SYS_socket, &args)
    } else {
        let path = raw::cstring(what);
        let args = [
            raw::number(libc::AT_FDCWD),
            raw::address(path.as_bytes_with_nul()),
            0,
        ];
        sys(libc::SYS_openat, &args)
    };
    let opened = opened.expect(what).cast_unsigned();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let soft = soft.max((number + 1).min(hard));
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("a lower limit than the hard one");
    if opened != number {
        sys(libc::SYS_dup2, &[opened, number]).expect("a free number");
        sys(libc::SYS_close, &[opened]).expect("an open descriptor");
    }
}

/// Supplementary groups, which only root can take on.
fn with_groups(groups: &[&str]) {
    let groups: Vec<libc::gid_t> = groups
        .iter()
        .map(|group| group.parse().expect("a group"))
        .collect();
    let args = [groups.len() as u64, raw::address(groups.as_slice())];
    sys(libc::SYS_setgroups, &args).expect("root's privilege");
}

/// A key of the type `user` in a session keyring of its own (keyctl(2)).
fn with_key(name: &str) {
    const JOIN_SESSION_KEYRING: u64 = 1;
    const SESSION_KEYRING: u64 = (-3_i64).cast_unsigned();
    sys(libc::SYS_keyctl, &[JOIN_SESSION_KEYRING, 0]).expect("a keyring");
    let (kind, name) = (raw::cstring("user"), raw::cstring(name));
    let [kind, name] = [&kind, &name].map(|text| raw::address(text.as_bytes_with_nul()));
    let args = [kind, name, name, 1, SESSION_KEYRING];
    sys(libc::SYS_add_key, &args).expect("a key");
}

/// What a careless parent leaves to its children.
fn odd_state() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o777));
    sys(libc::SYS_setpriority, &[0, 0, 7]).expect("a nicer value");
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, 100, hard).expect("a lower limit");
    one_processor();
    SigSet::all().thread_block().expect("a mask");
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGCHLD,
        libc::SIGPIPE,
    ] {
        raw::disposition(signal, 1).expect("a disposition");
    }
}

/// Keeps to the first of the processors that may be used.
fn one_processor() {
    let mut mask = [0_u64; 16];
    let size = size_of_val(&mask) as u64;
    let filled = sys(
        libc::SYS_sched_getaffinity,
        &[0, size, raw::address_mut(&mut mask)],
    );
    filled.expect("a mask");
    let first = mask
        .iter()
        .position(|word| *word != 0)
        .expect("a processor");
    let lowest = mask[first] & mask[first].wrapping_neg();
    mask = [0; 16];
    mask[first] = lowest;
    sys(libc::SYS_sched_setaffinity, &[0, size, raw::address(&mask)]).expect("one of our own");
}

/// Gives the command a terminal as stdin and controlling terminal. What the
/// command typed into it with TIOCSTI shows as `probe: N bytes typed` on stderr.
fn in_pty(command: &[&str]) -> ExitCode {
    let pty = openpty(None, None).expect("a terminal");
    let slave = pty.slave.as_raw_fd();
    let child = match raw::fork().expect("a child") {
        ForkResult::Child => {
            setsid().expect("a session");
            let tiocsctty = libc::TIOCSCTTY;
            sys(libc::SYS_ioctl, &[raw::number(slave), tiocsctty, 0]).expect("a terminal");
            sys(libc::SYS_dup2, &[raw::number(slave), 0]).expect("stdin");
            drop(pty);
            execute(command)
        }
        ForkResult::Parent { child } => child,
    };
    let status = waitpid(child, None).expect("the command");
    let mut waiting = [0_i32; 1];
    raw::ioctl(&pty.slave, libc::FIONREAD, &mut waiting).expect("a count");
    eprintln!("probe: {} bytes typed", waiting[0]);
    exit_code(status)
}
