//! Secrets of the launcher in /proc (bubblewrap#503, #725; gh-aw-firewall#620).

use std::fmt::Write as _;

use crate::common::host::unique;
use crate::common::{Workspace, path_str};

/// As the probe's `scan` takes a needle: the complement of each byte.
fn masked(needle: &str) -> String {
    needle.bytes().fold(String::new(), |mut hex, byte| {
        write!(hex, "{:02x}", !byte).expect("a string takes text");
        hex
    })
}

/// How many files were searched, and in which the needle was.
fn places(found: &str) -> (usize, Vec<String>) {
    let (head, list) = found
        .split_once(": ")
        .unwrap_or((found.trim_end_matches(':'), ""));
    let files = head
        .split(' ')
        .nth(2)
        .and_then(|n| n.parse().ok())
        .expect("a count");
    (
        files,
        list.split_whitespace().map(ToOwned::to_owned).collect(),
    )
}

#[test]
fn the_launchers_environment_is_nowhere() {
    let workspace = Workspace::new();
    let canary = unique("canary-env");
    let masked = masked(&canary);
    let run = workspace
        .jail()
        .host_env("CANARY", &canary)
        .run(&["scan", &masked]);
    let (files, found) = places(run.ok());
    assert!(files >= 5, "few files could be searched: {run:#?}");
    assert_eq!(found, [""; 0]);
    // Control: outside, the probe finds it in its own environment.
    let mut outside = std::process::Command::new(workspace.probe());
    let outside = outside
        .args(["scan-self", &masked])
        .env("CANARY", &canary)
        .output()
        .expect("the probe");
    let text = String::from_utf8_lossy(&outside.stdout);
    let (_, found) = places(text.trim_end().strip_prefix("ok ").expect("an outcome"));
    assert!(
        found.iter().any(|place| place.ends_with("/environ")),
        "vacuous: {found:?}"
    );
}

#[test]
fn a_variable_that_was_asked_for_is_in_the_command_alone() {
    let workspace = Workspace::new();
    let canary = unique("canary-asked");
    let jail = || {
        workspace
            .jail()
            .host_env("ASKED", &canary)
            .flag("--env", "ASKED")
    };
    assert!(
        jail()
            .run(&["env"])
            .lines()
            .contains(&format!("ASKED={canary}").as_str())
    );
    // `env -i` takes it away before the search: then it is nowhere.
    let probe = workspace.probe();
    let argv = ["env", "-i", path_str(&probe), "scan", &masked(&canary)];
    let run = jail().run_program(&argv);
    let (_, found) = places(run.ok());
    assert_eq!(found, [""; 0], "{run:#?}");
}

#[test]
fn an_argument_of_the_launcher_is_nowhere() {
    let workspace = Workspace::new();
    let canary = unique("canary-argv");
    // --env KEY=VALUE stands in groom-ns's own command line.
    let jail = workspace.jail().flag("--env", format!("GIVEN={canary}"));
    let probe = workspace.probe();
    let argv = ["env", "-i", path_str(&probe), "scan", &masked(&canary)];
    let run = jail.run_program(&argv);
    let (_, found) = places(run.ok());
    assert_eq!(found, [""; 0], "{run:#?}");
}

#[test]
fn the_first_processs_command_line_is_empty() {
    let workspace = Workspace::new();
    let run = workspace.jail().run_program(&["cat", "/proc/1/cmdline"]);
    let text = run.stdout.replace('\0', "");
    assert_eq!(text, "", "argv of the launcher, in /proc/1/cmdline");
}
