//! Commands that use up what they can. Limits on processes, memory and time are not
//! there yet; what is bounded already: the private folders, what groom-ns itself
//! takes, and that all of it is gone with the run.

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
