//! Descriptors that the caller hands over by number: everything else that it left
//! open is closed at start-up.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::fstat;

use crate::cli::Command;
use crate::policy::kinds::What;
use crate::policy::paths::Start;
use crate::policy::reads::Reads;
use crate::refusal::{Reason, Refusal};
use crate::sys::fd::inherited;

/// What `--key-fd`, `--ready-fd` and `--status-fd` name; close-on-exec, owned from here on.
#[derive(Debug, Default)]
pub struct Kept {
    pub(crate) key: Option<(OwnedFd, i32)>,
    pub(crate) ready: Option<OwnedFd>,
    pub(crate) status: Option<OwnedFd>,
}

impl Kept {
    /// Takes hold of them. To be called once, before anything is opened here: what was
    /// opened could have got their number.
    ///
    /// # Errors
    /// `usage` for 0 to 2, or one number twice; `key`, `broker` and `receipt` for a
    /// descriptor that isn't open, not open for reading or for writing, or a folder, and
    /// for one to write to that is open on a file to read.
    pub fn take(command: &Command) -> Result<Kept, Refusal> {
        let (key, to, flag) = match command {
            Command::Run(run) => (run.broker_args.key.key_fd, run.status_fd, &STATUS),
            Command::Broker(broker) => (broker.args.key.key_fd, broker.ready_fd, &READY),
            _ => return Ok(Kept::default()),
        };
        if key.is_some() && key == to {
            return Err(Refusal::new(Reason::Usage, format!("read {}", flag.name))
                .about("the descriptor of --key-fd")
                .remedy("give two: the key is read from one, the other is written to"));
        }
        let key = match key {
            Some(number) => Some((KEY.take(number)?, number)),
            None => None,
        };
        let to = match to {
            Some(number) => Some(flag.not_read(flag.take(number)?, number, command)?),
            None => None,
        };
        let (ready, status) = match command {
            Command::Run(_) => (None, to),
            _ => (to, None),
        };
        Ok(Kept { key, ready, status })
    }

    /// Where status lines go; it is the caller's from here on.
    pub fn status(&mut self) -> Option<OwnedFd> {
        self.status.take()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let key = self.key.as_ref().map(|(fd, _)| fd.as_fd());
        let ready = self.ready.as_ref().map(AsFd::as_fd);
        let status = self.status.as_ref().map(AsFd::as_fd);
        key.into_iter().chain(ready).chain(status)
    }
}

/// A flag that names a descriptor, and what it is for.
struct Flag {
    name: &'static str,
    reason: Reason,
    /// The access mode that isn't enough (open(2)), and the one that is.
    wrong: OFlag,
    wanted: &'static str,
    low: &'static str,
    redirect: &'static str,
}

const KEY: Flag = Flag {
    name: "--key-fd",
    reason: Reason::Key,
    wrong: OFlag::O_WRONLY,
    wanted: "reading",
    low: "0 to 2 have their own use: give 3 or higher, or --key-stdin for standard input",
    redirect: "<FILE",
};

const READY: Flag = to_write("--ready-fd", Reason::Broker);
const STATUS: Flag = to_write("--status-fd", Reason::Receipt);

const fn to_write(name: &'static str, reason: Reason) -> Flag {
    Flag {
        name,
        reason,
        wrong: OFlag::O_RDONLY,
        wanted: "writing",
        low: "0 to 2 have their own use: give 3 or higher",
        redirect: ">FILE",
    }
}

impl Flag {
    fn take(&self, number: i32) -> Result<OwnedFd, Refusal> {
        if number <= 2 {
            let step = format!("read {}", self.name);
            return Err(Refusal::new(Reason::Usage, step)
                .about(about(number))
                .remedy(self.low));
        }
        let refusal = || self.refusal(number);
        let fd = inherited(number).map_err(|errno| {
            refusal().errno(errno).remedy(format!(
                "it isn't open: hand it over, as in `{} {number} {number}{}`",
                self.name, self.redirect
            ))
        })?;
        let failed = |errno: Errno| refusal().errno(errno).remedy("open another");
        let stat = fstat(&fd).map_err(failed)?;
        let flags = fcntl(&fd, FcntlArg::F_GETFL).map_err(failed)?;
        let flags = OFlag::from_bits_retain(flags);
        if What::of(stat.st_mode) == What::Dir {
            return Err(refusal().remedy("it is a folder: open a file or a pipe"));
        }
        if flags.contains(OFlag::O_PATH) || flags & OFlag::O_ACCMODE == self.wrong {
            return Err(refusal().remedy(format!("open it for {}", self.wanted)));
        }
        Ok(fd)
    }

    /// Refuses one that is open on a file that is read, before a refusal of the run could
    /// be written to it.
    fn not_read(&self, fd: OwnedFd, number: i32, command: &Command) -> Result<OwnedFd, Refusal> {
        let refusal = || self.refusal(number);
        let stat = fstat(&fd).map_err(|errno| refusal().errno(errno).remedy("open another"))?;
        let cwd = Start::here();
        let reads = match command {
            Command::Run(run) => Reads::of_run(&cwd, run),
            Command::Broker(broker) => Reads::of_broker(&cwd, broker),
            _ => return Ok(fd),
        };
        reads.refuse(refusal(), &stat)?;
        Ok(fd)
    }

    fn refusal(&self, number: i32) -> Refusal {
        Refusal::new(self.reason, format!("take {}", self.name)).about(about(number))
    }
}

fn about(number: i32) -> String {
    format!("descriptor {number}")
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd as _, IntoRawFd as _};
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;
    use crate::cli;
    use crate::policy::testing::TempDir;

    /// The numbers of new descriptors, which `Kept` will own.
    fn numbers(temp: &TempDir) -> [(i32, bool, bool); 5] {
        let open = |options: &mut std::fs::OpenOptions, name: &str| {
            options.open(temp.at(name)).expect("open").into_raw_fd()
        };
        let options = File::options;
        [
            (open(options().read(true), "key"), true, false),
            (open(options().write(true), "key"), false, true),
            (open(options().read(true).write(true), "key"), true, true),
            (open(options().read(true), "keys"), false, false),
            (
                open(options().read(true).custom_flags(libc::O_PATH), "key"),
                false,
                false,
            ),
        ]
    }

    fn tree() -> TempDir {
        let temp = TempDir::new();
        temp.file("key", "");
        temp.dir("keys");
        temp
    }

    fn kept(key: Option<i32>, ready: Option<i32>) -> Result<Kept, Refusal> {
        let key = key.map_or("--key-stdin".to_owned(), |fd| format!("--key-fd={fd}"));
        let mut line = vec!["broker", "openai", "--listen", "tcp:0", &key];
        let ready = ready.map(|fd| format!("--ready-fd={fd}"));
        line.extend(ready.as_deref());
        let line = std::iter::once("groom-ns").chain(line).map(Into::into);
        Kept::take(&cli::parse(line).expect("a command line"))
    }

    #[test]
    fn descriptors_are_taken() {
        let temp = tree();
        for (number, reads, _) in numbers(&temp) {
            match kept(Some(number), None) {
                Ok(kept) => {
                    assert!(reads, "{number}");
                    let (fd, named) = kept.key.as_ref().expect("a key's");
                    assert_eq!((fd.as_raw_fd(), *named), (number, number));
                    assert_eq!(kept.iter().count(), 1);
                }
                Err(refusal) => {
                    assert!(!reads, "{refusal}");
                    assert_eq!(refusal.reason, Reason::Key, "{refusal}");
                    assert!(!refusal.remedy.is_empty(), "{refusal}");
                }
            }
        }
        for (number, _, writes) in numbers(&temp) {
            match kept(None, Some(number)) {
                Ok(kept) => assert!(writes && kept.ready.is_some(), "{number}"),
                Err(refusal) => {
                    assert!(!writes, "{refusal}");
                    assert_eq!(refusal.reason, Reason::Broker, "{refusal}");
                }
            }
        }
        // What is above every limit isn't open.
        let refusal = kept(Some(i32::MAX), None).expect_err("refused");
        assert_eq!(refusal.errno.as_deref(), Some("EBADF"), "{refusal}");
        for (key, ready) in [
            (Some(0), None),
            (Some(2), None),
            (Some(-1), None),
            (None, Some(1)),
            (Some(7), Some(7)),
        ] {
            let refusal = kept(key, ready).expect_err("refused");
            assert_eq!(refusal.reason, Reason::Usage, "{refusal}");
        }
    }
}
