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

/// Where the jail's cgroup is going to be made. Nothing is changed yet, but that this
/// process may have been moved into a scope of its own.
pub struct Place<'plan> {
    planned: &'plan Cgroup,
    way: Way,
}

impl Place<'_> {
    /// Comes by it as planned; systemd may take its time.
    ///
    /// # Errors
    /// `limits`: there is no scope to be had, or nothing can be made in it.
    pub fn come_by(planned: &Cgroup) -> Result<Place<'_>, Refusal> {
        let way = match &planned.way {
            Way::Scope(socket) => {
                bus::enter_scope(socket)?;
                find_within(&planned.controllers())?
            }
            found => found.clone(),
        };
        Ok(Place { planned, way })
    }
}

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
    /// The controllers that its limits are of.
    needed: Vec<&'static str>,
    /// The files with its limits.
    files: Vec<PathBuf>,
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
    /// `limits`: which call failed, or what isn't as it was written. No cgroup is left.
    pub fn make(Place { planned, way }: Place) -> Result<Leaf, Refusal> {
        let (Way::Within(outer) | Way::Beside(outer) | Way::Scope(outer)) = &way;
        let name = fresh_name()?;
        let mut leaf = Leaf {
            outer: outer.clone(),
            jail: outer.join(&name),
            here: own_dir()?,
            own: None,
            needed: planned.controllers(),
            files: Vec::new(),
            enabled: Vec::new(),
        };
        if matches!(way, Way::Within(_)) {
            let own = outer.join(format!("{name}-supervisor"));
            make_dir(&own)?;
            leaf.own = Some(own.clone());
            write(&own.join("cgroup.procs"), "0")?;
            leaf.here = own;
        }
        leaf.enable()?;
        make_dir(&leaf.jail)?;
        for (file, value) in planned.settings() {
            let path = leaf.jail.join(file);
            write(&path, &value)?;
            read_back(&path, &value)?;
            leaf.files.push(path);
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

    /// The files with its limits, as long as it is there.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    /// What has happened in it.
    ///
    /// # Errors
    /// `limits`: a file can't be read, as where somebody has taken a controller, and the
    /// limit with it, away.
    pub fn counts(&self) -> Result<Counts, Refusal> {
        let count = |controller, file, key| {
            if !self.needed.contains(&controller) {
                return Ok(0);
            }
            let path = self.jail.join(file);
            let refuse = |errno| lost(&path).errno(errno);
            let text = fs::read_to_string(&path)
                .map_err(|error| refuse(Errno::try_from(error).unwrap_or(Errno::EIO)))?;
            value_of(&text, key).ok_or_else(|| refuse(Errno::EBADMSG))
        };
        Ok(Counts {
            out_of_memory: count("memory", "memory.events", "oom_kill")?,
            refused_forks: count("pids", "pids.events", "max")?,
        })
    }

    fn enable(&mut self) -> Result<(), Refusal> {
        let file = self.outer.join("cgroup.subtree_control");
        let lacking = missing(&self.needed, &words(&file));
        for name in lacking {
            write(&file, &format!("+{name}"))?;
            self.enabled.push(name);
        }
        match missing(&self.needed, &words(&file))[..] {
            [] => Ok(()),
            _ => Err(refuse(&file).about("a controller that was enabled isn't")),
        }
    }
}

impl Drop for Leaf {
    /// What can't be undone stays.
    fn drop(&mut self) {
        // Where the fork failed it may still be in it.
        let _ = put(&self.here.join("cgroup.procs"), "0");
        remove(&self.jail);
        // Nobody else is within the cgroup of this process. Beside others the controllers
        // stay given on: the limits of another run may hang on them, which the kernel
        // takes away with them (m).
        if let Some(own) = &self.own {
            // First: a cgroup that gives controllers on takes no process.
            let file = self.outer.join("cgroup.subtree_control");
            for name in &self.enabled {
                let _ = put(&file, &format!("-{name}"));
            }
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
pub(super) fn fresh_name() -> Result<String, Refusal> {
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

fn lost(file: &Path) -> Refusal {
    Refusal::new(Reason::Limits, "read what the jail's cgroup has counted").about(shown(file))
}

/// The number beside `key` in a flat keyed file; none if there is no such line.
fn value_of(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.find(|(name, _)| *name == key)?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::TempDir;

    #[test]
    fn counts_are_read_by_name() {
        let events = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(value_of(events, "oom_kill"), Some(2));
        assert_eq!(value_of(events, "max"), Some(12));
        assert_eq!(value_of("max x\n", "max"), None);
        assert_eq!(value_of("", "max"), None);
    }

    /// One in files of `temp`, beside others, that gave `memory` on.
    fn leaf(temp: &TempDir, needed: &[&'static str]) -> Leaf {
        temp.dir("jail");
        temp.file("cgroup.subtree_control", "memory");
        Leaf {
            outer: temp.path().to_owned(),
            jail: temp.at("jail"),
            here: temp.at("here"),
            own: None,
            needed: needed.to_vec(),
            files: Vec::new(),
            enabled: vec!["memory"],
        }
    }

    #[test]
    fn what_cannot_be_counted_is_not_nothing() {
        let temp = TempDir::new();
        let counted = |needed: &[&'static str]| leaf(&temp, needed).counts();
        // Whatever has no limit there isn't read.
        assert_eq!(counted(&["cpu"]), Ok(Counts::default()));
        let refusal = counted(&["memory"]).expect_err("no such file");
        assert_eq!(refusal.reason, Reason::Limits);
        assert!(refusal.to_string().contains("memory.events"), "{refusal}");
        let leaf = leaf(&temp, &["memory", "pids"]);
        temp.file("jail/memory.events", "max 12\noom_kill 2\n");
        assert!(leaf.counts().is_err(), "no pids.events");
        temp.file("jail/pids.events", "max 3\n");
        let (out_of_memory, refused_forks) = (2, 3);
        let counts = Counts {
            out_of_memory,
            refused_forks,
        };
        assert_eq!(leaf.counts(), Ok(counts));
        temp.file("jail/pids.events", "");
        assert!(leaf.counts().is_err(), "no such line");
    }

    #[test]
    fn controllers_are_taken_back_only_where_nobody_else_is() {
        let temp = TempDir::new();
        let control = || fs::read_to_string(temp.at("cgroup.subtree_control")).expect("a file");
        drop(leaf(&temp, &["memory"]));
        assert_eq!(control(), "memory");
        assert!(!temp.at("jail").exists());
        let mut within = leaf(&temp, &["memory"]);
        within.own = Some(temp.at("here"));
        drop(within);
        assert_eq!(control(), "-memory");
    }

    #[test]
    fn what_is_read_back_must_be_what_was_written() {
        let temp = TempDir::new();
        temp.file("memory.max", "max\n");
        let file = temp.at("memory.max");
        assert_eq!(read_back(&file, "max"), Ok(()));
        let refusal = read_back(&file, "4096").expect_err("differs");
        assert_eq!(refusal.reason, Reason::Limits);
        assert!(write(&temp.at("absent"), "1").is_err() && !temp.at("absent").exists());
    }
}
