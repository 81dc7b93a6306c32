//! Where a receipt may lie, and that it appears whole or not at all.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::made::{Made, names};
use crate::common::host::{chmod, path_str, program};
use crate::common::jail::{Jail, finish, wait_for_line};

#[test]
fn it_lies_in_nothing_that_the_command_sees() {
    let made = Made::new();
    let shown = made.workspace.folder("shown");
    let clone = made.workspace.clone_dir();
    let jail = || {
        let jail = made.workspace.jail_with_out();
        jail.flag("--ro-file", &shown)
    };
    fs::create_dir(made.workspace.out_dir()).unwrap();
    // A link on the way, which the command may have made.
    symlink(made.kept(), clone.join("link")).unwrap();
    symlink(&clone, made.kept().join("to-clone")).unwrap();
    for path in [
        clone.join("r"),
        made.workspace.out_dir().join("r"),
        shown.join("r"),
        clone.join("link/r"),
        made.kept().join("to-clone/r"),
        "/etc/groom-ns-receipt".into(),
    ] {
        let run = jail().flag("--receipt", &path).refused("receipt");
        assert!(run.refusal().contains("--receipt"), "{run:#?}");
        assert!(!path.exists(), "{path:?}");
    }
    let control = jail().flag("--receipt", made.file()).run(&["say", "ran"]);
    assert_eq!(control.code, Some(0), "vacuous: {control:#?}");
}

#[test]
fn what_is_no_place_for_it_is_refused() {
    let made = Made::new();
    let kept = made.kept();
    let text = made.workspace.file("kept/text", "mine\n");
    symlink(&text, kept.join("link")).unwrap();
    symlink("nowhere", kept.join("dangling")).unwrap();
    let fifo = kept.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [
        text.clone(),
        kept.join("link"),
        kept.join("dangling"),
        fifo,
        kept.clone(),
        kept.join("absent/r"),
        "/proc/self/r".into(),
        format!("{}/r/", path_str(&kept)).into(),
    ] {
        made.workspace
            .jail()
            .flag("--receipt", &path)
            .refused("receipt");
    }
    assert_eq!(fs::read_to_string(&text).unwrap(), "mine\n");
    assert_eq!(names(&kept), ["dangling", "fifo", "link", "text"]);
}

#[test]
fn it_is_not_the_log_of_the_broker() {
    let made = Made::new();
    let key = made.workspace.file("kept/key", "sk-0123456789abcdef");
    let log = |file: &Path| {
        made.jail()
            .flag("--broker", "anthropic")
            .flag("--key-file", &key)
            .flag("--broker-log", file)
    };
    log(&made.file()).refused("receipt");
    // By another path to its folder.
    let twin = made.workspace.folder("twin");
    let bind = format!("bind:{}:{}", path_str(&made.kept()), path_str(&twin));
    for (file, code) in [("receipt.json", 125), ("log", 0)] {
        let jail = log(&twin.join(file)).in_situation(&["mounts", &bind]);
        let run = jail.switch("--plan").run(&["say", "x"]);
        assert_eq!(run.code, Some(code), "{file}: {run:#?}");
    }
    let control = log(&made.kept().join("log")).switch("--plan");
    assert_eq!(control.run(&["say", "x"]).code, Some(0), "vacuous");
}

/// A run that is refused, for reasons that are found early and late.
fn refusals(made: &Made) -> Vec<(Jail, &'static str)> {
    let absent = made.workspace.path("absent");
    let clone = made.workspace.clone_dir();
    let profile = |name: &str, text: &str| {
        let path = made.workspace.file(name, text);
        chmod(&path, 0o600);
        made.jail().flag("--profile", path)
    };
    vec![
        (made.jail().flag("--profile", &absent), "path"),
        (profile("conf/typo.toml", "outdir = 'x'"), "usage"),
        (profile("conf/broken.toml", "= [ \0"), "usage"),
        (profile("clone/strange.toml", "env = []"), "path"),
        (
            profile("conf/uds.toml", "uds = 'x'").flag("--broker", "anthropic"),
            "usage",
        ),
        (made.jail().flag("--shim-port", "8080"), "usage"),
        (made.jail().flag("--clone", &absent), "path"),
        (made.jail().flag("--out-dir", &clone), "overlap"),
        (made.jail().flag("--env", "UNSET_VARIABLE"), "usage"),
        (made.jail().flag("--status-fd", "2"), "usage"),
        (
            made.jail()
                .in_situation(&["deny-syscall", "mount_setattr", "EPERM"]),
            "mount",
        ),
        // What can't be read back is refused, too.
        (
            made.jail()
                .in_situation(&["deny-syscall", "readlink", "EACCES"]),
            "receipt",
        ),
    ]
}

#[test]
fn a_refused_run_leaves_none_and_the_last_runs_is_gone() {
    let made = Made::new();
    for (number, (jail, code)) in refusals(&made).into_iter().enumerate() {
        made.good();
        assert_eq!(names(&made.kept()), ["receipt.json"]);
        let run = jail.run(&["say", "ran"]);
        run.assert_refused(code);
        assert_eq!(names(&made.kept()), [""; 0], "{number}: {run:#?}");
    }
    // What plans does nothing.
    made.good();
    let run = made.jail().switch("--plan").run(&["say", "ran"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(names(&made.kept()), ["receipt.json"]);
    for plan in ["--plan", "--plan=json"] {
        made.jail()
            .switch(plan)
            .flag("--profile", "/absent")
            .refused("path");
        assert_eq!(names(&made.kept()), ["receipt.json"]);
    }
    // Nor does a line of which not even the flags are known.
    made.jail().switch("--no-such-flag").refused("usage");
    assert_eq!(names(&made.kept()), ["receipt.json"]);
}

#[test]
fn nothing_is_removed_that_the_clone_chooses_or_the_command_sees() {
    let made = Made::new();
    made.good();
    let text = fs::read(made.file()).unwrap();
    let clone = made.workspace.clone_dir();
    let out = made.workspace.folder("out");
    let elsewhere = made.workspace.folder("elsewhere");
    for folder in [&clone, &out] {
        symlink(made.kept(), folder.join("kept")).unwrap();
    }
    let own = ["clone/r", "out/r", "shown/r"].map(|name| made.workspace.file(name, ""));
    for receipt in &own {
        fs::write(receipt, &text).unwrap();
    }
    let bind = format!("bind:{}:{}", path_str(&clone), path_str(&elsewhere));
    let refused = |receipt: &Path, code: &str| {
        let jail = made.workspace.jail_with_out();
        let jail = jail.in_situation(&["mounts", &bind]);
        let jail = jail.flag("--ro-file", made.workspace.path("shown"));
        jail.flag("--receipt", receipt).refused(code);
    };
    for receipt in &own {
        refused(receipt, "receipt");
        assert_eq!(fs::read(receipt).unwrap(), text, "{receipt:?}");
    }
    refused(&elsewhere.join("r"), "receipt");
    assert_eq!(fs::read(&own[0]).unwrap(), text, "by a bind mount");
    for folder in [&clone, &out, &elsewhere] {
        refused(&folder.join("kept/receipt.json"), "receipt");
        assert_eq!(fs::read(made.file()).unwrap(), text, "{folder:?}");
    }
    // A profile that lies in the clone chooses nothing either.
    let line = format!("receipt = '{}'", path_str(&made.file()));
    let by_profile = |name: &str| {
        let profile = made.workspace.file(name, &line);
        chmod(&profile, 0o600);
        let jail = made.workspace.jail().flag("--profile", profile);
        jail.flag("--env", "UNSET_VARIABLE")
    };
    by_profile("clone/p.toml").refused("path");
    assert_eq!(fs::read(made.file()).unwrap(), text);
    by_profile("conf/p.toml").refused("usage");
    assert_eq!(names(&made.kept()), [""; 0], "vacuous");
}

#[test]
fn the_next_run_replaces_it() {
    let made = Made::new();
    let first = made.good();
    let second = made.good();
    assert_ne!(first["times"]["started"], second["times"]["started"]);
    let meta = fs::metadata(made.file()).unwrap();
    assert_eq!(meta.nlink(), 1);
    assert_eq!(meta.permissions().mode() & 0o7777 & !0o644, 0);
}

/// Starts a run that waits, lets `change` happen, and has it exit with `code`.
fn meanwhile(made: &Made, code: u8, change: impl FnOnce()) -> crate::common::Run {
    let argv = [
        "sh".to_owned(),
        "-c".to_owned(),
        format!("echo ready; read line; exit {code}"),
    ];
    let mut child = made
        .jail()
        .stdio(0, std::process::Stdio::piped())
        .command(&argv)
        .spawn()
        .unwrap();
    wait_for_line(&mut child, "ready");
    change();
    drop(child.stdin.take());
    finish(child)
}

#[test]
fn a_link_that_comes_meanwhile_is_not_followed() {
    let made = Made::new();
    let victim = made.workspace.file("victim", "mine\n");
    let run = meanwhile(&made, 0, || symlink(&victim, made.file()).unwrap());
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    assert!(fs::symlink_metadata(made.file()).unwrap().is_file());
    assert_eq!(names(&made.kept()), ["receipt.json"]);
}

#[test]
fn one_that_cannot_be_written_is_no_success() {
    let made = Made::new();
    for (own, code) in [(0, 1), (3, 3)] {
        fs::create_dir_all(made.kept()).unwrap();
        let run = meanwhile(&made, own, || fs::remove_dir(made.kept()).unwrap());
        assert_eq!(run.code, Some(code), "{run:#?}");
        assert!(
            run.stderr.contains("groom-ns: the receipt is lost: openat"),
            "{run:#?}"
        );
    }
}

#[test]
fn a_full_disk_leaves_none() {
    let made = Made::new();
    // A file may have 512 or 1024 bytes: what a full disk does to it.
    let mut limited = program("sh", "dash");
    limited.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]);
    let inner = made.jail().command(&["true"]);
    limited.arg(inner.get_program()).args(inner.get_args());
    let run = finish(crate::common::jail::spawn(&mut limited));
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(
        run.stderr.contains("the receipt is lost: write"),
        "{run:#?}"
    );
    assert_eq!(names(&made.kept()), [""; 0]);
}

#[test]
fn a_killed_groom_ns_leaves_none() {
    let made = Made::new();
    let argv = ["sh", "-c", "echo ready; exec sleep 1000"];
    let mut child = made.jail().command(&argv).spawn().unwrap();
    wait_for_line(&mut child, "ready");
    child.kill().unwrap();
    let run = finish(child);
    assert_eq!(run.code, None, "{run:#?}");
    assert_eq!(names(&made.kept()), [""; 0]);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_refused() {
    if crate::common::is_root() {
        // Root writes everywhere; a read-only mount is what stops it.
        return read_only_mount();
    }
    let made = Made::new();
    chmod(&made.kept(), 0o500);
    made.jail().refused("receipt");
    chmod(&made.kept(), 0o700);
    made.good();
}

fn read_only_mount() {
    let made = Made::new();
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
    let mut command: Command = program("unshare", "util-linux");
    command
        .args(["--mount", "sh", "-c", script])
        .arg(made.kept());
    let inner = made.jail().command(&["true"]);
    command.arg(inner.get_program()).args(inner.get_args());
    let run = finish(crate::common::jail::spawn(&mut command));
    run.assert_refused("receipt");
    assert!(run.refusal().contains("EROFS"), "{run:#?}");
}
