//! The files that the broker itself reads and writes. The command may neither see
//! them nor have a say in which they are.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::readlink;
use nix::sys::stat::{FileStat, SFlag, fstat};
use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

use crate::broker::alone::Listen;
use crate::broker::key_source::KeySource;
use crate::broker::token::Token;
use crate::broker::upstream::roots::parse_pem;
use crate::policy::ground::Ground;
use crate::policy::kinds::What;
use crate::policy::own::{Flag, Named, read_whole, reopen};
use crate::policy::paths::Fault;
use crate::refusal::{Reason, Refusal, shown};

/// A key is a line.
const MAX_KEY_FILE: i64 = 64 * 1024;
/// Several times the roots of a whole system.
const MAX_CERTIFICATES: usize = 4 * 1024 * 1024;
/// A token is a line.
const MAX_TOKEN_FILE: usize = 4 * 1024;
/// sun_path without the NUL byte at its end (unix(7)).
const MAX_SUN_PATH: usize = 107;

/// Judges a descriptor that the key is read from: a file that still has a name may not
/// lie in what the command sees, as for `--key-file`.
pub(crate) fn opened(ground: &Ground, name: &'static str, fd: impl AsFd) -> Result<(), Refusal> {
    let flag = Flag {
        name,
        reason: Reason::Key,
    };
    let refusal = || flag.refusal("look at");
    let failed = |errno: Errno| refusal().errno(errno).remedy("name another source");
    let stat = fstat(&fd).map_err(failed)?;
    // A here-document has no name any more; what comes from a pipe is gone once read.
    if !ground.has_jail() || What::of(stat.st_mode) != What::File || stat.st_nlink == 0 {
        return Ok(());
    }
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let path = PathBuf::from(readlink(link.as_str()).map_err(failed)?);
    ground.unseen(flag, &path)?;
    if stat.st_nlink > 1 {
        return Err(refusal().path(&path).remedy(HARD_LINKS));
    }
    Ok(())
}

const HARD_LINKS: &str =
    "it has other names (hard links), and the command may see one: copy it to a file of its own";

const KEY_FILE: Flag = Flag {
    name: "--key-file",
    reason: Reason::Key,
};
pub(crate) const BROKER_LOG: Flag = broker("--broker-log");
pub(crate) const LOG: Flag = broker("--log");
const UPSTREAM_CA: Flag = broker("--upstream-ca");
const TOKEN_FILE: Flag = broker("--token-file");
const LISTEN: Flag = Flag {
    name: "--listen",
    reason: Reason::Socket,
};

const fn broker(name: &'static str) -> Flag {
    Flag {
        name,
        reason: Reason::Broker,
    }
}

/// Judges `--key-file`: a regular file or FIFO that nothing in the jail can read. With
/// `wait`, opening a FIFO waits for its writer.
pub(crate) fn key(ground: &Ground, typed: &Path, wait: bool) -> Result<KeySource, Refusal> {
    let flag = KEY_FILE;
    let named = Named::resolve(ground, flag, typed)?;
    let path = named.path;
    let Some((held, stat)) = named.found else {
        let refusal = flag.unresolved(&Fault::of(Errno::ENOENT, &path));
        // What the shell makes of `<(…)`: /dev/fd/63, closed at start-up.
        if path.starts_with("/proc") && path.parent().is_some_and(|folder| folder.ends_with("fd")) {
            return Err(refusal.remedy("give a descriptor to --key-fd: `--key-fd 3 3< <(…)`"));
        }
        return Err(refusal);
    };
    let refusal = || flag.refusal("look at").path(&path);
    match What::of(stat.st_mode) {
        What::File => {}
        What::Special if is_fifo(&stat) => {}
        What::Link => {
            return Err(refusal().remedy(
                "it is a symbolic link: give the path that it leads to; descriptors are read with --key-stdin and --key-fd",
            ));
        }
        What::Special => {
            return Err(flag.refusal("look at").path(&path).remedy(format!(
                "it is a device; {} takes a regular file or a FIFO",
                flag.name
            )));
        }
        what => return Err(flag.is_wrong(&path, what, "a regular file or a FIFO")),
    }
    if stat.st_size > MAX_KEY_FILE {
        return Err(refusal().remedy("it has more than 64 KiB, so it is no key: name another file"));
    }
    ground.unseen(flag, &path)?;
    if ground.has_jail() && stat.st_nlink > 1 {
        return Err(refusal().remedy(HARD_LINKS));
    }
    let fd = reopen(&held, wait).map_err(|errno| {
        flag.refusal("open")
            .path(&path)
            .errno(errno)
            .remedy("the caller can't read it: change its owner or mode")
    })?;
    Ok(KeySource::File(fd, path))
}

/// Judges the path of `--listen unix:PATH`: a socket or nothing, in a folder that the
/// caller can write to. Whether somebody still listens there is seen when it is bound.
pub(crate) fn socket(ground: &Ground, typed: &Path) -> Result<Listen, Refusal> {
    let flag = LISTEN;
    let named = Named::resolve(ground, flag, typed)?;
    match named.what() {
        None | Some(What::Socket) => {}
        Some(what) => return Err(flag.is_wrong(&named.path, what, "a path where nothing is yet")),
    }
    named.writable(flag, OsStr::new("."))?;
    let bound = format!("/proc/self/fd/{}/", named.parent.as_raw_fd());
    if bound.len() + named.name.len() > MAX_SUN_PATH {
        let refusal = flag.refusal("look at").path(&named.path);
        return Err(refusal.remedy("its name is too long for a socket: choose a shorter one"));
    }
    Ok(Listen::Unix {
        parent: named.parent,
        name: named.name.into(),
        path: named.path,
    })
}

/// The certificates of `--upstream-ca`, which the command may not have written.
pub(crate) fn certificates(
    ground: &Ground,
    typed: &Path,
) -> Result<Vec<CertificateDer<'static>>, Refusal> {
    let (bytes, path) = contents(ground, UPSTREAM_CA, typed, MAX_CERTIFICATES)?;
    parse_pem(&bytes, &path)
}

/// The token of `--token-file`.
pub(crate) fn token(ground: &Ground, typed: &Path) -> Result<Token, Refusal> {
    let (bytes, path) = contents(ground, TOKEN_FILE, typed, MAX_TOKEN_FILE)?;
    let named = |refusal: Refusal| refusal.about(format!("{} {}", TOKEN_FILE.name, shown(&path)));
    Token::judge(&bytes).map_err(named)
}

/// What a regular file holds, and its canonical path.
fn contents(
    ground: &Ground,
    flag: Flag,
    typed: &Path,
    limit: usize,
) -> Result<(Zeroizing<Vec<u8>>, PathBuf), Refusal> {
    let found = flag.resolve(ground.cwd, typed)?;
    ground.own_choice(flag, &found.followed)?;
    ground.trusted(flag, &found.path)?;
    flag.takes_file(&found)?;
    Ok((read_whole(flag, &found, limit)?, found.path))
}

fn is_fifo(stat: &FileStat) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFIFO
}
