//! What is taken away: the names in an environment variable.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;
use std::sync::OnceLock;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::dup;

use super::{ALL, Mechanism};
use crate::confine::seccomp::{Rule, whole_table};
use crate::say;
use crate::sys::notify::Listener;

/// Names, with commas between; `?` prints all there are.
const VARIABLE: &str = "GROOM_NS_SABOTAGE";
/// Before the name of a rule of the command's filter.
const RULE: &str = "SeccompRule:";

/// What was taken away; copied by a fork, and never read again.
static REMOVED: OnceLock<BTreeSet<String>> = OnceLock::new();

/// Reads what is to be taken away. A name that isn't known ends the program: a test
/// must not pass for one that removed something.
pub fn begin() {
    let asked = std::env::var(VARIABLE).unwrap_or_default();
    let names = || {
        let mechanisms = ALL.iter().map(|(name, _)| (*name).to_owned());
        mechanisms.chain(whole_table().iter().map(rule_name))
    };
    if asked == "?" {
        for name in names() {
            println!("{name}");
        }
        std::process::exit(0);
    }
    let removed: BTreeSet<String> = asked
        .split(',')
        .filter(|name| !name.is_empty())
        .map(ToOwned::to_owned)
        .collect();
    let known: BTreeSet<String> = names().collect();
    if let Some(unknown) = removed.difference(&known).next() {
        say::note(format_args!("{VARIABLE}: there is no {unknown}"));
        std::process::exit(2);
    }
    let _ = REMOVED.set(removed);
}

fn is_removed(name: &str) -> bool {
    REMOVED.get().is_some_and(|removed| removed.contains(name))
}

/// Whether a mechanism is there.
pub fn stands(mechanism: Mechanism) -> bool {
    !ALL.iter()
        .any(|(name, one)| *one == mechanism && is_removed(name))
}

/// Takes pid 1 out of the command's mount namespace.
pub fn leave_mounts() {
    if !stands(Mechanism::InitInMounts)
        && let Err(errno) = unshare(CloneFlags::CLONE_NEWNS)
    {
        say::note(format_args!("{VARIABLE}: unshare: {errno:?}"));
    }
}

/// Keeps a listener for the command, across execve(2).
pub fn keep(listener: &Listener) {
    if !stands(Mechanism::ListenerHandedOver)
        && let Ok(kept) = dup(listener.as_fd())
    {
        std::mem::forget(kept);
    }
}

/// Whether a rule of the command's filter is there.
pub fn rule_stands(rule: &Rule) -> bool {
    !is_removed(&rule_name(rule))
}

/// The first call of a rule; of several rules with the same one, a number tells the
/// second and those after it apart.
fn rule_name(rule: &Rule) -> String {
    let first = |rule: &Rule| rule.calls.first().map_or("", |call| call.name());
    let name = first(rule);
    let same = whole_table().iter().filter(|one| first(one) == name);
    match same.take_while(|one| *one != rule).count() {
        0 => format!("{RULE}{name}"),
        before => format!("{RULE}{name}.{}", before + 1),
    }
}
