//! Where a cgroup can be made: nothing is changed here.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::mountinfo::{self, Mount};
use crate::refusal::{Reason, Refusal, shown};

/// How the jail's cgroup is come by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "how", content = "at", rename_all = "kebab-case")]
pub enum Way {
    /// Within the one that groom-ns is alone in, which then moves into a second one
    /// there: a cgroup with processes has no limits to give to those below it.
    Within(PathBuf),
    /// Within one that may have processes (the root), or that has none: groom-ns
    /// stays where it is.
    Beside(PathBuf),
    /// systemd is asked for a scope (`StartTransientUnit`) on this D-Bus socket; then
    /// as `Within`.
    Scope(PathBuf),
}

impl Display for Way {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Way::Within(path) => write!(f, "in {}, and another for this process", shown(path)),
            Way::Beside(path) => write!(f, "in {}", shown(path)),
            Way::Scope(bus) => write!(f, "in a scope that systemd is asked for on {}", shown(bus)),
        }
    }
}

/// Finds the way to a cgroup with these controllers, for this process.
///
/// # Errors
/// `limits`: there is none, and why.
pub fn find(needed: &[&'static str]) -> Result<Way, Refusal> {
    Surroundings::here()?.way(needed)
}

/// Whether a cgroup with these controllers can be had within the one that this process
/// is in; no one else is asked.
pub(super) fn find_within(needed: &[&'static str]) -> Result<Way, Refusal> {
    let mut here = Surroundings::here()?;
    (here.bus, here.has_systemd) = (None, true);
    here.way(needed)
}

/// The cgroup that this process is in.
pub(super) fn own_dir() -> Result<PathBuf, Refusal> {
    Surroundings::here()?.own_dir().map(|(_, own)| own)
}

/// What the way depends on.
struct Surroundings {
    /// /proc/self/cgroup.
    own: String,
    mounts: Vec<Mount>,
    pid: u32,
    /// Where systemd listens for this user, if there is such a socket.
    bus: Option<PathBuf>,
    /// Whether the tree is systemd's, which nobody else may write to but below what it
    /// has delegated.
    has_systemd: bool,
}

impl Surroundings {
    fn here() -> Result<Surroundings, Refusal> {
        let unread = |what: &'static str| {
            move |error: std::io::Error| refuse(what).remedy(format!("{error}: mount /proc"))
        };
        Ok(Surroundings {
            own: fs::read_to_string("/proc/self/cgroup").map_err(unread("/proc/self/cgroup"))?,
            mounts: mountinfo::read().map_err(unread("/proc/self/mountinfo"))?,
            pid: std::process::id(),
            bus: super::bus::socket(),
            has_systemd: Path::new("/run/systemd/system").is_dir(),
        })
    }

    fn way(&self, needed: &[&'static str]) -> Result<Way, Refusal> {
        self.found(needed)
            .map_err(|refusal| refusal.remedy(self.remedy(needed)))
    }

    fn found(&self, needed: &[&'static str]) -> Result<Way, Refusal> {
        let (point, own) = self.own_dir()?;
        let why = match self.is_within(&own, needed) {
            Ok(()) => return Ok(Way::Within(own)),
            Err(why) => why,
        };
        // Whoever isn't root asks the user's own systemd, whose processes live below
        // another cgroup than this one may.
        if self.has_systemd {
            let bus = self.bus.clone();
            return bus.map(Way::Scope).ok_or(why);
        }
        let is_root = !own.join("cgroup.type").exists();
        let outer = if is_root {
            Some(own.as_path())
        } else {
            own.parent()
        };
        let beside = outer
            .filter(|outer| outer.starts_with(&point))
            .filter(|outer| is_beside(outer, is_root, needed))
            // This process goes in for the fork, and comes back.
            .filter(|_| access(&own.join("cgroup.procs"), AccessFlags::W_OK).is_ok());
        beside.map(|outer| Way::Beside(outer.to_owned())).ok_or(why)
    }

    /// Which of these controllers version 1 has, on its own or beside version 2: each is in
    /// one hierarchy alone. Lines are `4:cpu,cpuacct:/path` (cgroups(7)).
    fn in_version_1(&self, needed: &[&'static str]) -> Vec<&'static str> {
        let lists = self.own.lines().filter_map(|line| line.split(':').nth(1));
        let held: Vec<&str> = lists.flat_map(|list| list.split(',')).collect();
        let needed = needed.iter().copied();
        needed.filter(|name| held.contains(name)).collect()
    }

    /// What would help here; systemd-run alone, where controllers are in version 1, wouldn't.
    fn remedy(&self, needed: &[&'static str]) -> String {
        let old = self.in_version_1(needed).join(", ");
        let way = match (old.is_empty(), self.has_systemd) {
            (false, _) => format!(
                "cgroup version 1 has the controllers ({old}) on this host: boot it with `systemd.unified_cgroup_hierarchy=1` \
                 on the kernel command line, or without systemd with `cgroup_no_v1=all`"
            ),
            (true, true) => {
                "start it in one of its own: `systemd-run --user --scope -p Delegate=yes groom-ns run …` \
                 (root: without --user)"
                    .to_owned()
            }
            (true, false) => {
                "start it alone in a cgroup that has these controllers and is this user's to write".to_owned()
            }
        };
        format!("{way}; in Docker: limit the container (`docker run --memory … --cpus …`)")
    }

    /// The mount point, and the cgroup of this process beneath it.
    fn own_dir(&self) -> Result<(PathBuf, PathBuf), Refusal> {
        let line = self.own.lines().find_map(|line| line.strip_prefix("0::"));
        let path =
            Path::new(line.ok_or_else(|| refuse("this process is in no cgroup of version 2"))?);
        let found = self
            .mounts
            .iter()
            .filter(|mount| mount.kind == "cgroup2" && !mount.read_only)
            .find_map(|mount| {
                let below = path.strip_prefix(&mount.root).ok()?;
                let is_plain = below.components().all(|part| part.as_os_str() != "..");
                // Without a slash at its end.
                let own: PathBuf = mount.point.join(below).components().collect();
                let exists = own.join("cgroup.controllers").is_file();
                (is_plain && exists).then(|| (mount.point.clone(), own))
            });
        found.ok_or_else(|| {
            refuse("cgroup2 isn't mounted, or not for writing, where this process's cgroup is")
        })
    }

    /// Whether this process can have cgroups within its own; or why not.
    fn is_within(&self, own: &Path, needed: &[&'static str]) -> Result<(), Refusal> {
        let has = words(&own.join("cgroup.controllers"));
        let missing: Vec<&str> = missing(needed, &has);
        if !missing.is_empty() {
            let list = missing.join(", ");
            return Err(refuse(format!(
                "{} has no controller for {list}",
                shown(own)
            )));
        }
        if !may_write(own) {
            return Err(refuse(format!("{} isn't this user's to write", shown(own))));
        }
        if words(&own.join("cgroup.procs")) != [self.pid.to_string()] {
            return Err(refuse(format!(
                "{} has other processes than groom-ns",
                shown(own)
            )));
        }
        Ok(())
    }
}

/// Whether a cgroup can be made in `dir` and processes of this one's put into it; with
/// processes of its own only the root gives controllers on.
fn is_beside(dir: &Path, is_root: bool, needed: &[&'static str]) -> bool {
    let is_enabled = missing(needed, &words(&dir.join("cgroup.subtree_control"))).is_empty();
    let can_be = missing(needed, &words(&dir.join("cgroup.controllers"))).is_empty()
        && (is_root || words(&dir.join("cgroup.procs")).is_empty());
    may_write(dir) && (is_enabled || can_be)
}

fn may_write(dir: &Path) -> bool {
    ["", "cgroup.procs", "cgroup.subtree_control"]
        .iter()
        .all(|file| access(&dir.join(file), AccessFlags::W_OK).is_ok())
}

pub(super) fn missing<'needed>(needed: &[&'needed str], has: &[String]) -> Vec<&'needed str> {
    let is_missing = |name: &&&str| !has.iter().any(|word| word == **name);
    needed.iter().filter(is_missing).copied().collect()
}

/// The words of a file of cgroupfs; none if it can't be read.
pub(super) fn words(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// `why` is what stands in the way.
fn refuse(why: impl Into<String>) -> Refusal {
    Refusal::new(Reason::Limits, "find a cgroup for --memory or --cpus").about(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::TempDir;

    const ALL: &str = "cpuset cpu io memory pids\n";

    /// A tree with one cgroup in another, `outer/own`, as files.
    fn tree(procs: &str, outer_procs: &str) -> TempDir {
        let temp = TempDir::new();
        for (dir, procs) in [("outer", outer_procs), ("outer/own", procs)] {
            temp.dir(dir);
            temp.file(&format!("{dir}/cgroup.controllers"), ALL);
            temp.file(&format!("{dir}/cgroup.subtree_control"), "");
            temp.file(&format!("{dir}/cgroup.procs"), procs);
            temp.file(&format!("{dir}/cgroup.type"), "domain\n");
        }
        temp
    }

    fn mount(kind: &str, root: &str, point: PathBuf) -> Mount {
        Mount {
            id: 1,
            parent: 1,
            device: "0:30".to_owned(),
            root: root.into(),
            point,
            kind: kind.to_owned(),
            read_only: false,
        }
    }

    /// As if `temp` were mounted, and process 7 in `/outer/own`.
    fn within(temp: &TempDir) -> Surroundings {
        Surroundings {
            own: "1:name=systemd:/x\n0::/outer/own\n".to_owned(),
            mounts: vec![
                mount("cgroup", "/", temp.at("v1")),
                mount("cgroup2", "/", temp.path().to_owned()),
            ],
            pid: 7,
            bus: None,
            has_systemd: false,
        }
    }

    #[test]
    fn alone_in_a_cgroup_of_its_own() {
        let temp = tree("7\n", "");
        let own = temp.at("outer/own");
        let needed = &["memory", "cpu", "pids"];
        assert_eq!(within(&temp).way(needed), Ok(Way::Within(own.clone())));
        // What is delegated needs nobody to be asked.
        let mut asked = within(&temp);
        (asked.has_systemd, asked.bus) = (true, Some("/bus".into()));
        assert_eq!(asked.way(needed), Ok(Way::Within(own.clone())));
        // Shown from another root, as in a container.
        let mut moved = within(&temp);
        moved.mounts = vec![mount("cgroup2", "/outer", temp.at("outer"))];
        assert_eq!(moved.way(needed), Ok(Way::Within(own)));
    }

    #[test]
    fn beside_others() {
        let needed = &["memory"];
        let temp = tree("6\n7\n", "");
        let outer = temp.at("outer");
        assert_eq!(within(&temp).way(needed), Ok(Way::Beside(outer.clone())));
        // systemd's tree isn't written to: it is asked, or nothing can be done.
        let mut asked = within(&temp);
        (asked.has_systemd, asked.bus) = (true, Some("/bus".into()));
        assert_eq!(asked.way(needed), Ok(Way::Scope("/bus".into())));
        asked.bus = None;
        refused(&asked, "has other processes");
        // Processes in the outer one keep controllers from being enabled.
        temp.file("outer/cgroup.procs", "5\n");
        refused(&within(&temp), "has other processes");
        temp.file("outer/cgroup.subtree_control", "memory\n");
        assert_eq!(within(&temp).way(needed), Ok(Way::Beside(outer)));
        // Not beyond what is mounted.
        let mut inner = within(&temp);
        inner.mounts = vec![mount("cgroup2", "/outer/own", temp.at("outer/own"))];
        refused(&inner, "has other processes");
    }

    #[test]
    fn the_root_has_processes_and_gives_controllers_on() {
        let temp = tree("7\n", "1\n7\n");
        std::fs::remove_file(temp.at("outer/cgroup.type")).expect("removed");
        let mut root = within(&temp);
        root.own = "0::/\n".to_owned();
        root.mounts = vec![mount("cgroup2", "/", temp.at("outer"))];
        assert_eq!(root.way(&["cpu"]), Ok(Way::Beside(temp.at("outer"))));
        root.has_systemd = true;
        refused(&root, "has other processes");
    }

    #[test]
    fn nowhere() {
        let temp = tree("7\n", "");
        let mut here = within(&temp);
        here.own = "1:name=systemd:/x\n".to_owned();
        refused(&here, "version 2");
        // Outside of the namespace's root.
        here.own = "0::/../own\n".to_owned();
        refused(&here, "isn't mounted");
        here = within(&temp);
        here.mounts[1].read_only = true;
        refused(&here, "isn't mounted");
        here.mounts.remove(1);
        refused(&here, "isn't mounted");
        // As where version 1 has the controllers.
        temp.file("outer/own/cgroup.controllers", "\n");
        temp.file("outer/cgroup.controllers", "\n");
        refused(&within(&temp), "no controller for memory");
    }

    /// What is said to do is what this host can do.
    #[test]
    fn version_1_and_systemd() {
        let temp = tree("6\n7\n", "5\n");
        let mut here = within(&temp);
        let said = |here: &Surroundings| {
            let refusal = here.way(&["memory", "pids"]).expect_err("refused");
            let has = |word| refusal.remedy.contains(word);
            assert!(has("docker run --memory"), "{refusal}");
            [
                has("version 1 has the controllers (memory)"),
                has("Delegate=yes"),
                has("start it alone in a cgroup"),
            ]
        };
        assert_eq!(said(&here), [false, false, true]);
        here.has_systemd = true;
        assert_eq!(said(&here), [false, true, false]);
        // Beside version 2, and without it.
        for second in ["0::/outer/own\n", ""] {
            for has_systemd in [true, false] {
                here.own = format!("9:name=systemd:/\n4:cpu,memory:/a:b,pids\n{second}");
                here.has_systemd = has_systemd;
                assert_eq!(said(&here), [true, false, false], "{second}");
            }
        }
        // A hierarchy without controllers is systemd's own.
        here.own = "1:name=systemd:/x\n0::/outer/own\n".to_owned();
        assert_eq!(said(&here), [false, false, true]);
    }

    fn refused(surroundings: &Surroundings, because: &str) {
        let refusal = surroundings.way(&["memory"]).expect_err("refused");
        assert_eq!(refusal.reason, Reason::Limits);
        assert!(refusal.subject.contains(because), "{refusal}");
        assert!(!refusal.remedy.is_empty(), "{refusal}");
    }
}
