//! What the kernel's files in /proc say, as a receipt says it.

use std::collections::BTreeMap;

use super::format::{Capabilities, How, Mount, Process, Rlimit};
use crate::mountinfo;
use crate::refusal::shown;

/// Of /proc/PID/status (proc_pid_status(5)); none where something is missing.
pub fn status(text: &str) -> Option<Process> {
    let field = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim())
    };
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let words = field(name)?.split_whitespace();
        words.map(|word| word.parse().ok()).collect()
    };
    let four = |name: &str| <[u32; 4]>::try_from(numbers(name)?).ok();
    let set = |name: &str| field(name).map(str::to_owned);
    Some(Process {
        how: How::Read,
        uids: four("Uid")?,
        gids: four("Gid")?,
        groups: numbers("Groups")?,
        capabilities: Capabilities {
            inheritable: set("CapInh")?,
            permitted: set("CapPrm")?,
            effective: set("CapEff")?,
            bounding: set("CapBnd")?,
            ambient: set("CapAmb")?,
        },
        no_new_privs: field("NoNewPrivs")? == "1",
        seccomp_mode: field("Seccomp")?.parse().ok()?,
        seccomp_filters: field("Seccomp_filters")?.parse().ok()?,
    })
}

/// The kernel's words for resource limits, and setrlimit(2)'s.
const LIMITS: [(&str, &str); 16] = [
    ("Max cpu time", "cpu"),
    ("Max file size", "fsize"),
    ("Max data size", "data"),
    ("Max stack size", "stack"),
    ("Max core file size", "core"),
    ("Max resident set", "rss"),
    ("Max processes", "nproc"),
    ("Max open files", "nofile"),
    ("Max locked memory", "memlock"),
    ("Max address space", "as"),
    ("Max file locks", "locks"),
    ("Max pending signals", "sigpending"),
    ("Max msgqueue size", "msgqueue"),
    ("Max nice priority", "nice"),
    ("Max realtime priority", "rtprio"),
    ("Max realtime timeout", "rttime"),
];

/// What they are called in a receipt.
pub fn limit_names() -> impl Iterator<Item = &'static str> {
    LIMITS.into_iter().map(|(_, name)| name)
}

/// Of /proc/PID/limits (proc_pid_limits(5)): all sixteen, or none.
pub fn limits(text: &str) -> Option<BTreeMap<String, Rlimit>> {
    let limit = |(words, name): (&str, &str)| {
        let row = text.lines().find_map(|line| line.strip_prefix(words))?;
        let mut fields = row.split_whitespace();
        let mut next = || match fields.next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        };
        let (soft, hard) = (next()?, next()?);
        Some((name.to_owned(), Rlimit { soft, hard }))
    };
    LIMITS.into_iter().map(limit).collect()
}

/// Of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
pub fn mounts(table: &[u8]) -> Option<Vec<Mount>> {
    let lines = table.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    let mounts = mountinfo::parse(table)?.into_iter().zip(lines);
    let all = mounts.map(|(mount, line)| {
        let options = line.split(|byte| *byte == b' ').nth(5)?;
        let options = String::from_utf8_lossy(options);
        Some(Mount {
            path: shown(&mount.point),
            root: shown(&mount.root),
            kind: mount.kind,
            options: options.split(',').map(str::to_owned).collect(),
        })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read_whole() {
        let read = |name: &str| std::fs::read(format!("/proc/self/{name}")).expect(name);
        let text = |name: &str| String::from_utf8(read(name)).expect(name);
        let own = status(&text("status")).expect("a status");
        assert_eq!(own.uids[1], nix::unistd::geteuid().as_raw());
        assert_eq!(own.capabilities.bounding.len(), 16);
        let limits = limits(&text("limits")).expect("limits");
        let (soft, _) =
            nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(limits["nofile"].soft, Some(soft));
        assert_eq!(limits.len(), 16);
        let mounts = mounts(&read("mountinfo")).expect("a mount table");
        assert!(mounts.iter().any(|mount| mount.path == "/"));
    }

    #[test]
    fn what_is_missing_is_not_made_up() {
        let whole = std::fs::read_to_string("/proc/self/status").expect("a status");
        for name in [
            "Uid",
            "Groups",
            "CapAmb",
            "NoNewPrivs",
            "Seccomp",
            "Seccomp_filters",
        ] {
            let lines = whole.lines();
            let without = lines.filter(|line| !line.starts_with(&format!("{name}:")));
            let without = without.collect::<Vec<_>>().join("\n");
            assert_eq!(status(&without), None, "{name}");
        }
        assert_eq!(limits("Max cpu time unlimited unlimited seconds"), None);
    }

    #[test]
    fn options_are_the_mounts_own() {
        let line = b"36 35 98:0 / /a\\040\\033 ro,nosuid - ext4 /dev/x rw,data=x\n";
        let mount = Mount {
            path: "/a \\u{1b}".to_owned(),
            root: "/".to_owned(),
            kind: "ext4".to_owned(),
            options: vec!["ro".to_owned(), "nosuid".to_owned()],
        };
        assert_eq!(mounts(line), Some(vec![mount]));
    }
}
