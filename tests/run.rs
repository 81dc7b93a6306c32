//! The contract of `groom-ns run`: exit codes, environment, folder, output.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs::{self, File};
use std::io::Write as _;
use std::process::Stdio;

use common::host::install;
use common::{Workspace, finish, path_str};

#[test]
fn the_exit_code_is_the_commands() {
    let workspace = Workspace::new();
    for code in [0, 1, 42, 125, 255] {
        let run = workspace.jail().run(&["exit", &code.to_string()]);
        assert_eq!(run.code, Some(code), "{run:#?}");
        assert_eq!(
            run.stderr_but_for_groups(),
            "",
            "nothing of groom-ns's own on stderr"
        );
    }
}

#[test]
fn a_signal_is_128_and_its_number() {
    let workspace = Workspace::new();
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGABRT] {
        let run = workspace.jail().run(&["die-by", &signal.to_string()]);
        assert_eq!(run.code, Some(128 + signal), "{run:#?}");
    }
}

#[test]
fn what_cannot_be_executed_is_126_and_what_is_not_there_127() {
    let workspace = Workspace::new();
    let text = workspace.file("clone/not-executable", "text");
    for (command, code, errno) in [
        (path_str(&text), 126, "EACCES"),
        ("/usr", 126, "EACCES"),
        ("/no/such/program", 127, "ENOENT"),
        ("/etc/passwd/program", 127, "ENOTDIR"),
        ("no-such-program", 127, "ENOENT"),
    ] {
        let run = workspace.jail().run_program(&[command]);
        assert_eq!(run.code, Some(code), "{command}: {run:#?}");
        let said = format!("groom-ns: cannot execute {command}: {errno} ");
        assert!(run.stderr.contains(&said), "{said}: {run:#?}");
    }
}

#[test]
fn the_environment_is_four_fixed_variables_and_those_asked_for() {
    let workspace = Workspace::new();
    let run = workspace
        .jail()
        .host_env("CANARY", "of-the-host")
        .host_env("LC_ALL", "C")
        .host_env("BY_NAME", "taken from groom-ns")
        .host_env("TERM", "xterm")
        .flag("--env", "BY_NAME")
        .flag("--env", "BY_VALUE=a=b c")
        .flag("--env", "EMPTY=")
        .run(&["env"]);
    let expected = [
        "BY_NAME=taken from groom-ns",
        "BY_VALUE=a=b c",
        "EMPTY=",
        "HOME=/home/agent",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "TERM=dumb",
    ];
    assert_eq!(run.lines(), expected);
}

#[test]
fn an_asked_for_variable_replaces_a_fixed_one_and_the_last_wins() {
    let workspace = Workspace::new();
    let jail = workspace
        .jail()
        .flag("--env", "TERM=one")
        .flag("--env", "TERM=two");
    assert!(jail.run(&["env"]).lines().contains(&"TERM=two"));
}

#[test]
fn the_folder_is_the_clone_at_its_real_path() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    assert_eq!(workspace.jail().run(&["cwd"]).ok(), path_str(&clone));
    // By default the clone is the current folder; relative paths start there.
    let run = workspace
        .jail()
        .cwd(&clone)
        .flag("--clone", ".")
        .run(&["cwd"]);
    assert_eq!(run.ok(), path_str(&clone));
    let run = workspace
        .jail()
        .cwd(workspace.root())
        .flag("--clone", "clone")
        .run(&["cwd"]);
    assert_eq!(run.ok(), path_str(&clone));
}

#[test]
fn a_clone_through_a_link_is_found_at_both_paths() {
    let workspace = Workspace::new();
    let link = workspace.path("link");
    std::os::unix::fs::symlink(workspace.clone_dir(), &link).expect("a link");
    let typed = format!("read {}/tracked", path_str(&link));
    let real = format!("read {}/tracked", path_str(&workspace.clone_dir()));
    let run = workspace
        .jail()
        .flag("--clone", &link)
        .run(&["each", &typed, &real]);
    assert_eq!(run.lines(), ["ok tracked", "ok tracked"]);
}

#[test]
fn a_bare_name_is_looked_up_in_the_jails_path() {
    let workspace = Workspace::new();
    let run =
        workspace
            .jail()
            .host_env("PATH", "/nowhere")
            .run_program(&["sh", "-c", "echo found"]);
    assert_eq!(run.outcome(), "found");
    let bin = workspace.folder("clone/bin");
    install(&workspace.probe(), &bin.join("my-tool"));
    let path = format!("PATH={}", path_str(&bin));
    let run = workspace
        .jail()
        .flag("--env", path)
        .run_program(&["my-tool", "say", "found"]);
    assert_eq!(run.ok(), "found");
}

#[test]
fn output_is_complete_and_in_its_stream() {
    let workspace = Workspace::new();
    let script = "head -c 3000000 /dev/zero | tr '\\0' x; echo error >&2; exit 3";
    let run = workspace.jail().run_program(&["sh", "-c", script]);
    assert_eq!((run.code, run.stdout.len()), (Some(3), 3_000_000));
    assert_eq!(run.stderr_but_for_groups(), "error\n");
}

#[test]
fn output_that_is_lost_is_no_success() {
    let workspace = Workspace::new();
    let full = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full")
    };
    for (code, expected) in [("0", 1), ("3", 3)] {
        let script = format!("echo text; exit {code}");
        let run = workspace
            .jail()
            .stdio(1, full())
            .run_program(&["sh", "-c", &script]);
        assert_eq!(run.code, Some(expected), "{run:#?}");
        assert!(run.stderr.contains("standard output is lost"), "{run:#?}");
    }
    // Control: what is written to nobody, on purpose, is.
    let null = std::process::Stdio::null();
    let run = workspace
        .jail()
        .stdio(1, null)
        .run_program(&["sh", "-c", "echo text"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn input_and_output_may_be_pipes_files_or_sockets() {
    let workspace = Workspace::new();
    let input = workspace.file("input", "from a file");
    let output = workspace.path("output");

    let jail = workspace
        .jail()
        .stdio(0, File::open(&input).expect("a file"));
    assert_eq!(jail.run_program(&["cat"]).stdout, "from a file");

    let jail = workspace
        .jail()
        .stdio(1, File::create(&output).expect("a file"));
    assert_eq!(jail.run(&["say", "to a file"]).code, Some(0));
    assert_eq!(
        fs::read_to_string(&output).expect("the output"),
        "ok to a file\n"
    );

    let appended = File::options().append(true).open(&output).expect("a file");
    assert_eq!(
        workspace
            .jail()
            .stdio(1, appended)
            .run(&["say", "more"])
            .code,
        Some(0)
    );
    let both = fs::read_to_string(&output).expect("the output");
    assert_eq!(
        both, "ok to a file\nok more\n",
        "an append-only file is appended to"
    );

    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let theirs = Stdio::from(std::os::fd::OwnedFd::from(theirs));
    assert_eq!(
        workspace
            .jail()
            .stdio(1, theirs)
            .run(&["say", "to a socket"])
            .code,
        Some(0)
    );
    assert_eq!(
        std::io::read_to_string(ours).expect("the socket"),
        "ok to a socket\n"
    );

    let mut child = workspace
        .jail()
        .stdio(0, Stdio::piped())
        .command(&["cat"])
        .spawn()
        .expect("cat");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"through a pipe").expect("cat reads");
    drop(stdin);
    assert_eq!(finish(child).stdout, "through a pipe");
}

#[test]
fn the_plan_is_printed_and_nothing_runs() {
    let workspace = Workspace::new();
    for plan in ["--plan", "--plan=text", "--plan=json"] {
        let marker = workspace.out_dir().join("marker");
        let run = workspace
            .jail_with_out()
            .switch(plan)
            .run(&["write", path_str(&marker), "ran"]);
        assert_eq!(run.code, Some(0), "{plan}: {run:#?}");
        assert!(
            run.stdout.contains(path_str(&workspace.clone_dir())),
            "{plan}: {run:#?}"
        );
        assert!(!workspace.out_dir().exists(), "{plan} makes nothing");
    }
    let run = workspace.jail().switch("--plan=json").run(&["exit", "1"]);
    serde_json::from_str::<serde_json::Value>(&run.stdout).expect("JSON and nothing else");
}

#[test]
fn a_plan_shows_no_value_of_the_callers() {
    let workspace = Workspace::new();
    for plan in ["--plan=text", "--plan=json"] {
        let jail = workspace
            .jail()
            .flag("--env", "TOKEN=s3cret-value")
            .switch(plan);
        let run = jail.run(&["exit", "0"]);
        assert!(run.stdout.contains("TOKEN"), "{run:#?}");
        assert!(!run.stdout.contains("s3cret-value"), "{run:#?}");
    }
}
