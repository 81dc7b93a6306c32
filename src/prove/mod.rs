//! `groom-ns prove`: every promise, shown on this host. Each attempt is made twice, by
//! the same function: outside the jail, where it must succeed, and inside, where it must
//! fail in the way that shows what stopped it.

mod attempts;
mod catalogue;
mod facts;
mod ground;
mod jail;
pub mod probe;
mod proof;
mod report;

use std::path::Path;

use crate::refusal::Refusal;

use catalogue::Scene;
use ground::Ground;

pub use report::Report;

/// Proves all that can be proven here.
///
/// # Errors
/// The refusal of a jail that can't be built here, or `setup` where there is nothing
/// to attack.
pub fn run() -> Result<Report, Refusal> {
    let program = jail::own_path()?;
    let ground = Ground::make(Path::new(&program))?;
    let mut findings = Vec::new();
    for scene in Scene::ALL {
        findings.extend(jail::prove(scene, &ground)?);
    }
    Report::of(findings)
}
