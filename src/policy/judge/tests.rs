//! Whole judgements over real trees.

use std::ffi::OsString;
use std::os::unix::net::UnixListener;

use super::super::paths::Start;
use super::*;
use crate::cli::Command;
use crate::policy::testing::{TempDir, host};

/// Judges a `groom-ns run` with these arguments, as the user who runs the test,
/// with `cwd` in the temporary directory.
fn judged(temp: &TempDir, args: &[&str], host: &Host) -> Result<(Policy, Held), Refusal> {
    let line = ["groom-ns", "run"]
        .iter()
        .chain(args)
        .chain(&["--", "true"]);
    let run = match cli::parse(line.map(OsString::from)) {
        Ok(Command::Run(run)) => run,
        other => panic!("{args:?}: {other:?}"),
    };
    let caller = Caller {
        cwd: Ok(Start {
            dir: crate::policy::testing::held(temp.path()),
            path: temp.path().to_owned(),
        }),
        env: |name| (name == "TERM").then(|| OsString::from("xterm")),
        terminals: [|| true; 3],
    };
    let (policy, held, supplies, _) = judge_for(&caller, &run, host, Kept::default())?;
    assert_eq!(supplies.is_some(), policy.broker.is_some());
    Ok((policy, held))
}

fn user() -> Host {
    let mut host = host();
    host.ids.uid = nix::unistd::geteuid().as_raw();
    host
}

fn tree() -> TempDir {
    let temp = TempDir::new();
    temp.dir("c/.git");
    temp.dir("o");
    temp.file("f", "");
    temp.dir("d");
    temp.link("l", "c");
    temp.link("c/out", "../f");
    temp
}

#[test]
fn a_whole_run() {
    let temp = tree();
    let args = [
        "--clone",
        "l",
        "--clone-mode",
        "rw-git-ro",
        "--out-dir",
        "d/new",
        "--ro-file",
        "f",
        "--ro-file",
        "./f",
        "--env",
        "A=1",
    ];
    let (policy, held) = judged(&temp, &args, &user()).expect("judged");
    assert_eq!(policy.clone.path, temp.at("c"));
    assert_eq!(policy.clone.alias, Some(temp.at("l")));
    let CloneMode::RwGitRo(covers) = &policy.clone_mode else {
        panic!("{policy:?}");
    };
    assert_eq!(covers.gits[0].0, temp.at("c/.git"));
    assert!(
        matches!(&policy.out_dir, Some(OutDir::Missing { path, alias: None }) if *path == temp.at("d/new"))
    );
    assert_eq!(policy.ro_files.len(), 1);
    assert_eq!(policy.term.as_deref(), Some("xterm"));
    let keys: Vec<PathBuf> = held.keys().cloned().collect();
    assert_eq!(keys, ["c", "d/new", "f"].map(|name| temp.at(name)));
    assert!(!temp.at("d/new").exists(), "nothing is made");
}

#[test]
fn a_run_with_a_broker() {
    let temp = tree();
    let args = ["--clone", "c", "--broker", "gemini", "--key-file", "f"];
    let (policy, held) = judged(&temp, &args, &user()).expect("judged");
    let broker = policy.broker.expect("a broker");
    assert_eq!((broker.shim_port, policy.uds), (0, None));
    assert!(
        !held.contains_key(&temp.at("f")),
        "it is none of the jail's"
    );
}

#[test]
fn refusals() {
    let temp = tree();
    temp.file("stale-not", "");
    drop(UnixListener::bind(temp.at("s")).expect("bind"));
    for (args, reason) in [
        (&["--clone", "none"][..], Reason::Path),
        (&["--clone", "f"], Reason::Path),
        (&["--clone", "/"], Reason::Path),
        (&["--clone", "c", "--out-dir", "c"], Reason::Overlap),
        (&["--clone", "c", "--out-dir", "l"], Reason::Overlap),
        (&["--clone", "l", "--out-dir", "c/new"], Reason::Overlap),
        (&["--clone", "c", "--out-dir", "."], Reason::Overlap),
        (
            &["--clone", "c", "--out-dir", "o", "--ro-file", "o"],
            Reason::Overlap,
        ),
        (&["--clone", "c", "--out-dir", "/usr/x"], Reason::Overlap),
        (&["--clone", "c", "--out-dir", "/tmp"], Reason::Path),
        (&["--clone", "c", "--ro-file", "c/out"], Reason::Path),
        (&["--clone", "c", "--ro-file", "s"], Reason::Socket),
        (&["--clone", "c", "--uds", "s"], Reason::Socket),
        (&["--clone", "c", "--uds", "f"], Reason::Socket),
        (&["--clone", "c", "--uds", "none"], Reason::Socket),
        (&["--clone", "d", "--clone-mode", "rw-git-ro"], Reason::Git),
        (&["--clone", "c", "--env", "ABSENT"], Reason::Usage),
        (
            &["--clone", "c", "--broker", "openai", "--key-file", "l/out"],
            Reason::Key,
        ),
        (
            &[
                "--clone",
                "c",
                "--out-dir",
                "d/new",
                "--broker",
                "openai",
                "--key-stdin",
                "--broker-log",
                "d/new",
            ],
            Reason::Broker,
        ),
    ] {
        // As an ordinary user, "/usr/x" is refused before, since it can't be made.
        let early = args.contains(&"/usr/x") && !nix::unistd::geteuid().is_root();
        let reason = if early { Reason::Path } else { reason };
        let refusal = judged(&temp, args, &user()).expect_err("refused");
        assert_eq!(refusal.reason, reason, "{args:?}: {refusal}");
        assert!(!refusal.remedy.is_empty(), "{refusal}");
    }
}

#[test]
fn sockets_are_sought_where_landlock_can_not_close_them() {
    let temp = tree();
    let _one = UnixListener::bind(temp.at("c/.git/s")).expect("bind");
    let _two = UnixListener::bind(temp.at("d/s")).expect("bind");
    let args = ["--clone", "c", "--ro-file", "d"];
    let (policy, _) = judged(&temp, &args, &user()).expect("judged");
    assert_eq!(policy.sockets, [] as [PathBuf; 0]);
    let mut old = user();
    old.landlock = Ok(8);
    let (policy, _) = judged(&temp, &args, &old).expect("judged");
    assert_eq!(
        policy.sockets,
        ["c/.git/s", "d/s"].map(|name| temp.at(name))
    );
    let listeners: Vec<_> = (0..MAX_SOCKETS)
        .map(|n| UnixListener::bind(temp.at(&format!("d/{n}"))).expect("bind"))
        .collect();
    assert_eq!(listeners.len(), MAX_SOCKETS);
    let refusal = judged(&temp, &args, &old).expect_err("too many");
    assert_eq!(refusal.reason, Reason::Socket);
}

#[test]
fn as_root_every_tree_has_one_owner() {
    let temp = tree();
    let root = Host {
        route: Route::Root,
        ..user()
    };
    judged(&temp, &["--clone", "c", "--ro-file", "d"], &root).expect("judged");
    if nix::unistd::geteuid().is_root() {
        let other = Some(nix::unistd::Uid::from_raw(1234));
        nix::unistd::chown(&temp.file("d/deep/er", ""), other, None).expect("chown");
        let refusal =
            judged(&temp, &["--clone", "c", "--ro-file", "d"], &root).expect_err("foreign");
        assert_eq!(refusal.reason, Reason::Owner);
        assert!(refusal.subject.ends_with("/d/deep/er"), "{refusal}");
    }
}
