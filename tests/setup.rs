//! `groom-ns setup apparmor`: what it prints, writes, runs and takes back.
//!
//! Root's tests work in a mount namespace of their own, with a folder of the test's over
//! /etc/apparmor.d and a stand-in over apparmor_parser that writes down how it was called.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;
#[path = "setup/path.rs"]
mod path;
#[path = "setup/taken_back.rs"]
mod taken_back;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::host::{chmod, program};
use common::jail::{binary, spawn};
use common::{Run, Workspace, finish, is_root, path_str};

const MARK: &str = "# Made by `groom-ns setup apparmor --install`; undone by `--remove`.\n";

/// Where the tests put the binary, in a tmpfs of their own.
const INSTALLED: &str = "/opt/groom-ns";

/// A host with AppArmor, as root's tests pretend one.
struct Host {
    workspace: Workspace,
    profiles: PathBuf,
    calls: PathBuf,
}

impl Host {
    /// `fails`: the parser's exit code.
    fn new(fails: u8) -> Host {
        let workspace = Workspace::new();
        let profiles = workspace.folder("apparmor.d");
        let calls = workspace.path("calls");
        workspace.file("module/apparmor/parameters/enabled", "Y\n");
        let script = format!(
            "#!/bin/sh\n{{ echo \"$0 $*\"; tr '\\0' '\\n' < /proc/$$/environ; pwd; cat \"$2\"; }} >> {}\nexit {fails}\n",
            path_str(&calls)
        );
        let stand_in = workspace.file("stand-in", &script);
        chmod(&stand_in, 0o755);
        Host {
            workspace,
            profiles,
            calls,
        }
    }

    /// A shell line there, in which `$1` is the binary under test.
    fn sh(&self, more: &[String], line: &str) -> Run {
        let parser = program_path("apparmor_parser");
        let bind = |from: &Path, to: &str| format!("bind:{}:{to}", path_str(from));
        let mut situation = vec![
            "mounts".to_owned(),
            "tmpfs:/opt".to_owned(),
            bind(&self.profiles, "/etc/apparmor.d"),
            bind(&self.workspace.path("module"), "/sys/module"),
            bind(&self.workspace.path("stand-in"), &parser),
        ];
        situation.extend_from_slice(more);
        let line = format!("cp \"$1\" {INSTALLED} && {line}");
        let mut command = Command::new(self.workspace.probe());
        command
            .args(&situation)
            .args(["--", "sh", "-c", &line, "sh"]);
        command.arg(binary()).env("CALLERS", "own");
        finish(spawn(&mut command))
    }

    fn setup(&self, flag: &str) -> Run {
        self.sh(&[], &format!("{INSTALLED} setup apparmor {flag}"))
    }

    fn profile(&self) -> PathBuf {
        self.profiles.join("groom-ns")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.profiles).expect("a folder").flatten();
        let names = entries.map(|entry| entry.file_name().into_string().expect("text"));
        names.collect()
    }

    fn calls(&self) -> String {
        fs::read_to_string(&self.calls).unwrap_or_default()
    }
}

fn program_path(name: &str) -> String {
    let path = format!("/usr/sbin/{name}");
    assert!(
        Path::new(&path).is_file(),
        "this test needs {path}: install the package apparmor"
    );
    path
}

fn expected(path: &str) -> String {
    format!(
        "{MARK}abi <abi/4.0>,\ninclude <tunables/global>\n\n\
         profile groom-ns {path} flags=(unconfined) {{\n  userns,\n}}\n"
    )
}

/// The same by another version.
fn older() -> String {
    expected(INSTALLED).replace("abi <abi/4.0>,\n", "# older\n")
}

fn direct(words: &[&str]) -> Run {
    let mut command = Command::new(binary());
    command.args(["setup", "apparmor"]).args(words);
    command.env_remove("GITHUB_ACTIONS");
    finish(spawn(&mut command))
}

#[test]
fn the_profile_is_printed_for_the_binarys_own_path() {
    if !is_root() {
        return refused_to_a_user();
    }
    let host = Host::new(0);
    for flag in ["", "--print"] {
        assert_eq!(host.setup(flag).outcome(), expected(INSTALLED).trim_end());
    }
    // A link is followed, and a normal user may look too.
    let run = host.sh(
        &[],
        &format!(
            "ln -s {INSTALLED} /opt/link && setpriv --reuid=65534 --clear-groups /opt/link setup apparmor"
        ),
    );
    assert_eq!(run.outcome(), expected(INSTALLED).trim_end());
    assert_eq!(host.names(), Vec::<String>::new());
    assert_eq!(host.calls(), "");
}

/// What a normal user gets: not root, and a binary that is its own.
fn refused_to_a_user() {
    for flag in ["--install", "--remove"] {
        let run = direct(&[flag]);
        run.assert_refused("usage");
        let says = format!("sudo groom-ns setup apparmor {flag}");
        assert!(run.refusal().contains(&says), "{run:#?}");
    }
    direct(&["--print"]).assert_refused("path");
}

#[test]
fn the_parser_of_this_host_takes_it() {
    let workspace = Workspace::new();
    // ABI 4.0 and `userns` came together; an older parser is asked about the rest.
    let whole = expected("/usr/local/bin/groom-ns_1.0+x-y");
    let text = if Path::new("/etc/apparmor.d/abi/4.0").exists() {
        whole
    } else {
        whole
            .replace("abi/4.0", "abi/3.0")
            .replace("  userns,\n", "")
    };
    let ask = |text: &str| {
        let file = workspace.file("profile", text);
        let mut parser = Command::new(program_path("apparmor_parser"));
        parser.args(["-Q", "-K"]).arg(file);
        finish(spawn(&mut parser))
    };
    let run = ask(&text);
    assert_eq!(run.code, Some(0), "{run:#?}");
    // Control: it reads what it is given.
    let run = ask(&text.replace("groom-ns_", "groom ns_"));
    assert_ne!(run.code, Some(0), "vacuous: {run:#?}");
}

#[test]
fn it_is_installed_and_removed() {
    if !is_root() {
        return refused_to_a_user();
    }
    let host = Host::new(0);
    let run = host.setup("--install");
    assert_eq!(run.code, Some(0), "{run:#?}");
    let parser = program_path("apparmor_parser");
    let file = "/etc/apparmor.d/groom-ns";
    assert_eq!(
        run.stderr,
        format!("groom-ns: writes {file}\ngroom-ns: runs {parser} -r {file}\n")
    );
    let written = fs::read_to_string(host.profile()).expect("the profile");
    assert_eq!(written, expected(INSTALLED));
    assert_eq!(host.names(), ["groom-ns"], "nothing beside it");
    // The file was there when the parser ran, which got an empty environment.
    let call = format!("{parser} -r {file}\n/\n{written}");
    assert_eq!(host.calls(), call);

    // Again, and as a later version with another text would.
    fs::write(host.profile(), older()).expect("a file");
    assert_eq!(host.setup("--install").code, Some(0));
    assert_eq!(fs::read_to_string(host.profile()).expect("a file"), written);

    fs::remove_file(&host.calls).expect("calls");
    let run = host.setup("--remove");
    assert_eq!(
        run.stderr,
        format!("groom-ns: runs {parser} -R {file}\ngroom-ns: removes {file}\n")
    );
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(host.names(), Vec::<String>::new());
    assert!(host.calls().starts_with(&format!("{parser} -R {file}\n")));
    // Once more: there is nothing, which is said.
    let run = host.setup("--remove");
    assert_eq!(run.code, Some(0));
    assert_eq!(run.stderr, format!("groom-ns: {file} isn't there\n"));
}

/// Kind, owner and inode of what lies there, not of what it leads to.
fn state(path: &Path) -> (u64, u32, u32) {
    let meta = path.symlink_metadata().expect("it is there");
    (meta.ino(), meta.mode(), meta.uid())
}

#[test]
fn nobody_elses_file_is_touched() {
    if !is_root() {
        return refused_to_a_user();
    }
    let host = Host::new(0);
    let foreign = host.workspace.file("foreign", "profile groom-ns /x {}\n");
    let marked = host.workspace.file("marked", MARK);
    let makes: [&dyn Fn(&Path); 5] = [
        &|at| {
            fs::copy(&foreign, at).expect("a file");
        },
        &|at| symlink(&marked, at).expect("a link"),
        &|at| symlink("/no/such", at).expect("a link"),
        &|at| fs::create_dir(at).expect("a folder"),
        &|at| nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO"),
    ];
    for make in makes {
        make(&host.profile());
        let before = state(&host.profile());
        for flag in ["--install", "--remove"] {
            let run = host.setup(flag);
            run.assert_refused("path");
            assert!(
                run.refusal().contains("/etc/apparmor.d/groom-ns"),
                "{run:#?}"
            );
        }
        assert_eq!(before, state(&host.profile()));
        assert_eq!(host.calls(), "");
        let _ = fs::remove_file(host.profile()).or_else(|_| fs::remove_dir(host.profile()));
    }
    assert_eq!(fs::read_to_string(&marked).expect("a file"), MARK);
}

#[test]
fn a_binary_that_others_could_replace_is_not_blessed() {
    if !is_root() {
        return refused_to_a_user();
    }
    let host = Host::new(0);
    let run = |make: &str, path: &str, flag: &str| {
        host.sh(
            &[],
            &format!("{{ {make}; }} && '{path}' setup apparmor {flag}"),
        )
    };
    for (make, path, blamed) in [
        ("chmod 1777 /opt", "/opt/groom-ns", "/opt"),
        ("chmod 775 /opt", "/opt/groom-ns", "/opt"),
        ("chmod 757 /opt/groom-ns", "/opt/groom-ns", "/opt/groom-ns"),
        (
            "chown 65534 /opt/groom-ns",
            "/opt/groom-ns",
            "/opt/groom-ns",
        ),
        (
            "mkdir /opt/a && chown 65534 /opt/a && mv /opt/groom-ns /opt/a",
            "/opt/a/groom-ns",
            "/opt/a",
        ),
        // What would be a pattern, or two words.
        (
            "mkdir '/opt/a b' && mv /opt/groom-ns '/opt/a b'",
            "/opt/a b/groom-ns",
            "/opt/a b",
        ),
        (
            "mv /opt/groom-ns '/opt/groom-ns*'",
            "/opt/groom-ns*",
            "/opt/groom-ns*",
        ),
        ("mv /opt/groom-ns '/opt/{x,y}'", "/opt/{x,y}", "/opt/{x,y}"),
    ] {
        for flag in ["--print", "--install"] {
            let refused = run(make, path, flag);
            refused.assert_refused("path");
            assert!(
                refused.refusal().contains(&format!(": {blamed}")),
                "{refused:#?}"
            );
            assert_eq!(refused.stdout, "");
            let leads_to = |words: &str| refused.refusal().contains(words);
            let is_folder = ["/opt", "/opt/a"].contains(&blamed);
            let elsewhere =
                leads_to("install groom-ns /usr/bin/") && leads_to("`sudo groom-ns run`");
            assert_eq!(elsewhere, is_folder, "{refused:#?}");
        }
    }
    assert_eq!(host.names(), Vec::<String>::new());
    assert_eq!(host.calls(), "");
    // Control: without that it is taken.
    assert_eq!(run("true", INSTALLED, "--install").code, Some(0), "vacuous");
}

#[test]
fn a_host_without_apparmor() {
    if !is_root() {
        return refused_to_a_user();
    }
    let host = Host::new(0);
    let enabled = host.workspace.path("module/apparmor/parameters/enabled");
    fs::write(&enabled, "N\n").expect("a file");
    let run = host.setup("--install");
    run.assert_refused("setup");
    assert!(run.refusal().contains("no active AppArmor"), "{run:#?}");
    assert_eq!(host.names(), Vec::<String>::new());
    // What an earlier kernel loaded can still be removed: nothing is to be unloaded.
    fs::write(host.profile(), expected(INSTALLED)).expect("a file");
    assert_eq!(host.setup("--remove").code, Some(0));
    assert_eq!((host.names().len(), host.calls()), (0, String::new()));
    // A folder that others can write to, or none.
    fs::write(&enabled, "Y\n").expect("a file");
    chmod(&host.profiles, 0o777);
    host.setup("--install").assert_refused("path");
    // A parser that isn't root's.
    chmod(&host.profiles, 0o755);
    chmod(&host.workspace.path("stand-in"), 0o777);
    host.setup("--install").assert_refused("path");
    assert_eq!((host.names().len(), host.calls()), (0, String::new()));
}

#[test]
fn a_refused_run_on_ubuntu_leads_here() {
    let workspace = Workspace::new();
    let sysctls = workspace.folder("kernel");
    let mut cp = program("cp", "coreutils");
    for name in ["core_pattern", "overflowuid", "overflowgid", "cap_last_cap"] {
        let from = Path::new("/proc/sys/kernel").join(name);
        assert!(cp.arg(from).arg(&sysctls).status().expect("cp").success());
        cp = program("cp", "coreutils");
    }
    let start = |value: &str| {
        workspace.file("kernel/apparmor_restrict_unprivileged_userns", value);
        let cover = format!("bind:{}:/proc/sys/kernel", path_str(&sysctls));
        let probe = workspace.probe();
        let denied = [path_str(&probe), "deny-syscall", "sethostname", "EPERM"];
        let situation = [&["mounts", &cover, "--"][..], &denied].concat();
        workspace
            .jail_with_out()
            .in_situation(&situation)
            .refused("userns")
    };
    let remedy = "`sudo groom-ns setup apparmor --install`";
    let run = start("1\n");
    assert!(run.refusal().contains(remedy), "{run:#?}");
    // Control: where AppArmor isn't to blame it isn't named.
    let run = start("0\n");
    assert!(!run.refusal().contains("AppArmor"), "{run:#?}");
}

#[test]
fn command_lines() {
    for words in [
        &["--print", "--install"][..],
        &["--install", "--remove"],
        &["--print", "--remove"],
        &["x"],
    ] {
        direct(words).assert_refused("usage");
    }
    let mut command = Command::new(binary());
    command.arg("setup").env_remove("GITHUB_ACTIONS");
    finish(spawn(&mut command)).assert_refused("usage");
    let run = direct(&["--install", "--remove", "--json-errors"]);
    let refusal: serde_json::Value = serde_json::from_str(&run.stderr).expect("JSON");
    assert_eq!(refusal["reason"], "usage");
}
