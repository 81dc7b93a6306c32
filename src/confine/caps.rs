//! The five capability sets (capabilities(7)), emptied and read back.

use ::caps::errors::CapsError;
use ::caps::{CapSet, clear, read};
use libc::c_ulong;
use nix::errno::Errno;

use crate::refusal::{Reason, Refusal};
use crate::sys::prctl::{ambient_has, bounding_drop, bounding_has};

/// A set is 64 bits wide in the kernel's interface, so no number is above this.
const LAST: c_ulong = 63;

/// Empties all five sets of the calling thread. The bounding set goes first, as
/// it needs `CAP_SETPCAP`; effective goes before permitted, whose subset it is.
///
/// # Errors
/// `Reason::Caps`: without `CAP_SETPCAP`, or where an outer seccomp filter
/// denies prctl(2) or capset(2).
pub fn drop_all() -> Result<(), Refusal> {
    drop_bounding()?;
    for (set, name) in [
        (CapSet::Ambient, "ambient"),
        (CapSet::Inheritable, "inheritable"),
        (CapSet::Effective, "effective"),
        (CapSet::Permitted, "permitted"),
    ] {
        clear(None, set).map_err(|error| refusal(name).about(format!("{name}: {error}")))?;
    }
    Ok(())
}

/// Every capability of the running kernel, named in this build or not.
fn drop_bounding() -> Result<(), Refusal> {
    for cap in 0..=LAST {
        match bounding_drop(cap) {
            Ok(()) => {}
            // The first number that the kernel doesn't know.
            Err(Errno::EINVAL) if cap > 0 => break,
            Err(errno) => return Err(refusal("bounding").errno(errno)),
        }
    }
    Ok(())
}

fn refusal(set: &'static str) -> Refusal {
    Refusal::new(Reason::Caps, "empty the capability sets")
        .about(set)
        .remedy("an outer sandbox or AppArmor withholds CAP_SETPCAP in the user namespace, prctl(2) or capset(2)")
}

/// The first set that isn't empty, by name and with what is in it.
///
/// # Errors
/// The kernel's answer, or the crate's words for it.
pub fn remaining() -> Result<Option<String>, String> {
    for (set, name) in [
        (CapSet::Effective, "effective"),
        (CapSet::Permitted, "permitted"),
        (CapSet::Inheritable, "inheritable"),
    ] {
        let held = read(None, set).map_err(|error: CapsError| format!("{name}: {error}"))?;
        if !held.is_empty() {
            return Ok(Some(format!("{name} capabilities {held:?}")));
        }
    }
    for cap in 0..=LAST {
        match bounding_has(cap) {
            Ok(false) => {}
            Ok(true) => return Ok(Some(format!("bounding capability {cap}"))),
            Err(Errno::EINVAL) if cap > 0 => break,
            Err(errno) => return Err(format!("PR_CAPBSET_READ: {errno:?}")),
        }
        match ambient_has(cap) {
            Ok(false) => {}
            Ok(true) => return Ok(Some(format!("ambient capability {cap}"))),
            Err(errno) => return Err(format!("PR_CAP_AMBIENT: {errno:?}")),
        }
    }
    Ok(None)
}
