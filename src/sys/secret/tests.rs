use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::wait::{WaitStatus, waitpid};

use super::*;
use crate::sys::process::{Forked, fork_into};

const NAME: &str = "GROOM_NS_TEST_CANARY";
const ALONE: &str = "GROOM_NS_TEST_ALONE";
const LENGTH: u8 = 40;

/// The canary is computed byte by byte, so that the process that looks for it has no
/// copy of its own.
fn canary(at: u8) -> u8 {
    b'a' + (at * 5 + at / 3) % 26
}

fn is_canary(window: &[u8]) -> bool {
    window
        .iter()
        .zip(0..LENGTH)
        .all(|(byte, at)| *byte == canary(at))
}

fn page_of(bytes: &[u8]) -> SecretPage {
    let mut page = SecretPage::new().expect("page");
    page.fill(|free| {
        free[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    });
    page
}

/// Runs this test once more, in a process of its own with `value` in its environment.
fn run_alone(test: &str, value: &str) {
    let test = format!("sys::secret::tests::{test}");
    let output = Command::new(std::env::current_exe().expect("current_exe"))
        .args(["--exact", &test, "--test-threads=1"])
        .env(NAME, value)
        .env(ALONE, "1")
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// How often the canary is in writable memory, outside the page at `but`.
fn hits(but: Option<usize>) -> usize {
    let memory = File::open("/proc/self/mem").expect("open");
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let mut hits = 0;
    let mut piece = vec![0; 1 << 16];
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (range, rights) = (words.next().expect("range"), words.next().expect("rights"));
        let (start, end) = range.split_once('-').expect("range");
        let number = |hex| usize::from_str_radix(hex, 16).expect("hex");
        let (mut at, end) = (number(start), number(end));
        if !rights.contains('w') || but == Some(at) {
            continue;
        }
        while at < end {
            let Ok(got) = memory.read_at(&mut piece, at as u64) else {
                break;
            };
            let got = got.min(end - at);
            let starts = memchr::memchr_iter(canary(0), &piece[..got]);
            let windows = starts.filter_map(|at| piece[..got].get(at..at + usize::from(LENGTH)));
            hits += windows.filter(|window| is_canary(window)).count();
            if got <= usize::from(LENGTH) {
                break;
            }
            at += got - usize::from(LENGTH) + 1;
        }
    }
    hits
}

#[test]
fn a_taken_value_is_nowhere_but_in_its_page() {
    if !is_alone() {
        let value: String = (0..LENGTH).map(|at| char::from(canary(at))).collect();
        return run_alone("a_taken_value_is_nowhere_but_in_its_page", &value);
    }
    assert!(hits(None) > 0, "the control finds it in the environment");
    let page = take_from_environ(NAME).expect("page").expect("set");
    let start = page.bytes().as_ptr() as usize;
    assert_eq!(page.bytes().len(), usize::from(LENGTH));
    assert!(is_canary(page.bytes()));
    let sought = Sought::new(page, 0..usize::from(LENGTH));
    assert_eq!(sought.needle().as_ptr() as usize, start);
    assert_eq!(hits(Some(start)), 0);
    assert!(hits(None) > 0, "the control finds it in the page");
    let shown = fs::read("/proc/self/environ").expect("environ");
    assert!(!shown.windows(usize::from(LENGTH)).any(is_canary));
    assert_eq!(std::env::var(NAME).as_deref(), Ok(""));
    drop(sought);
    assert_eq!(hits(None), 0, "a dropped page is gone");
    assert!(matches!(take_from_environ("GROOM_NS_NOT_SET"), Ok(None)));
}

#[test]
fn a_page_that_cannot_be_locked_is_an_error() {
    if !is_alone() {
        return run_alone("a_page_that_cannot_be_locked_is_an_error", "");
    }
    assert!(SecretPage::new().is_ok());
    // Root's CAP_IPC_LOCK goes beyond the limit.
    caps::clear(None, caps::CapSet::Effective).expect("capset");
    setrlimit(Resource::RLIMIT_MEMLOCK, 0, 0).expect("setrlimit");
    assert_eq!(SecretPage::new().err(), Some(Errno::EPERM));
}

#[test]
fn every_entry_of_the_name_is_wiped_and_the_first_counts() {
    let mut entries = [
        "A=1", "KEY=one", "KEYS=x", "KEY=two", "KE=y", "KEY", "XKEY=z",
    ]
    .map(|entry| entry.as_bytes().to_vec());
    let taken = take(entries.iter_mut().map(Vec::as_mut_slice), "KEY");
    assert_eq!(taken.expect("page").expect("set").bytes(), b"one");
    let left = entries.map(|entry| String::from_utf8(entry).expect("UTF-8"));
    let wiped = "KEY=\0\0\0";
    assert_eq!(
        left,
        ["A=1", wiped, "KEYS=x", wiped, "KE=y", "KEY", "XKEY=z"]
    );
}

#[test]
fn what_does_not_fit_is_cut() {
    let mut entry = [b"K=".to_vec(), vec![b'x'; CAPACITY + 9]].concat();
    let taken = take(std::iter::once(entry.as_mut_slice()), "K");
    let mut page = taken.expect("page").expect("set");
    assert_eq!(page.bytes(), [b'x'; CAPACITY]);
    assert!(entry[2..].iter().all(|byte| *byte == 0));
    page.fill(|free| {
        assert!(free.is_empty());
        1
    });
    assert_eq!(page.bytes().len(), CAPACITY);
}

#[test]
fn the_kernel_knows_the_page_as_locked_undumped_and_wiped() {
    let page = page_of(b"secret");
    let start = page.bytes().as_ptr() as usize;
    // Pages of other tests may lie next to this one in the same mapping.
    let holds_it = |line: &str| {
        let (first, end) = line.split(' ').next()?.split_once('-')?;
        let first = usize::from_str_radix(first, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        Some((first..end).contains(&start))
    };
    let smaps = fs::read_to_string("/proc/self/smaps").expect("smaps");
    let flags = smaps
        .lines()
        .skip_while(|line| holds_it(line) != Some(true))
        .find_map(|line| line.strip_prefix("VmFlags:"))
        .expect("the page's own mapping");
    for flag in ["lo", "dd", "wf"] {
        assert!(flags.split(' ').any(|word| word == flag), "{flag}: {flags}");
    }
}

#[test]
fn a_fork_sees_zeroes() {
    let page = page_of(b"secret");
    match fork_into(0).expect("fork") {
        Forked::Child => {
            let wiped = page.bytes() == [0; 6];
            // SAFETY: ends the child, in which no other thread runs, at once.
            unsafe { libc::_exit(i32::from(!wiped)) }
        }
        Forked::Parent(child, _) => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
            assert_eq!(page.bytes(), b"secret");
        }
    }
}

#[test]
fn pages_are_filled_piece_by_piece_and_searched() {
    let mut page = page_of(b"  sec");
    page.fill(|free| {
        free[..4].copy_from_slice(b"ret\n");
        4
    });
    assert_eq!(page.bytes(), b"  secret\n");
    assert_eq!(format!("{page:?}"), "SecretPage(…)");
    let sought = Sought::new(page, 2..8);
    assert_eq!(sought.needle(), b"secret");
    assert!(sought.is_in(b"a secret."));
    assert!(!sought.is_in(b"a secre."));
}

#[test]
fn random_bytes_differ() {
    let (mut one, mut two) = ([0; 32], [0; 32]);
    random(&mut one).expect("getrandom");
    random(&mut two).expect("getrandom");
    assert_ne!(one, two);
    assert_ne!(one, [0; 32]);
}

#[test]
fn a_secret_is_wiped_under_every_name_and_nothing_else() {
    let mut entries = [
        b"A=s3cret12".to_vec(),
        b"B=xs3cret12ys3cret12".to_vec(),
        b"C=s3cret1".to_vec(),
        b"s3cret12=D".to_vec(),
    ];
    wipe(entries.iter_mut().map(Vec::as_mut_slice), b"s3cret12");
    assert_eq!(
        entries,
        [
            b"A=\0\0\0\0\0\0\0\0".to_vec(),
            b"B=x\0\0\0\0\0\0\0\0y\0\0\0\0\0\0\0\0".to_vec(),
            b"C=s3cret1".to_vec(),
            b"\0\0\0\0\0\0\0\0=D".to_vec(),
        ]
    );
}
