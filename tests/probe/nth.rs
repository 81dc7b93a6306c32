//! A start of groom-ns, watched from outside: which syscalls it makes, and one of
//! them failed, held, or met by a signal or a change of the file system.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, pipe, read, write};

use crate::filter::{
    Answer, Calls, Notification, answer, errno_named, hung_up, install, pass, readable, receive,
};
use crate::raw::{self, sys};
use crate::{situation, value};

/// What happens at the call that was waited for.
enum Event<'paths> {
    Fails(Errno),
    Swaps([&'paths str; 2]),
    Ends(Signal),
    Waits,
}

/// How long a call waits.
const WAIT: Duration = Duration::from_secs(1);

/// A start that takes longer hangs, and is killed.
const LONGEST: Duration = Duration::from_secs(20);

/// What was seen of a setup: from groom-ns's own execution to the next one, the
/// jailed command's, which counts if execve is the syscall.
#[derive(Default)]
struct Setup {
    executions: usize,
    calls: usize,
    executed_meanwhile: bool,
}

impl Setup {
    /// Whether a call is one of the setup's.
    fn has(&mut self, call: &Notification) -> bool {
        let is_execve = i64::try_from(number_of(call)) == Ok(libc::SYS_execve);
        self.executions += usize::from(is_execve);
        self.executions == 1 && !is_execve || self.executions == 2 && is_execve
    }
}

fn number_of(call: &Notification) -> u64 {
    call[2] & u64::from(u32::MAX)
}

/// Answers the `nth` of these calls with an errno. The last line on stderr says
/// how many there were, whether anything survived, and whether groom-ns hung or was
/// killed by a signal.
pub(crate) fn fail(calls: &str, nth: &str, errno: &str, command: &[&str]) -> ExitCode {
    at_nth(calls, nth, &Event::Fails(errno_named(errno)), command)
}

/// The same, but that call is made, after two paths have changed places.
pub(crate) fn swap_at(calls: &str, nth: &str, paths: [&str; 2], command: &[&str]) -> ExitCode {
    at_nth(calls, nth, &Event::Swaps(paths), command)
}

/// The same, but that call is made, and a signal comes with its return.
pub(crate) fn signal_at(calls: &str, nth: &str, signal: &str, command: &[&str]) -> ExitCode {
    let signal = format!("SIG{signal}").parse().expect("a signal");
    at_nth(calls, nth, &Event::Ends(signal), command)
}

/// The same, but that call waits for a second: the `nth`, or for `first` the one that
/// pid 1 of the jail makes. The last line also says whether the jailed command was
/// executed meanwhile.
pub(crate) fn hold(calls: &str, nth: &str, command: &[&str]) -> ExitCode {
    at_nth(calls, nth, &Event::Waits, command)
}

fn at_nth(calls: &str, nth: &str, event: &Event, command: &[&str]) -> ExitCode {
    let calls = Calls::parse(calls);
    let nth: Option<usize> = (nth != "first").then(|| nth.parse().expect("a count"));
    let (listener, child) = start(&calls, &Answer::NotifyWithExecve, command);
    let mut setup = Setup::default();
    let mut waiting: Option<(Notification, Instant)> = None;
    let code = supervise(&listener, child, |call| {
        let Some(call) = call else {
            if let Some((held, _)) = waiting.take_if(|(_, since)| since.elapsed() > WAIT) {
                pass(&listener, &held).expect("the call waits");
            }
            return;
        };
        let counts = setup.has(call) && calls.mean(call);
        setup.calls += usize::from(counts);
        setup.executed_meanwhile |= setup.executions == 2 && waiting.is_some();
        let answered = match event {
            _ if !(counts && nth.map_or_else(|| is_of_first(call), |nth| setup.calls == nth)) => {
                pass(&listener, call)
            }
            Event::Fails(errno) => answer(&listener, call, Some(*errno)),
            Event::Swaps(paths) => exchange(paths).and_then(|()| pass(&listener, call)),
            // In this order: one that waits for its answer would be interrupted.
            Event::Ends(signal) => pass(&listener, call).and_then(|()| kill(child, *signal)),
            Event::Waits => {
                waiting = Some((*call, Instant::now()));
                Ok(())
            }
        };
        answered.expect("the call waits");
    });
    let survivors = if drained(&listener) {
        ""
    } else {
        end_children();
        ", survivors"
    };
    let (how, code) = match code {
        None => (", hung", ExitCode::from(2)),
        Some(status @ WaitStatus::Signaled(..)) => (", died", situation::exit_code(status)),
        Some(status) => ("", situation::exit_code(status)),
    };
    let meanwhile = if setup.executed_meanwhile {
        ", executed meanwhile"
    } else {
        ""
    };
    eprintln!("probe: {} calls{meanwhile}{survivors}{how}", setup.calls);
    code
}

/// Whether a call is made by pid 1 of a pid namespace below this one (proc_pid_status(5),
/// NSpid).
fn is_of_first(call: &Notification) -> bool {
    let pid = call[1] & u64::from(u32::MAX);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it waits");
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let inmost = numbers.expect("the field").trim().rsplit_once('\t');
    inmost.is_some_and(|(_, inmost)| inmost == "1")
}

/// Lets a start happen and lists its calls on stderr, `probe: N × CALLS` a line,
/// where CALLS is what `fail-nth` takes.
pub(crate) fn trace(command: &[&str]) -> ExitCode {
    // Which syscall is meant doesn't matter where all are.
    let (listener, child) = start(&Calls::parse("-1"), &Answer::NotifyOfAll, command);
    let mut setup = Setup::default();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let code = supervise(&listener, child, |call| {
        if let Some(call) = call {
            if setup.has(call) {
                *seen.entry(spec(call)).or_default() += 1;
            }
            pass(&listener, call).expect("the call waits");
        }
    });
    for (calls, count) in seen {
        eprintln!("probe: {count} × {calls}");
    }
    situation::exit_code(code.expect("a start that ends"))
}

/// Calls whose argument says what they do are told apart by it.
fn spec(call: &Notification) -> String {
    let nr = i64::try_from(number_of(call)).expect("a syscall number");
    let name = value::syscall_name(nr);
    let what = match nr {
        libc::SYS_prctl => 0,
        libc::SYS_fcntl | libc::SYS_ioctl => 1,
        _ => return name,
    };
    format!("{name}:{what}:{}", call[4 + what] & u64::from(u32::MAX))
}

/// Starts a command under a filter; returns the filter's listener.
fn start(calls: &Calls, action: &Answer, command: &[&str]) -> (OwnedFd, Pid) {
    // Whatever loses its parent is this process's child, to be ended.
    nix::sys::prctl::set_child_subreaper(true).expect("a subreaper");
    // A pipe: a socket's calls may be the ones to fail.
    let (to_read, to_write) = pipe().expect("a pipe");
    let child = match raw::fork().expect("a child") {
        ForkResult::Child => {
            // The listener gets the lowest free number. It is said before the
            // filter is there, since this call may be one that waits for it.
            let free = to_read.try_clone().expect("a descriptor").as_raw_fd();
            write(&to_write, &free.to_ne_bytes()).expect("a reader");
            // Open until the execution, which waits for the listener's holder.
            let listener = install(calls, action).expect("a filter");
            std::mem::forget((listener, to_read, to_write));
            situation::execute(command)
        }
        ForkResult::Parent { child } => child,
    };
    let mut number = [0; 4];
    read(&to_read, &mut number).expect("the child's number");
    let end = Instant::now() + LONGEST;
    loop {
        match copy_of(child, i32::from_ne_bytes(number)) {
            Ok(listener) => return (listener, child),
            Err(errno) => assert!(Instant::now() < end, "no listener: {errno:?}"),
        }
    }
}

fn copy_of(pid: Pid, fd: i32) -> Result<OwnedFd, Errno> {
    let pid = raw::number(pid.as_raw());
    let pidfd = raw::owned(sys(libc::SYS_pidfd_open, &[pid, 0])?);
    let pidfd = raw::number(pidfd.as_fd().as_raw_fd());
    sys(libc::SYS_pidfd_getfd, &[pidfd, raw::number(fd), 0]).map(raw::owned)
}

/// Tells `decide` of every call, and now and then of none, until groom-ns ends;
/// returns how, none if it had to be killed.
fn supervise(
    listener: &OwnedFd,
    child: Pid,
    mut decide: impl FnMut(Option<&Notification>),
) -> Option<WaitStatus> {
    let end = Instant::now() + LONGEST;
    loop {
        decide(None);
        if readable(listener, Duration::from_millis(2))
            && let Ok(call) = receive(listener)
        {
            decide(Some(&call));
            continue;
        }
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).expect("the command") {
            WaitStatus::StillAlive if Instant::now() > end => {
                kill(child, Signal::SIGKILL).expect("our child");
                waitpid(child, None).expect("our child");
                return None;
            }
            WaitStatus::StillAlive => {}
            status => return Some(status),
        }
    }
}

fn exchange([one, other]: &[&str; 2]) -> Result<(), Errno> {
    let flags = RenameFlags::RENAME_EXCHANGE;
    renameat2(AT_FDCWD, *one, AT_FDCWD, *other, flags)
}

/// Ends what shouldn't be there any more.
fn end_children() {
    let own = std::process::id();
    let path = format!("/proc/{own}/task/{own}/children");
    let children = std::fs::read_to_string(path).expect("our children");
    for pid in children.split_whitespace() {
        let pid = Pid::from_raw(pid.parse().expect("a pid"));
        let _ended = kill(pid, Signal::SIGKILL);
    }
}

/// Whether every process under the filter ended soon after the command did.
fn drained(listener: &OwnedFd) -> bool {
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        if hung_up(listener, Duration::from_millis(5)) {
            return true;
        }
        if readable(listener, Duration::ZERO)
            && let Ok(call) = receive(listener)
        {
            let _gone = pass(listener, &call);
        }
    }
    false
}
