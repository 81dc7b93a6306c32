//! `groom-ns prove`: that its verdicts follow from its answers, that it is quick, and
//! that it leaves nothing. That each of its proofs can fail is shown by sabotage.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill};

use common::host::{checkout, chmod, install};
use common::jail::{binary, pid_of, spawn};
use common::{Folder, Run, finish, is_root, path_str};

/// What can't be shown as a normal user, whose attempts fail outside too.
const VACUOUS_AS_USER: [&str; 3] = ["read-shadow", "write-root", "write-usr"];

/// What can't be shown where the machine itself has no network.
const VACUOUS_WITHOUT_NETWORK: [&str; 2] = ["interface-beyond-lo", "route"];

fn vacuous_here() -> impl Iterator<Item = &'static str> {
    let routes = fs::read_to_string("/proc/net/route").expect("the machine's routes");
    let has_network = routes
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some("00000000"));
    let of_user = VACUOUS_AS_USER.into_iter().filter(|_| !is_root());
    let of_network = VACUOUS_WITHOUT_NETWORK
        .into_iter()
        .filter(move |_| !has_network);
    let (_, core) = getrlimit(Resource::RLIMIT_CORE).expect("a limit");
    let of_cores = (core <= 1).then_some("dump-core");
    of_user.chain(of_network).chain(of_cores)
}

struct Proof {
    promise: String,
    probe: String,
    control: String,
    verdict: String,
}

/// A run with `folder` as TMPDIR, in a surrounding that the probe makes.
fn prove(folder: &Path, situation: &[&str], flags: &[&str]) -> Command {
    let mut command = if situation.is_empty() {
        Command::new(binary())
    } else {
        let mut command = Command::new(common::jail::probe_binary());
        command.args(situation).arg("--").arg(binary());
        command
    };
    command.arg("prove").args(flags).env("TMPDIR", folder);
    command.env_remove("GITHUB_ACTIONS");
    command
}

fn proven(folder: &Path, situation: &[&str], flags: &[&str]) -> Run {
    finish(spawn(&mut prove(folder, situation, flags)))
}

fn proofs(run: &Run) -> (serde_json::Value, Vec<Proof>) {
    let report: serde_json::Value = serde_json::from_str(&run.stdout)
        .unwrap_or_else(|error| panic!("no JSON ({error}): {run:#?}"));
    let rows = report["proofs"].as_array().expect("an array").iter();
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().expect(name).to_owned();
    let proofs = rows.map(|row| Proof {
        promise: text(row, "promise"),
        probe: text(row, "probe"),
        control: text(row, "control"),
        verdict: text(row, "verdict"),
    });
    let proofs = proofs.collect();
    (report, proofs)
}

fn named(proofs: &[Proof], verdict: &str) -> BTreeSet<String> {
    let these = proofs.iter().filter(|proof| proof.verdict == verdict);
    these.map(|proof| proof.probe.clone()).collect()
}

fn nothing_is_left(folder: &Path) {
    let left = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        entries.map(|entry| entry.path()).collect()
    };
    assert_eq!(left(folder), Vec::<PathBuf>::new());
    // Other tests prove at the same time; what a killed one left long ago isn't ours.
    let is_new = |path: &PathBuf| {
        let made = fs::symlink_metadata(path).and_then(|meta| meta.modified());
        made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < Duration::from_mins(2)))
    };
    let of_a_proof = |path: &PathBuf| path_str(path).contains("groom-ns-prove-") && is_new(path);
    within("/dev/shm is emptied", || {
        !left(Path::new("/dev/shm")).iter().any(of_a_proof)
    });
}

fn within(what: &str, mut happens: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !happens() {
        assert!(Instant::now() < end, "in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn all_is_proven_and_nothing_is_left() {
    let folder = Folder::new();
    let begun = Instant::now();
    let run = proven(folder.root(), &[], &["--json"]);
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:#?}");

    let (report, proofs) = proofs(&run);
    let vacuous: BTreeSet<String> = vacuous_here().map(str::to_owned).collect();
    assert_eq!(named(&proofs, "failed"), BTreeSet::new(), "{}", run.stdout);
    assert_eq!(named(&proofs, "vacuous"), vacuous, "{}", run.stdout);
    assert!(
        proofs
            .iter()
            .all(|proof| (proof.control == "ok") == (proof.verdict == "proven"))
    );
    for verdict in ["proven", "vacuous", "failed"] {
        let count = named(&proofs, verdict).len();
        assert_eq!(report[verdict], count, "{verdict}: a name is there twice");
    }
    let started_by = if is_root() { "root" } else { "user" };
    assert_eq!(report["started_by"], started_by);
    nothing_is_left(folder.root());
}

#[test]
fn the_table_says_the_same() {
    let folder = Folder::new();
    let (report, proofs) = proofs(&proven(folder.root(), &[], &["--json"]));
    let run = proven(folder.root(), &[], &[]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let mut lines = run.stdout.lines();
    let heading: Vec<&str> = lines
        .next()
        .expect("a heading")
        .split_whitespace()
        .collect();
    assert_eq!(heading, ["promise", "probe", "control", "claim", "verdict"]);
    for (proof, line) in proofs.iter().zip(&mut lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..2], [&proof.promise, &proof.probe]);
        assert_eq!(words.last(), Some(&proof.verdict.as_str()), "{line}");
    }
    let sum = format!(
        "{} proven, {} vacuous, 0 failed (Linux ",
        report["proven"], report["vacuous"]
    );
    assert!(lines.any(|line| line.starts_with(&sum)), "{}", run.stdout);
}

#[test]
fn what_fails_outside_too_is_vacuous_and_said_so() {
    let folder = Folder::new();
    // A filter that is there before, as in a container, and with it no_new_privs.
    let run = proven(
        folder.root(),
        &["deny-syscall", "acct", "EPERM"],
        &["--json"],
    );
    assert_eq!(run.code, Some(0), "{run:#?}");
    let (_, proofs) = proofs(&run);
    let vacuous = named(&proofs, "vacuous");
    for probe in ["gain-by-execve", "kernel-surface"] {
        assert!(vacuous.contains(probe), "{probe}: {}", run.stdout);
    }
    assert!(named(&proofs, "proven").contains("mount"), "{}", run.stdout);

    let run = proven(folder.root(), &["deny-syscall", "acct", "EPERM"], &[]);
    let note = "vacuous: the attempt fails outside too, so that nothing is shown here";
    assert!(
        run.stdout.lines().any(|line| line == note),
        "{}",
        run.stdout
    );
}

#[test]
fn where_the_jail_cannot_be_built_that_is_what_it_says() {
    let folder = Folder::new();
    let run = proven(folder.root(), &["no-userns"], &[]);
    run.assert_refused("userns");
    assert_eq!(run.stdout, "");
    let run = proven(folder.root(), &["no-userns"], &["--json"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(125), ""), "{run:#?}");
    let refusal: serde_json::Value = serde_json::from_str(&run.stderr).expect("JSON");
    assert_eq!(refusal["reason"], "userns");
    nothing_is_left(folder.root());
}

/// Proves, and gets a signal once something was made.
fn signalled(folder: &Path, signal: Signal) -> Run {
    let child = spawn(&mut prove(folder, &[], &[]));
    within("something is made", || {
        let mut made = fs::read_dir(folder).expect("a folder");
        made.next().is_some()
    });
    let pid = pid_of(&child);
    kill(pid, signal).expect("it runs");
    finish(child)
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let folder = Folder::new();
    let run = signalled(folder.root(), Signal::SIGTERM);
    let said = "groom-ns: refused (setup): prove: a signal; run it again\n";
    assert_eq!((run.code, run.stdout.as_str()), (Some(125), ""), "{run:#?}");
    assert_eq!(run.stderr, said);
    nothing_is_left(folder.root());
}

#[test]
fn a_set_user_id_program_does_nothing_for_anybody() {
    if !is_root() {
        // Only root can start one whose owner it isn't.
        return;
    }
    let folder = Folder::new();
    let program = folder.path("setuid");
    install(&binary(), &program);
    chmod(folder.root(), 0o755);
    chmod(&program, 0o4755);
    let mark = folder.path("mark");
    for words in [
        &["probe", "mark", path_str(&mark)][..],
        &["probe", "parent", "/usr/bin/id"],
        &["shim", "0", "/absent"],
        &["prove"],
        &["run", "--", "id"],
        &["run", "--profile", "/etc/shadow"],
    ] {
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--reuid=65533", "--regid=65533", "--clear-groups"]);
        let run = finish(spawn(command.arg(&program).args(words)));
        run.assert_refused("identity");
        assert_eq!(run.stdout, "", "{words:?}");
    }
    assert!(!mark.exists());
    // Control: without the bit it does what that user can.
    chmod(&program, 0o755);
    chmod(folder.root(), 0o777);
    let mut command = Command::new("/usr/bin/setpriv");
    command.args(["--reuid=65533", "--regid=65533", "--clear-groups"]);
    command
        .arg(&program)
        .args(["probe", "mark", path_str(&mark)]);
    let run = finish(spawn(&mut command));
    assert_eq!(run.code, Some(0), "vacuous: {run:#?}");
    assert!(mark.exists(), "vacuous");
}

#[test]
fn what_is_not_there_to_be_tried_is_refused() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    // A network namespace whose loopback is down.
    let mut command = Command::new("/usr/bin/unshare");
    command.arg("--net").arg(binary()).arg("prove");
    let run = finish(spawn(command.env("TMPDIR", folder.root())));
    run.assert_refused("setup");
    assert!(run.stderr.contains("ip link set lo up"), "{run:#?}");
    nothing_is_left(folder.root());
}

#[test]
fn a_window_that_is_resized_ends_nothing() {
    let folder = Folder::new();
    let run = signalled(folder.root(), Signal::SIGWINCH);
    assert_eq!(run.code, Some(0), "{run:#?}");
}

#[test]
fn a_probe_is_no_command_of_its_own() {
    for words in [
        &[][..],
        &["inside"],
        &["inside", "plain", "{}"],
        &["parent"],
    ] {
        let mut command = Command::new(binary());
        command.arg("probe").args(words);
        let run = finish(spawn(&mut command));
        assert_eq!((run.code, run.stdout.as_str()), (Some(125), ""), "{run:#?}");
        assert!(run.stderr.starts_with("groom-ns: "), "{run:#?}");
    }
}

#[test]
fn the_page_names_every_proof() {
    let page = fs::read_to_string(checkout().join("docs/prove.md")).expect("the page");
    let table = page.split("## The proofs").nth(1).expect("the heading");
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?, cells.next()?))
    });
    let mut written: BTreeSet<(String, String)> = rows
        .flat_map(|(promise, probes)| {
            let names = probes.split('`').skip(1).step_by(2);
            names.map(move |name| (promise.to_owned(), name.to_owned()))
        })
        .collect();
    let folder = Folder::new();
    let (_, proofs) = proofs(&proven(folder.root(), &[], &["--json"]));
    let made: BTreeSet<(String, String)> = proofs
        .into_iter()
        .map(|proof| (proof.promise, proof.probe))
        .collect();
    let of_the_other: &[(&str, &str)] = if is_root() {
        &[("key", "read-the-supervisor")]
    } else {
        &[
            ("identity", "roots-groups"),
            ("key", "key-in-forks-cores-or-swap"),
        ]
    };
    for (promise, probe) in of_the_other {
        assert!(written.remove(&((*promise).into(), (*probe).into())));
    }
    assert_eq!(written, made);
}
