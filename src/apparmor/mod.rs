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
/// `setup`: no AppArmor, or a write or the parser failed; then all is as it was, or the
/// refusal says what isn't.
pub fn run(asked: &SetupApparmor) -> Result<String, Refusal> {
    let nothing = |()| String::new();
    if asked.remove {
        must_be_root("--remove")?;
        remove().map(nothing)
    } else if asked.install {
        must_be_root("--install")?;
        let (text, binary) = profile::of_this_binary()?;
        install(&text, &binary).map(nothing)
    } else if let Some(path) = &asked.path {
        profile::at(path)
    } else {
        Ok(profile::of_this_binary()?.0)
    }
}

/// Writes the profile of `binary` and loads it; what was there before comes back if it
/// can't be kept or loaded.
fn install(text: &str, binary: &str) -> Result<(), Refusal> {
    must_be_active()?;
    let parser = parser::find()?;
    let folder = Folder::open(Path::new(FOLDER))?;
    let before = folder.read(NAME)?;
    must_be_for(binary, &before)?;
    say::note(format_args!("writes {}", shown(&path())));
    folder.write(NAME, text, &before)?;
    let loaded = folder
        .sync(NAME)
        .and_then(|()| parser::load(&parser, &path()));
    if let Err(refusal) = loaded {
        take_back(&folder, &before)?;
        say::note(format_args!("took that back"));
        return Err(refusal);
    }
    Ok(())
}

/// Another binary's profile isn't lost without a word.
fn must_be_for(binary: &str, before: &Present) -> Result<(), Refusal> {
    match before {
        Present::Ours { binary: other, .. } if other != binary && !other.is_empty() => {
            let refusal = Refusal::new(Reason::Path, "look at the profile that is there");
            Err(refusal.path(path()).remedy(format!(
                "it is for another binary, {}: `sudo groom-ns setup apparmor --remove` first",
                shown(Path::new(other))
            )))
        }
        _ => Ok(()),
    }
}

/// Nothing there again, or what was.
fn take_back(folder: &Folder, before: &Present) -> Result<(), Refusal> {
    let restored = match before {
        Present::Nothing => folder.remove(NAME),
        Present::Ours { text, .. } => folder.write(NAME, text, before),
    };
    restored.map_err(|refusal| {
        refusal.remedy(
            "it was written and isn't loaded: the next boot would load it; \
             `sudo groom-ns setup apparmor --remove` takes it away",
        )
    })
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
