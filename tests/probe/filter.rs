//! Seccomp filters: to make a syscall fail, and to see whether one gets past
//! the filters that are there already.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, pipe, read, write};

use crate::raw::{self, sys};
use crate::value::{self, syscall_number};
use crate::{Outcome, situation};

/// `struct seccomp_notif` as words: id, pid and flags, data (8 words).
type Notification = [u64; 10];
const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;

/// What a filter answers to one syscall.
enum Answer {
    Errno(Errno),
    /// A listener decides.
    Notify,
    /// A listener decides about these and about execve.
    NotifyWithExecve,
}

/// Which calls of a syscall are meant: all, or those whose argument has a value.
struct Calls {
    nr: u32,
    argument: Option<(u8, u32)>,
}

impl Calls {
    /// `NAME` or `NAME:ARGINDEX:VALUE`.
    fn parse(text: &str) -> Self {
        let mut parts = text.split(':');
        let nr = syscall_number(parts.next().unwrap_or_default());
        let argument = parts.next().zip(parts.next()).map(|(index, value)| {
            let low = value::integer(value) & u64::from(u32::MAX);
            (
                index.parse().expect("an index"),
                u32::try_from(low).expect("masked"),
            )
        });
        Calls {
            // -1 is a number too: the filter sees 32 bits.
            nr: u32::try_from(nr & i64::from(u32::MAX)).expect("masked"),
            argument,
        }
    }
}

/// Installs a filter and no_new_privs on the calling thread. With
/// [`Answer::Notify`] the listener is returned.
fn install(calls: &Calls, answer: &Answer) -> Result<Option<OwnedFd>, Errno> {
    let (action, flags) = match answer {
        Answer::Errno(errno) => (libc::SECCOMP_RET_ERRNO | (*errno as u32), 0),
        Answer::Notify | Answer::NotifyWithExecve => (
            libc::SECCOMP_RET_USER_NOTIF,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
        ),
    };
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K; offsets are
    // those of struct seccomp_data (number at 0, arguments from 16).
    let (load, equal, ret) = (0x20, 0x15, 0x06);
    let mut program = vec![op(load, 0, 0, 0)];
    if let Answer::NotifyWithExecve = answer {
        let execve = u32::try_from(libc::SYS_execve).expect("a syscall number");
        program.extend([op(equal, 0, 1, execve), op(ret, 0, 0, action)]);
    }
    match calls.argument {
        None => program.push(op(equal, 0, 1, calls.nr)),
        Some((index, value)) => program.extend([
            op(equal, 0, 3, calls.nr),
            op(load, 0, 0, 16 + 8 * u32::from(index)),
            op(equal, 0, 1, value),
        ]),
    }
    program.extend([
        op(ret, 0, 0, action),
        op(ret, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]);
    let length = u64::try_from(program.len()).expect("a short program");
    // struct sock_fprog: a 16-bit length, padding, and the address.
    let fprog = [length, raw::address(program.as_slice())];
    sys(
        libc::SYS_prctl,
        &[raw::number(libc::PR_SET_NO_NEW_PRIVS), 1],
    )?;
    let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
    let fd = sys(libc::SYS_seccomp, &[mode, flags, raw::address(&fprog)])?;
    Ok((flags != 0).then(|| raw::owned(fd)))
}

/// Whether a syscall gets past the filters that are there: a new filter's
/// listener answers 0 in the kernel's place, so nothing is executed, and
/// privilege, kernel options and arguments play no part. `ok` outside by
/// construction; an older filter's errno goes before a listener
/// (seccomp(2), precedence of actions).
pub(crate) fn reaches_kernel(name: &str, args: &[&str]) -> Outcome {
    let (give, take) = mpsc::channel();
    let (name, args) = (name.to_owned(), args.join(" "));
    let caller = std::thread::spawn(move || -> Outcome {
        let listener = install(&Calls::parse(&name), &Answer::Notify).inspect_err(|errno| {
            eprintln!("probe: no listener: {errno:?}");
            std::process::exit(2);
        })?;
        give.send(listener).expect("the main thread waits");
        value::syscall(&name, &args.split_whitespace().collect::<Vec<_>>())
    });
    let listener = take.recv().expect("sent above").expect("a listener");
    while !caller.is_finished() {
        if readable(&listener, Duration::from_millis(5))
            && let Ok(call) = receive(&listener)
        {
            // A clone that is answered 0 thinks it is the child: 0 is the
            // same as success for every other syscall.
            answer(&listener, &call, None)?;
        }
    }
    caller.join().expect("no panic").map(|_| String::new())
}

fn readable(listener: &OwnedFd, wait: Duration) -> bool {
    let mut polled = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let wait = PollTimeout::try_from(wait).expect("a short wait");
    poll(&mut polled, wait).is_ok()
        && polled[0]
            .revents()
            .is_some_and(|got| got.contains(PollFlags::POLLIN))
}

fn hung_up(listener: &OwnedFd, wait: Duration) -> bool {
    let mut polled = [PollFd::new(listener.as_fd(), PollFlags::empty())];
    let wait = PollTimeout::try_from(wait).expect("a short wait");
    poll(&mut polled, wait).is_ok()
        && polled[0]
            .revents()
            .is_some_and(|got| got.contains(PollFlags::POLLHUP))
}

fn receive(listener: &OwnedFd) -> Result<Notification, Errno> {
    let mut call: Notification = [0; 10];
    raw::ioctl(listener, RECEIVE, &mut call)?;
    Ok(call)
}

/// Answers a call: an errno, or success without executing it.
fn answer(listener: &OwnedFd, call: &Notification, errno: Option<Errno>) -> Result<(), Errno> {
    let error = errno.map_or(0, |errno| u64::from((-(errno as i32)).cast_unsigned()));
    send(listener, [call[0], 0, error])
}

/// Lets the kernel execute a call.
fn pass(listener: &OwnedFd, call: &Notification) -> Result<(), Errno> {
    send(listener, [call[0], 0, 1 << 32])
}

/// `struct seccomp_notif_resp`: id, value, error (low half) and flags.
fn send(listener: &OwnedFd, mut response: [u64; 3]) -> Result<(), Errno> {
    match raw::ioctl(listener, SEND, &mut response) {
        // The caller died while it waited.
        Ok(_) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Makes a syscall fail for this process and all that come of it.
pub(crate) fn deny(calls: &str, errno: &str) -> Result<(), Errno> {
    install(&Calls::parse(calls), &Answer::Errno(errno_named(errno))).map(drop)
}

fn errno_named(name: &str) -> Errno {
    let number = value::integer(name);
    Errno::from_raw(i32::try_from(number).expect("an errno"))
}

/// Runs groom-ns and answers the `nth` call of a syscall in its setup with an
/// errno: from its own execution to the next one, the jailed command's, which
/// counts if execve is the syscall. The last line on stderr says how many
/// calls there were, and whether anything survived.
pub(crate) fn fail_nth(calls: &str, nth: &str, errno: &str, command: &[&str]) -> ExitCode {
    at_nth(calls, nth, &Event::Fails(errno_named(errno)), command)
}

/// The same, but that call is made, after two paths have changed places.
pub(crate) fn swap_at(calls: &str, nth: &str, paths: [&str; 2], command: &[&str]) -> ExitCode {
    at_nth(calls, nth, &Event::Swaps(paths), command)
}

/// The same, but that call waits for a second. The last line also says whether
/// the jailed command was executed meanwhile.
pub(crate) fn hold_nth(calls: &str, nth: &str, command: &[&str]) -> ExitCode {
    at_nth(calls, nth, &Event::Waits, command)
}

/// What happens at the call that was waited for.
enum Event<'paths> {
    Fails(Errno),
    Swaps([&'paths str; 2]),
    Waits,
}

/// How long a call waits.
const WAIT: Duration = Duration::from_secs(1);

/// What was seen of a setup.
#[derive(Default)]
struct Seen {
    calls: usize,
    executed_meanwhile: bool,
}

fn at_nth(calls: &str, nth: &str, event: &Event, command: &[&str]) -> ExitCode {
    let calls = Calls::parse(calls);
    let nth: usize = nth.parse().expect("a count");
    // Two pipes: a socket's calls may be the ones to fail.
    let (number_to_read, number_to_write) = pipe().expect("a pipe");
    let (done_to_read, done_to_write) = pipe().expect("a pipe");
    let mut number = [0; 4];
    let child = match raw::fork().expect("a child") {
        ForkResult::Child => {
            let listener = install(&calls, &Answer::NotifyWithExecve)
                .expect("a filter")
                .expect("a listener");
            write(&number_to_write, &listener.as_raw_fd().to_ne_bytes()).expect("a reader");
            read(&done_to_read, &mut [0]).expect("the parent has its copy");
            drop((number_to_read, number_to_write, done_to_read, done_to_write));
            // The listener itself closes on execution.
            situation::execute(command)
        }
        ForkResult::Parent { child } => child,
    };
    read(&number_to_read, &mut number).expect("the child's number");
    let listener = copy_of(child, i32::from_ne_bytes(number)).expect("the child's listener");
    write(&done_to_write, b"x").expect("the child reads");
    let (seen, code) = supervise(&listener, child, &calls, nth, event);
    let survived = !drained(&listener);
    let meanwhile = if seen.executed_meanwhile {
        ", executed meanwhile"
    } else {
        ""
    };
    let survivors = if survived { ", survivors" } else { "" };
    eprintln!("probe: {} calls{meanwhile}{survivors}", seen.calls);
    code
}

fn copy_of(pid: Pid, fd: i32) -> Result<OwnedFd, Errno> {
    let pid = raw::number(pid.as_raw());
    let pidfd = raw::owned(sys(libc::SYS_pidfd_open, &[pid, 0])?);
    let pidfd = raw::number(pidfd.as_raw_fd());
    sys(libc::SYS_pidfd_getfd, &[pidfd, raw::number(fd), 0]).map(raw::owned)
}

/// Answers until groom-ns ends; returns what was seen and its exit code.
fn supervise(
    listener: &OwnedFd,
    child: Pid,
    calls: &Calls,
    nth: usize,
    event: &Event,
) -> (Seen, ExitCode) {
    let (mut seen, mut executions) = (Seen::default(), 0);
    let mut waiting: Option<(Notification, Instant)> = None;
    loop {
        if let Some((call, since)) = waiting
            && since.elapsed() > WAIT
        {
            pass(listener, &call).expect("the call waits");
            waiting = None;
        }
        if readable(listener, Duration::from_millis(2))
            && let Ok(call) = receive(listener)
        {
            let nr = call[2] & u64::from(u32::MAX);
            let execve = i64::try_from(nr) == Ok(libc::SYS_execve);
            executions += usize::from(execve);
            seen.executed_meanwhile |= execve && waiting.is_some();
            let of_setup = executions == 1 && !execve || executions == 2 && execve;
            let counts = of_setup && nr == u64::from(calls.nr);
            seen.calls += usize::from(counts);
            let answered = match event {
                _ if !(counts && seen.calls == nth) => pass(listener, &call),
                Event::Fails(errno) => answer(listener, &call, Some(*errno)),
                Event::Swaps(paths) => exchange(paths).and_then(|()| pass(listener, &call)),
                Event::Waits => {
                    waiting = Some((call, Instant::now()));
                    Ok(())
                }
            };
            answered.expect("the call waits");
            continue;
        }
        match waitpid(child, Some(WaitPidFlag::WNOHANG)).expect("the command") {
            WaitStatus::StillAlive => {}
            status => return (seen, situation::exit_code(status)),
        }
    }
}

fn exchange([one, other]: &[&str; 2]) -> Result<(), Errno> {
    renameat2(
        AT_FDCWD,
        *one,
        AT_FDCWD,
        *other,
        RenameFlags::RENAME_EXCHANGE,
    )
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
