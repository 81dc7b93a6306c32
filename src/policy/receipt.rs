//! `--receipt`: where it goes, and that the last run's isn't taken for this one's.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, read, unlinkat};

use super::caller::Caller;
use super::grant::Role;
use super::ground::Ground;
use super::kinds::{What, inode};
use super::own::{Flag, LogFile, Named};
use super::paths::resolve;
use super::reads::Reads;
use super::{location, profile};
use crate::cli;
use crate::host;
use crate::receipt::MARK;
use crate::refusal::{Reason, Refusal};

/// `--receipt`.
const RECEIPT: Flag = Flag {
    name: "--receipt",
    reason: Reason::Receipt,
};

/// Where a run's receipt goes: judged, with nothing there yet.
#[derive(Debug)]
pub struct ReceiptFile {
    /// An `O_PATH` descriptor (close-on-exec) of its folder; owned.
    pub parent: OwnedFd,
    /// Its name there.
    pub name: OsString,
    /// Its canonical path.
    pub path: PathBuf,
}

/// Judges `--receipt`: a name in a folder that the caller can write to, that nothing in
/// the jail can see. What may still lie there is a receipt of the caller's own.
pub(super) fn judge(
    ground: &Ground,
    run: &cli::Run,
    log: Option<&LogFile>,
) -> Result<Option<ReceiptFile>, Refusal> {
    let Some(typed) = &run.receipt else {
        return Ok(None);
    };
    let named = Named::resolve(ground, RECEIPT, typed)?;
    if let Some(log) = log {
        refuse_log(&named, log)?;
    }
    ground.unseen(RECEIPT, &named.path)?;
    refuse_strange(&named, || Reads::of_run(ground.cwd, run))?;
    named.writable(RECEIPT, OsStr::new("."))?;
    Ok(Some(ReceiptFile {
        parent: named.parent,
        name: named.name,
        path: named.path,
    }))
}

/// By name and folder: a bind mount gives one folder two paths.
fn refuse_log(named: &Named, log: &LogFile) -> Result<(), Refusal> {
    let refusal = || RECEIPT.refusal("judge").path(&named.path);
    let folder = |fd| fstat(fd).map(|stat| inode(&stat));
    let folders = folder(&named.parent).and_then(|own| Ok((own, folder(&log.parent)?)));
    let (own, logs) = folders.map_err(|errno| refusal().about("fstat").errno(errno))?;
    if named.name == log.name && own == logs {
        return Err(refusal().remedy("it is the file of --broker-log: give two"));
    }
    Ok(())
}

/// Removes the receipt that an earlier run left where this one's is to be: should this
/// run be refused, it must not be taken for its own. It is the first that a run does, so
/// what is known of the run by then is judged before: nothing that a stranger may have
/// written chooses what is removed, and nothing that the command sees is. A path that
/// leads nowhere has no say, nor has a profile of which the line takes no receipt: the
/// run is refused for them later.
///
/// # Errors
/// `receipt`: something else lies there, or it can't be removed, or [`judge`] would refuse
/// its place; `path` for the profile's; `identity`; `proc`.
pub fn remove_stale_receipt(run: &cli::Run) -> Result<(), Refusal> {
    let (Some(typed), None) = (&run.receipt, run.plan) else {
        return Ok(());
    };
    host::caller()?;
    let caller = Caller::here();
    let table = location::mount_table()?;
    let find = |path: &Path| Some(resolve(&caller.cwd, path).ok()?.path);
    let clone = find(run.clone.as_deref().unwrap_or(Path::new(".")));
    let out_dir = run.out_dir.as_deref().and_then(find);
    let ro_files = run.ro_files.iter().filter_map(|path| find(path));
    let shown = clone.iter().map(|path| (Role::Clone, path.clone()));
    let shown = shown.chain(out_dir.map(|path| (Role::OutDir, path)));
    let shown = shown.chain(ro_files.map(|path| (Role::RoFile, path)));
    let ground = Ground::of_paths(&caller.cwd, shown, &table);
    if run
        .found_profile
        .as_ref()
        .is_some_and(|found| found.names_receipt)
    {
        profile::judge(run, clone.as_deref(), &ground, &caller.homes()?, &table)?;
    }
    let named = Named::resolve(&ground, RECEIPT, typed)?;
    ground.unseen(RECEIPT, &named.path)?;
    refuse_strange(&named, || Reads::of_run(&caller.cwd, run))?;
    if named.found.is_none() {
        return Ok(());
    }
    let name = named.name.as_os_str();
    unlinkat(&named.parent, name, UnlinkatFlags::NoRemoveDir).map_err(|errno| {
        RECEIPT
            .refusal("remove the last run's")
            .path(&named.path)
            .errno(errno)
            .remedy("remove it, or choose another file")
    })
}

/// Refuses whatever is there but a receipt of the caller's own that nothing is read from.
fn refuse_strange(named: &Named, reads: impl FnOnce() -> Reads) -> Result<(), Refusal> {
    let Some((_, stat)) = &named.found else {
        return Ok(());
    };
    let refusal = || RECEIPT.refusal("look at").path(&named.path);
    if What::of(stat.st_mode) != What::File {
        return Err(RECEIPT.is_wrong(&named.path, What::of(stat.st_mode), "a new file"));
    }
    reads().refuse(RECEIPT.refusal("judge").path(&named.path), stat)?;
    if stat.st_uid != geteuid().as_raw() {
        return Err(refusal().remedy("there is a file of another user's: choose another name"));
    }
    match is_receipt(named) {
        Ok(true) => Ok(()),
        Ok(false) => Err(refusal()
            .remedy("there is a file that isn't a receipt: remove it, or choose another name")),
        Err(errno) => Err(refusal().errno(errno).remedy("choose another file")),
    }
}

/// By how it begins.
fn is_receipt(named: &Named) -> Result<bool, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let fd = openat(&named.parent, named.name.as_os_str(), flags, Mode::empty())?;
    let mut start = [0; MARK.len()];
    let length = read(&fd, &mut start)?;
    Ok(start.get(..length) == Some(MARK.as_bytes()))
}
