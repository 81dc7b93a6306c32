//! The landlock domain (landlock(7)): nothing but what is granted can be opened.
//!
//! Rights are pinned here by the ABI that brought them, so that neither a newer
//! kernel nor a newer crate changes what is enforced. TCP and UDP rights aren't
//! used: the network namespace is empty, and binding port 0 must work.

use std::error::Error as _;
use std::io;
use std::os::fd::OwnedFd;

use ::landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};

use crate::plan::command::{Grant, Landlock, LandlockMode, LandlockRule};
use crate::refusal::{Reason, Refusal, shown};
use crate::sys;

/// The oldest ABI that will do: before it, every rename between folders is
/// denied, which breaks git and npm.
pub const FLOOR: u32 = 2;
/// The newest ABI with a right that is used here.
pub const NEWEST: u32 = 9;

/// A pinned right: its name as the kernel's documentation has it, the ABI that
/// brought it.
struct Pinned {
    name: &'static str,
    since: u32,
    right: Right,
}

enum Right {
    Fs(AccessFs),
    Scope(Scope),
}

const fn fs(since: u32, name: &'static str, right: AccessFs) -> Pinned {
    Pinned {
        name,
        since,
        right: Right::Fs(right),
    }
}

const fn scope(since: u32, name: &'static str, right: Scope) -> Pinned {
    Pinned {
        name,
        since,
        right: Right::Scope(right),
    }
}

const PINNED: &[Pinned] = &[
    fs(1, "execute", AccessFs::Execute),
    fs(1, "write_file", AccessFs::WriteFile),
    fs(1, "read_file", AccessFs::ReadFile),
    fs(1, "read_dir", AccessFs::ReadDir),
    fs(1, "remove_dir", AccessFs::RemoveDir),
    fs(1, "remove_file", AccessFs::RemoveFile),
    fs(1, "make_char", AccessFs::MakeChar),
    fs(1, "make_dir", AccessFs::MakeDir),
    fs(1, "make_reg", AccessFs::MakeReg),
    fs(1, "make_sock", AccessFs::MakeSock),
    fs(1, "make_fifo", AccessFs::MakeFifo),
    fs(1, "make_block", AccessFs::MakeBlock),
    fs(1, "make_sym", AccessFs::MakeSym),
    fs(2, "refer", AccessFs::Refer),
    fs(3, "truncate", AccessFs::Truncate),
    fs(5, "ioctl_dev", AccessFs::IoctlDev),
    scope(6, "scope_abstract_unix_socket", Scope::AbstractUnixSocket),
    scope(6, "scope_signal", Scope::Signal),
    fs(9, "resolve_unix", AccessFs::ResolveUnix),
];

/// The landlock ABI of the running kernel; the plan uses at most [`NEWEST`].
///
/// # Errors
/// `EOPNOTSUPP`: not in `lsm=`. `ENOSYS`: not built in. Others: an outer filter.
pub fn kernel_abi() -> Result<u32, Errno> {
    sys::landlock::abi()
}

/// The pinned rights that `abi` can't enforce, by name; 0 has none of them.
pub fn absent(abi: u32) -> Vec<&'static str> {
    PINNED
        .iter()
        .filter(|pinned| pinned.since > abi)
        .map(|pinned| pinned.name)
        .collect()
}

/// The pinned rights that `abi` enforces, by name.
pub fn used(abi: u32) -> Vec<&'static str> {
    PINNED
        .iter()
        .filter(|pinned| pinned.since <= abi)
        .map(|pinned| pinned.name)
        .collect()
}

/// Every pinned right of the ABI.
fn handled(abi: u32) -> (BitFlags<AccessFs>, BitFlags<Scope>) {
    let mut files = BitFlags::EMPTY;
    let mut scopes = BitFlags::EMPTY;
    for pinned in PINNED.iter().filter(|pinned| pinned.since <= abi) {
        match pinned.right {
            Right::Fs(right) => files |= right,
            Right::Scope(right) => scopes |= right,
        }
    }
    (files, scopes)
}

/// What a grant allows, of all ABIs.
fn rights(grant: Grant) -> BitFlags<AccessFs> {
    match grant {
        Grant::List => make_bitflags!(AccessFs::{ReadDir}),
        Grant::Read => make_bitflags!(AccessFs::{ReadFile | ReadDir}),
        Grant::Execute => make_bitflags!(AccessFs::{ReadFile | ReadDir | Execute}),
        // Not ResolveUnix: sockets that the command makes need no right, being of its own
        // domain, and a grant on /tmp would also be one on what is mounted beneath it.
        Grant::Write => make_bitflags!(AccessFs::{
            Execute | WriteFile | ReadFile | ReadDir | RemoveDir | RemoveFile | MakeDir | MakeReg
                | MakeSock | MakeFifo | MakeSym | Refer | Truncate
        }),
        // Truncate, since shells open /dev/null with O_TRUNC.
        Grant::Device => make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate}),
        Grant::Terminal => {
            make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev | ReadDir})
        }
        Grant::Connect => make_bitflags!(AccessFs::{ResolveUnix}),
    }
}

/// What may be granted on anything but a directory; the kernel answers EINVAL
/// to more.
const ON_A_FILE: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{Execute | WriteFile | ReadFile | Truncate | IoctlDev | ResolveUnix});

/// Puts the calling thread into the domain, for good. no_new_privs must be set.
///
/// # Errors
/// `Reason::Landlock`: the ABI is below the floor while landlock is required, a
/// path of the plan isn't there, or the kernel enforces less than its ABI says.
pub fn enforce(landlock: &Landlock) -> Result<(), Refusal> {
    if landlock.mode == LandlockMode::Required && landlock.abi < FLOOR {
        return Err(refusal("find landlock")
            .about(format!("ABI {}, {FLOOR} is needed", landlock.abi))
            .remedy(KERNEL));
    }
    if landlock.abi == 0 {
        return Ok(());
    }
    let (files, scopes) = handled(landlock.abi);
    let ruleset = create(files, scopes).map_err(|error| failed("make the ruleset", &error))?;
    let ruleset = landlock
        .rules
        .iter()
        .try_fold(ruleset, |ruleset, rule| add(ruleset, rule, files))?;
    let status = ruleset
        .no_new_privs(false) // it is set
        .restrict_self()
        .map_err(|error| failed("enter the domain", &error))?;
    if status.ruleset == RulesetStatus::FullyEnforced {
        Ok(())
    } else {
        let status = format!("{:?} at ABI {}", status.ruleset, landlock.abi);
        Err(refusal("enter the domain").about(status).remedy(KERNEL))
    }
}

/// With hard requirements: a right that the kernel lacks is an error.
fn create(
    files: BitFlags<AccessFs>,
    scopes: BitFlags<Scope>,
) -> Result<RulesetCreated, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(files)?;
    if scopes.is_empty() {
        return ruleset.create();
    }
    ruleset.scope(scopes)?.create()
}

fn add(
    ruleset: RulesetCreated,
    rule: &LandlockRule,
    handled: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Refusal> {
    let access = rights(rule.grant) & handled;
    // Connect before ABI 9: nothing is handled, so nothing needs granting.
    if access.is_empty() {
        return Ok(ruleset);
    }
    let (opened, is_dir) = open_path(rule).map_err(|errno| {
        refusal("open a granted path")
            .path(&rule.path)
            .errno(errno)
            .remedy("it was there when the jail was built")
    })?;
    let access = if is_dir { access } else { access & ON_A_FILE };
    if access.is_empty() {
        return Err(refusal("grant a path")
            .path(&rule.path)
            .remedy("it is no directory, and can't be listed"));
    }
    ruleset
        .add_rule(PathBeneath::new(opened, access))
        .map_err(|error| {
            let path = shown(&rule.path);
            failed("grant a path", &error).about(format!("{path}: {error}"))
        })
}

fn open_path(rule: &LandlockRule) -> Result<(OwnedFd, bool), Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let opened = open(&rule.path, flags, Mode::empty())?;
    let mode = SFlag::from_bits_truncate(fstat(&opened)?.st_mode);
    Ok((opened, mode & SFlag::S_IFMT == SFlag::S_IFDIR))
}

const KERNEL: &str = "needs Linux 5.19 with landlock in lsm=, and no outer sandbox that denies it; \
     --landlock=best-effort goes without";

fn refusal(step: &'static str) -> Refusal {
    Refusal::new(Reason::Landlock, step)
}

/// With the crate's words, and the errno where it was a call that failed.
fn failed(step: &'static str, error: &RulesetError) -> Refusal {
    let refusal = refusal(step).about(error.to_string()).remedy(KERNEL);
    let source = error.source().and_then(|source| source.downcast_ref());
    match source.and_then(io::Error::raw_os_error) {
        Some(errno) => refusal.errno(Errno::from_raw(errno)),
        None => refusal,
    }
}

#[cfg(test)]
mod tests {
    use ::landlock::{ABI, Access as _};

    use super::*;

    /// The crate's lists, ABI by ABI: a difference is a slip here or a change there.
    #[test]
    fn the_pinned_rights_are_the_kernels() {
        let abis = [
            ABI::V1,
            ABI::V2,
            ABI::V3,
            ABI::V4,
            ABI::V5,
            ABI::V6,
            ABI::V7,
            ABI::V8,
            ABI::V9,
        ];
        for (number, abi) in (1..).zip(abis) {
            let (files, scopes) = handled(number);
            assert_eq!(files, AccessFs::from_all(abi), "{abi:?}");
            assert_eq!(scopes, Scope::from_all(abi), "{abi:?}");
        }
        assert_eq!(handled(u32::MAX), handled(NEWEST));
    }

    #[test]
    fn absent_rights_are_named() {
        assert_eq!(absent(NEWEST), Vec::<&str>::new());
        assert_eq!(absent(8), ["resolve_unix"]);
        assert_eq!(
            absent(FLOOR),
            [
                "truncate",
                "ioctl_dev",
                "scope_abstract_unix_socket",
                "scope_signal",
                "resolve_unix"
            ]
        );
        assert_eq!(absent(0).len(), PINNED.len());
    }

    #[test]
    fn only_write_can_make_or_remove_and_nothing_makes_devices() {
        let all = handled(NEWEST).0;
        let left_out =
            AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev | AccessFs::ResolveUnix;
        assert_eq!(rights(Grant::Write), all & !left_out);
        let harmless = ON_A_FILE | AccessFs::ReadDir;
        for grant in [
            Grant::List,
            Grant::Read,
            Grant::Execute,
            Grant::Device,
            Grant::Terminal,
            Grant::Connect,
        ] {
            assert!(harmless.contains(rights(grant)), "{grant:?}");
        }
        for grant in [Grant::List, Grant::Read, Grant::Execute, Grant::Connect] {
            let writes = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
            assert!(!rights(grant).intersects(writes), "{grant:?}");
        }
    }

    #[test]
    fn what_fits_a_file_is_what_the_crate_says() {
        assert_eq!(ON_A_FILE, AccessFs::from_file(ABI::V9));
    }
}
