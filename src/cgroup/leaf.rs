//! The jail's cgroup, from its making to its end.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::plan::limits::Cgroup;
use crate::refusal::{Reason, Refusal, shown};
use crate::sys::secret::random;

use super::bus;
use super::find::{Way, find_within, missing, own_dir, words};

/// How long the kernel may take to see that a cgroup has no process left.
const PATIENCE: Duration = Duration::from_secs(2);

/// A cgroup with limits and no process, until the jail's pid 1 is put into it. Dropped,
/// which must be after the jail's end, it is removed again, and this process is moved
/// back to where it was.
pub struct Leaf {
    /// Where it was made.
    outer: PathBuf,
    jail: PathBuf,
    /// Where this process is, but for the fork.
    here: PathBuf,
    /// The cgroup that was made for this process, if it had to move.
    own: Option<PathBuf>,
    /// The controllers that weren't given on before.
    enabled: Vec<&'static str>,
}

/// What a cgroup has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Processes that were killed for memory.
    pub out_of_memory: u64,
    /// Forks that were refused.
    pub refused_forks: u64,
}

impl Leaf {
    /// Makes it as planned, and reads back that it is so.
    ///
    /// # Errors
    /// `limits`: which call failed, or what isn't as it was written. Nothing is left.
    pub fn make(planned: &Cgroup) -> Result<Leaf, Refusal> {
        let needed = planned.controllers();
        let way = match &planned.way {
            Way::Scope(socket) => {
                bus::enter_scope(socket)?;
                find_within(&needed)?
            }
            found => found.clone(),
        };
        let (Way::Within(outer) | Way::Beside(outer) | Way::Scope(outer)) = &way;
        let name = fresh_name()?;
        let mut leaf = Leaf {
            outer: outer.clone(),
            jail: outer.join(&name),
            here: own_dir()?,
            own: None,
            enabled: Vec::new(),
        };
        if matches!(way, Way::Within(_)) {
            let own = outer.join(format!("{name}-supervisor"));
            make_dir(&own)?;
            leaf.own = Some(own.clone());
            write(&own.join("cgroup.procs"), "0")?;
            leaf.here = own;
        }
        leaf.enable(&needed)?;
        make_dir(&leaf.jail)?;
        for (file, value) in planned.settings() {
            let path = leaf.jail.join(file);
            write(&path, &value)?;
            read_back(&path, &value)?;
        }
        Ok(leaf)
    }

    /// Moves this process into it, for the fork: pid 1 begins there, and it is the root
    /// of its cgroup namespace. clone3(2) could place it, but outer sandboxes deny that.
    ///
    /// # Errors
    /// `limits`.
    pub fn enter(&self) -> Result<(), Refusal> {
        write(&self.jail.join("cgroup.procs"), "0")
    }

    /// Moves this process back, and sees that `pid` alone has stayed.
    ///
    /// # Errors
    /// `limits`.
    pub fn leave(&self, pid: Pid) -> Result<(), Refusal> {
        write(&self.here.join("cgroup.procs"), "0")?;
        read_back(&self.jail.join("cgroup.procs"), &pid.to_string())
    }

    /// What has happened in it; where it can't be read, nothing.
    pub fn counts(&self) -> Counts {
        let count = |file, key| {
            let text = fs::read_to_string(self.jail.join(file)).unwrap_or_default();
            value_of(&text, key)
        };
        Counts {
            out_of_memory: count("memory.events", "oom_kill"),
            refused_forks: count("pids.events", "max"),
        }
    }

    fn enable(&mut self, needed: &[&'static str]) -> Result<(), Refusal> {
        let file = self.outer.join("cgroup.subtree_control");
        let lacking = missing(needed, &words(&file));
        for name in lacking {
            write(&file, &format!("+{name}"))?;
            self.enabled.push(name);
        }
        match missing(needed, &words(&file))[..] {
            [] => Ok(()),
            _ => Err(refuse(&file).about("a controller that was enabled isn't")),
        }
    }
}

impl Drop for Leaf {
    /// In this order: a cgroup that gives controllers on takes no process, and one with
    /// a cgroup below it that uses them goes on giving them. What can't be undone stays.
    fn drop(&mut self) {
        // Where the fork failed it may still be in it.
        let _ = put(&self.here.join("cgroup.procs"), "0");
        remove(&self.jail);
        let file = self.outer.join("cgroup.subtree_control");
        for name in &self.enabled {
            let _ = put(&file, &format!("-{name}"));
        }
        if let Some(own) = &self.own {
            let _ = put(&self.outer.join("cgroup.procs"), "0");
            remove(own);
        }
    }
}

/// Removes a cgroup. Its processes have been reaped; that it is busy all the same
/// passes soon.
fn remove(dir: &Path) {
    let start = Instant::now();
    while let Err(error) = fs::remove_dir(dir) {
        if error.raw_os_error() != Some(libc::EBUSY) || start.elapsed() > PATIENCE {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `groom-ns-` and 64 random bits.
fn fresh_name() -> Result<String, Refusal> {
    let mut bytes = [0; 8];
    random(&mut bytes).map_err(|errno| {
        Refusal::new(Reason::Setup, "name a cgroup")
            .about("getrandom")
            .errno(errno)
    })?;
    let mut name = "groom-ns-".to_owned();
    for byte in bytes {
        let _ = write!(name, "{byte:02x}");
    }
    Ok(name)
}

fn make_dir(dir: &Path) -> Result<(), Refusal> {
    fs::create_dir(dir).map_err(|error| failed(dir, &error))
}

fn write(file: &Path, value: &str) -> Result<(), Refusal> {
    put(file, value).map_err(|error| failed(file, &error))
}

/// In one write(2), as cgroupfs wants it. Nothing is created.
fn put(file: &Path, value: &str) -> io::Result<()> {
    File::options()
        .write(true)
        .open(file)?
        .write_all(value.as_bytes())
}

/// That the kernel took what was written, and not something like it.
fn read_back(file: &Path, written: &str) -> Result<(), Refusal> {
    let found = fs::read_to_string(file).map_err(|error| failed(file, &error))?;
    if found.trim_end() == written {
        return Ok(());
    }
    let found = found.trim_end().escape_debug();
    Err(refuse(file).remedy(format!("{written} was written, and {found} is read")))
}

fn failed(file: &Path, error: &io::Error) -> Refusal {
    refuse(file)
        .errno(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
        .remedy("start it in a cgroup of its own: `systemd-run --user --scope -p Delegate=yes groom-ns run …` (root: without --user)")
}

fn refuse(file: &Path) -> Refusal {
    Refusal::new(Reason::Limits, "make the jail's cgroup").about(shown(file))
}

/// The number beside `key` in a flat keyed file; 0 if it isn't there.
fn value_of(text: &str, key: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(name, _)| *name == key);
    found.map_or(0, |(_, value)| value.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_name() {
        let events = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(value_of(events, "oom_kill"), 2);
        assert_eq!(value_of(events, "max"), 12);
        assert_eq!(value_of("max x\n", "max"), 0);
        assert_eq!(value_of("", "max"), 0);
    }

    #[test]
    fn what_is_read_back_must_be_what_was_written() {
        let temp = crate::policy::testing::TempDir::new();
        temp.file("memory.max", "max\n");
        let file = temp.at("memory.max");
        assert_eq!(read_back(&file, "max"), Ok(()));
        let refusal = read_back(&file, "4096").expect_err("differs");
        assert_eq!(refusal.reason, Reason::Limits);
        assert!(write(&temp.at("absent"), "1").is_err() && !temp.at("absent").exists());
    }
}
