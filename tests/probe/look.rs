//! Reports on files and descriptors.

use std::fs;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::raw::{self, sys};
use crate::{Outcome, shown};

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EPROTO))
}

pub(crate) fn read(path: &str) -> Outcome {
    let bytes = fs::read(path).map_err(|error| errno(&error))?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().into())
}

/// Opens as an agent's editor does: created if absent, truncated if there.
pub(crate) fn write(path: &str, text: &str) -> Outcome {
    fs::write(path, text)
        .map(|()| String::new())
        .map_err(|error| errno(&error))
}

pub(crate) fn list(path: &str) -> Outcome {
    let entries = fs::read_dir(path).map_err(|error| errno(&error))?;
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names.join(" "))
}

/// `TYPE MODE UID:GID SIZE`.
pub(crate) fn stat(path: &str) -> Outcome {
    let meta = fs::symlink_metadata(path).map_err(|error| errno(&error))?;
    let (mode, uid, gid) = (meta.mode() & 0o7777, meta.uid(), meta.gid());
    Ok(format!(
        "{} {mode:o} {uid}:{gid} {}",
        kind(&meta),
        meta.size()
    ))
}

fn kind(meta: &fs::Metadata) -> &'static str {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => "dir",
        () if kind.is_file() => "file",
        () if kind.is_symlink() => "link",
        () if kind.is_socket() => "socket",
        () if kind.is_fifo() => "pipe",
        () if kind.is_char_device() => "char",
        () if kind.is_block_device() => "block",
        () => "other",
    }
}

/// Kernel filesystems and the system, where nothing of a test can be.
const SYSTEM: [&str; 4] = ["/proc", "/sys", "/usr", "/etc"];

/// Every path below `root` that can be listed, without following links.
fn walk(root: &Path, skip: &[&str], visit: &mut dyn FnMut(&Path, &fs::Metadata)) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(meta) = entry.metadata() else { continue };
        visit(&path, &meta);
        if meta.is_dir() && !skip.iter().any(|skipped| path == Path::new(skipped)) {
            walk(&path, skip, visit);
        }
    }
}

/// Every visible path whose name contains `part`.
pub(crate) fn find(part: &str) -> String {
    let mut found = Vec::new();
    walk(Path::new("/"), &SYSTEM, &mut |path, _| {
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().contains(part))
        {
            found.push(path.display().to_string());
        }
    });
    found.sort();
    found.join(" ")
}

/// Every visible folder in which a file can be made; the system's too.
pub(crate) fn writable() -> String {
    let mut folders: Vec<PathBuf> = vec!["/".into()];
    walk(Path::new("/"), &["/proc", "/sys"], &mut |path, meta| {
        if meta.is_dir() {
            folders.push(path.into());
        }
    });
    folders.retain(|folder| {
        let file = folder.join(format!(".probe-{}", std::process::id()));
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&file)
            .is_ok();
        made && fs::remove_file(&file).is_ok()
    });
    folders.sort();
    folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Every file below `root` that opens for writing (nothing is written).
pub(crate) fn open_all_for_writing(root: &str) -> String {
    let mut tried = 0;
    let mut opened = Vec::new();
    walk(Path::new(root), &[], &mut |path, meta| {
        if meta.is_file() {
            tried += 1;
            let mut options = fs::OpenOptions::new();
            if options
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(path)
                .is_ok()
            {
                opened.push(path.display().to_string());
            }
        }
    });
    opened.sort();
    format!("{} of {tried}: {}", opened.len(), opened.join(" "))
}

/// The environment, a variable a line, sorted.
pub(crate) fn env() -> String {
    let mut all: Vec<String> = std::env::vars_os()
        .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()))
        .collect();
    all.sort();
    all.join("\n")
}

pub(crate) fn cwd() -> Outcome {
    nix::unistd::getcwd().map(|path| path.display().to_string())
}

/// Every open descriptor: `N=TYPE:LINK`, but for the one that lists them.
pub(crate) fn fds() -> Outcome {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")
        .map_err(|error| errno(&error))?
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(target) = fs::read_link(entry.path()) else {
            continue;
        };
        // The listing's own descriptor is gone by the time it is looked at again.
        if target.ends_with("fd") && target.starts_with("/proc") {
            continue;
        }
        let kind = fs::metadata(entry.path()).map_or("?", |meta| kind(&meta));
        all.push(format!("{name}={kind}:{}", target.display()));
    }
    all.sort();
    Ok(all.join(" "))
}

/// Opens a descriptor of its own anew, for reading, and takes what is in it.
pub(crate) fn steal(fd: &str) -> Outcome {
    let mut file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{fd}"))
        .map_err(|error| errno(&error))?;
    let mut buffer = [0; 64];
    let length = file.read(&mut buffer).map_err(|error| errno(&error))?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Everything that a holder of a descriptor can do to the object behind it.
pub(crate) fn misuse_fd(fd: &str) -> String {
    let number: u64 = fd.parse().expect("a descriptor");
    let again = format!("/proc/self/fd/{fd}");
    let reopen = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&again)
        .map(|file| file.as_raw_fd().to_string())
        .map_err(|error| errno(&error));
    let call = |nr, args: &[u64]| sys(nr, args).map(|result| result.to_string());
    let text = *b"planted";
    [
        ("chmod", call(libc::SYS_fchmod, &[number, 0o666])),
        ("chmod-link", {
            let path = raw::cstring(&again);
            call(
                libc::SYS_chmod,
                &[raw::address(path.as_bytes_with_nul()), 0o666],
            )
        }),
        (
            "pwrite",
            call(libc::SYS_pwrite64, &[number, raw::address(&text), 7, 0]),
        ),
        ("seek", call(libc::SYS_lseek, &[number, 0, 0])),
        ("truncate", call(libc::SYS_ftruncate, &[number, 0])),
        ("reopen", reopen),
    ]
    .iter()
    .map(|(name, outcome)| format!("{name}={}", shown(outcome)))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Whether a descriptor leads upwards out of the visible tree.
pub(crate) fn up_from_fd(fd: &str) -> String {
    let number: u64 = fd.parse().expect("a descriptor");
    let up = raw::cstring("..");
    // Large enough for struct stat.
    let mut room = [0_u64; 32];
    let up = raw::address(up.as_bytes_with_nul());
    let stat = sys(
        libc::SYS_newfstatat,
        &[number, up, raw::address_mut(&mut room), 0],
    );
    let chdir = sys(libc::SYS_fchdir, &[number]);
    let [stat, chdir] = [stat, chdir].map(|done| shown(&done.map(|_| String::new())));
    format!("stat={stat} chdir={chdir}")
}

/// Reads stdin to its end, goes back to its start, and reads again.
pub(crate) fn reread_stdin() -> Outcome {
    let first = std::io::read_to_string(std::io::stdin()).map_err(|error| errno(&error))?;
    sys(libc::SYS_lseek, &[0, 0, 0])?;
    let mut room = vec![0_u8; 65536];
    let length = sys(
        libc::SYS_read,
        &[0, raw::address_mut(room.as_mut_slice()), 65536],
    )?;
    Ok(format!("{} then {length} bytes", first.len()))
}
