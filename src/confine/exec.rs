//! execve(2), with execvp(3)'s search of the command's own PATH.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ffi::{CStr, CString};

use nix::errno::Errno;
use nix::unistd::execve;

use crate::plan::command::{EnvValue, EnvVar, Exec, broker_url};

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

/// How the command gets to the broker: what a plan can't know.
pub struct Door {
    /// The port of 127.0.0.1 that the broker listens on.
    pub port: u16,
    /// What it asks for: the command's own, no secret from it.
    pub token: String,
}

/// Executes; returns only on failure.
pub(super) fn exec(exec: &Exec, door: Option<&Door>) -> ExecFailure {
    let program = exec.argv.first().cloned().unwrap_or_default();
    let errno = match environment(&exec.env, door) {
        Ok(env) => search(&program, path_of(&env), |file| {
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
fn path_of(env: &[CString]) -> &[u8] {
    env.iter()
        .rev()
        .find_map(|variable| variable.to_bytes().strip_prefix(b"PATH="))
        .unwrap_or(DEFAULT_PATH)
}

/// `NAME=value` of each; `EINVAL` if one has a NUL byte, or leads to a broker that
/// there is no door to.
fn environment(env: &[EnvVar], door: Option<&Door>) -> Result<Vec<CString>, Errno> {
    env.iter()
        .map(|variable| {
            let value = value(&variable.value, door).ok_or(Errno::EINVAL)?;
            let entry = [variable.name.as_bytes(), b"=", &value].concat();
            CString::new(entry).map_err(|_| Errno::EINVAL)
        })
        .collect()
}

fn value<'a>(value: &'a EnvValue, door: Option<&'a Door>) -> Option<Cow<'a, [u8]>> {
    Some(match value {
        EnvValue::Ours(value) => value.as_bytes().into(),
        EnvValue::Callers(value) => value.to_bytes().into(),
        EnvValue::BrokerUrl { path, .. } => broker_url(door?.port, path).into_bytes().into(),
        EnvValue::BrokerToken => door?.token.as_bytes().into(),
    })
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
        let env = [c"PATH=/a", c"PATH=/b", c"PATHS=/c"].map(CStr::to_owned);
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
            environment(&env, None).unwrap(),
            [c"A=b=c".to_owned(), c"D=\xff".to_owned()]
        );
        let nul = [var("A", EnvValue::Ours("b\0".to_owned()))];
        assert_eq!(environment(&nul, None), Err(Errno::EINVAL));
    }

    #[test]
    fn the_way_to_the_broker_is_filled_in() {
        let url = |path| EnvValue::BrokerUrl { port: 0, path };
        let env = [
            var("U", url("")),
            var("V", url("/v1")),
            var("T", EnvValue::BrokerToken),
        ];
        let door = Door {
            port: 8080,
            token: "t0ken".to_owned(),
        };
        assert_eq!(
            environment(&env, Some(&door)).unwrap(),
            [
                c"U=http://127.0.0.1:8080",
                c"V=http://127.0.0.1:8080/v1",
                c"T=t0ken"
            ]
            .map(CStr::to_owned)
        );
        for one in env {
            assert_eq!(environment(&[one], None), Err(Errno::EINVAL));
        }
    }
}
