//! execve(2), with execvp(3)'s search of the command's own PATH.

use std::convert::Infallible;
use std::ffi::{CStr, CString};

use nix::errno::Errno;
use nix::unistd::execve;

use crate::plan::command::{EnvValue, EnvVar, Exec};

/// The PATH of a command whose environment has none (execvp(3), `_CS_PATH`).
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// Why the command wasn't executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecFailure {
    /// The command as it was given.
    pub program: CString,
    /// `ENOENT` or `ENOTDIR`: not found. Anything else: found, but not executable.
    pub errno: Errno,
}

/// Executes; returns only on failure.
pub(super) fn exec(exec: &Exec) -> ExecFailure {
    let program = exec.argv.first().cloned().unwrap_or_default();
    let errno = match environment(&exec.env) {
        Ok(env) => search(&program, path_of(&exec.env), |file| {
            execve(file, &exec.argv, &env)
        }),
        Err(errno) => errno,
    };
    ExecFailure { program, errno }
}

/// Tries each candidate in turn and returns the errno that says most, as
/// execvp(3) does: a file that was found but not executable (`EACCES`) rather
/// than the absence of the next. There is no fallback to /bin/sh on `ENOEXEC`.
fn search(
    program: &CStr,
    path: &[u8],
    mut execute: impl FnMut(&CStr) -> Result<Infallible, Errno>,
) -> Errno {
    let name = program.to_bytes();
    if name.is_empty() {
        return Errno::ENOENT;
    }
    if name.contains(&b'/') {
        let Err(errno) = execute(program);
        return errno;
    }
    let mut answer = Errno::ENOENT;
    for folder in path.split(|&byte| byte == b':') {
        let Ok(file) = candidate(folder, name) else {
            return Errno::EINVAL;
        };
        let Err(errno) = execute(&file);
        match errno {
            Errno::EACCES => answer = Errno::EACCES,
            Errno::ENOENT | Errno::ENOTDIR => {}
            other => return other,
        }
    }
    answer
}

/// An empty folder is the working directory.
fn candidate(folder: &[u8], name: &[u8]) -> Result<CString, std::ffi::NulError> {
    let folder = if folder.is_empty() { b"." } else { folder };
    CString::new([folder, b"/", name].concat())
}

/// The last PATH wins, as a later variable of the policy does.
fn path_of(env: &[EnvVar]) -> &[u8] {
    env.iter()
        .rev()
        .find(|variable| variable.name == "PATH")
        .map_or(DEFAULT_PATH, |variable| bytes(&variable.value))
}

fn bytes(value: &EnvValue) -> &[u8] {
    match value {
        EnvValue::Ours(value) => value.as_bytes(),
        EnvValue::Callers(value) => value.to_bytes(),
    }
}

/// `NAME=value` of each; `EINVAL` if one has a NUL byte.
fn environment(env: &[EnvVar]) -> Result<Vec<CString>, Errno> {
    env.iter()
        .map(|variable| {
            let entry = [variable.name.as_bytes(), b"=", bytes(&variable.value)].concat();
            CString::new(entry).map_err(|_| Errno::EINVAL)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errno, and which files were tried.
    fn tried(program: &CStr, path: &str, answers: &[Errno]) -> (Errno, Vec<String>) {
        let mut files = Vec::new();
        let errno = search(program, path.as_bytes(), |file| {
            files.push(file.to_str().unwrap().to_owned());
            Err(answers[files.len() - 1])
        });
        (errno, files)
    }

    #[test]
    fn a_slash_means_no_search() {
        let (errno, files) = tried(c"./x", "/a:/b", &[Errno::ENOEXEC]);
        assert_eq!((errno, files), (Errno::ENOEXEC, vec!["./x".to_owned()]));
    }

    #[test]
    fn an_empty_name_is_not_found() {
        assert_eq!(tried(c"", "/a", &[]), (Errno::ENOENT, vec![]));
    }

    #[test]
    fn an_empty_element_is_the_working_directory() {
        let (_, files) = tried(c"x", ":/a:", &[Errno::ENOENT; 3]);
        assert_eq!(files, ["./x", "/a/x", "./x"]);
    }

    #[test]
    fn eacces_is_remembered_past_enoent() {
        let answers = [Errno::EACCES, Errno::ENOENT, Errno::ENOTDIR];
        let (errno, files) = tried(c"x", "/a:/b:/c", &answers);
        assert_eq!((errno, files.len()), (Errno::EACCES, 3));
    }

    #[test]
    fn another_errno_ends_the_search() {
        let (errno, files) = tried(c"x", "/a:/b", &[Errno::ENOEXEC]);
        assert_eq!((errno, files.len()), (Errno::ENOEXEC, 1));
    }

    fn var(name: &str, value: EnvValue) -> EnvVar {
        EnvVar {
            name: name.to_owned(),
            value,
        }
    }

    #[test]
    fn the_last_path_wins() {
        let env = [
            var("PATH", EnvValue::Ours("/a".to_owned())),
            var("PATH", EnvValue::Callers(c"/b".to_owned())),
            var("PATHS", EnvValue::Ours("/c".to_owned())),
        ];
        assert_eq!(path_of(&env), b"/b");
        assert_eq!(path_of(&[]), DEFAULT_PATH);
    }

    #[test]
    fn the_environment_is_passed_on_byte_by_byte() {
        let env = [
            var("A", EnvValue::Ours("b=c".to_owned())),
            var("D", EnvValue::Callers(c"\xff".to_owned())),
        ];
        assert_eq!(
            environment(&env).unwrap(),
            [c"A=b=c".to_owned(), c"D=\xff".to_owned()]
        );
        let nul = [var("A", EnvValue::Ours("b\0".to_owned()))];
        assert_eq!(environment(&nul), Err(Errno::EINVAL));
    }
}
