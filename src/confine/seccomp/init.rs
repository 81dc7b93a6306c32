//! Pid 1's filter: what a loop needs that reaps, passes signals on and writes
//! to sockets that it holds already. It can't open, execute, fork or map
//! anything executable; any other call kills it, and with it the jail.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::shorten::shorten;

/// Allowed with any arguments.
const ALLOWED: &[c_long] = &[
    // Waiting for signals and children, and passing signals on.
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_kill,
    libc::SYS_ppoll,
    libc::SYS_poll,
    // Talking to the supervisor.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_close,
    // malloc; mmap and mprotect are below.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    // The time left of a deadline.
    libc::SYS_clock_gettime,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit_group,
];

/// Allowed where the third argument has no `PROT_EXEC`.
const WITHOUT_EXEC: &[c_long] = &[libc::SYS_mmap, libc::SYS_mprotect];

/// The program. x32 numbers are in no list, so they kill too; seccompiler's own
/// prologue kills on a foreign architecture.
///
/// # Errors
/// A rule that seccompiler refuses: a bug.
pub(super) fn program() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        ALLOWED.iter().map(|&call| (call, Vec::new())).collect();
    let exec = u64::from(libc::PROT_EXEC.unsigned_abs());
    for &call in WITHOUT_EXEC {
        // The whole argument: the kernel takes `prot` as an unsigned long.
        let no_exec =
            SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(exec), 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![no_exec])?]);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        TargetArch::x86_64,
    )?;
    filter.try_into().map(shorten)
}
