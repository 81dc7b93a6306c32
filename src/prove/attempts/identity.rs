//! Promise 3: never root, no capability, no way to one.

use nix::sys::prctl::get_no_new_privs;
use nix::unistd::{Uid, getgroups, setresuid};

use crate::confine::caps;
use crate::prove::facts::Facts;
use crate::prove::proof::{Denial, Outcome};

use super::processes::{first_process, status_field};

pub(in crate::prove) fn hold_a_capability(_: &Facts) -> Outcome {
    match caps::remaining() {
        Ok(None) => Err(Denial::says("none")),
        Ok(Some(_)) => Ok(()),
        Err(answer) => Err(Denial::says(answer)),
    }
}

pub(in crate::prove) fn become_root(_: &Facts) -> Outcome {
    let root = Uid::from_raw(0);
    Ok(setresuid(root, root, root)?)
}

/// What a set-user-id program would need.
pub(in crate::prove) fn gain_privileges_by_execve(_: &Facts) -> Outcome {
    if get_no_new_privs()? {
        return Err(Denial::says("no_new_privs"));
    }
    Ok(())
}

/// Groups of root's open what belongs to them.
pub(in crate::prove) fn keep_roots_groups(_: &Facts) -> Outcome {
    if getgroups()?.is_empty() {
        return Err(Denial::says("none"));
    }
    Ok(())
}

pub(in crate::prove) fn room_for_user_namespaces(_: &Facts) -> Outcome {
    let limit = std::fs::read_to_string("/proc/sys/user/max_user_namespaces")?;
    match limit.trim() {
        "0" => Err(Denial::says("0")),
        _ => Ok(()),
    }
}

/// Pid 1 of the jail, or outside who runs the proofs: whether it has a capability,
/// may gain one, or is under no filter.
pub(in crate::prove) fn an_unconfined_pid_1(facts: &Facts) -> Outcome {
    let pid = first_process(facts);
    let zeros = "0000000000000000";
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    for set in sets {
        if status_field(pid, set)? != zeros {
            return Ok(());
        }
    }
    if status_field(pid, "NoNewPrivs")? != "1" || status_field(pid, "Seccomp")? != "2" {
        return Ok(());
    }
    Err(Denial::says("confined"))
}
