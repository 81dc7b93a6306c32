//! Work that can't be undone, in a child that is thrown away with its namespaces.

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::ns::channel::{Channel, Message, ToJail, pair};
use crate::ns::enter;
use crate::plan::step::Identity;
use crate::refusal::{Reason, Refusal};
use crate::sys::process::{Forked, exit_at_once, fork_into, pidfd_send_signal};

use super::row::{Finding, Primitive};

/// What a child found out, a row a message.
#[derive(Serialize, Deserialize)]
struct Said(Primitive, Finding);

impl Message for Said {
    fn descriptors(&self) -> usize {
        0
    }
}

/// The child's way to say what it found.
pub(super) struct Report(Channel);

impl Report {
    /// Says a row; tells whether it is there.
    pub(super) fn tell(&self, primitive: Primitive, tried: Result<String, Refusal>) -> bool {
        let is_there = tried.is_ok();
        self.say(primitive, tried.into());
        is_there
    }

    /// Says a row.
    pub(super) fn say(&self, primitive: Primitive, finding: Finding) {
        // Where it can't be said nobody listens any more, and this child ends too.
        let _ = self.0.send(&Said(primitive, finding));
    }
}

/// Rows, in the order in which they were found out.
pub(super) type Found = Vec<(Primitive, Finding)>;

/// Does `work`, which is about `primitive`, in a plain child.
pub(super) fn in_child(primitive: Primitive, work: impl FnOnce(&Report)) -> Found {
    let forked = pair()
        .map_err(trouble("socketpair"))
        .and_then(|ends| Ok((ends, fork_into(0).map_err(trouble("clone"))?)));
    match forked {
        Err(refusal) => vec![(primitive, Finding::Missing(refusal))],
        Ok(((ours, theirs), Forked::Child)) => {
            drop(ours);
            end_with_parent();
            // Never dropped: closing is no call that pid 1's filter allows.
            let report = Report(theirs);
            work(&report);
            exit_at_once(0)
        }
        Ok(((ours, theirs), Forked::Parent(child, _))) => {
            drop(theirs);
            listen(&ours, child, primitive)
        }
    }
}

/// Does `work` in a child in all the namespaces of a jail, once its ids are mapped.
/// The pid namespace goes with the child, and so do all the others.
pub(super) fn in_namespaces(
    namespaces: &[&str],
    identity: &Identity,
    work: impl FnOnce(&Report),
) -> Found {
    let forked = pair()
        .map_err(trouble("socketpair"))
        .and_then(|ends| Ok((ends, enter::fork(namespaces)?)));
    let all = Primitive::AllNamespaces;
    match forked {
        Err(refusal) => vec![(all, Finding::Missing(refusal))],
        Ok(((ours, theirs), Forked::Child)) => {
            drop(ours);
            end_with_parent();
            if theirs.expect(ToJail::Mapped).is_ok() {
                work(&Report(theirs));
            }
            exit_at_once(0)
        }
        Ok(((ours, theirs), Forked::Parent(child, pidfd))) => {
            drop(theirs);
            let mut found = vec![(all, Finding::Ok("made".to_owned()))];
            let mapped = enter::write_maps(child, identity)
                .and_then(|()| ours.send(&ToJail::Mapped).map_err(trouble("send")));
            match mapped {
                Ok(()) => found.extend(listen(&ours, child, Primitive::Capabilities)),
                Err(refusal) => {
                    let _ = pidfd_send_signal(&pidfd, libc::SIGKILL);
                    let _ = waitpid(child, None);
                    found.push((Primitive::IdMaps, Finding::Missing(refusal)));
                }
            }
            found
        }
    }
}

/// Tries whether a process can be made in these namespaces. It does nothing there.
///
/// # Errors
/// The refusal of a run: `userns`.
pub(super) fn enters(namespaces: &[&str]) -> Result<(), Refusal> {
    match enter::fork(namespaces)? {
        Forked::Child => exit_at_once(0),
        Forked::Parent(child, _) => reap(child),
    }
}

/// A check that is killed leaves no child behind.
fn end_with_parent() {
    let _ = set_pdeathsig(Signal::SIGKILL);
}

/// Takes what the child says until its end; an end that isn't its own is a finding
/// about `primitive`.
fn listen(channel: &Channel, child: Pid, primitive: Primitive) -> Found {
    let mut found = Vec::new();
    let heard = loop {
        match channel.receive::<Said>() {
            Ok(Some((Said(primitive, finding), _))) => found.push((primitive, finding)),
            Ok(None) => break Ok(()),
            Err(errno) => break Err(trouble("recv")(errno)),
        }
    };
    if let Err(refusal) = reap(child).and(heard) {
        found.push((primitive, Finding::Missing(refusal)));
    }
    found
}

fn reap(child: Pid) -> Result<(), Refusal> {
    let refusal = || Refusal::new(Reason::Setup, "try it in a process of its own");
    match waitpid(child, None) {
        Ok(WaitStatus::Exited(_, 0)) => Ok(()),
        Ok(WaitStatus::Signaled(_, signal, _)) => Err(refusal()
            .about(format!("killed by {signal}"))
            .remedy("an outer sandbox kills it: run groom-ns outside of it")),
        Ok(_) => Err(refusal().about("it ended early")),
        Err(errno) => Err(refusal().about("waitpid").errno(errno)),
    }
}

fn trouble(call: &'static str) -> impl Fn(Errno) -> Refusal {
    move |errno| {
        Refusal::new(Reason::Setup, "try it in a process of its own")
            .about(call)
            .errno(errno)
            .remedy("an outer sandbox denies it: allow it there")
    }
}
