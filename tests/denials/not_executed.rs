//! What is said of a command that couldn't be executed; what it advises works.

use std::fs;

use crate::common::host::{chmod, path_str};
use crate::common::{Run, Workspace};

fn advice(run: &Run) -> &str {
    let mut lines = run
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("groom-ns: "));
    lines
        .rfind(|line| !line.starts_with("cannot execute") && !line.starts_with("warning"))
        .unwrap_or_default()
}

fn script(workspace: &Workspace, name: &str, text: &str) -> String {
    let path = workspace.file(name, text);
    chmod(&path, 0o755);
    path_str(&path).to_owned()
}

#[test]
fn a_program_that_the_jail_does_not_show() {
    let workspace = Workspace::new();
    let tool = script(&workspace, "tools/mytool", "#!/bin/sh\necho works\n");
    chmod(&workspace.path("tools"), 0o755);
    let tools = workspace.path("tools");
    let caller = format!("{}:/usr/bin:/bin", path_str(&tools));
    let jail = || workspace.jail().host_env("PATH", &caller);
    let run = jail().run_program(&["mytool"]);
    assert_eq!(run.code, Some(127));
    let expected = format!("{tool} is on this machine, but not in the jail: give --ro-file {tool}");
    assert_eq!(
        advice(&run),
        format!("{expected}, and call it by that path")
    );
    let run = jail().run_program(&[&tool]);
    assert_eq!((run.code, advice(&run)), (Some(127), &expected[..]));
    let run = jail().flag("--ro-file", &tool).run_program(&[&tool]);
    assert_eq!(run.outcome(), "works");
    // Shown, but found in the caller's PATH alone.
    let run = jail().flag("--ro-file", &tool).run_program(&["mytool"]);
    assert!(
        advice(&run).ends_with("isn't in the jail's PATH: call it by that path"),
        "{run:#?}"
    );
    // Nowhere, there is nothing to be said.
    let run = jail().run_program(&["no-such-program"]);
    assert_eq!((run.code, advice(&run)), (Some(127), ""));
}

#[test]
fn a_program_whose_interpreter_is_not_shown() {
    let workspace = Workspace::new();
    let interpreter = script(&workspace, "tools/sh", "");
    fs::copy("/bin/sh", &interpreter).expect("a shell");
    let text = format!("#! {interpreter} -e\necho works\n");
    let tool = script(&workspace, "clone/tool", &text);
    let run = workspace.jail().run_program(&[&tool]);
    let expected = format!(
        "{tool} wants {interpreter}, which isn't in the jail: give --ro-file {interpreter}"
    );
    assert_eq!((run.code, advice(&run)), (Some(127), &expected[..]));
    let run = workspace
        .jail()
        .flag("--ro-file", &interpreter)
        .run_program(&[&tool]);
    assert_eq!(run.outcome(), "works");
    // As a file of Windows's lines has it.
    let tool = script(&workspace, "clone/crlf", "#!/bin/sh\r\necho\r\n");
    let run = workspace.jail().run_program(&[&tool]);
    let expected = format!(r"{tool} wants /bin/sh\r, which this machine doesn't have");
    assert_eq!(advice(&run), expected);
}

#[test]
fn a_program_whose_loader_is_not_shown() {
    let workspace = Workspace::new();
    let mut program = fs::read("/bin/sh").expect("a shell");
    let name = b"/lib64/ld-linux-x86-64.so.2\0";
    let at = program.windows(name.len()).position(|part| part == name);
    let at = at.expect("a dynamic program");
    let other = "/lib64/ld-linux-x99-99.so.2";
    program[at..at + other.len()].copy_from_slice(other.as_bytes());
    let path = workspace.clone_dir().join("program");
    fs::write(&path, &program).expect("a program");
    chmod(&path, 0o755);
    let run = workspace.jail().run_program(&[path_str(&path)]);
    let tool = path_str(&path);
    let expected = format!("{tool} wants {other}, which this machine doesn't have");
    assert_eq!((run.code, advice(&run)), (Some(127), &expected[..]));
}

#[test]
fn a_program_that_is_not_executable() {
    let workspace = Workspace::new();
    let path = workspace.file("clone/tool", "#!/bin/sh\n");
    chmod(&path, 0o644);
    let tool = path_str(&path);
    let run = workspace.jail().run_program(&[tool]);
    assert_eq!(
        (run.code, advice(&run)),
        (Some(126), &format!("{tool} isn't executable: chmod +x")[..])
    );
    fs::write(&path, "echo works\n").expect("a file of our own");
    chmod(&path, 0o755);
    let run = workspace.jail().run_program(&[tool]);
    let expected = format!("{tool} has no #! line, and is no program of this machine");
    assert_eq!((run.code, advice(&run)), (Some(126), &expected[..]));
    fs::write(&path, "#!/bin/sh\necho works\n").expect("a file of our own");
    assert_eq!(workspace.jail().run_program(&[tool]).outcome(), "works");
}

#[test]
fn a_command_line_in_one_word() {
    let workspace = Workspace::new();
    let run = workspace.jail().run_program(&["ls -A"]);
    assert_eq!(run.code, Some(127), "{run:#?}");
    assert!(advice(&run).starts_with("that is one word"), "{run:#?}");
    // Both ways that it names.
    for argv in [&["ls", "-A"][..], &["sh", "-c", "ls -A"]] {
        assert_eq!(workspace.jail().run_program(argv).outcome(), "tracked");
    }
    // Without blanks in its name, and with: a program is one where it is there.
    let run = workspace.jail().run_program(&["no-such", "-A"]);
    assert_eq!(advice(&run), "");
    let tool = script(&workspace, "clone/my tool", "#!/bin/sh\necho works\n");
    assert_eq!(workspace.jail().run_program(&[&tool]).outcome(), "works");
}
