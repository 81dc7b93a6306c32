//! What is counted, and how it reads.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use libc::c_long;
use nix::errno::Errno;
use nix::sys::prctl::set_no_new_privs;
use nix::unistd::gettid;

use super::call::shown;
use super::report::{Denials, Program};
use super::{A_TURN, Explainer, Turn};
use crate::confine::seccomp::deciding;
use crate::plan::command::{OnDenial, Seccomp};
use crate::sys::notify::listen;

const PLAN: Seccomp = Seccomp {
    allow_ptrace: false,
    on_denial: OnDenial::Ask,
    rules: 0,
    ceiling: 0,
};

fn count(denials: &mut Denials, number: c_long, args: [u64; 6], exe: &str) {
    let decided = deciding(&PLAN, number, &args);
    let program = Program {
        exe: exe.to_owned(),
        comm: "x".to_owned(),
    };
    denials.count(number, &args, decided, Some(program));
}

#[test]
fn arguments_that_matter_are_shown() {
    for (name, args, expected) in [
        ("socket", [40, 1, 0], "socket(AF_VSOCK, SOCK_STREAM, 0)"),
        (
            "socket",
            [99, 0o2_000_003, 255],
            "socket(99, SOCK_RAW|SOCK_CLOEXEC, 255)",
        ),
        (
            "socket",
            [1 << 32 | 0x26, 5, u64::MAX],
            "socket(AF_ALG, SOCK_SEQPACKET, -1)",
        ),
        ("clone", [0x1000_0011, 0, 0], "clone(CLONE_NEWUSER|0x11)"),
        ("unshare", [0x80, 0, 0], "unshare(CLONE_NEWTIME)"),
        ("unshare", [0, 0, 0], "unshare(0)"),
        ("ioctl", [3, 0x5412, 77], "ioctl(…, TIOCSTI)"),
        ("chmod", [0xdead, 0o4755, 0], "chmod(…, 04755)"),
        ("fchmodat", [0, 0, 0o2000], "fchmodat(…, …, 02000)"),
        ("ptrace", [16, 1, 0], "ptrace(PTRACE_ATTACH)"),
        ("prlimit64", [0, 4, 5], "prlimit64(0, RLIMIT_CORE)"),
        ("personality", [0x40_0000, 0, 0], "personality(0x400000)"),
        ("mount", [1, 2, 3], "mount(…, …, …, 0x0)"),
        ("clone3", [1, 2, 3], "clone3(…)"),
        ("no such call", [1, 2, 3], "no such call(…)"),
    ] {
        let [first, second, third] = args;
        assert_eq!(shown(name, &[first, second, third, 0, 0, 0]), expected);
    }
}

#[test]
fn the_same_of_the_same_program_is_one_line_and_fallbacks_come_last() {
    let mut denials = Denials::default();
    let vsock = [40, 1, 0, 0, 0, 0];
    count(&mut denials, libc::SYS_clone3, [0; 6], "/bin/a");
    for _ in 0..3 {
        count(&mut denials, libc::SYS_socket, vsock, "/bin/a");
    }
    count(&mut denials, libc::SYS_socket, vsock, "/bin/b");
    count(&mut denials, libc::SYS_ptrace, [0; 6], "/bin/b");
    let counts: Vec<u64> = denials.calls.iter().map(|kind| kind.count).collect();
    assert_eq!((counts, denials.others), (vec![1, 3, 1, 1], 0));
    let lines = denials.lines();
    assert!(
        lines[0]
            .starts_with("3x socket(AF_VSOCK, SOCK_STREAM, 0) is EAFNOSUPPORT, to /bin/a (x): "),
        "{lines:#?}"
    );
    assert!(
        lines[2].ends_with("; --allow-ptrace lifts it"),
        "{lines:#?}"
    );
    assert!(
        lines[3].starts_with("1x clone3(…) is ENOSYS, "),
        "{lines:#?}"
    );
}

#[test]
fn memory_is_bounded() {
    let mut denials = Denials::default();
    for family in 100..1100 {
        count(
            &mut denials,
            libc::SYS_socket,
            [family, 1, 0, 0, 0, 0],
            "/bin/a",
        );
    }
    assert_eq!((denials.calls.len(), denials.others), (256, 744));
    assert_eq!(denials.lines().last().unwrap(), "744 calls of other kinds");
    // What is known goes on being counted.
    count(
        &mut denials,
        libc::SYS_socket,
        [100, 1, 0, 0, 0, 0],
        "/bin/a",
    );
    assert_eq!((denials.calls[0].count, denials.others), (2, 744));
}

#[test]
fn a_program_that_is_gone_has_no_name() {
    assert_eq!(Program::of(0), None);
    assert_eq!(Program::of(u32::MAX), None);
    let own = Program::of(std::process::id()).unwrap();
    let expected = std::env::current_exe().unwrap();
    assert!(
        own.exe
            .ends_with(expected.file_name().unwrap().to_str().unwrap())
    );
}

#[test]
fn what_the_self_check_did_not_get_to_make_is_the_commands() {
    let mut explainer = Explainer {
        filter: &PLAN,
        self_check: VecDeque::from([libc::SYS_socket, libc::SYS_unshare, libc::SYS_socket]),
        runs: Rc::default(),
        denials: Denials::default(),
    };
    assert!(explainer.is_self_check(libc::SYS_socket));
    assert!(explainer.is_self_check(libc::SYS_unshare));
    explainer.runs.set(true);
    assert!(!explainer.is_self_check(libc::SYS_socket));
    assert!(explainer.self_check.is_empty());
}

/// Threads that make a denied call at once, more than a turn has room for.
const CALLERS: usize = 3 * A_TURN;

/// Whether a thread of this process sleeps in the kernel.
fn sleeps(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    stat.is_ok_and(|stat| {
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('S'))
    })
}

#[test]
fn a_turn_has_an_end_and_each_call_its_answer() {
    let (give_listener, listener) = mpsc::channel();
    let (give_thread, threads) = mpsc::channel();
    let callers = thread::spawn(move || {
        set_no_new_privs().unwrap();
        // Of this call alone: glibc asks for clone3 before each of the threads below.
        let (listener, _) = listen(&[libc::SYS_socket]).unwrap();
        give_listener.send(listener).unwrap();
        let call = move |give: mpsc::Sender<i32>| {
            give.send(gettid().as_raw()).unwrap();
            crate::sys::socket::open(libc::AF_VSOCK, libc::SOCK_STREAM).unwrap_err()
        };
        let threads: Vec<_> = (0..CALLERS)
            .map(|_| give_thread.clone())
            .map(|give| thread::spawn(move || call(give)))
            .collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.collect::<Vec<_>>()
    });
    let listener = listener.recv().unwrap();
    let mut explainer = Explainer {
        filter: &PLAN,
        self_check: VecDeque::new(),
        runs: Rc::default(),
        denials: Denials::default(),
    };
    let end = Instant::now() + Duration::from_secs(20);
    let mut known = Vec::new();
    while known.len() < CALLERS || !known.iter().all(|thread| sleeps(*thread)) {
        known.extend(threads.try_iter());
        assert!(Instant::now() < end, "{} callers", known.len());
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(explainer.a_turn(&listener), Ok(Turn::Cut));
    let counted = |explainer: &Explainer| -> u64 {
        explainer.denials.calls.iter().map(|kind| kind.count).sum()
    };
    assert_eq!(counted(&explainer), A_TURN as u64);
    while !callers.is_finished() {
        explainer.a_turn(&listener).unwrap();
        assert!(Instant::now() < end, "{} answers", counted(&explainer));
    }
    assert_eq!(callers.join().unwrap(), [Errno::EAFNOSUPPORT; CALLERS]);
    assert_eq!(counted(&explainer), CALLERS as u64);
    while explainer.a_turn(&listener).unwrap() != Turn::Over {
        assert!(Instant::now() < end, "the threads are gone");
    }
}
