//! What the broker is told is judged before anything is made or started.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::host::{in_shell, program};
use crate::common::jail::{Jail, Run, binary, finish, spawn};
use crate::common::workspace::snapshot;
use crate::common::{Workspace, path_str};

const KEY: &str = "sk-0123456789abcdef";
/// The tests' own host may have one.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

fn with_broker(workspace: &Workspace) -> Jail {
    let jail = workspace.jail_with_out().flag("--broker", "anthropic");
    PROXIES
        .iter()
        .fold(jail, |jail, name| jail.without_env(name))
}

/// A run that is judged and no more: the control of a refusal.
fn judged(jail: Jail) -> String {
    let run = jail.switch("--plan").run(&["say", "ran"]);
    assert_eq!(
        (run.code, run.stderr_but_for_groups().as_str()),
        (Some(0), ""),
        "{run:#?}"
    );
    run.stdout
}

/// `groom-ns broker` or `groom-ns shim`, refused, in a folder in which nothing is made.
fn alone_refused(folder: &Path, words: &[&str], code: &str) -> Run {
    let before = snapshot(folder);
    let mut command = Command::new(binary());
    command.args(words).current_dir(folder);
    let run = finish(spawn(without_proxies(&mut command)));
    run.assert_refused(code);
    let after = snapshot(folder);
    assert_eq!(before, after, "a refusal left something: {words:?}");
    run
}

fn without_proxies(command: &mut Command) -> &mut Command {
    for name in PROXIES.iter().chain(&["GITHUB_ACTIONS"]) {
        command.env_remove(name);
    }
    command
}

#[test]
fn flags_without_a_broker_or_with_too_much() {
    let workspace = Workspace::new();
    let key = workspace.file("key", KEY);
    for (flag, value) in [
        ("--key-file", path_str(&key)),
        ("--key-env", "HOME"),
        ("--key-fd", "3"),
        ("--upstream", "https://api.example.com"),
        ("--upstream-ca", "ca"),
        ("--auth-header", "X-Key"),
        ("--allow-route", "GET /v1/files"),
        ("--shim-port", "8080"),
        ("--broker-log", "log"),
    ] {
        workspace.jail_with_out().flag(flag, value).refused("usage");
    }
    with_broker(&workspace).refused("usage");
    for (flag, value) in [
        ("--uds", "socket"),
        ("--key-env", "HOME"),
        ("--auth-header", "X-Key"),
        ("--upstream", "http://api.example.com"),
        ("--upstream", "https://user:hunter2@api.example.com"),
        ("--allow-route", "/v1/files"),
        ("--shim-port", "65536"),
    ] {
        let jail = with_broker(&workspace).flag("--key-file", &key);
        let run = jail.flag(flag, value).refused("usage");
        assert!(!run.stderr.contains("hunter2"), "{run:#?}");
    }
    let custom = || {
        let jail = workspace.jail_with_out().flag("--broker", "custom");
        let jail = jail.flag("--key-file", &key);
        PROXIES
            .iter()
            .fold(jail, |jail, name| jail.without_env(name))
    };
    custom().refused("usage");
    custom().flag("--auth-header", "X-Key").refused("usage");
    let whole = custom().flag("--auth-header", "X-Key");
    judged(whole.flag("--upstream", "http://127.0.0.1:8080"));
}

/// A key may come on a descriptor from a file that the command could read by its path.
#[test]
fn a_key_on_a_descriptor_whose_file_the_command_could_see() {
    let workspace = Workspace::new();
    let outside = workspace.file("key", KEY);
    let inside = workspace.file("clone/key", KEY);
    let twice = workspace.file("twice", KEY);
    fs::hard_link(&twice, workspace.path("clone/twice")).expect("a link");
    let on_stdin = |path: &Path| {
        let file = fs::File::open(path).expect("the key");
        with_broker(&workspace).switch("--key-stdin").stdio(0, file)
    };
    for path in [&inside, &twice] {
        let run = on_stdin(path).refused("key");
        assert!(!run.stderr.contains(KEY), "{run:#?}");
    }
    judged(on_stdin(&outside));
    let on_three = |path: &Path| {
        let jail = with_broker(&workspace).flag("--key-fd", "3");
        let mut command = program("sh", "dash");
        let jail = jail.switch("--plan").command(&["/usr/bin/true"]);
        command.args(["-c", "exec \"$@\" 3<\"$0\"", path_str(path)]);
        command.arg(jail.get_program()).args(jail.get_args());
        finish(spawn(without_proxies(&mut command)))
    };
    for path in [&inside, &twice] {
        on_three(path).assert_refused("key");
    }
    assert_eq!(on_three(&outside).code, Some(0));
}

#[test]
fn a_key_file_that_the_command_could_see() {
    let workspace = Workspace::new();
    let clone = workspace.clone_dir();
    let key = workspace.file("key", KEY);
    let in_clone = workspace.file("clone/key", KEY);
    let given = workspace.file("given/key", KEY);
    let link = workspace.path("link");
    symlink(&key, &link).expect("a link");
    // The command of a run before chose which file it is.
    symlink(workspace.root(), clone.join("up")).expect("a link");
    let chosen = clone.join("up/key");
    let twice = workspace.file("twice", KEY);
    fs::hard_link(&twice, clone.join("twice")).expect("a link");
    let folder = workspace.folder("folder");
    let missing = workspace.path("missing");
    let jail = |path: &Path| {
        let jail = with_broker(&workspace).flag("--ro-file", given.parent().expect("a folder"));
        jail.flag("--key-file", path)
    };
    for path in [
        &in_clone,
        &given,
        &link,
        &chosen,
        &twice,
        &folder,
        &missing,
        Path::new("/etc/hostname"),
        Path::new("/dev/null"),
    ] {
        let run = jail(path).refused("key");
        assert!(!run.stderr.contains(KEY), "{run:#?}");
    }
    assert!(!judged(jail(&key)).contains(KEY));
}

#[test]
fn a_log_that_the_command_could_see() {
    let workspace = Workspace::new();
    let key = workspace.file("key", KEY);
    let link = workspace.path("link");
    let outside = workspace.path("outside");
    symlink(&outside, &link).expect("a link");
    symlink(workspace.root(), workspace.clone_dir().join("up")).expect("a link");
    let jail = |path: &Path| {
        let jail = with_broker(&workspace).flag("--key-file", &key);
        jail.flag("--broker-log", path)
    };
    for path in [
        workspace.clone_dir().join("log"),
        workspace.clone_dir().join("up/log"),
        workspace.out_dir(),
        workspace.out_dir().join("log"),
        workspace.path("missing/log"),
        workspace.root().into(),
        link,
        "/usr/log".into(),
        "/dev/null".into(),
    ] {
        let run = jail(&path).refused("broker");
        assert!(run.refusal().contains("--broker-log"), "{run:#?}");
        assert!(
            path.starts_with("/dev") || !path.is_file(),
            "{}",
            path.display()
        );
    }
    assert!(!outside.exists() && !workspace.path("log").exists());
    let log = workspace.path("log");
    judged(jail(&log));
    assert!(!log.exists(), "a plan makes nothing");
}

#[test]
fn a_bind_mount_shows_the_brokers_files_in_the_clone() {
    let workspace = Workspace::new();
    let keys = workspace.folder("keys");
    let key = workspace.file("keys/key", KEY);
    let sub = workspace.folder("clone/sub");
    let bind = format!("bind:{}:{}", path_str(&keys), path_str(&sub));
    let mounted = || with_broker(&workspace).in_situation(&["mounts", &bind]);
    mounted().flag("--key-file", &key).refused("key");
    let other = workspace.file("other", KEY);
    let log = keys.join("log");
    let jail = mounted().flag("--key-file", &other);
    let run = jail.flag("--broker-log", &log).refused("broker");
    assert!(run.refusal().contains("--broker-log"), "{run:#?}");
    // Control: without the mount both may lie there.
    let jail = with_broker(&workspace).flag("--key-file", &key);
    judged(jail.flag("--broker-log", &log));
}

#[test]
fn certificates_that_the_command_could_choose() {
    let workspace = Workspace::new();
    let key = workspace.file("key", KEY);
    let no_pem = workspace.file("ca", "no certificate");
    let in_clone = workspace.file("clone/ca", "no certificate");
    for (path, says) in [
        (&no_pem, "PEM"),
        (&in_clone, "--clone"),
        (&workspace.path("none"), "ENOENT"),
    ] {
        let jail = with_broker(&workspace).flag("--key-file", &key);
        let run = jail.flag("--upstream-ca", path).refused("broker");
        assert!(run.refusal().contains(says), "{run:#?}");
    }
}

#[test]
fn a_variable_that_is_not_set_or_is_handed_over() {
    let workspace = Workspace::new();
    let jail = || with_broker(&workspace).flag("--key-env", "THE_KEY");
    jail().without_env("THE_KEY").refused("key");
    let run = jail()
        .host_env("THE_KEY", KEY)
        .flag("--env", "THE_KEY")
        .refused("usage");
    assert!(!run.stderr.contains(KEY), "{run:#?}");
    assert!(!judged(jail().host_env("THE_KEY", KEY)).contains(KEY));
}

#[test]
fn a_proxy_of_another_kind_is_not_gone_around() {
    let workspace = Workspace::new();
    let key = workspace.file("key", KEY);
    let jail = with_broker(&workspace).flag("--key-file", key);
    let run = jail.host_env("HTTPS_PROXY", "socks5://u:hunter2@127.0.0.1:1");
    let run = run.refused("broker");
    assert!(run.refusal().contains("HTTPS_PROXY"), "{run:#?}");
    assert!(!run.stderr.contains("hunter2"), "{run:#?}");
}

/// The jail, started by a shell with this redirection; `$F` is a file, `$D` a folder.
fn redirected(workspace: &Workspace, jail: Jail, redirection: &str) -> Run {
    let inner = jail.switch("--plan").command(&["true"]);
    let mut shell = in_shell(&format!("exec \"$@\" {redirection}"), &inner);
    shell
        .env("F", workspace.file("key", KEY))
        .env("D", workspace.folder("folder"));
    finish(spawn(without_proxies(&mut shell)))
}

#[test]
fn descriptors_that_can_not_be_read_from() {
    let workspace = Workspace::new();
    let jail = |number: &str| with_broker(&workspace).flag("--key-fd", number);
    for (number, redirection, code) in [
        ("7", "7<&-", "key"),
        ("7", "7<\"$D\"", "key"),
        ("7", "7>>\"$F\"", "key"),
        ("0", "", "usage"),
        ("2", "", "usage"),
    ] {
        let run = redirected(&workspace, jail(number), redirection);
        run.assert_refused(code);
        assert!(
            run.refusal().contains(&format!("descriptor {number}")),
            "{run:#?}"
        );
    }
    // Also the lowest numbers, which what groom-ns opens itself could have got.
    for number in ["3", "4", "9"] {
        let run = redirected(&workspace, jail(number), &format!("{number}<\"$F\""));
        assert_eq!(run.code, Some(0), "{run:#?}");
        let run = redirected(&workspace, jail(number), &format!("{number}<&-"));
        run.assert_refused("key");
    }
}

#[test]
fn a_broker_on_its_own() {
    let workspace = Workspace::new();
    let place = workspace.folder("place");
    workspace.file("place/key", KEY);
    workspace.file("place/short", "token");
    workspace.file("place/file", "");
    workspace.folder("place/folder");
    symlink("key", place.join("link")).expect("a link");
    let unix = ["--listen", "unix:socket"];
    let tcp = ["--listen", "tcp:0"];
    let key = ["--key-file", "key"];
    for (words, code) in [
        (vec![&key[..]], "usage"),
        (vec![&unix], "usage"),
        (vec![&unix, &["--key-file"]], "usage"),
        (vec![&unix, &key, &["--key-stdin"]], "usage"),
        (vec![&key, &["--listen", "socket"]], "usage"),
        (vec![&key, &["--listen", "tcp:99999"]], "usage"),
        (vec![&key, &tcp, &["--peer-uid", "0"]], "usage"),
        (vec![&key, &unix, &["--peer-uid", "root"]], "usage"),
        (vec![&key, &unix, &["--ready-fd", "1"]], "usage"),
        (vec![&key, &unix, &["--auth-header", "X-Key"]], "usage"),
        (vec![&unix, &["--key-fd", "9", "--ready-fd", "9"]], "usage"),
        (vec![&unix, &["--key-file", "missing"]], "key"),
        (vec![&unix, &["--key-file", "link"]], "key"),
        (vec![&unix, &["--key-file", "folder"]], "key"),
        (vec![&unix, &["--key-fd", "9"]], "key"),
        (vec![&unix, &["--key-env", "NOT_SET_ANYWHERE_76543"]], "key"),
        (vec![&key, &unix, &["--ready-fd", "9"]], "broker"),
        (vec![&key, &["--listen", "unix:file"]], "socket"),
        (vec![&key, &["--listen", "unix:folder"]], "socket"),
        (vec![&key, &["--listen", "unix:missing/socket"]], "socket"),
        (vec![&key, &unix, &["--log", "folder"]], "broker"),
        (vec![&key, &unix, &["--log", "link"]], "broker"),
        (vec![&key, &unix, &["--token-file", "missing"]], "broker"),
        (vec![&key, &unix, &["--token-file", "short"]], "broker"),
        (vec![&key, &unix, &["--upstream-ca", "key"]], "broker"),
    ] {
        let words = [&["broker", "openai"], words.concat().as_slice()].concat();
        let run = alone_refused(&place, &words, code);
        assert!(!run.stderr.contains(KEY), "{run:#?}");
        assert!(run.refusal().contains("--"), "it names the flag: {run:#?}");
    }
    alone_refused(&place, &["shim", "80"], "usage");
    alone_refused(&place, &["shim", "65536", "socket"], "usage");
}

#[test]
fn a_refusal_of_a_broker_as_json() {
    let workspace = Workspace::new();
    let words = [
        "broker",
        "openai",
        "--listen",
        "tcp:x",
        "--key-stdin",
        "--json-errors",
    ];
    let mut command = Command::new(binary());
    let run = finish(spawn(
        without_proxies(command.args(words)).current_dir(workspace.root()),
    ));
    assert_eq!(run.code, Some(125), "{run:#?}");
    let line: serde_json::Value = serde_json::from_str(&run.stderr).expect("JSON");
    assert_eq!(line["reason"], "usage", "{run:#?}");
}
