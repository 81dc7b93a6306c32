//! apparmor_parser(8), which compiles a profile and hands it to the kernel.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::refusal::{Reason, Refusal, shown};
use crate::say;

use super::profile::only_roots;

/// Where distributions have it. The caller's PATH plays no part.
const PLACES: [&str; 2] = ["/usr/sbin/apparmor_parser", "/sbin/apparmor_parser"];

/// Its canonical path; nobody but root can have put it there.
pub(super) fn find() -> Result<PathBuf, Refusal> {
    let found = PLACES
        .iter()
        .find_map(|place| Path::new(place).canonicalize().ok());
    let parser = found.ok_or_else(|| {
        Refusal::new(Reason::Path, "find apparmor_parser")
            .about(PLACES.join(", "))
            .remedy("install AppArmor's tools: the package apparmor")
    })?;
    only_roots(&parser).map_err(|refusal| {
        refusal.remedy("others than root can change it: install the package apparmor again")
    })?;
    Ok(parser)
}

/// Loads the profile in `file`, or loads it anew.
pub(super) fn load(parser: &Path, file: &Path) -> Result<(), Refusal> {
    run(parser, "-r", file)
        .map_err(|refusal| refusal.remedy("what it says is above; nothing has changed"))
}

/// Unloads the profile in `file`.
pub(super) fn unload(parser: &Path, file: &Path) -> Result<(), Refusal> {
    run(parser, "-R", file).map_err(|refusal| {
        refusal.remedy("the file is still there: `rm` it, and the profile is gone at the next boot")
    })
}

/// With nothing of the caller's but standard error.
fn run(parser: &Path, flag: &str, file: &Path) -> Result<(), Refusal> {
    say::note(format_args!(
        "runs {} {flag} {}",
        shown(parser),
        shown(file)
    ));
    let failed = |what: String| Refusal::new(Reason::Setup, "run apparmor_parser").about(what);
    let status = Command::new(parser)
        .arg(flag)
        .arg(file)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| failed(error.to_string()).remedy("install the package apparmor again"))?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(status.to_string()))
    }
}
