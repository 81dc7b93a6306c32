//! What is said at the end of a run.

use std::fs;

use crate::common::host::{install, system_program};
use crate::common::{Workspace, path_str};
use crate::{counted, denied};

const NOTHING: &str = "no system call, by the filter";

#[test]
fn nothing_without_the_flag_and_one_line_where_nothing_was_denied() {
    let workspace = Workspace::new();
    let attempt = ["each", "syscall socket 40 1 0"];
    let run = workspace.jail().run(&attempt);
    assert_eq!((run.lines(), denied(&run)), (vec!["EAFNOSUPPORT"], vec![]));
    // The self-check's own attempts aren't the command's.
    let jail = || workspace.jail().switch("--explain-denials");
    let run = jail().run(&["say", "nothing"]);
    assert_eq!((run.ok(), denied(&run)), ("nothing", vec![NOTHING]));
    let run = jail().run(&attempt);
    assert_eq!(run.lines(), ["EAFNOSUPPORT"]);
    let [line] = denied(&run)[..] else {
        panic!("one line: {run:#?}")
    };
    let probe = workspace.probe();
    let probe = path_str(&probe);
    let expected =
        format!("1x socket(AF_VSOCK, SOCK_STREAM, 0) is EAFNOSUPPORT, to {probe} (probe): VSOCK, ");
    assert!(line.starts_with(&expected), "{line}");
}

#[test]
fn each_call_with_its_arguments_and_the_flag_that_lifts_it() {
    let workspace = Workspace::new();
    let run = workspace.jail().switch("--explain-denials").run(&[
        "seq",
        "syscall socket 40 1 0",
        "syscall socket 40 1 0",
        "syscall unshare CLONE_NEWUSER|CLONE_NEWNS",
        "syscall ioctl 0 TIOCSTI 0",
        "syscall chmod @/tmp 0x9ed",
        "syscall setrlimit RLIMIT_CORE %-1,-1",
        "syscall clone3 %0,0,0,0,0,0,0,0,0,0,0 88",
        "syscall io_uring_setup 1 %0,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
        "syscall openat2 AT_FDCWD @/ %0,0,0 24",
        "syscall ptrace PTRACE_ATTACH 1 0 0",
        "syscall 600",
    ]);
    let expected = [
        "EAFNOSUPPORT",
        "EAFNOSUPPORT",
        "EPERM",
        "EPERM",
        "EPERM",
        "ok 0",
        "ENOSYS",
        "ENOSYS",
        "ENOSYS",
        "EPERM",
        "ENOSYS",
    ];
    assert_eq!(run.lines(), expected, "{run:#?}");
    let lines = denied(&run);
    // What programs have other ways for comes last; a number that no rule knows is no call.
    for (line, beginning) in lines.iter().zip([
        "2x socket(AF_VSOCK, SOCK_STREAM, 0) is EAFNOSUPPORT, to ",
        "1x unshare(CLONE_NEWNS|CLONE_NEWUSER) is EPERM, to ",
        "1x ioctl(…, TIOCSTI) is EPERM, to ",
        "1x chmod(…, 04755) is EPERM, to ",
        "1x ptrace(PTRACE_ATTACH) is EPERM, to ",
        "1x setrlimit(RLIMIT_CORE) is 0, to ",
        "1x clone3(…) is ENOSYS, to ",
        "1x io_uring_setup(…) is ENOSYS, to ",
        "1x openat2(…) is ENOSYS, to ",
    ]) {
        assert!(line.starts_with(beginning), "{line}, not {beginning}");
    }
    assert_eq!(lines.len(), 9, "{lines:#?}");
    let lifted: Vec<_> = lines
        .iter()
        .filter(|line| line.ends_with("; --allow-ptrace lifts it"))
        .collect();
    assert!(
        lifted.len() == 1 && lifted[0].contains("ptrace("),
        "{lines:#?}"
    );
}

/// Threads, children, programs that were executed, and what the command left behind.
const EVERYWHERE: &str = "\
import os, socket, subprocess, sys, threading, time
def attempt(who):
    try:
        socket.socket(40, 1, 0)
        print(who, 'allowed')
    except OSError as error:
        print(who, error.errno, flush=True)
if len(sys.argv) > 1:
    attempt(sys.argv[1])
    sys.exit()
attempt('first')
thread = threading.Thread(target=attempt, args=['thread'])
thread.start(); thread.join()
if not os.fork():
    attempt('child')
    os._exit(0)
os.wait()
script = open('/proc/self/cmdline').read().split('\\0')[2]
subprocess.run([sys.executable, '-c', script, 'executed'])
reads, writes = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        while os.getppid() != 1:
            time.sleep(0.001)
        attempt('left')
        os.write(writes, b'x')
        os._exit(0)
    os._exit(0)
os.read(reads, 1)
";

#[test]
fn every_process_gets_the_same_answer_with_and_without() {
    let python = system_program("python3", "python3");
    let workspace = Workspace::new();
    let argv = [&python, "-c", EVERYWHERE];
    let expected = ["first", "thread", "child", "executed", "left"];
    let expected = expected.map(|who| format!("{who} {}", libc::EAFNOSUPPORT));
    let run = workspace.jail().run_program(&argv);
    assert_eq!(run.outcome().lines().collect::<Vec<_>>(), expected);
    let run = workspace
        .jail()
        .switch("--explain-denials")
        .run_program(&argv);
    assert_eq!(run.outcome().lines().collect::<Vec<_>>(), expected);
    assert_eq!(counted(&run, "socket(AF_VSOCK"), 5, "{run:#?}");
}

#[test]
fn names_that_a_program_chose_are_escaped() {
    let workspace = Workspace::new();
    let copy = workspace.clone_dir().join("a\u{1b}[31m\nb");
    install(&workspace.probe(), &copy);
    let run = workspace.jail().switch("--explain-denials").run_program(&[
        path_str(&copy),
        "seq",
        "syscall socket 40 1 0",
    ]);
    assert_eq!(run.lines(), ["EAFNOSUPPORT"]);
    let [line] = denied(&run)[..] else {
        panic!("one line: {run:#?}")
    };
    assert!(
        line.contains(r"clone/a\u{1b}[31m\nb (a\u{1b}[31m\nb): VSOCK"),
        "{line}"
    );
    assert!(!run.stderr.contains('\u{1b}'), "{run:#?}");
}

#[test]
fn tracing_can_be_allowed_and_the_rest_is_explained() {
    let workspace = Workspace::new();
    let jail = || {
        workspace
            .jail()
            .switch("--explain-denials")
            .switch("--allow-ptrace")
    };
    let run = jail().run(&["each", "trace-child", "peek child", "syscall socket 40 1 0"]);
    assert_eq!(run.lines()[0], "ok", "{run:#?}");
    assert!(run.lines()[1].starts_with("ok"), "{run:#?}");
    assert_eq!(run.lines()[2], "EAFNOSUPPORT", "{run:#?}");
    assert_eq!(denied(&run).len(), 1, "{run:#?}");
}

#[test]
fn it_comes_after_all_that_the_command_said() {
    let workspace = Workspace::new();
    let script = "seq 20000 >&2; echo last >&2; exit 3";
    let run = workspace
        .jail()
        .switch("--explain-denials")
        .run_program(&["sh", "-c", script]);
    assert_eq!(run.code, Some(3));
    let lines: Vec<&str> = run.stderr.lines().collect();
    let [.., last, said] = lines[..] else {
        panic!("two lines: {run:#?}")
    };
    assert_eq!(
        (last, said),
        ("last", &format!("groom-ns: denied: {NOTHING}")[..])
    );
}

#[test]
fn a_refusal_explains_nothing() {
    let workspace = Workspace::new();
    let jail = workspace.jail().switch("--explain-denials");
    let run = jail.flag("--clone", "/").refused("path");
    assert_eq!(denied(&run), [""; 0]);
    // Nor does a command that wasn't there to be denied anything.
    let jail = workspace.jail().switch("--explain-denials");
    let run = jail.run_program(&["no-such-program"]);
    assert_eq!((run.code, denied(&run)), (Some(127), vec![NOTHING]));
}

/// The flag that would have the kernel go on with a call is nowhere in the program.
#[test]
fn no_source_lets_a_call_continue() {
    let mut files = vec![crate::common::host::checkout().join("src")];
    let mut seen = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder of the source");
            files.extend(entries.map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        seen += usize::from(text.contains("0xc018_2101"));
        assert!(!text.contains("FLAG_CONTINUE"), "{}", path.display());
    }
    assert_eq!(
        seen, 1,
        "one place answers, and its own test looks at the answers"
    );
}
