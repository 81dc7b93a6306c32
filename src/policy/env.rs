//! The variables and the command line of the command.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::plan::command::{EnvValue, EnvVar};
use crate::refusal::{Reason, Refusal};

const FLAG: &str = "--env";

/// Judges `--env`: `KEY=VALUE`, or `KEY` with the value that `own` finds in
/// groom-ns's environment. Of two with one name the later wins, at its place.
pub(crate) fn judge(
    typed: &[OsString],
    own: impl Fn(&OsStr) -> Option<OsString>,
) -> Result<Vec<EnvVar>, Refusal> {
    let mut vars: Vec<EnvVar> = Vec::with_capacity(typed.len());
    for one in typed {
        let (name, value) = match split(one) {
            (name, Some(value)) => (valid_name(FLAG, name)?, value.to_owned()),
            (name, None) => {
                let name = valid_name(FLAG, name)?;
                let value = own(OsStr::new(name)).ok_or_else(|| {
                    refusal(name).remedy(format!(
                        "it isn't set in groom-ns's own environment: set it, or give --env {name}=VALUE"
                    ))
                })?;
                (name, value)
            }
        };
        let value = CString::new(value.as_bytes())
            .map_err(|_| refusal(name).remedy("a value has no NUL byte"))?;
        vars.retain(|var| var.name != name);
        vars.push(EnvVar {
            name: name.to_owned(),
            value: EnvValue::Callers(value),
        });
    }
    Ok(vars)
}

fn split(typed: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = typed.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => (
            OsStr::from_bytes(&bytes[..at]),
            Some(OsStr::from_bytes(&bytes[at + 1..])),
        ),
        None => (typed, None),
    }
}

/// A name that every shell and libc takes. What was typed isn't repeated in the
/// refusal: it may be a secret that lost its name.
pub(super) fn valid_name<'n>(flag: &str, name: &'n OsStr) -> Result<&'n str, Refusal> {
    let bytes = name.as_bytes();
    let head = bytes
        .first()
        .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
    let tail = bytes
        .iter()
        .all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    match (head && tail).then(|| name.to_str()).flatten() {
        Some(name) => Ok(name),
        None => Err(Refusal::new(Reason::Usage, format!("read {flag}"))
            .about("(not shown)")
            .remedy(match flag {
                FLAG => "give KEY=VALUE or KEY, with a KEY of letters, digits and `_`",
                _ => "give the name of a variable: letters, digits and `_`",
            })),
    }
}

fn refusal(name: &str) -> Refusal {
    Refusal::new(Reason::Usage, format!("read {FLAG}")).about(name)
}

/// Judges the command: not empty, no NUL byte.
pub(crate) fn argv(typed: &[OsString]) -> Result<Vec<CString>, Refusal> {
    let refusal = |about: &'static str| {
        Refusal::new(Reason::Usage, "read the command")
            .about(about)
            .remedy("give a command after `--`, as in `groom-ns run -- CMD`")
    };
    match typed.first() {
        None => return Err(refusal("no command")),
        Some(first) if first.is_empty() => return Err(refusal("an empty command")),
        Some(_) => {}
    }
    typed
        .iter()
        .map(|arg| CString::new(arg.as_bytes()).map_err(|_| refusal("an argument with a NUL byte")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(typed: &[&str]) -> Result<Vec<(String, CString)>, Refusal> {
        let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
        let own = |name: &OsStr| (name == "OWN").then(|| OsString::from("mine"));
        Ok(judge(&typed, own)?
            .into_iter()
            .map(|var| match var.value {
                EnvValue::Callers(value) => (var.name, value),
                other => panic!("{}", other.shown()),
            })
            .collect())
    }

    #[test]
    fn taken() {
        for (typed, expected) in [
            (&["A=1"][..], &[("A", c"1")][..]),
            (&["A=1", "B=2", "A=3"], &[("B", c"2"), ("A", c"3")]),
            (&["A=b=c"], &[("A", c"b=c")]),
            (&["_a9="], &[("_a9", c"")]),
            (&["OWN"], &[("OWN", c"mine")]),
            (&["OWN=other", "OWN"], &[("OWN", c"mine")]),
            (
                &["HOME=/x", "LD_PRELOAD=y"],
                &[("HOME", c"/x"), ("LD_PRELOAD", c"y")],
            ),
        ] {
            let vars = judged(typed).expect("taken");
            let vars: Vec<_> = vars
                .iter()
                .map(|(n, v)| (n.as_str(), v.as_c_str()))
                .collect();
            assert_eq!(vars, expected, "{typed:?}");
        }
    }

    #[test]
    fn refused_without_showing_a_value() {
        for typed in [
            "",
            "=s3cret",
            "9A=s3cret",
            "A B=s3cret",
            "A-B",
            "ABSENT",
            "\u{e9}=s3cret",
            "A=s3\0cret",
            "s3cret-key",
        ] {
            let refusal = judged(&[typed]).expect_err(typed);
            assert_eq!(refusal.reason, Reason::Usage);
            let text = refusal.to_string();
            assert!(!text.contains("s3"), "{text}");
        }
    }

    #[test]
    fn commands() {
        let argv_of = |typed: &[&str]| argv(&typed.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(argv_of(&["a", ""]), Ok(vec![c"a".into(), c"".into()]));
        for typed in [&[][..], &[""], &["a", "b\0c"]] {
            assert_eq!(argv_of(typed).expect_err("refused").reason, Reason::Usage);
        }
    }
}
