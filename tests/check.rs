//! `groom-ns check` says of a host what `groom-ns run` does there, and changes nothing.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use serde_json::Value;

use common::host::{chmod, processes_named};
use common::jail::{binary, spawn};
use common::workspace::snapshot;
use common::{Run, Workspace, finish, is_root, path_str};

/// groom-ns in a surrounding that the probe makes, with `dir` as the current folder.
fn groom(workspace: &Workspace, dir: &str, situation: &[&str], words: &[&str]) -> Run {
    let mut command = if situation.is_empty() {
        Command::new(binary())
    } else {
        let mut command = Command::new(workspace.probe());
        command.args(situation).arg("--").arg(binary());
        command
    };
    command.args(words).current_dir(dir);
    command.env_remove("GITHUB_ACTIONS");
    finish(spawn(&mut command))
}

fn report(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {run:#?}"))
}

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().expect("rows")
}

fn row<'report>(report: &'report Value, name: &str) -> &'report Value {
    let mut rows = rows(report).iter();
    rows.find(|row| row["name"] == name).expect(name)
}

/// The refusal of a run, and the rows of a check, in the same surrounding.
fn both(workspace: &Workspace, dir: &str, situation: &[&str]) -> (Option<Value>, Value) {
    let run = groom(
        workspace,
        dir,
        situation,
        &["run", "--json-errors", "--", "true"],
    );
    let check = groom(workspace, dir, situation, &["check", "--json"]);
    assert_eq!(
        run.code, check.code,
        "{situation:?}: they end alike: {run:#?} {check:#?}"
    );
    let refusal = run
        .stderr
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    assert_eq!(refusal.is_some(), run.code == Some(125), "{run:#?}");
    (refusal, report(&check))
}

/// A run is refused for `reason`, and the check has it in the row `name`, in the same
/// words; the row of the whole jail isn't the only one that knows.
fn agree(workspace: &Workspace, dir: &str, situation: &[&str], reason: &str, name: &str) {
    let (refusal, report) = both(workspace, dir, situation);
    let refusal = refusal.unwrap_or_else(|| panic!("vacuous: {situation:?} is no obstacle"));
    assert_eq!(refusal["reason"], reason, "{situation:?}: {refusal}");
    assert_eq!(report["can_run"], false, "{report:#}");
    assert_eq!(report["reason"], reason, "{report:#}");
    let row = row(&report, name);
    assert_eq!(row["verdict"], "missing", "{situation:?}: {report:#}");
    assert_eq!(row["reason"], reason, "{situation:?}: {row}");
    assert_eq!(
        row["remedy"].as_str().unwrap_or_default(),
        refusal["remedy"],
        "{situation:?}: one fact has one remedy"
    );
}

#[test]
fn where_runs_work() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    let (refusal, report) = both(&workspace, path_str(&clone), &[]);
    assert_eq!(refusal, None);
    assert_eq!(report["can_run"], true);
    assert_eq!(report["reason"], Value::Null);
    for row in rows(&report) {
        let verdict = row["verdict"].as_str().expect("a verdict");
        // A user maps no mounts by ids.
        let untried = row["name"] == "id-mapped-mounts" && !is_root();
        assert_eq!(verdict == "untried", untried, "{row}");
        assert_ne!(verdict, "missing", "{row}");
        assert_eq!(verdict == "degraded", row["remedy"].is_string(), "{row}");
    }
    // The table has the same rows, and the same last word.
    let text = groom(&workspace, path_str(&clone), &[], &["check"]);
    assert_eq!(text.code, Some(0));
    assert_eq!(text.stdout.lines().last(), Some("groom-ns can run here"));
    for row in rows(&report) {
        let name = row["name"].as_str().expect("a name");
        let mut lines = text.stdout.lines();
        let line = lines.find(|line| line.starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name}: {text:#?}"));
        assert!(
            line.contains(row["verdict"].as_str().expect("text")),
            "{line}"
        );
    }
}

#[test]
fn namespaces_that_are_forbidden() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    // The flags of the clone(2) that makes pid 1.
    let all = ["deny-syscall", "clone:0:0x7e021011", "EPERM"];
    for (situation, reason, name) in [
        (&["no-userns"][..], "userns", "user-namespace"),
        (&all, "userns", "all-namespaces"),
        (
            &["deny-syscall", "sethostname", "EPERM"],
            "userns",
            "capabilities",
        ),
        (&["mounts", "read-only:/proc"], "maps", "id-maps"),
        (&["deny-syscall", "socket:0:16", "EPERM"], "net", "loopback"),
    ] {
        agree(&workspace, path_str(&clone), situation, reason, name);
    }
}

#[test]
fn mounts_that_are_forbidden() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    for (situation, reason, name) in [
        (&["mounts", "tmpfs:/proc/tty"][..], "proc", "procfs"),
        (&["foreign-proc"], "proc", "host-proc"),
        (&["deny-syscall", "fsopen", "EPERM"], "mount", "tmpfs"),
        (&["deny-syscall", "move_mount", "EPERM"], "mount", "tmpfs"),
        (
            &["deny-syscall", "mount_setattr", "EPERM"],
            "mount",
            root_or("id-mapped-mounts", "tmpfs"),
        ),
        (
            &["deny-syscall", "open_tree", "EPERM"],
            "mount",
            root_or("id-mapped-mounts", "bind-mounts"),
        ),
        (
            &["deny-syscall", "pivot_root", "EPERM"],
            "mount",
            "pivot-root",
        ),
    ] {
        agree(&workspace, path_str(&clone), situation, reason, name);
    }
}

fn root_or(root: &'static str, user: &'static str) -> &'static str {
    if is_root() { root } else { user }
}

#[test]
fn what_the_command_would_do_to_itself() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    let mut situations = Vec::new();
    for errno in ["ENOSYS", "EOPNOTSUPP", "EPERM"] {
        situations.push((
            ["deny-syscall", "landlock_create_ruleset", errno],
            "landlock",
        ));
    }
    for call in ["landlock_add_rule", "landlock_restrict_self"] {
        situations.push((["deny-syscall", call, "EPERM"], "landlock"));
    }
    for errno in ["ENOSYS", "EINVAL", "EPERM"] {
        situations.push((["deny-syscall", "seccomp", errno], "seccomp"));
    }
    for (situation, name) in situations {
        agree(&workspace, path_str(&clone), &situation, name, name);
    }
    // PR_CAPBSET_DROP and capset(2).
    for call in ["prctl:0:24", "capset"] {
        let denied = ["deny-syscall", call, "EPERM"];
        agree(
            &workspace,
            path_str(&clone),
            &denied,
            "caps",
            "capability-drop",
        );
    }
}

#[test]
fn the_caller_and_the_host() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    let pattern = workspace.file("piped", "|/no/such/handler %p\n");
    let cover = format!("bind:{}:/proc/sys/kernel/core_pattern", path_str(&pattern));
    let cores = [
        "mounts",
        &cover,
        "--",
        "sh",
        "-c",
        "ulimit -c 0; exec \"$@\"",
    ];
    for (situation, reason, name) in [
        (&cores[..], "limits", "core-dumps"),
        (&["uname26"], "kernel", "kernel"),
        (
            &["deny-syscall", "getgroups", "EPERM"],
            "identity",
            "groups",
        ),
        (&["deny-syscall", "pidfd_open", "EPERM"], "setup", "pidfds"),
        // What a run does first; nothing else is tried then.
        (&["deny-syscall", "prlimit64", "EPERM"], "setup", "caller"),
    ] {
        agree(&workspace, path_str(&clone), situation, reason, name);
    }
    // A folder that can't be the clone doesn't hide the rest.
    agree(&workspace, "/", &[], "path", "clone");
    let (_, report) = both(&workspace, "/", &[]);
    assert_eq!(row(&report, "pivot-root")["verdict"], "ok");
}

#[test]
fn what_root_alone_meets() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    let overlay = format!("overlay:{}", path_str(&clone));
    // The current folder lies below the overlay until it is entered anew.
    let enter = format!("cd {} && exec \"$@\"", path_str(&clone));
    let overlay = ["mounts", &overlay, "--", "sh", "-c", &enter];
    if is_root() {
        agree(&workspace, path_str(&clone), &overlay, "owner", "clone");
        let groups = ["deny-syscall", "setgroups", "EPERM"];
        agree(&workspace, path_str(&clone), &groups, "identity", "id-maps");
    } else {
        // Neither is in a user's way.
        let (refusal, report) = both(
            &workspace,
            path_str(&clone),
            &["deny-syscall", "setgroups", "EPERM"],
        );
        assert_eq!(refusal, None);
        assert_eq!(report["can_run"], true);
    }
}

/// What the caller left open can't be closed: runs are refused, and the rest is tried.
#[test]
fn what_is_missing_first_does_not_hide_the_rest() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    let situation = ["deny-syscall", "close_range", "EPERM"];
    agree(&workspace, path_str(&clone), &situation, "setup", "caller");
    let (_, report) = both(&workspace, path_str(&clone), &situation);
    for name in ["kernel", "user-namespace", "procfs", "seccomp", "pidfds"] {
        assert_eq!(row(&report, name)["verdict"], "ok", "{report:#}");
    }
}

#[test]
fn for_a_set_user_id_start_nothing_is_tried() {
    let workspace = Workspace::new();
    let (copy, _) = workspace.named_binary();
    if is_root() {
        chown(&copy, Some(2_000_000_126), None).expect("root");
    }
    chmod(&copy, 0o4755);
    let mut command = Command::new(&copy);
    command.args(["check", "--json"]);
    command.current_dir(workspace.clone_dir());
    let run = finish(spawn(&mut command));
    let report = report(&run);
    let tried = rows(&report)
        .iter()
        .filter(|row| row["verdict"] != "untried");
    if is_root() {
        assert_eq!(run.code, Some(125), "{run:#?}");
        assert_eq!(report["reason"], "identity");
        assert_eq!(
            tried.map(|row| &row["name"]).collect::<Vec<_>>(),
            ["caller"]
        );
    } else {
        // Control: of the caller's own file the bit changes nothing.
        assert_eq!(run.code, Some(0), "{run:#?}");
        assert!(tried.count() > 30);
    }
}

#[test]
fn limits_are_no_obstacle() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    for (situation, name) in [
        (&["deny-syscall", "mlock", "EPERM"][..], "locked-memory"),
        (&["mounts", "tmpfs:/sys/fs/cgroup"], "cgroups"),
    ] {
        let (refusal, report) = both(&workspace, path_str(&clone), situation);
        assert_eq!(refusal, None, "{situation:?}");
        let row = row(&report, name);
        assert_eq!(row["verdict"], "degraded", "{row}");
        assert!(row["remedy"].is_string(), "{row}");
    }
}

#[test]
fn nothing_is_changed_or_left() {
    let workspace = Workspace::new();
    let (copy, name) = workspace.named_binary();
    let state = || {
        let table = fs::read_to_string("/proc/self/mountinfo").expect("/proc");
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("/proc");
        let limit = fs::read_to_string("/proc/sys/user/max_user_namespaces").expect("/proc");
        (table, host, limit, snapshot(workspace.root()))
    };
    let before = state();
    for words in [&["check"][..], &["check", "--json"]] {
        let mut command = Command::new(&copy);
        command.args(words).current_dir(workspace.clone_dir());
        let run = finish(spawn(&mut command));
        assert_eq!(run.code, Some(0), "vacuous: {run:#?}");
        assert_eq!(
            run.stderr, "",
            "a check that succeeds says nothing beside its table"
        );
    }
    assert!(before == state(), "the host is as it was");
    assert_eq!(processes_named(&name), Vec::<i32>::new());
}

#[test]
fn a_command_line_that_is_wrong() {
    let workspace = Workspace::new();
    let run = groom(&workspace, "/", &[], &["check", "--fix"]);
    run.assert_refused("usage");
    assert!(run.refusal().contains("check --help"), "{run:#?}");
}
