//! Whether limits on memory, processes and CPU could be set here, by cgroup v2.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::mountinfo;

use super::row::Finding;

/// Looks at this process's cgroup; nothing is made there.
pub(super) fn look() -> Finding {
    let Some(here) = own_cgroup() else {
        return without("no cgroup v2 is mounted");
    };
    let controllers = fs::read_to_string(here.join("cgroup.controllers")).unwrap_or_default();
    let controllers = controllers.trim();
    let wanted = ["cpu", "memory", "pids"];
    let has_all = wanted.iter().all(|wanted| {
        let mut all = controllers.split_whitespace();
        all.any(|controller| controller == *wanted)
    });
    let writable = ["", "cgroup.procs", "cgroup.subtree_control"]
        .iter()
        .all(|name| access(&here.join(name), AccessFlags::W_OK).is_ok());
    let shown = crate::refusal::shown(&here);
    match (writable, has_all) {
        (true, true) => Finding::Ok(format!("{shown}: {controllers}")),
        (true, false) => without(&format!("{shown} has the controllers [{controllers}]")),
        (false, _) => without(&format!("{shown} can't be written to")),
    }
}

fn without(found: &str) -> Finding {
    Finding::Degraded {
        found: found.to_owned(),
        remedy: "start it in a delegated cgroup: \
                 `systemd-run --user --scope -p Delegate=yes groom-ns run …`"
            .to_owned(),
    }
}

/// The folder of this process's cgroup in the first mount of cgroup v2 (cgroups(7)).
fn own_cgroup() -> Option<PathBuf> {
    let table = mountinfo::read().ok()?;
    let mount = table.into_iter().find(|mount| mount.kind == "cgroup2")?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let below = Path::new(path).strip_prefix(&mount.root).ok()?;
    // Of the root nothing is left, and joined it would be a slash.
    Some(mount.point.iter().chain(below).collect())
}
