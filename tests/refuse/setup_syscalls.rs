//! Every call of every syscall of a start, made to fail in turn: a step whose
//! failure goes unnoticed would degrade the jail silently. Which there are is
//! learned from a start that is watched, not from a list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::Workspace;
use crate::failing_start::{End, Start};

/// What an outer filter or a host in trouble would answer; EPERM where none is named.
const ERRNOS: &[(&str, &str)] = &[
    ("brk", "ENOMEM"),
    ("close", "EIO"),
    ("dup", "EMFILE"),
    ("epoll_create1", "EMFILE"),
    ("eventfd2", "EMFILE"),
    ("fstatfs", "EIO"),
    ("getdents64", "EIO"),
    // EPERM and ENOSYS are what an outer filter says; then the command has no
    // keyring of the caller's either, and the run goes on (tested below).
    ("keyctl", "EDQUOT"),
    ("mkdirat", "EIO"),
    ("mmap", "ENOMEM"),
    ("mprotect", "ENOMEM"),
    ("newfstatat", "EIO"),
    ("openat", "EMFILE"),
    ("openat2", "EMFILE"),
    ("pipe2", "EMFILE"),
    ("read", "EIO"),
    ("readlinkat", "EIO"),
    ("signalfd4", "EMFILE"),
    ("socketpair", "EMFILE"),
    ("statx", "EIO"),
    ("symlinkat", "EIO"),
    ("write", "EIO"),
];

fn errno_of(calls: &str) -> &'static str {
    let name = calls.split(':').next().unwrap_or_default();
    let named = ERRNOS.iter().find(|(known, _)| *known == name);
    named.map_or("EPERM", |(_, errno)| errno)
}

/// Failures that refuse nothing. Where the command then runs, its jail is as
/// complete as any; where a process dies, nothing is left of the jail.
const TOLERATED: &[(&str, &str)] = &[
    ("464", "getxattrat: lgetxattr says the same"),
    ("arch_prctl", "libc ends before main"),
    ("brk", "malloc takes mmap instead, or the program is ended"),
    (
        "epoll_ctl",
        "output that can't be watched is lost; that is said, and no success",
    ),
    (
        "epoll_wait",
        "the event loop can't go on, and the jail ends with it",
    ),
    ("getcwd", "a current folder that no path depends on"),
    (
        "getpid",
        "it can't fail; which free id is tried first depends on it",
    ),
    (
        "getpriority",
        "an id that can't be looked for counts as taken, and the next is tried",
    ),
    ("getrandom", "std seeds its tables from elsewhere"),
    ("gettid", "libc's own note"),
    (
        "ioctl:1:21505",
        "TCGETS: what isn't known to be a terminal is none, and TERM is dumb",
    ),
    (
        "ioctl:1:21523",
        "TIOCGWINSZ: a terminal of unknown size is none, and the jail's has 80 by 24",
    ),
    ("lseek", "a folder that was just opened is at its beginning"),
    ("mmap", "libc ends before main, or the program is ended"),
    ("mprotect", "libc ends before main"),
    ("munmap", "memory that isn't given back"),
    (
        "newfstatat",
        "std's look at the size of its stack, and at a file's before it reads it",
    ),
    (
        "openat",
        "std's look at the size of its stack; libc's at how many groups there may be",
    ),
    (
        "poll",
        "std ends before main: descriptors 0 to 2 may be closed",
    ),
    (
        "prlimit64",
        "std's look at the size of its stack; a broker's at how much it may hold open",
    ),
    ("read", "as for openat"),
    ("readlink", "libc's own path, which nothing is loaded from"),
    ("rseq", "libc goes without"),
    ("recvfrom", "as for recvmsg, whose length it asks for"),
    (
        "recvmsg",
        "a word of the jail's is lost once the command may run, and the jail is killed",
    ),
    (
        "rt_sigaction",
        "std ends before main, or doesn't report where a stack ended",
    ),
    (
        "rt_sigtimedwait",
        "pid 1 would be deaf to the command's end: it ends itself",
    ),
    (
        "sched_getaffinity",
        "std takes the machine for one processor",
    ),
    ("sched_yield", "pid 1 begins a little later"),
    ("set_robust_list", "libc's own, for threads"),
    ("set_tid_address", "libc's own, for threads"),
    ("sigaltstack", "std doesn't report where a stack ended"),
    ("statx", "std's look at a file's size before it reads it"),
    (
        "wait4",
        "the process that id maps were made with ends anyway",
    ),
];

/// Those of a start with a broker alone.
const TOLERATED_WITH_BROKER: &[(&str, &str)] = &[
    (
        "connect",
        "the connection that is made ahead of the first request",
    ),
    ("fstatfs", "a better word for a log that can't be opened"),
    ("getsockopt", "as for connect"),
    ("socket", "as for connect"),
    (
        "write",
        "the event loop can't be woken, and the jail ends with it",
    ),
];

/// Calls that can't be made to fail here.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "close",
        "the descriptor is gone whatever it answers (close(2)): a call that isn't made is no failure of it",
    ),
    ("execve", "no setup any more: tested below"),
    ("exit_group", "it doesn't return"),
    (
        "fcntl:1:1",
        "F_GETFD: a check of std's in debug builds, which ends the program",
    ),
];

/// How many starts are under way at once: most of a start is waiting.
const WORKERS: usize = 12;

/// Of a second kind of start, calls that are made more often than this are left out.
const A_FEW: usize = 5;

/// One call of a start to be made to fail.
struct Item {
    with_broker: bool,
    calls: String,
    nth: usize,
    /// Whether there may be more of them than were seen.
    is_last: bool,
}

impl Item {
    fn may_be_tolerated(&self) -> bool {
        let is_in = |table: &[(&str, &str)]| table.iter().any(|(calls, _)| *calls == self.calls);
        is_in(TOLERATED) || self.with_broker && is_in(TOLERATED_WITH_BROKER)
    }
}

/// The calls of a start, and how many of each.
fn learned(with_broker: bool) -> BTreeMap<String, usize> {
    let run = Start::new(with_broker).run(&["trace-setup"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    let lines = run.stderr.lines();
    let calls = lines.filter_map(|line| line.strip_prefix("probe: ")?.split_once(" × "));
    calls
        .map(|(count, calls)| (calls.to_owned(), count.parse().expect("a count")))
        .collect()
}

/// All of a start with a broker and a terminal, which has every step there is; and of one without,
/// whose steps are some of the same, the calls that are made a few times.
fn items() -> Vec<Item> {
    let whole = learned(true);
    let mut plain = learned(false);
    plain.retain(|_, count| *count <= A_FEW);
    let is_left_out = |calls: &str| LEFT_OUT.iter().any(|(left_out, _)| *left_out == calls);
    let mut items = Vec::new();
    for (with_broker, calls) in [(true, whole), (false, plain)] {
        for (calls, count) in calls.iter().filter(|(calls, _)| !is_left_out(calls)) {
            items.extend((1..=*count).map(|nth| Item {
                with_broker,
                calls: calls.clone(),
                nth,
                is_last: nth == *count,
            }));
        }
    }
    items
}

/// What is wrong with a failure, if anything.
fn judge(item: &Item, nth: usize, end: Result<End, String>) -> Option<String> {
    let broker = if item.with_broker { "" } else { ", no broker" };
    let named = format!("{} #{nth}{broker}", item.calls);
    match end {
        Ok(End::Refused) => None,
        Ok(_) if item.may_be_tolerated() => None,
        Ok(end) => Some(format!("{named}: {end:?}, without a reason to tolerate it")),
        Err(wrong) => Some(format!("{named}: {wrong}")),
    }
}

#[test]
fn every_one_that_fails_refuses() {
    let items = items();
    let setup: BTreeSet<&str> = items.iter().map(|item| item.calls.as_str()).collect();
    assert!(setup.len() > 60 && items.len() > 900, "vacuous: {setup:?}");
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let tried = Mutex::new(BTreeMap::<Option<End>, usize>::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let starts = [Start::new(false), Start::new(true)];
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = &starts[usize::from(item.with_broker)];
                    let mut nth = item.nth;
                    while let Some(end) = start.fail(&item.calls, nth, errno_of(&item.calls)) {
                        let known = end.as_ref().ok().copied();
                        *tried.lock().expect("no panic").entry(known).or_default() += 1;
                        let found = judge(item, nth, end);
                        wrong.lock().expect("no panic").extend(found);
                        if !item.is_last {
                            break;
                        }
                        nth += 1;
                    }
                }
            });
        }
    });
    eprintln!("{} kinds of calls: {:?}", setup.len(), tried.lock());
    let wrong = wrong.into_inner().expect("no panic");
    assert!(
        wrong.is_empty(),
        "{} of the setup's failures:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn an_execution_that_fails_is_the_commands_error() {
    // Control of the above: what comes after the setup is no refusal.
    let workspace = Workspace::new();
    let jail = workspace
        .jail()
        .in_situation(&["fail-nth", "execve", "1", "EACCES"]);
    assert_eq!(jail.run(&["say", "ran"]).code, Some(126));
}

#[test]
fn a_keyctl_that_an_outer_filter_denies_is_denied_to_the_command_too() {
    let workspace = Workspace::new();
    for errno in ["EPERM", "ENOSYS"] {
        let jail = workspace
            .jail()
            .in_situation(&["deny-syscall", "keyctl", errno]);
        // KEYCTL_GET_KEYRING_ID of the session's keyring.
        let answer = jail.run(&["syscall", "keyctl", "0", "-3", "0"]);
        assert!(
            ["EPERM", "ENOSYS"].contains(&answer.outcome()),
            "{answer:#?}"
        );
    }
}
