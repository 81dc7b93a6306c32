//! What is kept of a run for its receipt, as things happen.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use nix::errno::Errno;
use nix::sys::stat::fstat;
use nix::sys::statfs::{FsType, NSFS_MAGIC, PROC_SUPER_MAGIC, fstatfs};
use nix::sys::utsname::uname;
use nix::unistd::Pid;

use super::around::{command, origin, started_by, uds, usage};
use super::format::{
    Broker, Descriptors, End, How, Jail, Kernel, Landlock, LandlockRule, Limits, Mounts,
    NAMESPACES, Namespace, Namespaces, Process, Program, Receipt, Rlimit, Seccomp, Supervised,
    Times, Tries,
};
use super::{FORMAT, process};
use crate::broker::totals::Totals;
use crate::cgroup::Leaf;
use crate::clock::{Time, milliseconds};
use crate::confine::landlock;
use crate::digest;
use crate::files::errno;
use crate::ns::evidence::Evidence;
use crate::plan::step::Plan;
use crate::refusal::{Reason, Refusal, shown};
use crate::run::{Ending, Phase};

/// A moment, by the clock that people read and by the one that nobody sets.
#[derive(Clone, Copy, Debug)]
pub struct Moment(SystemTime, Instant);

impl Moment {
    /// This one.
    pub fn now() -> Moment {
        Moment(SystemTime::now(), Instant::now())
    }

    fn shown(self) -> String {
        Time(self.0).to_string()
    }

    fn ms_until(self, later: Moment) -> f64 {
        milliseconds(later.1.saturating_duration_since(self.1))
    }
}

/// What is known of a run so far.
pub struct Record {
    started: Moment,
    /// This program's file: its name may be another's by the end.
    program: File,
    /// The supervisor's namespaces.
    host: [u64; 7],
    /// The status of pid 1, opened while it could be.
    init: Option<File>,
    /// The files with the limits of the jail's cgroup, if there is one.
    cgroup: Option<Vec<PathBuf>>,
    stood: Option<Stood>,
    running: Option<Moment>,
    /// What the broker counts into.
    pub(crate) totals: Totals,
}

/// What was read when both processes of the jail were in their final state.
struct Stood {
    namespaces: Namespaces,
    mounts: Vec<super::format::Mount>,
    init: Process,
    command: Process,
    rlimits: BTreeMap<String, Rlimit>,
    cgroup: Option<BTreeMap<String, u64>>,
    told: Evidence,
}

impl Record {
    /// Begins one, for a run that was started at `started`.
    ///
    /// # Errors
    /// `receipt`: this process's own program or namespaces can't be looked at.
    pub fn begin(started: Moment) -> Result<Record, Refusal> {
        let program = "/proc/self/exe";
        let mut host = [0; 7];
        for (name, inode) in NAMESPACES.iter().zip(&mut host) {
            let path = format!("/proc/self/ns/{name}");
            *inode = fs::metadata(&path)
                .map_err(|error| unread(&path, error))?
                .ino();
        }
        Ok(Record {
            started,
            program: File::open(program).map_err(|error| unread(program, error))?,
            host,
            init: None,
            cgroup: None,
            stood: None,
            running: None,
            totals: Totals::default(),
        })
    }

    /// Opens the status of pid 1, which still waits for its maps: where /proc hides what
    /// isn't dumpable (`hidepid`), it can't be opened later. What is read is of then.
    pub(crate) fn hold_init(&mut self, pid: Pid, leaf: Option<&Leaf>) -> Result<(), Refusal> {
        self.cgroup = leaf.map(Leaf::files);
        let path = format!("/proc/{pid}/status");
        self.init = Some(File::open(&path).map_err(|error| unread(&path, error))?);
        Ok(())
    }

    /// Reads what the command's process has handed out, and pid 1's status. Both are in
    /// their final state, and wait.
    pub(crate) fn read(&mut self, told: Evidence, handed: Vec<OwnedFd>) -> Result<(), Refusal> {
        let wrong = |what: &str| {
            let refusal = Refusal::new(Reason::Receipt, "read the jail back").about(what);
            refusal.remedy("an unknown kernel: please report it with `uname -r`")
        };
        let mut handed = Evidence::FILES.iter().zip(handed);
        let mut next = |of: FsType| {
            let (path, fd) = handed.next().ok_or_else(|| wrong("a file is missing"))?;
            let kind = fstatfs(&fd).map_err(|errno| unread(path, errno.into()))?;
            if kind.filesystem_type() != of {
                return Err(wrong(path));
            }
            Ok((*path, File::from(fd)))
        };
        let mut contents = || {
            let (path, file) = next(PROC_SUPER_MAGIC)?;
            whole(file).map_err(|error| unread(path, error))
        };
        let (status, limits, mounts) = (contents()?, contents()?, contents()?);
        let mut pairs = [Namespace { host: 0, jail: 0 }; 7];
        for (pair, host) in pairs.iter_mut().zip(self.host) {
            let (path, file) = next(NSFS_MAGIC)?;
            let jail = fstat(file.as_fd()).map_err(|errno| unread(path, errno.into()))?;
            *pair = Namespace {
                host,
                jail: jail.st_ino,
            };
        }
        let init = self.init.take().ok_or_else(|| wrong("pid 1"))?;
        let init = whole(init).map_err(|error| unread("the status of pid 1", error))?;
        let process = |bytes: &[u8]| process::status(&String::from_utf8_lossy(bytes));
        self.stood = Some(Stood {
            namespaces: Namespaces::new(pairs),
            mounts: process::mounts(&mounts).ok_or_else(|| wrong("the mount table"))?,
            init: process(&init).ok_or_else(|| wrong("the status of pid 1"))?,
            command: process(&status).ok_or_else(|| wrong("the status of the command"))?,
            rlimits: process::limits(&String::from_utf8_lossy(&limits))
                .ok_or_else(|| wrong("the limits"))?,
            cgroup: self.cgroup.as_deref().map(limits_in).transpose()?,
            told,
        });
        Ok(())
    }

    /// The command's process is about to execute.
    pub(crate) fn running(&mut self) {
        self.running = Some(Moment::now());
    }

    /// The receipt, once all is over.
    ///
    /// # Errors
    /// The program can't be read, or the kernel not be asked.
    pub(crate) fn finish(self, plan: &Plan, ending: &Ending, phase: Phase) -> io::Result<Receipt> {
        let ended = Moment::now();
        let Record { started, .. } = self;
        let broker = plan.broker.as_ref().map(|asked| Broker {
            how: How::Applied,
            provider: asked.provider.to_owned(),
            upstream: origin(&asked.upstream).to_owned(),
            routes: asked.routes.clone(),
            totals: self.totals.sums(),
        });
        let kernel = uname()?;
        Ok(Receipt {
            receipt: FORMAT.to_owned(),
            groom_ns: Program {
                how: How::Read,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                sha256: digest::of_reader(self.program)?,
            },
            kernel: Kernel {
                how: How::Read,
                release: kernel.release().to_string_lossy().into_owned(),
                machine: kernel.machine().to_string_lossy().into_owned(),
            },
            started_by: started_by(plan)?,
            warnings: plan.warnings.clone(),
            jail: self.stood.map(|stood| stood.jail(plan)),
            command: command(plan),
            broker,
            uds: uds(plan),
            end: End {
                code: ending.code,
                phase,
                cause: ending.cause.clone(),
            },
            times: Times {
                started: started.shown(),
                command_started: self.running.map(Moment::shown),
                ended: ended.shown(),
                setup_ms: self.running.map(|running| started.ms_until(running)),
                command_ms: self.running.map(|running| running.ms_until(ended)),
                total_ms: started.ms_until(ended),
            },
            usage: usage()?,
            denials: ending.denials.clone(),
            supervised: Supervised {
                how: How::Applied,
                timeout_ms: plan.times.timeout_ms,
                grace_ms: plan.times.grace_ms,
                max_output: plan.max_output,
            },
            tty: !plan.terminal().is_empty(),
            profile: plan.profile.as_deref().map(shown),
        })
    }
}

impl Stood {
    fn jail(self, plan: &Plan) -> Jail {
        let asked = &plan.confine;
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let rules = asked.landlock.rules.iter().map(|rule| LandlockRule {
            path: shown(&rule.path),
            grant: word(&rule.grant),
        });
        let (sha256, instructions) = match self.told.filter {
            Some(filter) => (Some(filter.sha256), filter.instructions),
            None => (None, 0),
        };
        Jail {
            namespaces: self.namespaces,
            mounts: Mounts {
                how: How::Read,
                table: self.mounts,
            },
            init: self.init,
            command: self.command,
            landlock: Landlock {
                how: How::Applied,
                mode: word(&asked.landlock.mode),
                abi: asked.landlock.abi,
                rights: owned(landlock::used(asked.landlock.abi)),
                absent: owned(asked.landlock.absent.clone()),
                rules: rules.collect(),
            },
            seccomp: Seccomp {
                how: How::Applied,
                sha256,
                instructions,
                allow_ptrace: asked.seccomp.allow_ptrace,
            },
            descriptors: Descriptors {
                how: How::Read,
                open: self.told.open,
            },
            limits: Limits {
                how: How::Read,
                rlimits: self.rlimits,
                cgroup: self.cgroup,
            },
            self_check: Tries {
                how: How::Read,
                tried: self.told.tried,
            },
        }
    }
}

/// The limits in the files of a cgroup, by their names; of `cpu.max` the quota of each
/// period.
fn limits_in(files: &[PathBuf]) -> Result<BTreeMap<String, u64>, Refusal> {
    let limit = |file: &PathBuf| {
        let failed = |error| unread(&shown(file), error);
        let text = fs::read_to_string(file).map_err(failed)?;
        let word = text.split_whitespace().next();
        // `max`, and whatever else isn't a number, is no limit.
        let number = word.and_then(|word| word.parse().ok());
        let number = number.ok_or_else(|| failed(Errno::EBADMSG.into()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Ok((name.into_owned(), number))
    };
    files.iter().map(limit).collect()
}

/// A value's one word, as the plan prints it.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn whole(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unread(what: &str, error: io::Error) -> Refusal {
    Refusal::new(Reason::Receipt, "read the jail back")
        .about(what)
        .errno(errno(error))
        .remedy("run it without --receipt, or please report it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::TempDir;

    #[test]
    fn a_cgroups_limits_are_those_of_its_files() {
        let temp = TempDir::new();
        let files = [
            temp.file("memory.max", "4096\n"),
            temp.file("cpu.max", "25000 100000\n"),
        ];
        let limits = [("memory.max", 4096), ("cpu.max", 25_000)];
        let limits = limits.map(|(name, limit)| (name.to_owned(), limit));
        assert_eq!(limits_in(&files), Ok(BTreeMap::from(limits)));
        for text in ["max 100000\n", "", "-1\n"] {
            temp.file("cpu.max", text);
            let refusal = limits_in(&files).expect_err(text);
            assert_eq!(refusal.reason, Reason::Receipt);
            assert!(refusal.to_string().contains("cpu.max"), "{refusal}");
        }
        std::fs::remove_file(&files[0]).expect("removed");
        assert!(limits_in(&files).is_err());
    }
}
