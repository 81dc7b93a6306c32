//! From the table to one BPF program. seccompiler compiles the rules, a filter
//! an answer, since each of its filters has one; this file stitches them
//! together and puts its own prologue before them.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use super::rule::{Answer, Call, Rule, Test};
use super::shorten::shorten;
use super::table::CEILING;
use crate::plan::command::OnDenial;
use crate::sabotage::{Mechanism, stands};

/// What seccompiler is told to answer where no rule of an answer matches; each
/// such return becomes a jump to the next answer's rules. No rule has this
/// action, and its number is never seen by the kernel.
const NO_MATCH: SeccompAction = SeccompAction::Trace(0x5ee);
/// seccompiler starts each filter with its own test of the architecture.
const ITS_PROLOGUE: usize = 3;

// Classic BPF, linux/bpf_common.h; as codes of one instruction.
pub(super) const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
pub(super) const RETURN: u16 = 0x06; // BPF_RET | BPF_K
pub(super) const JUMP: u16 = 0x05; // BPF_JMP | BPF_JA
pub(super) const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
pub(super) const IF_GREATER: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
pub(super) const IF_NOT_LESS: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
pub(super) const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K

/// Offsets in `struct seccomp_data`, linux/seccomp.h.
const DATA_NR: u32 = 0;
const DATA_ARCH: u32 = 4;
/// `AUDIT_ARCH_X86_64`, linux/audit.h.
pub(super) const ARCH: u32 = 0xc000_003e;

/// How many pairs of call and rule a block has, but for what one call has more. When a filter
/// is installed, the kernel runs it for every number to learn which are always allowed
/// (seccomp_cache_prepare in kernel/seccomp.c): a program in which each of 460 numbers
/// passes each test takes most of a start's filter time.
const BLOCK: usize = 8;

/// A call's number, and a rule that decides on it.
type Ruled<'rule> = (u32, &'rule Rule);

/// The program for `rules`: a foreign architecture kills the process, a number
/// above the ceiling is ENOSYS, then a binary search for the number's block, in which are
/// the answers in their order, then allow. With [`OnDenial::Ask`] the blocks ask the
/// listener where they would answer; what is above the ceiling is probed for by libc and
/// answered here, and so is who would listen beside us.
///
/// # Errors
/// The table has a rule that seccompiler refuses: a bug, and no program.
pub(super) fn program(rules: &[&Rule], on_denial: OnDenial) -> Result<BpfProgram, BackendError> {
    let decided = rules.iter().flat_map(|rule| {
        // A number that doesn't fit is above the ceiling, and decided on there.
        let number = |call: &Call| u32::try_from(call.number).unwrap_or(u32::MAX);
        rule.calls.iter().map(move |call| (number(call), *rule))
    });
    let mut pairs: Vec<Ruled> = decided.collect();
    // Stable: a call's rules stay in the table's order.
    pairs.sort_by_key(|(number, _)| *number);
    let mut program = prologue();
    program.append(&mut search(&pairs, on_denial)?);
    Ok(shorten(program))
}

/// Goes on with the half of `pairs` that a number lies in, until it is a block.
fn search(pairs: &[Ruled], on_denial: OnDenial) -> Result<BpfProgram, BackendError> {
    let middle = pairs.get(pairs.len() / 2).map_or(0, |(number, _)| *number);
    // A call's rules are in one half.
    let (lower, higher) = pairs.split_at(pairs.partition_point(|(number, _)| *number < middle));
    if pairs.len() <= BLOCK || lower.is_empty() {
        return block(pairs, on_denial);
    }
    let mut lower = search(lower, on_denial)?;
    let mut program = vec![
        instruction(IF_GREATER, 0, 1, middle - 1),
        instruction(JUMP, 0, 0, distance(0, lower.len() + 1)),
    ];
    program.append(&mut lower);
    program.append(&mut search(higher, on_denial)?);
    Ok(program)
}

/// Decides on these calls, and allows all others.
fn block(pairs: &[Ruled], on_denial: OnDenial) -> Result<BpfProgram, BackendError> {
    let mut block = unconditional(pairs);
    for answer in Answer::ALL {
        append(&mut block, conditional(pairs, answer)?);
    }
    block.push(answer_with(&SeccompAction::Allow));
    if on_denial == OnDenial::Ask {
        ask(&mut block);
    }
    Ok(block)
}

/// Puts the listener's answer in the place of each errno but one. One for one, so that
/// jumps stay right. The kernel hears an errno first, and the newest of several
/// listeners (seccomp(2), SECCOMP_RET_USER_NOTIF).
fn ask(block: &mut [sock_filter]) {
    let answers = Answer::ALL
        .iter()
        .filter(|answer| **answer != Answer::Ebusy);
    let answers: Vec<_> = answers
        .map(|answer| answer_with(&SeccompAction::Errno(answer.errno())))
        .collect();
    for step in block.iter_mut().filter(|step| answers.contains(step)) {
        *step = instruction(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF);
    }
}

fn prologue() -> BpfProgram {
    let mut program = Vec::new();
    if stands(Mechanism::FilterArchitecture) {
        program.push(instruction(LOAD, 0, 0, DATA_ARCH));
        // int 0x80 comes with i386's numbers, so nothing below would hold.
        program.push(instruction(IF_EQUAL, 1, 0, ARCH));
        program.push(answer_with(&SeccompAction::KillProcess));
    }
    program.push(instruction(LOAD, 0, 0, DATA_NR));
    if stands(Mechanism::FilterCeiling) {
        program.push(instruction(IF_GREATER, 0, 1, CEILING));
        program.push(answer_with(&SeccompAction::Errno(Answer::Enosys.errno())));
    }
    program
}

/// The block's calls that are always answered, whatever their arguments.
fn unconditional(pairs: &[Ruled]) -> BpfProgram {
    let mut program = Vec::new();
    for (number, rule) in pairs.iter().filter(|(_, rule)| rule.when.is_empty()) {
        program.push(instruction(IF_EQUAL, 0, 1, *number));
        program.push(answer_with(&SeccompAction::Errno(rule.answer.errno())));
    }
    program
}

/// One answer's rules on arguments, for a block, as a program of their own;
/// empty if there are none.
fn conditional(pairs: &[Ruled], answer: Answer) -> Result<BpfProgram, BackendError> {
    let mut chains: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    for (number, rule) in pairs.iter().filter(|(_, rule)| rule.answer == answer) {
        for tests in rule.when {
            let chain = chains.entry(c_long::from(*number)).or_default();
            chain.push(conjunction(tests)?);
        }
    }
    if chains.is_empty() {
        return Ok(Vec::new());
    }
    let action = SeccompAction::Errno(answer.errno());
    SeccompFilter::new(chains, NO_MATCH, action, TargetArch::x86_64)?.try_into()
}

fn conjunction(tests: &[Test]) -> Result<SeccompRule, BackendError> {
    let conditions = tests.iter().map(condition).collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}

fn condition(test: &Test) -> Result<SeccompCondition, BackendError> {
    use SeccompCmpArgLen::{Dword, Qword};
    let (index, length, operator, value) = match *test {
        Test::Is(index, value) => (index, Dword, SeccompCmpOp::Eq, value),
        Test::Not(index, value) => (index, Dword, SeccompCmpOp::Ne, value),
        Test::Bits(index, mask, value) => {
            (index, Dword, SeccompCmpOp::MaskedEq(mask.into()), value)
        }
        Test::NotNull(index) => (index, Qword, SeccompCmpOp::Ne, 0),
    };
    SeccompCondition::new(index, length, operator, value.into())
}

/// Appends a group without its prologue; where it has no match, it goes on with
/// what is appended next. Instructions are replaced one for one, so that the
/// group's own jumps stay right. A group starts by loading the number again.
fn append(program: &mut BpfProgram, group: BpfProgram) {
    let no_match = answer_with(&NO_MATCH);
    let length = group.len();
    for (place, step) in group.into_iter().enumerate().skip(ITS_PROLOGUE) {
        let step = if step == no_match {
            instruction(JUMP, 0, 0, distance(place, length))
        } else {
            step
        };
        program.push(step);
    }
}

/// From the instruction after `place` to the end. A group is at most 4096 long
/// (seccompiler sees to it); a number that doesn't fit would be a program that
/// the kernel refuses.
fn distance(place: usize, length: usize) -> u32 {
    u32::try_from(length - place - 1).unwrap_or(u32::MAX)
}

fn answer_with(action: &SeccompAction) -> sock_filter {
    instruction(RETURN, 0, 0, action.clone().into())
}

pub(super) fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}
