//! Resource limits (setrlimit(2)).

use nix::sys::resource::{self, getrlimit, setrlimit};

use crate::plan::command::{Limit, Resource};
use crate::refusal::{Reason, Refusal};

/// Sets each limit, never above the caller's own hard limit.
///
/// # Errors
/// `Reason::Limits`: the kernel refuses one.
pub fn apply(limits: &[Limit]) -> Result<(), Refusal> {
    limits.iter().try_for_each(set)
}

fn set(limit: &Limit) -> Result<(), Refusal> {
    let (resource, name) = kernel_name(limit.resource);
    let refusal = |errno| {
        Refusal::new(Reason::Limits, "set a resource limit")
            .about(name)
            .errno(errno)
            .remedy("raise or lift the caller's own limit")
    };
    let (_, ceiling) = getrlimit(resource).map_err(refusal)?;
    let (soft, hard) = clamp(limit, ceiling);
    setrlimit(resource, soft, hard).map_err(refusal)
}

/// Soft and hard limit: the hard one at most `ceiling`, the soft one at most
/// the hard one. `RLIM_INFINITY` is the largest number, so it needs no case.
fn clamp(limit: &Limit, ceiling: u64) -> (u64, u64) {
    let hard = limit.hard.min(ceiling);
    (limit.soft.min(hard), hard)
}

fn kernel_name(resource: Resource) -> (resource::Resource, &'static str) {
    match resource {
        Resource::Core => (resource::Resource::RLIMIT_CORE, "RLIMIT_CORE"),
        Resource::Nofile => (resource::Resource::RLIMIT_NOFILE, "RLIMIT_NOFILE"),
        Resource::Fsize => (resource::Resource::RLIMIT_FSIZE, "RLIMIT_FSIZE"),
        Resource::Nproc => (resource::Resource::RLIMIT_NPROC, "RLIMIT_NPROC"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(soft: u64, hard: u64) -> Limit {
        Limit {
            resource: Resource::Nofile,
            soft,
            hard,
        }
    }

    #[test]
    fn the_callers_hard_limit_is_a_ceiling_to_both() {
        assert_eq!(clamp(&limit(1024, 4096), 512), (512, 512));
        assert_eq!(clamp(&limit(1024, 4096), 2048), (1024, 2048));
        assert_eq!(clamp(&limit(1024, 4096), u64::MAX), (1024, 4096));
    }

    #[test]
    fn a_soft_limit_is_never_above_its_hard_one() {
        assert_eq!(clamp(&limit(4096, 1024), u64::MAX), (1024, 1024));
    }

    #[test]
    fn what_was_set_is_what_the_kernel_says() {
        let name = resource::Resource::RLIMIT_CORE;
        let (_, ceiling) = getrlimit(name).unwrap();
        let wanted = Limit {
            resource: Resource::Core,
            soft: 1,
            hard: ceiling,
        };
        apply(&[wanted]).unwrap();
        assert_eq!(getrlimit(name).unwrap(), (ceiling.min(1), ceiling));
    }
}
