//! The filter as a whole: prologue, order, unconditional rules, explanation.

use libc::c_long;
use seccompiler::BpfProgram;

use super::compile::program;
use super::interpreter::{Data, run};
use super::*;
use crate::refusal::Reason;

pub(super) const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

pub(super) fn errno(number: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | u32::try_from(number).unwrap()
}

pub(super) fn filter(allow_ptrace: bool) -> BpfProgram {
    compiled(allow_ptrace, OnDenial::Answer)
}

pub(super) fn compiled(allow_ptrace: bool, on_denial: OnDenial) -> BpfProgram {
    let rules: Vec<_> = rules(allow_ptrace, on_denial).collect();
    program(&rules, on_denial).unwrap()
}

#[test]
fn foreign_architectures_kill() {
    for arch in [0x4000_0003, 0xc000_00b7, 0] {
        let data = Data::of(arch, 20, &[]);
        assert_eq!(run(&filter(false), data), KILL);
    }
}

#[test]
fn numbers_above_the_ceiling_and_x32_are_enosys() {
    let filter = filter(false);
    let enosys = errno(libc::ENOSYS);
    for number in [
        467, // open_tree_attr
        512,
        1000,
        0x4000_0000,
        0x4000_0001,
        0x4000_0209,
        u32::MAX,
    ] {
        let data = Data::of(super::compile::ARCH, number, &[]);
        assert_eq!(run(&filter, data), enosys, "{number:#x}");
    }
    let last = Data::of(super::compile::ARCH, 466, &[]); // removexattrat
    assert_eq!(run(&filter, last), ALLOW);
}

#[test]
fn a_rule_without_conditions_answers_whatever_the_arguments() {
    let filter = filter(false);
    for rule in rules(false, OnDenial::Answer).filter(|rule| rule.when.is_empty()) {
        let expected = libc::SECCOMP_RET_ERRNO | rule.answer.errno();
        for call in rule.calls {
            for args in [[0; 6], [1; 6], [u64::MAX; 6]] {
                let answer = run(&filter, Data::new(call.number, &args));
                assert_eq!(answer, expected, "{}", call.name());
            }
        }
    }
}

/// seccompiler takes an empty list of conditions as "always"; added to another
/// rule's list it would vanish.
#[test]
fn a_call_without_conditions_is_listed_once() {
    for rule in rules(false, OnDenial::Answer).filter(|rule| rule.when.is_empty()) {
        for call in rule.calls {
            let listed = rules(false, OnDenial::Answer).filter(|other| other.calls.contains(call));
            assert_eq!(listed.count(), 1, "{}", call.name());
        }
    }
}

#[test]
fn what_programs_live_on_is_allowed() {
    for call in [
        libc::SYS_read,
        libc::SYS_execve,
        libc::SYS_fork,
        libc::SYS_vfork,
        libc::SYS_mkdirat,
        libc::SYS_seccomp,
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_restrict_self,
        libc::SYS_pidfd_open,
        libc::SYS_prctl,
        libc::SYS_memfd_create,
    ] {
        let data = Data::new(call, &[0; 6]);
        assert_eq!(run(&filter(false), data), ALLOW, "{call}");
    }
}

#[test]
fn allow_ptrace_lifts_tracing_and_nothing_else() {
    let (strict, loose) = (filter(false), filter(true));
    let lifted: Vec<u32> = (0..=CEILING)
        .filter(|&nr| {
            let data = Data::of(super::compile::ARCH, nr, &[0; 6]);
            run(&strict, data) != run(&loose, data)
        })
        .collect();
    let mut expected = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_kcmp,
        libc::SYS_pidfd_getfd,
    ]
    .map(|nr| u32::try_from(nr).unwrap());
    expected.sort_unstable();
    assert_eq!(lifted, expected);
    assert_eq!(
        rule_count(false, OnDenial::Answer) - rule_count(true, OnDenial::Answer),
        expected.len()
    );
}

#[test]
fn pid_1_can_wait_and_signal_and_no_more() {
    const UPPER: u64 = 0xdead_beef_0000_0000;
    let filter = init::program().unwrap();
    let answer = |call, args: &[u64]| run(&filter, Data::new(call, args));
    for call in [
        libc::SYS_rt_sigtimedwait,
        libc::SYS_waitid,
        libc::SYS_kill,
        libc::SYS_exit_group,
    ] {
        assert_eq!(answer(call, &[0; 6]), ALLOW);
    }
    for call in [
        libc::SYS_execve,
        libc::SYS_openat,
        libc::SYS_clone,
        libc::SYS_socket,
        libc::SYS_ptrace,
        libc::SYS_setsid,
        0x4000_0000 | libc::SYS_kill,
    ] {
        assert_eq!(answer(call, &[0; 6]), KILL, "{call}");
    }
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        assert_eq!(answer(call, &[0, 4096, 3]), ALLOW);
        assert_eq!(answer(call, &[0, 4096, 3 | UPPER]), ALLOW);
        assert_eq!(answer(call, &[0, 4096, 7]), KILL);
        assert_eq!(answer(call, &[0, 4096, 4 | UPPER]), KILL);
    }
    assert_eq!(run(&filter, Data::of(0x4000_0003, 62, &[])), KILL);
}

#[test]
fn the_explanation_names_calls_condition_answer_and_reason() {
    let rule = rules(false, OnDenial::Answer)
        .find(|rule| rule.calls.iter().any(|call| call.name() == "socketpair"))
        .unwrap();
    assert_eq!(
        rule.to_string(),
        "socketpair other than UNIX: EAFNOSUPPORT (as for socket)"
    );
}

#[test]
fn every_rule_says_when_and_why() {
    for rule in rules(false, OnDenial::Answer) {
        assert_eq!(rule.when.is_empty(), rule.condition.is_empty(), "{rule}");
        assert!(!rule.why.is_empty() && !rule.calls.is_empty(), "{rule}");
    }
}

#[test]
fn a_plan_for_another_table_is_refused() {
    let plan = Seccomp {
        allow_ptrace: false,
        on_denial: OnDenial::Answer,
        rules: rule_count(false, OnDenial::Answer),
        ceiling: CEILING + 1,
    };
    assert_eq!(
        Filters::compile(&plan).map(drop).unwrap_err().reason,
        Reason::Seccomp
    );
}

#[test]
fn no_rule_is_above_the_ceiling() {
    for rule in rules(false, OnDenial::Answer) {
        for call in rule.calls {
            assert!(call.number <= c_long::from(CEILING), "{}", call.name());
        }
    }
}
