//! Mounts that are weaker than they must be, which landlock, permissions or
//! no_new_privs would hide: the table itself is looked at.

use std::collections::BTreeMap;
use std::fs;

use crate::common::{Jail, Workspace, path_str};

/// Mount points of the jail, and their options.
fn mounts(jail: Jail) -> BTreeMap<String, Vec<String>> {
    table(jail.run(&["read", "/proc/self/mounts"]).ok())
}

fn table(text: &str) -> BTreeMap<String, Vec<String>> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let options = fields[3].split(',').map(ToOwned::to_owned);
        (fields[1].to_owned(), options.collect())
    };
    text.lines().map(line).collect()
}

fn with<'table>(table: &'table BTreeMap<String, Vec<String>>, option: &str) -> Vec<&'table str> {
    let has = |options: &Vec<String>| options.iter().any(|one| one == option);
    let found = table.iter().filter(|(_, options)| has(options));
    found.map(|(path, _)| path.as_str()).collect()
}

#[test]
fn no_other_mount_is_writable() {
    let workspace = Workspace::with_git();
    workspace.folder("clone/vendor/dep/.git");
    let path = |name: &str| path_str(&workspace.path(name)).to_owned();
    let own = ["/dev/pts", "/dev/shm", "/home/agent", "/proc", "/tmp"].map(ToOwned::to_owned);
    let given = ["clone", "clone/vendor", "clone/vendor/dep", "out"].map(path);
    let sorted = |lists: [&[String]; 2]| {
        let mut all = lists.concat();
        all.sort();
        all
    };
    let table = mounts(workspace.jail_with_out().writable());
    assert_eq!(with(&table, "rw"), sorted([&own, &given]));
    for read_only in [
        "/",
        "/usr",
        "/etc",
        "/proc/sys",
        &path("clone/.git"),
        &path("clone/vendor/dep/.git"),
        &path("probe"),
    ] {
        assert!(
            with(&table, "ro").contains(&read_only),
            "{read_only}: {table:#?}"
        );
    }
    let table = mounts(workspace.jail());
    assert_eq!(with(&table, "rw"), own);
    assert!(
        with(&table, "ro").contains(&path("clone").as_str()),
        "{table:#?}"
    );
}

#[test]
fn no_mount_honours_a_set_user_id_bit_or_a_device() {
    let workspace = Workspace::new();
    let outside = table(workspace.unjailed(&["read", "/proc/self/mounts"]).ok());
    let (nosuid, nodev) = (with(&outside, "nosuid"), with(&outside, "nodev"));
    assert!(nosuid.len() < outside.len(), "vacuous: all outside are");
    assert!(nodev.len() < outside.len(), "vacuous: all outside are");

    let table = mounts(workspace.jail_with_out());
    let (nosuid, nodev) = (with(&table, "nosuid"), with(&table, "nodev"));
    // The nodes of /dev, of which one covers files of /proc, and terminals.
    let null =
        |path: &str| path.starts_with("/proc/") && fs::metadata(path).is_ok_and(|is| is.is_file());
    let device = |path: &str| path.starts_with("/dev/") && path != "/dev/shm";
    for path in table.keys() {
        assert!(nosuid.contains(&path.as_str()), "{path}: {table:#?}");
        let is_nodev = nodev.contains(&path.as_str());
        assert!(is_nodev || device(path) || null(path), "{path}: {table:#?}");
    }
}

#[test]
fn what_proc_tells_of_the_kernel_is_covered() {
    // Most is closed by its mode too; a cover doesn't depend on that.
    let workspace = Workspace::new();
    let table = mounts(workspace.jail());
    let names = [
        "bus",
        "iomem",
        "irq",
        "kallsyms",
        "kcore",
        "key-users",
        "keys",
        "kmsg",
        "kpagecgroup",
        "kpagecount",
        "kpageflags",
        "sched_debug",
        "scsi",
        "slabinfo",
        "sysrq-trigger",
        "timer_list",
        "vmallocinfo",
    ];
    let paths = names.map(|name| format!("/proc/{name}"));
    let there = paths.iter().filter(|path| fs::exists(path).expect("/proc"));
    let there: Vec<&String> = there.collect();
    assert!(
        there.len() > 5,
        "vacuous: this host's /proc has none of them"
    );
    for path in there {
        assert!(
            with(&table, "ro").contains(&path.as_str()),
            "{path}: {table:#?}"
        );
    }
}

#[test]
fn no_terminal_of_the_host_is_there() {
    let workspace = Workspace::new();
    let list = ["list", "/dev/pts"];
    let outside = workspace.unjailed_in(&["in-pty"], &list);
    assert_ne!(outside.ok(), "ptmx", "vacuous: it has none");
    let run = workspace.jail().in_situation(&["in-pty"]).run(&list);
    assert_eq!(run.ok(), "ptmx");
}
