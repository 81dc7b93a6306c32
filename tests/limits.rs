//! What a run may use up: each limit holds, the run's last line says which one ended
//! it, and without the limit the same command gets further.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::host::system_program;
use common::{Jail, Run, Workspace, finish, path_str};

const MIB: u64 = 1 << 20;

/// Starts what it can, processes or threads, and says how many that were; with the
/// command itself. 40 is enough to go beyond every limit here.
const FORKS: &str = "\
import os, signal, time
n, kids = 1, []
try:
    while n < 40:
        kid = os.fork()
        if kid == 0:
            time.sleep(60)
        kids.append(kid)
        n += 1
except OSError as error:
    print(error.strerror)
print(n)
[os.kill(kid, signal.SIGKILL) for kid in kids]
";
const THREADS: &str = "\
import threading
n, done = 1, threading.Event()
try:
    while n < 40:
        threading.Thread(target=done.wait).start()
        n += 1
except RuntimeError as error:
    print(error)
print(n)
done.set()
";
/// Lifts the limit again, and forks then.
const RAISE: &str = "\
import resource
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (resource.RLIM_INFINITY,) * 2)
    print('raised')
except ValueError:
    print('not raised')
";

fn python(jail: Jail, script: &str) -> Run {
    system_program("python3", "python3");
    jail.run_program(&["python3", "-c", script])
}

/// The last line that groom-ns said.
fn last_line(run: &Run) -> &str {
    let warning = "groom-ns: warning: the command keeps your groups";
    let is_said = |line: &&str| line.starts_with("groom-ns: ") && !line.starts_with(warning);
    run.stderr.lines().rfind(is_said).unwrap_or_default()
}

#[test]
fn so_many_processes_and_no_more() {
    let workspace = Workspace::new();
    // What else this user runs isn't counted.
    let mut others: Vec<Child> = (0..20)
        .map(|_| Command::new("sleep").arg("60").spawn().expect("sleep"))
        .collect();
    let limited = || workspace.jail().flag("--pids", "12");
    let forks = python(limited(), FORKS);
    let threads = python(limited(), THREADS);
    let raised = python(limited(), &format!("{RAISE}\n{FORKS}"));
    for other in &mut others {
        other.kill().expect("our child");
        other.wait().expect("our child");
    }
    assert_eq!(forks.outcome(), "Resource temporarily unavailable\n12");
    assert_eq!(threads.outcome(), "can't start new thread\n12");
    let wanted = "not raised\nResource temporarily unavailable\n12";
    assert_eq!(raised.outcome(), wanted);
    // One is the command, which can't fork then.
    let alone = python(workspace.jail().flag("--pids", "1"), FORKS);
    assert_eq!(alone.outcome(), "Resource temporarily unavailable\n1");
    for script in [FORKS, THREADS] {
        let run = python(workspace.jail(), script);
        assert_eq!(run.outcome(), "40", "vacuous");
    }
}

#[test]
fn no_file_grows_beyond_its_size() {
    let workspace = Workspace::new();
    let out = workspace.folder("out");
    for file in [
        "/tmp/file".to_owned(),
        path_str(&out.join("file")).to_owned(),
    ] {
        let to = format!("of={file}");
        let write = ["dd", "if=/dev/zero", &to, "bs=64k", "count=32"];
        let limited = || workspace.jail_with_out().flag("--file-size", "1M");
        for argv in [
            &write[..],
            &["truncate", "--size=2M", &format!("{file}-sparse")],
        ] {
            let run = limited().run_program(argv);
            assert_eq!(run.code, Some(128 + 25), "{run:#?}");
            let line = "the command was killed: a file grew beyond --file-size (1048576 bytes)";
            assert_eq!(last_line(&run), format!("groom-ns: {line}"));
            let run = workspace.jail_with_out().run_program(argv);
            assert_eq!(run.code, Some(0), "vacuous: {run:#?}");
        }
        let script = format!("{}; stat -c %s {file}", write.join(" "));
        let run = limited().run_program(&["sh", "-c", &script]);
        assert_eq!(run.outcome(), MIB.to_string(), "{run:#?}");
        // Not the command's own end: of what ended one of its children nothing is known.
        assert_eq!(last_line(&run), "");
    }
    // Nor of a signal that it sent itself, where there is no such limit.
    let run = workspace.jail().run_program(&["sh", "-c", "kill -XFSZ $$"]);
    assert_eq!((run.code, last_line(&run)), (Some(128 + 25), ""));
}

#[test]
fn each_private_folder_has_the_size_asked_for() {
    let workspace = Workspace::new();
    let fill = "for dir in /tmp $HOME /dev/shm; do \
                dd if=/dev/zero of=$dir/file bs=64k count=32 2>/dev/null; \
                stat -c %s $dir/file; done";
    let fill = ["sh", "-c", fill];
    let sizes = |size: u64| vec![size.to_string(); 3].join("\n");
    let run = workspace.jail().flag("--tmp-size", "1M").run_program(&fill);
    assert_eq!(run.outcome(), sizes(MIB));
    let run = workspace.jail().run_program(&fill);
    assert_eq!(run.outcome(), sizes(2 * MIB), "vacuous");
    let size = |share: &str| {
        let argv = ["stat", "-f", "-c", "%b", "/tmp"];
        let run = workspace
            .jail()
            .flag("--tmp-size", share)
            .run_program(&argv);
        run.outcome().parse::<u64>().expect("a number")
    };
    let (small, large) = (size("1%"), size("10%"));
    assert!(small.abs_diff(large / 10) <= 1, "{small} of {large} blocks");
}

#[test]
fn so_much_is_said_and_not_a_byte_more() {
    let workspace = Workspace::new();
    let limited = |most: &str| workspace.jail().flag("--max-output", most);
    let line = |most: u64| {
        format!("groom-ns: the run was ended: it said more than --max-output allows ({most} bytes)")
    };
    // At full speed.
    let run = limited("1M").run_program(&["head", "-c", "8M", "/dev/zero"]);
    assert_eq!(run.code, Some(137), "{}", run.stderr);
    assert_eq!(run.stdout.len() as u64, MIB);
    assert_eq!(last_line(&run), line(MIB));
    // Both streams together; and whoever is quick to end is found out all the same.
    let both = [
        "sh",
        "-c",
        "printf 12345; printf 67890 >&2; sleep 1; printf x; exit 0",
    ];
    let run = limited("10").run_program(&both);
    assert_eq!((run.code, &run.stdout[..]), (Some(137), "12345"));
    assert_eq!(run.stderr_but_for_groups(), format!("67890{}\n", line(10)));
    for _ in 0..10 {
        let run = limited("4").run_program(&["printf", "12345"]);
        assert_eq!((run.code, &run.stdout[..]), (Some(137), "1234"));
    }
    // All that may be is no flood, and what isn't moved isn't counted.
    let run = limited("5").run_program(&["printf", "12345"]);
    assert_eq!(run.outcome(), "12345");
    let run = limited("5")
        .stdio(1, Stdio::null())
        .run_program(&["printf", "123456"]);
    assert_eq!((run.code, last_line(&run)), (Some(0), ""));
    let run = workspace
        .jail()
        .run_program(&["head", "-c", "2M", "/dev/zero"]);
    assert_eq!(run.outcome().len() as u64, 2 * MIB, "vacuous");
}

#[test]
fn a_flood_ends_though_nobody_reads_and_fills_no_disk() {
    let workspace = Workspace::new();
    let limited = || workspace.jail().flag("--max-output", "3M");
    // Into a file, and by what the command leaves behind.
    let path = workspace.path("said");
    let file = fs::File::create(&path).expect("a file");
    let argv = ["sh", "-c", "head -c 50M /dev/zero & exec sleep 5"];
    let run = limited().stdio(1, file).run_program(&argv);
    assert_eq!(run.code, Some(137), "{run:#?}");
    assert_eq!(fs::metadata(&path).expect("the file").len(), 3 * MIB);
    // The jail is gone before the reader has begun.
    let mut command =
        workspace
            .jail()
            .flag("--max-output", "1")
            .command(&["head", "-c", "8M", "/dev/zero"]);
    let mut child = command.spawn().expect("groom-ns");
    let start = Instant::now();
    let limit = common::host::patience(Duration::from_secs(20));
    while child.try_wait().expect("our child").is_none() {
        assert!(start.elapsed() < limit, "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut said = Vec::new();
    let output = child.stdout.as_mut().expect("a pipe");
    output.read_to_end(&mut said).expect("output");
    assert_eq!(said, b"\0");
    assert_eq!(finish(child).code, Some(137));
}

/// Where there is no cgroup to be had, a limit that needs one is a refusal, and where
/// there is, it holds.
#[test]
fn memory_is_bounded_or_the_run_is_refused() {
    let workspace = Workspace::new();
    let bomb = "x = bytearray(192 << 20); print(len(x) >> 20)";
    let run = python(workspace.jail().flag("--memory", "128M"), bomb);
    if run.code == Some(125) {
        let run = workspace.jail().flag("--memory", "128M").refused("limits");
        // Where version 1 has it, as much as where systemd could be asked.
        let own = fs::read_to_string("/proc/self/cgroup").expect("/proc");
        let is_old = own.lines().any(|line| line.contains(":memory:"));
        let says = match (is_old, Path::new("/run/systemd/system").is_dir()) {
            (true, _) => "systemd.unified_cgroup_hierarchy=1",
            (false, true) => "systemd-run --user --scope -p Delegate=yes",
            (false, false) => "start it alone in a cgroup",
        };
        assert!(run.refusal().contains(says), "{run:#?}");
    } else {
        assert_eq!(run.code, Some(137), "{run:#?}");
        let line = "the jail was killed: it took more than --memory allows (134217728 bytes)";
        assert_eq!(last_line(&run), format!("groom-ns: {line}"));
    }
    assert_eq!(python(workspace.jail(), bomb).outcome(), "192", "vacuous");
}

#[test]
fn without_cgroups_memory_and_processors_are_refused() {
    let workspace = Workspace::new();
    let hidden = ["mounts", "tmpfs:/sys/fs/cgroup"];
    for (flag, value) in [("--memory", "1G"), ("--cpus", "0.5")] {
        let jail = workspace.jail().flag(flag, value).flag("--pids", "10");
        let run = jail.in_situation(&hidden).refused("limits");
        let words = "cgroup2 isn't mounted, or not for writing";
        let none = "this process is in no cgroup of version 2";
        let said = run.refusal();
        assert!(said.contains(words) || said.contains(none), "{said}");
        assert!(said.contains("docker run --memory"), "{said}");
    }
    // The control: what needs none runs there.
    let jail = workspace.jail().flag("--pids", "10").in_situation(&hidden);
    assert_eq!(jail.run_program(&["true"]).code, Some(0), "vacuous");
}

/// Version 1 alone, beside version 2, and none: with systemd and without.
#[test]
fn what_is_said_of_cgroups_is_this_hosts_way() {
    let workspace = Workspace::new();
    let at = |name: &str, text: &str| path_str(&workspace.file(name, text)).to_owned();
    let run = workspace.folder("run/systemd/system");
    let run = path_str(run.ancestors().nth(2).expect("run")).to_owned();
    let bare = path_str(&workspace.folder("bare")).to_owned();
    for (own, cause) in [
        ("4:memory:/a\n", "version 1 has the controllers (memory)"),
        (
            "3:cpu,memory:/a\n0::/a\n",
            "version 1 has the controllers (memory)",
        ),
        ("1:name=systemd:/a\n0::/a\n", ""),
    ] {
        let own = at("own", own);
        for (run, by) in [(&run, "systemd-run"), (&bare, "start it alone in a cgroup")] {
            let situation = [
                "mounts",
                "tmpfs:/sys/fs/cgroup",
                &format!("bind:{own}:/proc/self/cgroup"),
                &format!("bind:{run}:/run"),
            ];
            let jail = workspace.jail().flag("--memory", "1G");
            let said = jail.in_situation(&situation).refused("limits");
            let said = said.refusal();
            let (says, says_not) = match cause {
                "" => (by, "unified_cgroup_hierarchy"),
                cause => (cause, "systemd-run"),
            };
            assert!(said.contains(says) && !said.contains(says_not), "{said}");
        }
    }
}

#[test]
fn what_is_no_limit_is_refused() {
    let workspace = Workspace::new();
    for (flag, value) in [
        ("--memory", "0"),
        ("--memory", "1M"),
        ("--memory", "lots"),
        ("--memory", "-1G"),
        ("--pids", "0"),
        ("--pids", "max"),
        ("--pids", "5000000"),
        ("--cpus", "0"),
        ("--cpus", "1,5"),
        ("--cpus", "0.001"),
        ("--tmp-size", "0"),
        ("--tmp-size", "101%"),
        ("--tmp-size", "1.5G"),
        ("--file-size", "0"),
        ("--file-size", "8E"),
        ("--max-output", ""),
        ("--max-output", "99999999T"),
    ] {
        let flag_value = format!("{flag}={value}");
        let run = workspace.jail().switch(&flag_value).refused("usage");
        assert!(run.refusal().contains(flag), "{}", run.refusal());
    }
}
