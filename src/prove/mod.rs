//! `groom-ns prove`: every promise, shown on this host. Each attempt is made twice, by
//! the same function: outside the jail, where it must succeed, and inside, where it must
//! fail in the way that shows what stopped it.

mod attempts;
mod broker;
mod catalogue;
mod facts;
mod ground;
mod jail;
mod life;
pub mod probe;
mod proof;
mod refuse;
mod report;
mod upstream;

use std::path::Path;

use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::stat::{Mode, umask};

use crate::refusal::{Reason, Refusal};
use crate::run::{TELLS_TO_END, hold_signals};

use catalogue::Scene;
use ground::Ground;

pub use report::Report;

/// Proves all that can be proven here.
///
/// # Errors
/// The refusal of a jail that can't be built here, or `setup` where there is nothing
/// to attack, or where a signal has put an end to it.
pub fn run() -> Result<Report, Refusal> {
    let program = jail::own_path()?;
    umask(Mode::from_bits_truncate(0o022));
    // A signal waits until what was made is gone again.
    let ends = TELLS_TO_END.map(Signal::try_from);
    let signals = hold_signals(ends.into_iter().flatten())?;
    let ground = Ground::make(Path::new(&program))?;
    let mut findings = Vec::new();
    for scene in Scene::ALL {
        findings.extend(jail::prove(scene, &ground)?);
        go_on(&signals)?;
    }
    findings.extend(life::prove(&ground)?);
    go_on(&signals)?;
    findings.extend(refuse::prove(&ground)?);
    go_on(&signals)?;
    Report::of(findings)
}

/// What was started got the signal too, if it came from a terminal: its answers would
/// be wrong.
fn go_on(signals: &SignalFd) -> Result<(), Refusal> {
    match signals.read_signal() {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(Refusal::new(Reason::Setup, "prove")
            .about("a signal")
            .remedy("run it again")),
        Err(errno) => Err(Refusal::new(Reason::Setup, "look for a signal").errno(errno)),
    }
}
