//! A jail's two filters: compiled by one process, sent, and installed by two others.

use nix::errno::Errno;
use seccompiler::{BackendError, BpfProgram, sock_filter};

use super::{CEILING, compile, init, rule_count, rules};
use crate::plan::command::{OnDenial, Seccomp};
use crate::refusal::{Reason, Refusal};
use crate::sys;
use crate::sys::notify::Listener;

/// Both filters of a jail. Only [`Filters::compile`] makes them, or
/// [`Filters::from_bytes`] of what it made.
pub struct Filters {
    command: BpfProgram,
    /// What the command's was compiled for.
    on_denial: OnDenial,
    init: BpfProgram,
}

/// How the bytes of both begin: as no word of the channel does, which are JSON.
const MARK: [u8; 3] = *b"BPF";
/// Bytes of a `struct sock_filter` (linux/filter.h).
const STEP: usize = 8;

impl Filters {
    /// Compiles them. It takes as long as a good part of the jail's mounts do, and so is
    /// the supervisor's work, which has nothing else to do while pid 1 builds.
    ///
    /// # Errors
    /// `Reason::Seccomp`: the plan was made for another table than this one, or a rule is
    /// none.
    pub fn compile(plan: &Seccomp) -> Result<Filters, Refusal> {
        let refusal = || Refusal::new(Reason::Seccomp, "compile the filters").remedy(BUG);
        if plan.ceiling != CEILING || plan.rules != rule_count(plan.allow_ptrace, plan.on_denial) {
            return Err(refusal().about("the plan's rules are not this program's"));
        }
        let rules: Vec<_> = rules(plan.allow_ptrace, plan.on_denial).collect();
        let bug = |error: BackendError| refusal().about(error.to_string());
        Ok(Filters {
            command: compile::program(&rules, plan.on_denial).map_err(bug)?,
            on_denial: plan.on_denial,
            init: init::program().map_err(bug)?,
        })
    }

    /// As one message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (command, init) = (to_bytes(&self.command), to_bytes(&self.init));
        let mut bytes = Vec::with_capacity(2 * STEP + command.len() + init.len());
        bytes.extend(MARK);
        bytes.push(u8::from(self.on_denial == OnDenial::Ask));
        bytes.extend((command.len() as u64).to_ne_bytes());
        bytes.extend(command);
        bytes.extend(init);
        bytes
    }

    /// What [`Filters::to_bytes`] made; None for anything else, or less.
    pub fn from_bytes(bytes: &[u8]) -> Option<Filters> {
        let [kind, rest @ ..] = bytes.strip_prefix(&MARK)? else {
            return None;
        };
        let on_denial = match kind {
            0 => OnDenial::Answer,
            1 => OnDenial::Ask,
            _ => return None,
        };
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u64::from_ne_bytes(*length)).ok()?;
        let (command, init) = rest.split_at_checked(length)?;
        Some(Filters {
            command: from_bytes(command)?,
            on_denial,
            init: from_bytes(init)?,
        })
    }

    /// The command's, instruction by instruction.
    pub fn command(&self) -> &[sock_filter] {
        &self.command
    }

    /// Installs the command's. no_new_privs must be set, and the process must have one
    /// thread. Where the supervisor is to be asked, the listener is returned: until it has
    /// it, a call that is denied waits.
    ///
    /// # Errors
    /// `Reason::Seccomp`: the kernel refuses the filter.
    pub fn install(&self) -> Result<Option<Listener>, Refusal> {
        match self.on_denial {
            OnDenial::Answer => sys::seccomp::install(&self.command).map(|()| None),
            OnDenial::Ask => sys::notify::install(&self.command).map(Some),
        }
        .map_err(|errno| refused("install the command's filter", errno))
    }

    /// Installs pid 1's, under the same conditions.
    ///
    /// # Errors
    /// `Reason::Seccomp`: the kernel refuses the filter.
    pub fn install_for_init(&self) -> Result<(), Refusal> {
        sys::seccomp::install(&self.init).map_err(|errno| refused("install pid 1's filter", errno))
    }
}

const BUG: &str = "this is a bug in groom-ns, please report it";

fn refused(step: &'static str, errno: Errno) -> Refusal {
    let remedy = match errno {
        Errno::ENOSYS => "the kernel needs CONFIG_SECCOMP_FILTER",
        Errno::EPERM => "an outer sandbox denies seccomp(2): allow it there",
        Errno::EBUSY => {
            "an outer sandbox listens for denied calls itself, and the kernel allows one \
                 listener: leave --explain-denials out"
        }
        _ => BUG,
    };
    Refusal::new(Reason::Seccomp, step)
        .about("seccomp(SECCOMP_SET_MODE_FILTER)")
        .errno(errno)
        .remedy(remedy)
}

/// A filter as it lies in memory (`struct sock_filter`).
pub fn to_bytes(filter: &[sock_filter]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(filter));
    for step in filter {
        let ([code, code_end], [k, k2, k3, k4]) = (step.code.to_ne_bytes(), step.k.to_ne_bytes());
        bytes.extend_from_slice(&[code, code_end, step.jt, step.jf, k, k2, k3, k4]);
    }
    bytes
}

/// None where an instruction isn't whole, or there is none.
fn from_bytes(bytes: &[u8]) -> Option<BpfProgram> {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let step = |&[code, code_end, jt, jf, ref k @ ..]: &[u8; STEP]| sock_filter {
        code: u16::from_ne_bytes([code, code_end]),
        jt,
        jf,
        k: u32::from_ne_bytes(*k),
    };
    let is_whole = rest.is_empty() && !steps.is_empty();
    is_whole.then(|| steps.iter().map(step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(on_denial: OnDenial) -> Filters {
        Filters::compile(&crate::plan::filter(false, on_denial)).unwrap()
    }

    #[test]
    fn both_are_the_same_after_they_were_bytes() {
        let mut sent = Vec::new();
        for on_denial in [OnDenial::Answer, OnDenial::Ask] {
            let made = filters(on_denial);
            let bytes = made.to_bytes();
            let got = Filters::from_bytes(&bytes).unwrap();
            assert_eq!(got.to_bytes(), bytes);
            assert_eq!(got.on_denial, on_denial);
            for (got, made) in [(&got.command, &made.command), (&got.init, &made.init)] {
                assert_eq!(to_bytes(got), to_bytes(made));
                // What the kernel is given.
                assert_eq!(to_bytes(made).len(), size_of_val(made.as_slice()));
            }
            assert_ne!(to_bytes(&made.command), to_bytes(&made.init), "vacuous");
            sent.push(bytes);
        }
        assert_ne!(
            sent[0][4..],
            sent[1][4..],
            "vacuous: asking changes nothing"
        );
    }

    #[test]
    fn what_is_not_both_is_nothing() {
        let whole = filters(OnDenial::Answer).to_bytes();
        let header = 2 * STEP - 4;
        let command = u64::from_ne_bytes(whole[4..header].try_into().unwrap());
        let command = header + usize::try_from(command).unwrap();
        let with = |at: usize, byte: u8| {
            let mut bent = whole.clone();
            bent[at] = byte;
            bent
        };
        for (bent, why) in [
            (Vec::new(), "nothing"),
            (b"\"Mapped\"".to_vec(), "a word"),
            (whole[1..].to_vec(), "no mark"),
            (with(3, 2), "neither kind"),
            (with(header - 1, 1), "longer than there is"),
            (whole[..header].to_vec(), "no filter"),
            (whole[..command].to_vec(), "one filter"),
            (whole[..whole.len() - 1].to_vec(), "half an instruction"),
            (with(4, whole[4] + 1), "half an instruction in the first"),
        ] {
            assert!(Filters::from_bytes(&bent).is_none(), "{why}");
        }
        assert!(Filters::from_bytes(&whole).is_some(), "the control");
    }
}
