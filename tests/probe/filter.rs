//! Seccomp filters: to make a syscall fail, and to see whether one gets past
//! the filters that are there already.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::Outcome;
use crate::raw::{self, sys};
use crate::value::{self, syscall_number};

/// `struct seccomp_notif` as words: id, pid and flags, data (8 words: number and
/// architecture, instruction, arguments).
pub(crate) type Notification = [u64; 10];
const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;

/// What a filter answers to one syscall.
pub(crate) enum Answer {
    Errno(Errno),
    /// A tracer decides; without one the call is ENOSYS, and not made.
    Trace,
    /// A listener decides.
    Notify,
    /// A listener decides about these and about execve.
    NotifyWithExecve,
    /// A listener decides about every syscall.
    NotifyOfAll,
}

/// Which calls of a syscall are meant: all, or those whose argument has a value.
pub(crate) struct Calls {
    nr: u32,
    argument: Option<(u8, u32)>,
}

impl Calls {
    /// `NAME` or `NAME:ARGINDEX:VALUE`.
    pub(crate) fn parse(text: &str) -> Self {
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

    /// Whether a call that a listener was told of is one of these.
    pub(crate) fn mean(&self, call: &Notification) -> bool {
        let low = |word: u64| word & u64::from(u32::MAX);
        let argument = |(index, value)| low(call[4 + usize::from(index)]) == u64::from(value);
        low(call[2]) == u64::from(self.nr) && self.argument.is_none_or(argument)
    }
}

/// Installs a filter and no_new_privs on the calling thread. With
/// [`Answer::Notify`] the listener is returned.
pub(crate) fn install(calls: &Calls, answer: &Answer) -> Result<Option<OwnedFd>, Errno> {
    let (action, flags) = match answer {
        Answer::Errno(errno) => (libc::SECCOMP_RET_ERRNO | (*errno as u32), 0),
        Answer::Trace => (libc::SECCOMP_RET_TRACE, 0),
        Answer::Notify | Answer::NotifyWithExecve | Answer::NotifyOfAll => (
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
        _ if matches!(answer, Answer::NotifyOfAll) => program.push(op(ret, 0, 0, action)),
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
///
/// Where somebody listens already there can't be a second listener (EBUSY). Then a filter
/// takes its place that would ask a tracer, which the older listener goes before as well;
/// nobody traces, so ENOSYS may be its own.
pub(crate) fn reaches_kernel(name: &str, args: &[&str]) -> Outcome {
    let (give, take) = mpsc::channel();
    let (name, args) = (name.to_owned(), args.join(" "));
    let caller = std::thread::spawn(move || -> Outcome {
        let calls = Calls::parse(&name);
        let listener = match install(&calls, &Answer::Notify) {
            Err(Errno::EBUSY) => install(&calls, &Answer::Trace),
            other => other,
        };
        let listener = listener.inspect_err(|errno| {
            eprintln!("probe: no listener: {errno:?}");
            std::process::exit(2);
        })?;
        give.send(listener).expect("the main thread waits");
        value::syscall(&name, &args.split_whitespace().collect::<Vec<_>>())
    });
    let listener = take.recv().expect("sent above");
    while let Some(listener) = &listener
        && !caller.is_finished()
    {
        if readable(listener, Duration::from_millis(5))
            && let Ok(call) = receive(listener)
        {
            // A clone that is answered 0 thinks it is the child: 0 is the
            // same as success for every other syscall.
            answer(listener, &call, None)?;
        }
    }
    caller.join().expect("no panic").map(|_| String::new())
}

pub(crate) fn readable(listener: &OwnedFd, wait: Duration) -> bool {
    let mut polled = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let wait = PollTimeout::try_from(wait).expect("a short wait");
    poll(&mut polled, wait).is_ok()
        && polled[0]
            .revents()
            .is_some_and(|got| got.contains(PollFlags::POLLIN))
}

pub(crate) fn hung_up(listener: &OwnedFd, wait: Duration) -> bool {
    let mut polled = [PollFd::new(listener.as_fd(), PollFlags::empty())];
    let wait = PollTimeout::try_from(wait).expect("a short wait");
    poll(&mut polled, wait).is_ok()
        && polled[0]
            .revents()
            .is_some_and(|got| got.contains(PollFlags::POLLHUP))
}

pub(crate) fn receive(listener: &OwnedFd) -> Result<Notification, Errno> {
    let mut call: Notification = [0; 10];
    raw::ioctl(listener, RECEIVE, &mut call)?;
    Ok(call)
}

/// Answers a call: an errno, or success without executing it.
pub(crate) fn answer(
    listener: &OwnedFd,
    call: &Notification,
    errno: Option<Errno>,
) -> Result<(), Errno> {
    let error = errno.map_or(0, |errno| u64::from((-(errno as i32)).cast_unsigned()));
    send(listener, [call[0], 0, error])
}

/// Lets the kernel execute a call.
pub(crate) fn pass(listener: &OwnedFd, call: &Notification) -> Result<(), Errno> {
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

pub(crate) fn errno_named(name: &str) -> Errno {
    let number = value::integer(name);
    Errno::from_raw(i32::try_from(number).expect("an errno"))
}
