//! Why a program that is there on the host wasn't executed in the jail. Nothing has run,
//! so nothing changes what is looked at; and nothing here costs a run that works.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};

use crate::plan::command::{EnvValue, Exec};
use crate::plan::step::{Build, Plan};
use crate::refusal::shown;

/// What of a program names its interpreter.
const HEAD: u64 = 4096;
/// `PT_INTERP`, elf(5).
const INTERPRETER: usize = 3;

/// A program as the host has it.
struct Program {
    /// As it was called, or found in a PATH.
    path: PathBuf,
    /// Free of symbolic links.
    real: PathBuf,
}

/// What there is to say beside execve(2)'s errno, by its name; `path` is the caller's
/// own PATH.
pub(super) fn explain(plan: &Plan, errno: &str, path: Option<&OsStr>) -> Option<String> {
    let Some(program) = find(&plan.exec, path) else {
        return one_word(&plan.exec);
    };
    match errno {
        "ENOENT" | "ENOTDIR" => absent(plan, &program),
        "EACCES" => denied(plan, &program),
        "ENOEXEC" => Some(format!(
            "{} has no #! line, and is no program of this machine",
            shown(&program.path)
        )),
        _ => None,
    }
}

/// A command line in one word, as a shell's quotes make it.
fn one_word(exec: &Exec) -> Option<String> {
    let name = exec.argv.first()?.to_bytes();
    name.iter().any(u8::is_ascii_whitespace).then(|| {
        "that is one word, blanks and all: give each word by itself (`groom-ns run -- CMD ARG…`), or a \
         shell's line to a shell (`groom-ns run -- sh -c 'LINE'`)"
            .to_owned()
    })
}

/// The program that was meant: by its path, else in the jail's PATH, else in the caller's.
fn find(exec: &Exec, path: Option<&OsStr>) -> Option<Program> {
    let name = OsStr::from_bytes(exec.argv.first()?.to_bytes());
    let at = |path: PathBuf| {
        let real = fs::canonicalize(&path).ok()?;
        real.is_file().then_some(Program { path, real })
    };
    if name.as_bytes().contains(&b'/') {
        return at(exec.cwd.join(name));
    }
    let variable = exec.env.iter().rfind(|variable| variable.name == "PATH");
    let own = variable.and_then(|variable| match &variable.value {
        EnvValue::Ours(value) => Some(OsStr::new(value)),
        EnvValue::Callers(value) => Some(OsStr::from_bytes(value.to_bytes())),
        EnvValue::BrokerUrl { .. } | EnvValue::BrokerToken => None,
    });
    let folders = own.into_iter().chain(path).flat_map(std::env::split_paths);
    folders
        .filter(|folder| folder.is_absolute())
        .find_map(|folder| at(folder.join(name)))
}

/// Whether the jail shows this file of the host at its own path.
fn is_shown(plan: &Plan, real: &Path) -> bool {
    plan.build.iter().any(|step| match step {
        Build::Bind(bind) => bind.source == bind.target && real.starts_with(&bind.source),
        _ => false,
    })
}

fn absent(plan: &Plan, program: &Program) -> Option<String> {
    let Program { path, real } = program;
    let is_by_name = !plan.exec.argv.first()?.to_bytes().contains(&b'/');
    if !is_shown(plan, real) {
        let by = if is_by_name {
            ", and call it by that path"
        } else {
            ""
        };
        let (path, real) = (shown(path), shown(real));
        return Some(format!(
            "{path} is on this machine, but not in the jail: give --ro-file {real}{by}"
        ));
    }
    interpreter_of(real)
        .and_then(|interpreter| lost_interpreter(plan, path, &interpreter))
        .or_else(|| {
            let outside = "a folder that isn't in the jail's PATH: call it by that path";
            is_by_name.then(|| format!("{} is in {outside}", shown(path)))
        })
}

/// What is to be said of an interpreter, if it is why the program can't run.
fn lost_interpreter(plan: &Plan, program: &Path, interpreter: &Path) -> Option<String> {
    let (program, name) = (shown(program), shown(interpreter));
    match fs::canonicalize(interpreter) {
        Err(_) => Some(format!(
            "{program} wants {name}, which this machine doesn't have"
        )),
        Ok(real) if !is_shown(plan, &real) => {
            let real = shown(&real);
            Some(format!(
                "{program} wants {name}, which isn't in the jail: give --ro-file {real}"
            ))
        }
        Ok(_) => None,
    }
}

fn denied(plan: &Plan, program: &Program) -> Option<String> {
    let Program { path, real } = program;
    if !is_shown(plan, real) {
        return None;
    }
    let mode = fs::metadata(real).ok()?.permissions().mode();
    let path = shown(path);
    if mode & 0o111 == 0 {
        return Some(format!("{path} isn't executable: chmod +x"));
    }
    let flags = statvfs(real).ok()?.flags();
    flags
        .contains(FsFlags::ST_NOEXEC)
        .then(|| format!("{path} lies on a file system that is mounted noexec"))
}

/// The program that the kernel would start instead: of a `#!` line (execve(2)), or the
/// dynamic loader (elf(5)).
fn interpreter_of(program: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    // Another jail with the same clone may put a FIFO in its place, which isn't waited for.
    let mut how = File::options();
    let file = how
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = file.open(program).ok()?;
    file.take(HEAD).read_to_end(&mut head).ok()?;
    let name = match head.strip_prefix(b"#!") {
        Some(line) => {
            let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
            line.split(|byte| matches!(byte, b' ' | b'\t')).next()?
        }
        None => loader(&head)?,
    };
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// The loader that a 64-bit little-endian program names in its head.
fn loader(head: &[u8]) -> Option<&[u8]> {
    let word = |at: usize, length: usize| -> Option<usize> {
        let bytes = head.get(at..at.checked_add(length)?)?;
        let mut whole = [0; 8];
        whole.get_mut(..length)?.copy_from_slice(bytes);
        usize::try_from(u64::from_le_bytes(whole)).ok()
    };
    head.strip_prefix(b"\x7fELF\x02\x01")?;
    let (table, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
    for entry in 0..count {
        let at = table.checked_add(entry.checked_mul(size)?)?;
        if word(at, 4)? == INTERPRETER {
            let (offset, length) = (word(at.checked_add(8)?, 8)?, word(at.checked_add(32)?, 8)?);
            let name = head.get(offset..offset.checked_add(length)?)?;
            return name.split(|byte| *byte == 0).next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;
    use crate::policy::testing::TempDir;

    #[test]
    fn a_fifo_is_not_waited_for() {
        let temp = TempDir::new();
        let script = temp.file("script", "#! /bin/sh -e\n");
        assert_eq!(interpreter_of(&script), Some("/bin/sh".into()));
        let fifo = temp.at("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).expect("a FIFO");
        let (says, found) = mpsc::channel();
        thread::spawn(move || says.send(interpreter_of(&fifo)));
        assert_eq!(found.recv_timeout(Duration::from_secs(20)), Ok(None));
    }
}
