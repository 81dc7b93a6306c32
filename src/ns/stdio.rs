//! Descriptors 0 to 2: what the command gets in their place.
//!
//! The command must hold no handle on an object of the host. It could truncate or
//! chmod a file, walk upwards from a folder, and reopen a pipe through
//! /proc/self/fd the other way round: what it writes into its own standard input
//! is read by whoever shares that pipe, as the shell in `… | bash` does, and obeyed
//! outside. So everything but /dev/null stays with the supervisor, which pumps it
//! through pipes of its own, or through a terminal of the jail's own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, major, minor};
use nix::unistd::{Gid, Uid, dup2_stderr, dup2_stdin, dup2_stdout, fchown, pipe2};

use crate::plan::step::Ids;
use crate::refusal::{Reason, Refusal};
use crate::sabotage::{Mechanism, stands};
use crate::sys::process;

/// What a descriptor of the caller's is, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// `/dev/null`: the command gets the jail's own.
    Null,
    /// Anything else that bytes can be read from or written to.
    Pumped,
}

/// The supervisor's end of a pumped descriptor, non-blocking.
#[derive(Debug)]
pub struct Pump {
    /// The caller's descriptor: 0, 1 or 2.
    pub outer: i32,
    /// Our end of the pipe whose other end the command holds.
    pub inner: OwnedFd,
    /// For standard input, the command's end too: what it left unread is counted.
    pub reader: Option<OwnedFd>,
}

/// What the command gets as one of its descriptors.
#[derive(Debug)]
enum Given {
    /// The jail's `/dev/null`.
    Null,
    /// This one.
    Fd(OwnedFd),
    /// The jail's terminal, once pid 1 has made it.
    Terminal,
}

/// Both sides of the three descriptors. After the fork the child installs
/// `jail`, and the supervisor drops it and drives `pumps`.
#[derive(Debug)]
pub struct Stdio {
    jail: [Given; 3],
    /// What the supervisor moves, but for the terminal, which doesn't exist yet.
    pub pumps: Vec<Pump>,
    /// The slave of the jail's terminal; pid 1 puts it here.
    pub terminal: Option<OwnedFd>,
}

impl Stdio {
    /// Looks at the caller's descriptors and makes the pipes that are needed,
    /// owned by `command`, which may then reopen them through /dev/stdout. For those
    /// that `terminal` names the command gets the jail's terminal.
    ///
    /// Descriptors that were closed are `/dev/null` by now: Rust's runtime sees
    /// to that before `main`.
    pub fn prepare(command: Ids, terminal: &[i32]) -> Result<Stdio, Refusal> {
        let fds = [process::stdin(), process::stdout(), process::stderr()];
        let mut stdio = Stdio {
            jail: [Given::Null, Given::Null, Given::Null],
            pumps: Vec::new(),
            terminal: None,
        };
        let mut stdout: Option<FileStat> = None;
        for (number, fd) in (0..).zip(fds) {
            let stat = fstat(fd).map_err(|errno| refuse(number).about("fstat").errno(errno))?;
            let class = classify(fd, &stat).map_err(|what| refuse(number).about(what))?;
            let place = usize::try_from(number).unwrap_or_default();
            // `cmd >file 2>&1`: one pipe for both keeps their order.
            let shared = match (&stdio.jail[1], &stdout) {
                (Given::Fd(pipe), Some(stdout)) if number == 2 && same_file(stdout, &stat) => {
                    Some(pipe.try_clone().map_err(|_| refuse(number).about("dup"))?)
                }
                _ => None,
            };
            stdio.jail[place] = match (class, shared) {
                _ if terminal.contains(&number) && stands(Mechanism::PumpedStdio) => {
                    Given::Terminal
                }
                (Class::Null, _) => Given::Null,
                (Class::Pumped, Some(pipe)) => Given::Fd(pipe),
                (Class::Pumped, None) if stands(Mechanism::PumpedStdio) => {
                    Given::Fd(stdio.pump(number, command)?)
                }
                (Class::Pumped, None) => fd.try_clone_to_owned().map_or(Given::Null, Given::Fd),
            };
            if number == 1 {
                stdout = Some(stat);
            }
        }
        Ok(stdio)
    }

    /// Makes the pipe for a pumped descriptor, and returns the command's end.
    fn pump(&mut self, number: i32, command: Ids) -> Result<OwnedFd, Refusal> {
        let call = |call: &'static str| move |errno| refuse(number).about(call).errno(errno);
        let (reads, writes) = pipe2(OFlag::O_CLOEXEC).map_err(call("pipe2"))?;
        let (inner, jail) = if number == 0 {
            (writes, reads)
        } else {
            (reads, writes)
        };
        let (uid, gid) = (Uid::from_raw(command.uid), Gid::from_raw(command.gid));
        fchown(&jail, Some(uid), Some(gid)).map_err(call("fchown"))?;
        fcntl(&inner, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(call("fcntl"))?;
        let reader = if number == 0 {
            Some(jail.try_clone().map_err(|_| refuse(0).about("dup"))?)
        } else {
            None
        };
        self.pumps.push(Pump {
            outer: number,
            inner,
            reader,
        });
        Ok(jail)
    }

    /// Puts the three descriptors in place. To be called in the jail, by the
    /// command's process: `/dev/null` is the jail's.
    pub fn install(&self) -> Result<(), Refusal> {
        let null = open_null()?;
        for (number, given) in (0..).zip(&self.jail) {
            let fd = match given {
                Given::Null => &null,
                Given::Fd(fd) => fd,
                Given::Terminal => self
                    .terminal
                    .as_ref()
                    .ok_or_else(|| refuse(number).about("before there is a terminal"))?,
            };
            put(fd, number).map_err(|errno| refuse(number).about("dup2").errno(errno))?;
        }
        Ok(())
    }
}

/// Lets go of all three descriptors, for pid 1: the readers of the command's
/// output must see its end when the command closes it.
pub fn let_go() -> Result<(), Refusal> {
    let null = open_null()?;
    for number in 0..3 {
        put(&null, number).map_err(|errno| refuse(number).about("dup2").errno(errno))?;
    }
    Ok(())
}

fn open_null() -> Result<OwnedFd, Refusal> {
    open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(|errno| Refusal::new(Reason::Stdio, "open the jail's /dev/null").errno(errno))
}

fn put(fd: impl AsFd, number: i32) -> nix::Result<()> {
    match number {
        0 => dup2_stdin(fd),
        1 => dup2_stdout(fd),
        _ => dup2_stderr(fd),
    }
}

fn refuse(number: i32) -> Refusal {
    let step = match number {
        0 => "hand standard input to the command",
        1 => "hand standard output to the command",
        _ => "hand standard error to the command",
    };
    Refusal::new(Reason::Stdio, step).remedy("use a pipe, a file, a terminal or /dev/null")
}

fn same_file(one: &FileStat, other: &FileStat) -> bool {
    one.st_dev == other.st_dev && one.st_ino == other.st_ino
}

/// The error says what the descriptor is.
fn classify(fd: BorrowedFd, stat: &FileStat) -> Result<Class, &'static str> {
    // O_PATH says where a file is; it can't be read or written.
    let flags = fcntl(fd, FcntlArg::F_GETFL)
        .map_err(|_| "what it was opened for can't be asked (F_GETFL)")?;
    if OFlag::from_bits_retain(flags).contains(OFlag::O_PATH) {
        return Err("it was opened with O_PATH");
    }
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFCHR if (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3) => Ok(Class::Null),
        SFlag::S_IFIFO | SFlag::S_IFCHR | SFlag::S_IFREG | SFlag::S_IFSOCK => Ok(Class::Pumped),
        // With a folder as a descriptor, landlock allows fstatat and fchdir upwards.
        SFlag::S_IFDIR => Err("it is a folder"),
        SFlag::S_IFBLK => Err("it is a block device"),
        _ => Err("it is neither a pipe, a file, a socket, a terminal nor /dev/null"),
    }
}
