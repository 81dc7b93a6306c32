//! What the surroundings of a start can plant: a folder, programs, loader
//! variables, inherited state (CVE-2024-21626 and others).

use std::fs;

use nix::sys::resource::{Resource, getrlimit};

use crate::common::host::chmod;
use crate::common::{Workspace, path_str};

#[test]
fn the_folder_is_the_clone_wherever_groom_ns_was_started() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    let deleted = workspace.path("deleted");
    let outside = workspace.unjailed_in(&["deleted-cwd", path_str(&deleted)], &["cwd"]);
    assert_eq!(outside.outcome(), "ENOENT", "vacuous");
    let run = workspace
        .jail()
        .in_situation(&["deleted-cwd", path_str(&deleted)])
        .run(&["cwd"]);
    assert_eq!(run.ok(), path_str(&clone));
    for cwd in ["/", path_str(workspace.root()), "/proc/self"] {
        assert_eq!(
            workspace.jail().cwd(cwd).run(&["cwd"]).ok(),
            path_str(&clone)
        );
    }
    // Without --clone the deleted folder itself would be the clone.
    let run = workspace.jail().flag("--clone", ".");
    run.in_situation(&["deleted-cwd", path_str(&deleted)])
        .run(&["say", "ran"])
        .assert_refused("path");
}

#[test]
fn programs_first_in_path_are_never_run_by_groom_ns() {
    let workspace = Workspace::with_git();
    let (bin, ran) = (workspace.folder("bin"), workspace.path("ran"));
    let names = [
        "git",
        "sh",
        "ip",
        "mount",
        "umount",
        "newuidmap",
        "newgidmap",
        "unshare",
        "nsenter",
        "bash",
        "node",
        "bwrap",
        "id",
        "getent",
    ];
    for name in names {
        let fake = bin.join(name);
        fs::write(
            &fake,
            format!("#!/bin/sh\necho {name} >>{}\n", path_str(&ran)),
        )
        .expect("a fake");
        chmod(&fake, 0o755);
    }
    // The jail itself can't write `ran`: only a run on the host could.
    let control = std::process::Command::new(bin.join("git"))
        .status()
        .expect("a fake");
    assert!(
        control.success() && fs::remove_file(&ran).is_ok(),
        "vacuous"
    );
    let jail = workspace.jail_with_out().writable().host_env("PATH", &bin);
    assert_eq!(jail.run(&["say", "ran"]).ok(), "ran");
    assert!(
        !ran.exists(),
        "{}",
        fs::read_to_string(&ran).unwrap_or_default()
    );
}

#[test]
fn no_helper_is_executed_to_build_the_jail() {
    // The first execution after groom-ns's own is the command's: made to fail,
    // it is the command that can't be executed.
    let workspace = Workspace::with_git();
    let jail = workspace.jail_with_out().writable();
    let run = jail
        .in_situation(&["fail-nth", "execve", "1", "EACCES"])
        .run(&["say", "ran"]);
    assert_eq!(run.code, Some(126), "{run:#?}");
    // No helper went another way either.
    for call in ["execveat", "vfork"] {
        let jail = workspace.jail_with_out().writable();
        let run = jail
            .in_situation(&["fail-nth", call, "1", "EACCES"])
            .run(&["say", "ran"]);
        assert!(run.stderr.contains("probe: 0 calls"), "{call}: {run:#?}");
    }
}

#[test]
fn loader_variables_reach_the_command_only() {
    let workspace = Workspace::new();
    let variables = [
        "LD_PRELOAD=/no/such.so",
        "LD_AUDIT=/no/such.so",
        "NODE_OPTIONS=--no-such",
        "BASH_ENV=/no/such",
        "GLIBC_TUNABLES=glibc.malloc.check=3",
    ];
    let mut jail = workspace.jail();
    for variable in variables {
        jail = jail.flag("--env", variable);
    }
    let run = jail.run(&["env"]);
    for variable in variables {
        assert!(run.lines().contains(&variable), "{variable}: {run:#?}");
    }
    // Planted in groom-ns's own environment they reach nothing.
    let jail = workspace
        .jail()
        .host_env("LD_PRELOAD", "/no/such.so")
        .host_env("RUST_LOG", "trace");
    let run = jail.run(&["env"]);
    assert!(
        !run.stdout.contains("LD_PRELOAD") && run.stderr_but_for_groups().is_empty(),
        "{run:#?}"
    );
}

#[test]
fn inherited_state_is_reset() {
    let workspace = Workspace::new();
    let run = workspace
        .jail()
        .in_situation(&["odd-state"])
        .run(&["state"]);
    let outside = workspace.unjailed_in(&["odd-state"], &["state"]);
    let fields = [
        "umask=22",
        "blocked=0000000000000000",
        "ignored=0000000000000000",
    ];
    for field in fields {
        assert!(!outside.lines().contains(&field), "vacuous: {outside:#?}");
        // Rust's runtime has the probe ignore SIGPIPE (13), which is 0x1000.
        let ours = field.replace("ignored=0000000000000000", "ignored=0000000000001000");
        assert!(run.lines().contains(&ours.as_str()), "{field}: {run:#?}");
    }
    assert!(run.lines().contains(&"cores=1/1"), "{run:#?}");
}

#[test]
fn what_is_inherited_is_what_the_readme_says() {
    let workspace = Workspace::new();
    let plain = workspace.unjailed(&["state"]);
    let outside = workspace.unjailed_in(&["odd-state"], &["state"]);
    let run = workspace
        .jail()
        .host_env("LC_ALL", "C")
        .in_situation(&["odd-state"])
        .run(&["each", "state", "env"]);
    // Niceness and processors are the caller's, the limit of files isn't.
    for (field, is_inherited) in [("nice=", true), ("processors=", true), ("files=", false)] {
        let of = |run: &crate::common::Run| {
            let mut lines = run.lines().into_iter().map(ToOwned::to_owned);
            lines.find(|line| line.starts_with(field))
        };
        if of(&plain) == of(&outside) && field == "processors=" {
            eprintln!("vacuous: there is one processor alone");
        } else {
            assert_ne!(of(&plain), of(&outside), "vacuous");
        }
        assert_eq!(of(&run) == of(&outside), is_inherited, "{field}: {run:#?}");
    }
    assert!(run.lines().contains(&"files=1024"), "{run:#?}");
    assert!(!run.stdout.contains("LC_ALL"), "{run:#?}");
}

#[test]
fn the_command_has_its_own_limit_of_files() {
    // groom-ns raises its own, since it holds every path open that is named.
    let workspace = Workspace::new();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    assert!(hard > 1024, "vacuous: the caller's is {hard}");
    let run = workspace.jail().run_program(&["sh", "-c", "ulimit -Sn"]);
    assert_eq!(run.outcome(), "1024");
}

#[test]
fn the_command_waits_for_pid_1_to_be_confined() {
    let workspace = Workspace::new();
    // Control: of two processes that don't wait for each other, one is executed
    // while the other's umask(2), which is 95, is held.
    let ready = workspace.path("ready");
    let script = format!(
        "(: >{ready}; umask 0) & while [ ! -e {ready} ]; do :; done; \
         i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; exec /bin/true",
        ready = path_str(&ready)
    );
    let control = ["hold-nth", "95", "1", "--", "/bin/sh", "-c", &script];
    let outside = workspace.unjailed(&control);
    let said = outside.stderr.contains("calls, executed meanwhile");
    assert!(said, "vacuous: {outside:#?}");
    // One of the filters is the command's, the other pid 1's, in any order.
    let jail = workspace
        .jail()
        .in_situation(&["hold-nth", "seccomp", "first"]);
    let run = jail.run(&["say", "ran"]);
    assert_eq!(run.ok(), "ran");
    let said = run.stderr_but_for_groups();
    assert_eq!(said.trim_end(), "probe: 2 calls");
}
