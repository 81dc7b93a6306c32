//! How much groom-ns says, and in which colours.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::common::{Jail, Workspace, finish};

/// A command that leaves a repository in the clone, of which a remark is made.
const MAKES_REPOSITORY: [&str; 3] = ["git", "init", "nested"];

/// In the order of a run.
const STEPS: [&str; 6] = [
    "groom-ns: Linux ",
    "groom-ns: the flags and what they name are in order\n",
    "groom-ns: the jail stands, and its mounts are those of the plan\n",
    "groom-ns: go\n",
    "groom-ns: the self-check has passed: the command is executed\n",
    "groom-ns: the command ended, and the jail with it: exit code 0\n",
];

fn remark(jail: fn(Jail) -> Jail) -> (String, String) {
    let workspace = Workspace::with_git();
    let run = jail(workspace.jail().writable()).run_program(&MAKES_REPOSITORY);
    assert_eq!(run.code, Some(0), "{run:#?}");
    (run.stdout.clone(), run.stderr)
}

#[test]
fn quiet_leaves_out_remarks_and_no_refusal() {
    let (_, said) = remark(|jail| jail);
    assert!(
        said.contains("groom-ns: note: new repository: "),
        "vacuous: {said}"
    );
    let (_, said) = remark(|jail| jail.switch("--quiet"));
    assert!(!said.contains("groom-ns:"), "{said}");
    let workspace = Workspace::new();
    workspace
        .jail()
        .switch("--quiet")
        .flag("--out-dir", workspace.clone_dir())
        .refused("overlap");
    let run = workspace
        .jail()
        .switch("--quiet")
        .run_program(&["/no/such/program"]);
    assert!(
        run.stderr
            .contains("groom-ns: cannot execute /no/such/program: ENOENT"),
        "{run:#?}"
    );
}

#[test]
fn verbose_says_each_step_in_order() {
    let (quiet, said) = remark(|jail| jail);
    assert!(STEPS.iter().all(|step| !said.contains(step)), "{said}");
    let (loud, said) = remark(|jail| jail.switch("--verbose"));
    let mut rest = &said[..];
    for step in STEPS {
        let at = rest
            .find(step)
            .unwrap_or_else(|| panic!("{step:?} in {said}"));
        rest = &rest[at + step.len()..];
    }
    assert!(said.contains("groom-ns: note: new repository: "), "{said}");
    // The command's own output is as ever, but for the workspace's name.
    assert_eq!(quiet.lines().count(), loud.lines().count());
    // What isn't reached isn't said.
    let workspace = Workspace::new();
    let run = workspace
        .jail()
        .switch("--verbose")
        .flag("--ro-file", "/nowhere")
        .refused("path");
    assert!(
        run.stderr.contains(STEPS[0]) && !run.stderr.contains(STEPS[1]),
        "{run:#?}"
    );
}

/// What is said beside the work doesn't hold it up.
#[test]
fn a_run_does_not_wait_for_a_reader_of_its_steps() {
    let (reader, writer) = nix::unistd::pipe().expect("a pipe");
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("fcntl");
    let mut full = File::from(writer.try_clone().expect("dup"));
    while full.write(&[b'x'; 4096]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).expect("fcntl");
    drop(full);
    let workspace = Workspace::new();
    let jail = workspace.jail().switch("--verbose").stdio(2, writer);
    assert_eq!(jail.run(&["say", "ran"]).ok(), "ran");
    drop(reader);
}

/// What a terminal is shown as standard error.
fn at_a_terminal(jail: Jail, argv: &[&str]) -> String {
    let pty = nix::pty::openpty(None, None).expect("a terminal");
    let slave: OwnedFd = pty.slave;
    let mut command = jail.stdio(2, Stdio::from(slave)).command(argv);
    let child = command.spawn().expect("groom-ns starts");
    // It holds the terminal, too.
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        // EIO once nobody holds it any more.
        let _ = File::from(pty.master).read_to_end(&mut said);
        String::from_utf8(said).expect("text")
    });
    finish(child);
    reader.join().expect("the reader ends")
}

#[test]
fn colours_are_for_terminals() {
    let workspace = Workspace::new();
    let wrong = |term: Option<&str>, no_color: Option<&str>| {
        let jail = workspace.jail().flag("--out-dir", workspace.clone_dir());
        let jail = match term {
            Some(term) => jail.host_env("TERM", term),
            None => jail.without_env("TERM"),
        };
        match no_color {
            Some(value) => jail.host_env("NO_COLOR", value),
            None => jail.without_env("NO_COLOR"),
        }
    };
    for (term, no_color, is_coloured) in [
        (Some("xterm"), None, true),
        (Some("xterm"), Some(""), true),
        (Some("xterm"), Some("1"), false),
        (Some("xterm"), Some("0"), false),
        (Some("dumb"), None, false),
        (None, None, false),
    ] {
        let said = at_a_terminal(wrong(term, no_color), &["true"]);
        let coloured =
            "\u{1b}[1;31mgroom-ns: refused (overlap):\u{1b}[0m compare --out-dir with --clone";
        assert_eq!(said.contains(coloured), is_coloured, "{said:?}");
        assert_eq!(said.contains('\u{1b}'), is_coloured, "{said:?}");
        assert!(said.contains("compare --out-dir with --clone"), "{said:?}");
    }
    let json = at_a_terminal(
        wrong(Some("xterm"), None).switch("--json-errors"),
        &["true"],
    );
    assert!(
        json.starts_with('{') && !json.contains('\u{1b}'),
        "{json:?}"
    );
    let run = wrong(Some("xterm"), None).refused("overlap");
    assert!(!run.stderr.contains('\u{1b}'), "{run:#?}");
}

/// Names come from whoever made them; the colours are ours alone.
#[test]
fn what_is_said_in_colour_is_still_escaped() {
    let workspace = Workspace::new();
    let evil = workspace.path("\u{1b}[2J\u{202e}nowhere");
    let jail = workspace
        .jail()
        .flag("--ro-file", &evil)
        .host_env("TERM", "xterm");
    let said = at_a_terminal(jail.without_env("NO_COLOR"), &["true"]);
    assert!(said.contains("\\u{1b}[2J\\u{202e}nowhere"), "{said:?}");
    assert!(
        !said.contains("\u{1b}[2J") && said.contains("\u{1b}[1;31m"),
        "{said:?}"
    );
}
