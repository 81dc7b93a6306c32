//! Commands that use up what they can. What bounds them: the limits that were asked for
//! (tests/limits.rs has each of them), the private folders' own; and that groom-ns itself
//! takes little, and that all of it is gone with the run.

use std::fs;
use std::io::Read as _;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::host::{processes_with, unique, wait_until_gone};
use crate::common::{Workspace, finish, path_str};

const FORKS: usize = 100;

#[test]
fn however_many_were_forked_they_end_with_the_run() {
    let workspace = Workspace::new();
    let marker = unique("fork");
    let script = format!(
        "i=0; while [ $i -lt {FORKS} ]; do i=$((i+1)); \
         {} stubborn 60 {marker} >/dev/null 2>&1 & done; echo started",
        path_str(&workspace.probe())
    );
    let run = workspace.jail().run_program(&["sh", "-c", &script]);
    assert_eq!(run.outcome(), "started");
    wait_until_gone("a fork", || processes_with(&marker));
    // Control: outside they stay.
    let outside = Command::new("sh").args(["-c", &script]).output();
    assert!(outside.expect("sh").status.success());
    let left = processes_with(&marker);
    for pid in &left {
        kill(Pid::from_raw(*pid), Signal::SIGKILL).expect("our fork");
    }
    assert!(left.len() > FORKS / 2, "vacuous: {} stay", left.len());
}

#[test]
fn a_private_folder_takes_so_many_files_and_no_more() {
    let workspace = Workspace::new();
    let elsewhere = workspace.folder("out").join("one-more");
    // The subshell ends where a redirection fails.
    let script = format!(
        "(i=0; while : >/dev/shm/$i; do i=$((i+1)); done) 2>&1; ls /dev/shm | wc -l; : >{}",
        path_str(&elsewhere)
    );
    let run = workspace
        .jail_with_out()
        .run_program(&["sh", "-c", &script]);
    let files: usize = run
        .outcome()
        .lines()
        .last()
        .and_then(|count| count.trim().parse().ok())
        .expect("a count");
    // The folder itself is one of the 65536 that the README names.
    assert_eq!(files, 65_535, "{run:#?}");
    assert!(run.stdout.contains("No space left"), "{run:#?}");
    assert!(elsewhere.exists(), "vacuous: nothing can be made elsewhere");
}

#[test]
fn a_sparse_file_is_not_read_by_groom_ns() {
    let workspace = Workspace::with_git();
    workspace.folder("out");
    let files = [workspace.path("clone/sparse"), workspace.path("out/sparse")];
    let [one, other] = files.each_ref().map(|path| path_str(path));
    let start = Instant::now();
    let argv = ["truncate", "--size=4T", one, other];
    let run = workspace.jail_with_out().writable().run_program(&argv);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(start.elapsed() < Duration::from_secs(10));
    for file in files {
        assert_eq!(
            fs::metadata(&file).expect("a file").len(),
            4 << 40,
            "vacuous"
        );
    }
}

#[test]
fn output_at_full_speed_takes_no_memory_of_groom_ns() {
    const BYTES: usize = 200_000_000;
    let workspace = Workspace::new();
    let script = format!("echo; yes | head -c {BYTES}");
    let mut command = workspace.jail().command(&["sh", "-c", &script]);
    let mut child = command.spawn().expect("groom-ns");
    let mut output = child.stdout.take().expect("a pipe");
    output.read_exact(&mut [0]).expect("the first byte");
    let before = highest_kib(child.id());
    // Nobody reads for a while, and then in small pieces.
    std::thread::sleep(Duration::from_millis(200));
    let (mut piece, mut read) = (vec![0; 8192], 0);
    while read < BYTES * 9 / 10 {
        let length = output.read(&mut piece).expect("output");
        assert_ne!(length, 0, "the output ended after {read} bytes");
        read += length;
    }
    let after = highest_kib(child.id());
    read += output.read_to_end(&mut Vec::new()).expect("output");
    assert_eq!((read, finish(child).code), (BYTES, Some(0)));
    let growth = after - before;
    assert!(growth < 4096, "{growth} KiB more, after {read} bytes");
}

/// The most memory that a process ever had.
fn highest_kib(pid: u32) -> usize {
    let pid = i32::try_from(pid).expect("a pid");
    let field = crate::common::host::status_field(pid, "VmHWM:");
    field.trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_fork_bomb_is_as_large_as_it_may_be() {
    const MOST: usize = 30;
    let workspace = Workspace::new();
    // Each round doubles them, to 128 and no more.
    let bomb = "import os, time\nfor _ in range(7):\n    try: os.fork()\n    \
                except OSError: pass\ntime.sleep(3)";
    let largest = |jail: crate::common::Jail| {
        let marker = unique("bomb");
        let mut command = jail.command(&["python3", "-c", bomb, &marker]);
        let mut child = command.spawn().expect("groom-ns");
        let mut largest = 0;
        while child.try_wait().expect("our child").is_none() {
            // groom-ns itself has the marker among its arguments.
            largest = largest.max(processes_with(&marker).len().saturating_sub(1));
            // The host forks meanwhile.
            let status = Command::new("true").status();
            assert!(status.expect("the host is usable").success());
        }
        assert_eq!(finish(child).code, Some(0));
        wait_until_gone("a fork", || processes_with(&marker));
        largest
    };
    let limited = workspace.jail().flag("--pids", MOST.to_string());
    assert_eq!(largest(limited), MOST);
    let without = largest(workspace.jail());
    assert!(without > MOST, "vacuous: {without}");
}

#[test]
fn a_flood_of_output_ends_the_run() {
    const MOST: u64 = 3 << 20;
    let workspace = Workspace::new();
    let path = workspace.path("log");
    let file = fs::File::create(&path).expect("a file");
    let jail = workspace.jail().flag("--max-output", MOST.to_string());
    let run =
        jail.stdio(1, file)
            .run_program(&["sh", "-c", "head -c 50M /dev/zero & exec sleep 5"]);
    assert_eq!(run.code, Some(137), "{run:#?}");
    let cause = "it said more than --max-output allows";
    assert!(
        run.stderr
            .trim_end()
            .lines()
            .next_back()
            .is_some_and(|line| line.contains(cause))
    );
    assert_eq!(fs::metadata(&path).expect("the log").len(), MOST);
    // What it would fill without: `output_at_full_speed_takes_no_memory_of_groom_ns`.
}
