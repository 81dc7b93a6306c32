//! What a profile says is what would have been typed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::stat::Mode;

use crate::common::host::{checkout, chmod};
use crate::common::jail::{binary, spawn};
use crate::common::{Run, Workspace, finish, path_str};

/// A profile that nobody else can write to, whatever the umask is.
pub(crate) fn write(workspace: &Workspace, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = workspace.file(name, "");
    fs::write(&path, text).expect("a profile");
    chmod(&path, 0o600);
    path
}

/// `groom-ns run --profile FILE WORD…`, in the workspace.
fn run(workspace: &Workspace, profile: &Path, words: &[&str]) -> Run {
    let mut command = Command::new(binary());
    command.args(["run", "--profile"]).arg(profile).args(words);
    command.current_dir(workspace.root());
    command.env_remove("GITHUB_ACTIONS");
    // What the pages' examples take from their reader's environment.
    command.envs([("LANG", "C.UTF-8"), ("COLORTERM", "truecolor")]);
    finish(spawn(&mut command))
}

/// As [`run`], with a command that leaves a trace.
fn refused(workspace: &Workspace, profile: &Path, words: &[&str], code: &str) -> Run {
    let run = run(
        workspace,
        profile,
        &[words, &["--", "echo", "ran"]].concat(),
    );
    run.assert_refused(code);
    assert_eq!(run.stdout, "", "{run:#?}");
    assert!(!workspace.out_dir().exists(), "{run:#?}");
    run
}

#[test]
fn a_run_can_be_said_by_a_profile_alone() {
    let workspace = Workspace::with_git();
    workspace.file("conf/given", "given\n");
    let profile = write(
        &workspace,
        "conf/p.toml",
        "# Relative paths start here, not where groom-ns was started.
        clone = '../clone'
        clone-mode = 'rw-git-ro'
        out-dir = '../out'
        ro-file = ['given']
        env = ['ONE=1', 'TWO=two words']
        plan = false
        command = ['sh', '-c', 'pwd; echo $ONE $TWO; cat ../conf/given; echo x > ../out/made; echo x > made']
        ",
    );
    let once = run(&workspace, &profile, &[]);
    let clone = path_str(&workspace.clone_dir()).to_owned();
    assert_eq!(once.outcome(), format!("{clone}\n1 two words\ngiven"));
    assert!(workspace.path("out/made").exists() && workspace.path("clone/made").exists());

    // What is typed wins; a relative path that is typed starts where groom-ns does.
    let typed = ["--clone-mode", "ro", "--out-dir", "typed", "--env", "ONE=9"];
    let command = [
        "--",
        "sh",
        "-c",
        "echo $ONE $TWO; echo x > made2 || echo x > ../typed/made",
    ];
    let twice = run(&workspace, &profile, &[&typed[..], &command].concat());
    assert_eq!(twice.outcome(), "9 two words", "{twice:#?}");
    assert!(workspace.path("typed/made").exists() && !workspace.path("conf/typed").exists());
}

#[test]
fn the_plan_names_the_profile() {
    let workspace = Workspace::new();
    let text = "clone = '../clone'\nallow-ptrace = true\ncommand = ['true']";
    let profile = write(&workspace, "conf/p.toml", text);
    symlink(&profile, workspace.path("link")).expect("a link");
    for path in [profile.clone(), workspace.path("link")] {
        let text = run(&workspace, &path, &["--plan"]);
        let named = format!("take flags from {}\n", path_str(&profile));
        assert!(text.outcome().contains(&named), "{text:#?}");
        let json = run(&workspace, &path, &["--plan=json"]);
        let plan: serde_json::Value = serde_json::from_str(json.outcome()).expect("JSON");
        assert_eq!(plan["profile"], path_str(&profile));
        assert_eq!(plan["confine"]["seccomp"]["allow_ptrace"], true);
        // The same plan as that of the flags.
        let clone = workspace.clone_dir();
        let flags = [
            "run",
            "--plan=json",
            "--allow-ptrace",
            "--clone",
            path_str(&clone),
        ];
        let mut typed = Command::new(binary());
        let typed = finish(spawn(typed.args(flags).args(["--", "true"])));
        let mut typed: serde_json::Value = serde_json::from_str(typed.outcome()).expect("JSON");
        typed["profile"] = plan["profile"].clone();
        let mut plan = plan;
        // As root each run of a clone of root's has ids of its own.
        for plan in [&mut plan, &mut typed] {
            plan["identity"].take();
            plan["build"].take();
        }
        assert_eq!(plan, typed);
    }
}

#[test]
fn what_it_says_wrong_is_refused_with_file_and_line() {
    let workspace = Workspace::new();
    for (text, line, said) in [
        (
            &b"clone = '../clone'\nro-fil = ['x']"[..],
            2,
            "did you mean `ro-file`?",
        ),
        (b"clone = 7", 1, "`clone` takes a string"),
        (b"env = 'A=1'", 1, "takes an array of strings"),
        (b"allow-ptrace = 'yes'", 1, "takes true or false"),
        (
            b"\n\nlandlock = 'never'",
            3,
            "[possible values: required, best-effort]",
        ),
        (b"profile = 'other.toml'", 1, "a profile names no other"),
        (b"clone = '\xff'", 1, "isn't UTF-8"),
        (b"clone = '../clone'\n]", 2, ""),
        (b"\x7fELF", 1, ""),
    ] {
        let profile = write(&workspace, "conf/p.toml", text);
        let run = refused(&workspace, &profile, &["--out-dir", "out"], "usage");
        let place = format!("{}:{line}: ", path_str(&profile));
        assert!(
            run.refusal().contains(&place) && run.refusal().contains(said),
            "{run:#?}"
        );
    }
    for (text, words, said) in [
        (
            "broker = 'openai'\nkey-file = 'k'",
            &["--uds", "s"][..],
            ["--broker", "--uds"],
        ),
        (
            "broker = 'openai'\nkey-file = 'k'",
            &["--key-stdin"],
            ["--key-file", "--key-stdin"],
        ),
        ("shim-port = 80", &[], ["--broker", "required"]),
    ] {
        let profile = write(&workspace, "conf/p.toml", text);
        let run = refused(&workspace, &profile, words, "usage");
        assert!(
            said.iter().all(|said| run.refusal().contains(said)),
            "{run:#?}"
        );
        assert!(run.refusal().contains(path_str(&profile)), "{run:#?}");
    }
    let profile = write(&workspace, "conf/p.toml", "clone = '../clone'");
    let none = run(&workspace, &profile, &["--env", "A=1"]);
    none.assert_refused("usage");
    assert!(none.refusal().contains("no command"), "{none:#?}");
}

#[test]
fn refusals_are_json_if_it_says_so() {
    let workspace = Workspace::new();
    for wrong in [
        "nope = 1",
        "clone = '/nowhere'",
        "uds = '/nowhere'\nbroker = 'openai'",
    ] {
        for (is_on, starts) in [("true", "{\"reason\":"), ("false", "groom-ns: refused (")] {
            let text = format!("json-errors = {is_on}\n{wrong}");
            let profile = write(&workspace, "conf/p.toml", text);
            let run = run(&workspace, &profile, &["--", "true"]);
            assert_eq!(
                (run.code, run.stderr.lines().count()),
                (Some(125), 1),
                "{run:#?}"
            );
            assert!(run.stderr.starts_with(starts), "{run:#?}");
        }
    }
}

#[test]
fn only_a_regular_file_of_some_size_is_read() {
    let workspace = Workspace::new();
    let fifo = workspace.path("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
    let _socket = UnixListener::bind(workspace.path("socket")).expect("a socket");
    symlink("nowhere", workspace.path("dangling")).expect("a link");
    symlink("loop", workspace.path("loop")).expect("a link");
    for (path, said) in [
        (fifo, "takes a regular file"),
        (workspace.path("socket"), "takes a regular file"),
        (workspace.folder("folder"), "takes a regular file"),
        ("/dev/null".into(), "takes a regular file"),
        ("/dev/zero".into(), "takes a regular file"),
        (workspace.path("dangling"), "ENOENT"),
        (workspace.path("missing"), "ENOENT"),
        (workspace.path("loop"), "ELOOP"),
        (workspace.path("probe/x"), "ENOTDIR"),
    ] {
        let run = refused(&workspace, &path, &[], "path");
        assert!(run.refusal().contains(said), "{run:#?}");
    }
    let comment = |size: usize| "clone = '../clone'\n#".to_owned() + &"x".repeat(size - 20);
    let full = write(&workspace, "conf/full.toml", comment(64 * 1024));
    assert_eq!(
        run(&workspace, &full, &["--", "echo", "ran"]).outcome(),
        "ran"
    );
    let large = write(&workspace, "conf/large.toml", comment(64 * 1024 + 1));
    let run = refused(&workspace, &large, &[], "path");
    assert!(run.refusal().contains("65536 bytes"), "{run:#?}");
}

/// It is opened before the caller's descriptors are taken, and must not be one of them.
#[test]
fn it_is_not_taken_for_a_descriptor_of_the_callers() {
    let workspace = Workspace::new();
    let text = "clone = '../clone'\nbroker = 'openai'\nkey-fd = 3\n# sk-0123456789";
    let profile = write(&workspace, "conf/p.toml", text);
    let run = refused(&workspace, &profile, &[], "key");
    assert!(run.refusal().contains("EBADF"), "{run:#?}");
}

/// The examples of the pages are profiles, and the table has every key.
#[test]
fn the_pages_about_profiles_are_true() {
    let workspace = Workspace::new();
    let mut examples = 0;
    let page = |name| fs::read_to_string(checkout().join("docs").join(name)).expect("a page");
    for text in [page("profile.md"), page("desk.md")] {
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().expect("a block");
            let profile = write(&workspace, "conf/p.toml", block);
            let run = run(
                &workspace,
                &profile,
                &["--ro-file", "/nowhere", "--", "true"],
            );
            // It is read, and then there is no such home.
            run.assert_refused("path");
            assert!(
                run.refusal().contains("resolve --ro-file"),
                "{block}{run:#?}"
            );
            examples += 1;
        }
    }
    assert!(examples >= 5, "{examples}");
    let text = page("profile.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let keys: BTreeSet<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let flags = super::pages::flags("run");
    let mut known: BTreeSet<&str> = flags.iter().map(|flag| &flag[2..]).collect();
    known.remove("profile");
    known.insert("command");
    assert_eq!(keys, known);
}
