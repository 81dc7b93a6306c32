//! The filter that asks a listener: what it asks about is what it would deny, and the
//! supervisor finds the same rule.

use std::collections::BTreeSet;

use libc::c_long;

use super::compile::ARCH;
use super::interpreter::{Data, run};
use super::tests::{ALLOW, compiled, errno};
use super::*;

const ASKED: u32 = libc::SECCOMP_RET_USER_NOTIF;
/// Bits that the kernel doesn't look at.
const GARBAGE: u64 = 0xdead_beef_0000_0000;

fn plan(allow_ptrace: bool) -> Seccomp {
    Seccomp {
        allow_ptrace,
        on_denial: OnDenial::Ask,
        rules: rule_count(allow_ptrace, OnDenial::Ask),
        ceiling: CEILING,
    }
}

/// Every value at which a test of a rule on this call turns, and its neighbours.
fn boundaries(call: c_long) -> BTreeSet<(u8, u64)> {
    let rules = rules(false, OnDenial::Ask);
    let of_call = rules.filter(|rule| rule.calls.iter().any(|known| known.number == call));
    let tests = of_call.flat_map(|rule| rule.when).flat_map(|tests| *tests);
    let mut found = BTreeSet::new();
    for test in tests {
        let (index, values) = match *test {
            Test::Is(index, value) | Test::Not(index, value) => (
                index,
                vec![value.wrapping_sub(1), value, value.wrapping_add(1)],
            ),
            Test::Bits(index, mask, value) => (
                index,
                vec![
                    value,
                    !mask,
                    mask,
                    value | !mask,
                    value & value.wrapping_sub(1),
                ],
            ),
            Test::NotNull(index) => (index, vec![0, 1]),
        };
        for value in values {
            found.insert((index, u64::from(value)));
            found.insert((index, u64::from(value) | GARBAGE));
        }
    }
    found
}

/// Zeros, ones, and each pair of boundaries of two arguments.
fn cases(call: c_long) -> Vec<[u64; 6]> {
    let boundaries = boundaries(call);
    let mut cases = vec![[0; 6], [u64::MAX; 6]];
    for &(index, value) in &boundaries {
        for &(other, second) in &boundaries {
            for third in [0, 1, 2, 0x8000] {
                let mut args = [third; 6];
                args[usize::from(index)] = value;
                args[usize::from(other)] = second;
                cases.push(args);
            }
        }
    }
    cases
}

#[test]
fn the_supervisor_decides_as_the_filter_does() {
    let (mut denied, mut allowed) = (0, 0);
    for allow_ptrace in [false, true] {
        let answering = compiled(allow_ptrace, OnDenial::Answer);
        let asking = compiled(allow_ptrace, OnDenial::Ask);
        for number in 0..=c_long::from(CEILING) {
            for args in cases(number) {
                let data = Data::new(number, &args);
                let expected = run(&answering, data);
                let asked = run(&asking, data);
                let found = deciding(&plan(allow_ptrace), number, &args);
                match found {
                    None => assert_eq!((asked, expected), (ALLOW, ALLOW), "{number}{args:x?}"),
                    Some((rule, _)) if rule.explaining => {
                        assert_eq!((asked, expected), (errno(libc::EBUSY), ALLOW));
                    }
                    Some((rule, call)) => {
                        let answer = libc::SECCOMP_RET_ERRNO | rule.answer.errno();
                        assert_eq!((asked, expected), (ASKED, answer), "{number}{args:x?}");
                        assert_eq!(call.number, number);
                    }
                }
                *if found.is_some() {
                    &mut denied
                } else {
                    &mut allowed
                } += 1;
            }
        }
    }
    assert!(
        denied > 1000 && allowed > 1000,
        "vacuous: {denied} and {allowed}"
    );
}

#[test]
fn each_rule_is_found() {
    for rule in rules(false, OnDenial::Ask) {
        for call in rule.calls {
            let found = cases(call.number).into_iter().any(|args| {
                deciding(&plan(false), call.number, &args).map(|found| found.0) == Some(rule)
            });
            assert!(found, "{} {rule}", call.name());
        }
    }
}

#[test]
fn what_is_above_the_ceiling_and_foreign_is_not_asked_about() {
    let asking = compiled(false, OnDenial::Ask);
    for number in [CEILING + 1, 1000, 0x4000_0000, u32::MAX] {
        let answer = run(&asking, Data::of(ARCH, number, &[]));
        assert_eq!(answer, errno(libc::ENOSYS), "{number:#x}");
    }
    let answer = run(&asking, Data::of(0x4000_0003, 20, &[]));
    assert_eq!(answer, libc::SECCOMP_RET_KILL_PROCESS);
}

/// Not asked about: the answer has to stand when nobody listens any more.
#[test]
fn another_listener_is_denied_by_the_filter_itself() {
    let asking = compiled(false, OnDenial::Ask);
    for flags in [8, 8 | 32, 8 | 1 << 4, 8 | GARBAGE] {
        let data = Data::new(libc::SYS_seccomp, &[1, flags, 1]);
        assert_eq!(run(&asking, data), errno(libc::EBUSY));
        assert_eq!(run(&compiled(false, OnDenial::Answer), data), ALLOW);
    }
    for flags in [0, 1, 2, 4, 16] {
        let data = Data::new(libc::SYS_seccomp, &[1, flags, 1]);
        assert_eq!(run(&asking, data), ALLOW);
    }
}

/// Off, it costs nothing: the same program, but for the returns, as on.
#[test]
fn without_the_flag_nothing_is_asked() {
    let answering = compiled(false, OnDenial::Answer);
    assert!(answering.iter().all(|step| step.k != ASKED));
    let asking = compiled(false, OnDenial::Ask);
    assert!(asking.iter().any(|step| step.k == ASKED), "vacuous");
}
