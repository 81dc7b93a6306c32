//! `groom-ns setup apparmor`: the profile that lets this binary use user namespaces
//! where AppArmor keeps them from what it doesn't know (Ubuntu 24.04 and later).

mod file;
mod parser;
mod profile;

use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::cli::SetupApparmor;
use crate::refusal::{Reason, Refusal, shown};
use crate::say;

use file::{Folder, Present};

pub use profile::text;

/// Where AppArmor's profiles lie, and are loaded from at every boot.
const FOLDER: &str = "/etc/apparmor.d";
/// This one's name there.
const NAME: &str = "groom-ns";
/// `Y` where the kernel's AppArmor is active.
const ENABLED: &str = "/sys/module/apparmor/parameters/enabled";

/// Does what was asked. What there is to print is returned.
///
/// # Errors
/// `usage`: not root. `path`: the binary or the file isn't one that may be used.
/// `setup`: no AppArmor, or a write or the parser failed; then all is as it was.
pub fn run(asked: &SetupApparmor) -> Result<String, Refusal> {
    let nothing = |()| String::new();
    if asked.remove {
        must_be_root("--remove")?;
        remove().map(nothing)
    } else if asked.install {
        must_be_root("--install")?;
        install(&profile::of_this_binary()?).map(nothing)
    } else {
        profile::of_this_binary()
    }
}

/// Writes the profile and loads it; what was there before comes back if it can't be loaded.
fn install(text: &str) -> Result<(), Refusal> {
    must_be_active()?;
    let parser = parser::find()?;
    let folder = Folder::open(Path::new(FOLDER))?;
    let before = folder.read(NAME)?;
    say::note(format_args!("writes {}", shown(&path())));
    folder.write(NAME, text, &before)?;
    if let Err(refusal) = parser::load(&parser, &path()) {
        match &before {
            Present::Nothing => folder.remove(NAME)?,
            Present::Ours(old) => folder.write(NAME, old, &Present::Ours(text.to_owned()))?,
        }
        say::note(format_args!("took that back"));
        return Err(refusal);
    }
    Ok(())
}

/// Unloads the profile and removes its file.
fn remove() -> Result<(), Refusal> {
    let folder = Folder::open(Path::new(FOLDER))?;
    if let Present::Nothing = folder.read(NAME)? {
        say::note(format_args!("{} isn't there", shown(&path())));
        return Ok(());
    }
    // Without AppArmor nothing is loaded.
    if is_active() {
        parser::unload(&parser::find()?, &path())?;
    }
    say::note(format_args!("removes {}", shown(&path())));
    folder.remove(NAME)
}

fn path() -> PathBuf {
    Path::new(FOLDER).join(NAME)
}

fn must_be_root(flag: &str) -> Result<(), Refusal> {
    if geteuid().is_root() {
        return Ok(());
    }
    Err(Refusal::new(Reason::Usage, "set up AppArmor")
        .about(flag)
        .remedy(format!(
            "start it as root: `sudo groom-ns setup apparmor {flag}`"
        )))
}

fn is_active() -> bool {
    std::fs::read(ENABLED).is_ok_and(|value| value.starts_with(b"Y"))
}

fn must_be_active() -> Result<(), Refusal> {
    if is_active() {
        return Ok(());
    }
    Err(Refusal::new(Reason::Setup, "look for AppArmor")
        .about(ENABLED)
        .remedy("this kernel has no active AppArmor: no profile is needed, or could be loaded"))
}

/// The refusal of something that others than root could change: the profile would give
/// user namespaces to whatever they put there.
fn open_to_others(step: &'static str, path: &Path, remedy: &'static str) -> Refusal {
    Refusal::new(Reason::Path, step).path(path).remedy(remedy)
}
