//! Promise 3: the command is never host root, holds no capability, and can't
//! gain any.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "identity/privileged_files.rs"]
mod privileged_files;
#[path = "identity/unmapped.rs"]
mod unmapped;

use std::fs;
use std::os::unix::fs::chown;

use common::host::{chmod, install, processes_with, status_field, unique};
use common::jail::wait_for_line;
use common::{Attack, Workspace, assert_denied, finish, is_root, path_str};

#[test]
fn the_command_is_an_unprivileged_id_of_the_host() {
    let workspace = Workspace::new();
    let marker = unique("marker");
    let mut child = workspace.jail().start(&["sleep", "60", &marker]);
    wait_for_line(&mut child, "ready");
    let is_command = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "probe\n")
    };
    let pids: Vec<i32> = processes_with(&marker)
        .into_iter()
        .filter(is_command)
        .collect();
    let [pid] = pids[..] else {
        panic!("one process of the command: {pids:?}")
    };
    let (uids, groups) = (status_field(pid, "Uid:"), status_field(pid, "Groups:"));
    child.kill().expect("our child");
    let _ = finish(child);

    let uids: Vec<u32> = uids
        .split(' ')
        .map(|uid| uid.parse().expect("a uid"))
        .collect();
    assert!(
        uids.iter().all(|uid| *uid == uids[0] && *uid != 0),
        "host uids {uids:?}"
    );
    if is_root() {
        assert!(uids[0] >= 2_100_000_000, "a free id, not {}", uids[0]);
        assert_eq!(groups, "", "no group of root's is left");
    } else {
        assert_eq!(uids[0], nix::unistd::geteuid().as_raw());
    }
}

#[test]
fn inside_it_is_a_user_with_a_name_or_the_caller() {
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["ids"]);
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    if is_root() {
        assert_eq!(run.ok(), "uid=1000 gid=1000 groups=");
    } else {
        assert!(
            run.ok()
                .starts_with(&format!("uid={uid} gid={gid} groups=")),
            "{run:#?}"
        );
    }
}

#[test]
fn supplementary_groups_are_dropped_or_reported() {
    let workspace = Workspace::new();
    let plan = workspace.jail().switch("--plan=json").run(&["exit", "0"]);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).expect("a plan");
    let planned = plan["identity"]["groups"].as_array().expect("a list").len();
    let own = nix::unistd::getgroups().expect("our groups");
    let kept = own
        .iter()
        .filter(|gid| **gid != nix::unistd::getegid())
        .count();
    if is_root() {
        assert_eq!(planned, 0, "root drops them");
    } else {
        if kept == 0 {
            eprintln!("vacuous: this user has no supplementary groups");
        }
        assert!(
            planned >= kept,
            "a user can't drop them, so the plan names them: {own:?}"
        );
    }
}

#[test]
fn as_root_no_group_of_the_callers_or_the_clones_is_kept() {
    if !is_root() {
        // A user's are kept and reported: that is proven above.
        assert_ne!(nix::unistd::geteuid().as_raw(), 0);
        return;
    }
    // A clone whose group is one that can do more than its owner, and a caller
    // who is in two more.
    let (owner, group) = (2_000_000_125, 2_000_000_006);
    let groups = ["with-groups", "2000000004", "2000000007"];
    let workspace = Workspace::new();
    for path in [workspace.clone_dir(), workspace.clone_dir().join("tracked")] {
        chown(&path, Some(owner), Some(group)).expect("root");
    }
    let outside = workspace.unjailed_in(&groups, &["ids"]);
    let kept = "groups=2000000004,2000000007";
    assert!(outside.ok().ends_with(kept), "vacuous: {outside:#?}");

    let marker = unique("marker");
    let jail = workspace.jail().in_situation(&groups);
    let mut child = jail.start(&["sleep", "60", &marker]);
    wait_for_line(&mut child, "ready");
    let of_command = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "probe\n")
            && status_field(*pid, "Uid:").starts_with(&owner.to_string())
    };
    let pids = processes_with(&marker);
    let pid = *pids
        .iter()
        .find(|pid| of_command(pid))
        .expect("the command");
    let (gids, supplementary) = (status_field(pid, "Gid:"), status_field(pid, "Groups:"));
    child.kill().expect("our child");
    let _ = finish(child);
    assert_eq!(supplementary, "", "the caller's groups");
    let is_free = |gid: &str| gid.parse::<u32>().is_ok_and(|gid| gid >= 2_100_000_000);
    assert!(gids.split(' ').all(is_free), "a free group, not {gids}");
}

#[test]
fn no_process_of_the_jail_has_privileges() {
    let workspace = Workspace::new();
    let run = workspace.jail().run(&["privileges"]);
    assert!(run.lines().len() >= 2, "pid 1 and the command: {run:#?}");
    for line in run.lines() {
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(
                line.contains(&format!("{set}:0000000000000000")),
                "{set} isn't empty: {line}"
            );
        }
        assert!(line.contains("NoNewPrivs:1"), "{line}");
        assert!(line.contains("Seccomp:2"), "{line}");
    }
    // Control: the kernel reports something else of processes outside.
    let outside = workspace.unjailed(&["privileges"]);
    let full = |line: &&str| !line.contains("CapBnd:0000000000000000");
    assert!(
        outside.lines().iter().any(full),
        "vacuous: nobody outside has a capability"
    );
}

#[test]
fn nothing_makes_it_root() {
    let workspace = Workspace::new();
    let attacks = [
        Attack::new("become-root", &["EPERM"]).control_in_userns(),
        Attack::filtered("unshare CLONE_NEWUSER", &["EPERM"]),
        Attack::new("syscall unshare CLONE_NEWUSER", &["EPERM"]),
    ];
    assert_denied(&workspace, workspace.jail(), &attacks);
}

#[test]
fn setuid_programs_gain_nothing() {
    let workspace = Workspace::new();
    // Control: a setuid copy of the probe does change its identity outside;
    // only root can make one of another user.
    let setuid = workspace.path("setuid");
    install(&workspace.probe(), &setuid);
    if is_root() {
        chown(&setuid, Some(0), Some(0)).expect("root");
    }
    chmod(&setuid, 0o4755);
    let before = workspace.jail().run(&["ids"]).ok().to_owned();
    let argv = [path_str(&setuid), "ids"];
    let after = workspace
        .jail()
        .flag("--ro-file", &setuid)
        .run_program(&argv);
    assert_eq!(after.ok(), before);
    // The host's own.
    for program in ["/usr/bin/su", "/usr/bin/passwd", "/usr/bin/chfn"] {
        if !fs::exists(program).expect("/usr") {
            continue;
        }
        let script = format!(
            "{program} root -c id </dev/null; exec {} privileges",
            path_str(&workspace.probe())
        );
        let run = workspace.jail().run_program(&["sh", "-c", &script]);
        assert!(!run.stdout.contains("uid=0"), "{program}: {run:#?}");
    }
}

#[test]
fn setuid_bits_and_devices_cannot_be_made() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.out_dir()).expect("an out-dir");
    let file = workspace.file("out/file", "x");
    let control_file = workspace.file("control", "x");
    let (file, control) = (path_str(&file), path_str(&control_file));
    // fchmodat2(2) came with Linux 6.6: before, there is nothing to deny.
    let control_mode = format!("syscall fchmodat2 AT_FDCWD @{control} 0x1a4 0");
    let absent = workspace.unjailed(&["each", &control_mode]).lines() == ["ENOSYS"];
    // 04755, 02755 and 06777
    let mut attacks: Vec<Attack> = ["0x9ed", "0x5ed", "0xdff"]
        .iter()
        .flat_map(|mode| {
            [
                format!("syscall chmod @{file} {mode}"),
                format!("syscall fchmodat AT_FDCWD @{file} {mode}"),
                format!("syscall fchmodat2 AT_FDCWD @{file} {mode} 0"),
            ]
        })
        .filter(|attempt| !(absent && attempt.contains("fchmodat2")))
        .map(|attempt| {
            let outside = attempt.replace(file, control);
            Attack::new(attempt, &["EPERM", "ENOSYS"]).control(outside)
        })
        .collect();
    // A file that is born with the bits.
    for call in [
        "openat AT_FDCWD @/tmp/x O_CREAT|O_RDWR 0x9ed",
        "openat AT_FDCWD @/tmp/x O_CREAT|O_RDWR 0x5ed",
        "openat AT_FDCWD @/tmp O_TMPFILE|O_RDWR 0x9ed",
        "openat AT_FDCWD @/tmp O_TMPFILE|O_RDWR 0x5ed",
        "open @/tmp/x O_CREAT|O_RDWR 0x9ed",
        "open @/tmp/x O_CREAT|O_RDWR 0x5ed",
        "open @/tmp O_TMPFILE|O_RDWR 0x9ed",
        "open @/tmp O_TMPFILE|O_RDWR 0x5ed",
        "creat @/tmp/x 0x9ed",
        "creat @/tmp/x 0x5ed",
        "mknod @/tmp/x S_IFREG|0x9ed 0",
        "mknod @/tmp/x S_IFREG|0x5ed 0",
        "mknodat AT_FDCWD @/tmp/x S_IFREG|0x9ed 0",
        "mknodat AT_FDCWD @/tmp/x S_IFREG|0x5ed 0",
        // One that is open already, and a mode of which the kernel drops the
        // upper half.
        "fchmod 0 0x9ed",
        "fchmod 0 0x5ed",
        "fchmod 0 0xffffffff000009ed",
    ] {
        attacks.push(Attack::filtered(call, &["EPERM"]));
    }
    // The disk's memory device 1:5 (zero), and 0:0, an overlay whiteout.
    for call in [
        "mknod @/tmp/zero S_IFCHR|0x1b6 0x105",
        "mknod @/tmp/whiteout S_IFCHR 0",
        "mknod @/tmp/disk S_IFBLK|0x1b6 0x800",
        "mknodat AT_FDCWD @/tmp/zero S_IFCHR|0x1b6 0x105",
        "mknodat AT_FDCWD @/tmp/disk S_IFBLK|0x1b6 0x800",
    ] {
        attacks.push(Attack::filtered(call, &["EPERM"]));
    }
    assert_denied(&workspace, workspace.jail_with_out(), &attacks);
}

#[test]
fn roots_files_stay_roots() {
    let workspace = Workspace::new();
    let mut attacks = Vec::new();
    for path in [
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/ssh/ssh_host_ed25519_key",
    ] {
        if !fs::exists(path).expect("/etc") {
            continue;
        }
        // As root the control is the file itself; a user can't read it anyway,
        // so that only root's run proves anything.
        let attack = Attack::new(
            format!("syscall openat AT_FDCWD @{path} O_RDONLY"),
            &["EACCES"],
        );
        attacks.push(if is_root() {
            attack
        } else {
            attack.control("say vacuous")
        });
    }
    let home = Attack::new("list /root", &["ENOENT", "EACCES"]).control("list /");
    attacks.push(home);
    assert_denied(&workspace, workspace.jail(), &attacks);
}

#[test]
fn the_callers_private_files_in_the_clone_are_the_commands() {
    // 0600 root's, as root: id-mapped, so that the command can read them.
    let workspace = Workspace::with_git();
    let private = workspace.file("clone/private", "private");
    chmod(&private, 0o600);
    let read = format!("read {}", path_str(&private));
    let write = format!("write {} changed", path_str(&private));
    let run = workspace.jail().run(&["each", &read, &write]);
    assert_eq!(run.lines()[0], "ok private");
    assert_ne!(run.lines()[1], "ok");
    let run = workspace.jail().writable().run(&["each", &write, &read]);
    assert_eq!(run.lines(), ["ok", "ok changed"]);
    assert_eq!(
        fs::read_to_string(&private).expect("on the host"),
        "changed"
    );
}

#[test]
fn as_root_the_clones_owner_runs_the_command() {
    if !is_root() {
        // A user is always itself; that is proven above.
        assert_ne!(nix::unistd::geteuid().as_raw(), 0);
        return;
    }
    let workspace = Workspace::new();
    let owner = Some(2_000_000_123);
    for path in [
        workspace.clone_dir(),
        workspace.clone_dir().join("tracked"),
        workspace.probe(),
    ] {
        chown(&path, owner, owner).expect("root");
    }
    let marker = unique("marker");
    let mut child = workspace.jail_with_out().start(&["sleep", "60", &marker]);
    wait_for_line(&mut child, "ready");
    let uids: Vec<String> = processes_with(&marker)
        .iter()
        .filter(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c == "probe\n"))
        .map(|pid| status_field(*pid, "Uid:"))
        .collect();
    child.kill().expect("our child");
    let _ = finish(child);
    let expected = "2000000123 2000000123 2000000123 2000000123";
    assert_eq!(uids, [expected], "the clone's owner");
}

#[test]
fn as_root_a_tree_of_several_owners_is_refused_by_name() {
    let workspace = Workspace::new();
    let foreign = workspace.file("clone/folder/foreign", "x");
    if !is_root() {
        // A user can't make such a tree, and is no more than a user in it.
        assert_eq!(
            workspace.jail().run(&["read", path_str(&foreign)]).ok(),
            "x"
        );
        return;
    }
    chown(&foreign, Some(2_000_000_124), Some(2_000_000_124)).expect("root");
    for jail in [
        workspace.jail_with_out(),
        workspace.jail_with_out().writable(),
    ] {
        let mode_needs_git = workspace.clone_dir().join(".git");
        if !mode_needs_git.exists() {
            common::workspace::make_repository(&workspace.clone_dir());
        }
        let run = jail.refused("owner");
        assert!(
            run.refusal().contains(path_str(&foreign)),
            "the file is named: {run:#?}"
        );
    }
}

#[test]
fn as_root_a_submount_that_cannot_be_mapped_is_refused_by_name() {
    let workspace = Workspace::new();
    let submount = workspace.folder("clone/submount");
    if !is_root() {
        // A user's trees aren't mapped: a submount is as good as any folder.
        let mount = format!("tmpfs:{}", path_str(&submount));
        let file = format!("file:{}/inner:text", path_str(&submount));
        let jail = workspace.jail().in_situation(&["mounts", &mount, &file]);
        assert_eq!(
            jail.run(&["read", &format!("{}/inner", path_str(&submount))])
                .ok(),
            "text"
        );
        return;
    }
    let overlay = format!("overlay:{}", path_str(&submount));
    let run = workspace
        .jail_with_out()
        .in_situation(&["mounts", &overlay])
        .refused("owner");
    assert!(
        run.refusal().contains(path_str(&submount)),
        "the mount is named: {run:#?}"
    );
}
