//! Whether this kernel has the landlock that the caller asks for.

use nix::errno::Errno;

use crate::cli;
use crate::plan::command::LandlockMode;
use crate::refusal::{Reason, Refusal};

/// ABI 1 forbids renames between folders, which breaks git and npm.
const ABI_FLOOR: u32 = 2;

/// Judges `--landlock` by the kernel's ABI, or the errno it gave for it
/// (`LANDLOCK_CREATE_RULESET_VERSION`, landlock_create_ruleset(2)).
pub(crate) fn judge(
    asked: cli::Landlock,
    abi: Result<u32, Errno>,
) -> Result<LandlockMode, Refusal> {
    if asked == cli::Landlock::BestEffort {
        return Ok(LandlockMode::BestEffort);
    }
    let refusal = || Refusal::new(Reason::Landlock, "ask the kernel for landlock");
    let call = "landlock_create_ruleset";
    let errno = match abi {
        Ok(abi) if abi >= ABI_FLOOR => return Ok(LandlockMode::Required),
        Ok(abi) => {
            return Err(refusal().about(format!("ABI {abi}")).remedy(
                "ABI 2 (Linux 5.19) is the least: use a newer kernel, or choose \
                 --landlock=best-effort and do without",
            ));
        }
        Err(errno) => errno,
    };
    Err(refusal().about(call).errno(errno).remedy(match errno {
        Errno::ENOSYS => {
            "the kernel is built without it, or an outer seccomp filter (a container's) hides it: \
             use another kernel or profile, or choose --landlock=best-effort and do without"
        }
        Errno::EOPNOTSUPP => {
            "it is left out of the boot parameter `lsm=`: add `landlock` to it, or choose \
             --landlock=best-effort and do without"
        }
        Errno::EPERM => {
            "an outer seccomp filter (a container's) denies it: allow the landlock syscalls \
             there, or choose --landlock=best-effort and do without"
        }
        _ => "use a newer kernel, or choose --landlock=best-effort and do without",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required() {
        for (abi, says) in [
            (Ok(2), None),
            (Ok(9), None),
            (Ok(1), Some("5.19")),
            (Err(Errno::ENOSYS), Some("built without")),
            (Err(Errno::EOPNOTSUPP), Some("lsm=")),
            (Err(Errno::EPERM), Some("denies")),
        ] {
            let judged = judge(cli::Landlock::Required, abi);
            match says {
                None => assert_eq!(judged, Ok(LandlockMode::Required)),
                Some(says) => {
                    let refusal = judged.expect_err("refused");
                    assert_eq!(refusal.reason, Reason::Landlock);
                    assert!(refusal.to_string().contains(says), "{refusal}");
                }
            }
        }
    }

    #[test]
    fn best_effort_takes_anything() {
        for abi in [Ok(1), Err(Errno::ENOSYS)] {
            let judged = judge(cli::Landlock::BestEffort, abi);
            assert_eq!(judged, Ok(LandlockMode::BestEffort));
        }
    }
}
