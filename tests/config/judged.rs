//! A value of a profile that its flag's own judge refuses is named with its line.

use std::path::Path;
use std::process::Command;

use crate::common::jail::{binary, spawn};
use crate::common::{Run, Workspace, finish, path_str};
use crate::profile::write;

fn run(workspace: &Workspace, profile: Option<&Path>, words: &[&str]) -> Run {
    let mut command = Command::new(binary());
    command.arg("run").args(words).current_dir(workspace.root());
    command
        .env_remove("GITHUB_ACTIONS")
        .env_remove("NO_SUCH_VARIABLE");
    if let Some(profile) = profile {
        command.arg("--profile").arg(profile);
    }
    finish(spawn(command.args(["--", "echo", "ran"])))
}

/// A line of a profile, the same typed, and the reason of both refusals.
const WRONG: [(&str, &str, &str); 12] = [
    ("memory = 'lots'", "--memory=lots", "usage"),
    ("pids = 0", "--pids=0", "usage"),
    ("timeout = '0'", "--timeout=0", "usage"),
    ("env = ['A B=1']", "--env=A B=1", "usage"),
    (
        "env = ['NO_SUCH_VARIABLE']",
        "--env=NO_SUCH_VARIABLE",
        "usage",
    ),
    ("ro-file = ['/nowhere']", "--ro-file=/nowhere", "path"),
    ("out-dir = '/nowhere/new'", "--out-dir=/nowhere/new", "path"),
    ("clone = '/'", "--clone=/", "path"),
    ("uds = '/nowhere'", "--uds=/nowhere", "socket"),
    ("receipt = '/nowhere/r'", "--receipt=/nowhere/r", "receipt"),
    ("status-fd = 1", "--status-fd=1", "usage"),
    ("status-fd = 77", "--status-fd=77", "receipt"),
];

#[test]
fn each_is_named_with_its_line() {
    let workspace = Workspace::new();
    for (key, typed, reason) in WRONG {
        let clone = if key.starts_with("clone") {
            "#"
        } else {
            "clone = 'clone'"
        };
        let text = format!("{clone}\n\n{key}\n");
        let profile = write(&workspace, "p.toml", text);
        let refused = run(&workspace, Some(&profile), &[]);
        refused.assert_refused(reason);
        let place = format!("{}:3", path_str(&profile));
        let said = refused.refusal();
        assert!(said.contains(&place), "{refused:#?}");
        // The same otherwise, and nothing of the kind where it was typed.
        let alone = run(
            &workspace,
            None,
            &["--clone=clone", typed][usize::from(clone == "#")..],
        );
        alone.assert_refused(reason);
        let without = said.replace(&format!(" ({place})"), "");
        assert_eq!(without.replace(&place, ""), alone.refusal(), "{said}");
    }
}

#[test]
fn two_that_do_not_go_together_are_both_named() {
    let workspace = Workspace::new();
    let text = "clone = 'clone'\n#\nout-dir = 'clone/out'";
    let profile = write(&workspace, "p.toml", text);
    let refused = run(&workspace, Some(&profile), &[]);
    refused.assert_refused("overlap");
    let place = path_str(&profile);
    let places = format!("({place}:1, {place}:3)");
    assert!(refused.refusal().contains(&places), "{refused:#?}");
    assert!(!workspace.path("clone/out").exists());
}

#[test]
fn what_was_typed_is_not_the_profiles() {
    let workspace = Workspace::new();
    let text = "clone = 'clone'\ntimeout = '10m'\nro-file = []\nenv = ['A=1']";
    let profile = write(&workspace, "p.toml", text);
    let place = path_str(&profile);
    let said = |word: &str| {
        let run = run(&workspace, Some(&profile), &[word]);
        assert_eq!(run.code, Some(125), "{run:#?}");
        run.refusal().to_owned()
    };
    assert!(!said("--timeout=lots").contains(place));
    assert!(!said("--pids=0").contains(place));
    // Of a list either may be meant, and that is said.
    let line = format!("/nowhere ({place}:3, or as typed)");
    assert!(said("--ro-file=/nowhere").contains(&line));
}

#[test]
fn a_broker_and_a_command_of_a_profile() {
    let workspace = Workspace::new();
    let broker = "clone = 'clone'\nbroker = 'openai'\n";
    for (more, line) in [
        ("key-env = 'NO_SUCH_VARIABLE'", 3),
        ("key-file = 'nowhere'", 3),
        ("\nkey-fd = 2", 4),
        ("key-stdin = true\nupstream = 'ftp://h'", 4),
        ("key-stdin = true\nallow-route = ['nothing']", 4),
    ] {
        let profile = write(&workspace, "p.toml", format!("{broker}{more}"));
        let run = run(&workspace, Some(&profile), &[]);
        assert_eq!(run.code, Some(125), "{run:#?}");
        let place = format!("{}:{line}", path_str(&profile));
        assert!(run.refusal().contains(&place), "{run:#?}");
    }
    let profile = write(&workspace, "p.toml", "clone = 'clone'\ncommand = ['']");
    let mut command = Command::new(binary());
    command.args(["run", "--profile"]).arg(&profile);
    let run = finish(spawn(command.env_remove("GITHUB_ACTIONS")));
    run.assert_refused("usage");
    assert!(
        run.refusal().contains(&format!("{}:2", path_str(&profile))),
        "{run:#?}"
    );
}
