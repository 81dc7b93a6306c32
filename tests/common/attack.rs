//! Attacks: what must fail inside, and its control, which must not outside.

use std::path::Path;

use super::host::path_str;
use super::jail::Jail;
use super::workspace::Workspace;

/// One thing to try, in the probe's words.
pub(crate) struct Attack {
    attempt: String,
    control: String,
    /// What the control must answer: `ok` and anything after it, or this errno.
    outside: &'static str,
    inside: &'static [&'static str],
}

impl Attack {
    /// An attempt that succeeds outside, and has one of these answers inside.
    pub(crate) fn new(attempt: impl Into<String>, inside: &'static [&'static str]) -> Self {
        let attempt = attempt.into();
        Attack {
            control: attempt.clone(),
            attempt,
            outside: "ok",
            inside,
        }
    }

    /// A syscall that the jail's filter must stop with this errno, whatever
    /// the arguments and privileges: the control asks whether it would get to
    /// the kernel (the probe's `filtered`), and executes nothing.
    pub(crate) fn filtered(call: &str, errno: &'static [&'static str]) -> Self {
        Attack::new(format!("filtered {call}"), errno)
    }

    /// The control is made in a user namespace of its own, with all
    /// capabilities, so that it succeeds as any user and touches no host.
    #[must_use]
    pub(crate) fn control_in_userns(mut self) -> Self {
        self.control = format!("in-userns {}", self.attempt);
        self
    }

    /// Another command is the control: the same thing on an object outside.
    #[must_use]
    pub(crate) fn control(mut self, control: impl Into<String>) -> Self {
        self.control = control.into();
        self
    }

    /// The control is made on a copy of a folder, which it may change.
    #[must_use]
    pub(crate) fn control_on_copy(mut self, folder: &Path, copy: &Path) -> Self {
        self.control = self.control.replace(path_str(folder), path_str(copy));
        self
    }

    /// The control gets further than the jail lets it, to this errno.
    #[must_use]
    pub(crate) fn control_answers(mut self, errno: &'static str) -> Self {
        self.outside = errno;
        self
    }
}

/// Tries every attack outside, then inside, each in a process of its own.
pub(crate) fn assert_denied(workspace: &Workspace, jail: Jail, attacks: &[Attack]) {
    let controls = each(attacks, |attack| &attack.control);
    let attempts = each(attacks, |attack| &attack.attempt);

    let outside = workspace.unjailed(&controls);
    for (attack, answer) in attacks.iter().zip(answers(&outside.lines(), attacks.len())) {
        let expected = attack.outside;
        assert!(
            answer == expected || answer.starts_with(&format!("{expected} ")),
            "vacuous: the control `{}` answers {answer}, not {expected}",
            attack.control,
        );
    }
    let inside = jail.run(&attempts);
    let inside_lines = inside.lines();
    let failures: Vec<String> = attacks
        .iter()
        .zip(answers(&inside_lines, attacks.len()))
        .filter(|(attack, answer)| !attack.inside.contains(answer))
        .map(|(attack, answer)| {
            format!(
                "`{}` answers {answer}, not one of {:?}",
                attack.attempt, attack.inside
            )
        })
        .collect();
    assert!(
        failures.is_empty(),
        "not denied in the jail:\n{}",
        failures.join("\n")
    );
}

/// The same with the calls that the filter denies explained (`--explain-denials`): who
/// answers is another, the answer isn't.
pub(crate) fn assert_denied_either_way(
    workspace: &Workspace,
    jail: impl Fn() -> Jail,
    attacks: &[Attack],
) {
    assert_denied(workspace, jail(), attacks);
    assert_denied(workspace, jail().switch("--explain-denials"), attacks);
}

fn each(attacks: &[Attack], part: fn(&Attack) -> &str) -> Vec<String> {
    let items = attacks.iter().map(|attack| part(attack).to_owned());
    std::iter::once("each".to_owned()).chain(items).collect()
}

fn answers<'a>(lines: &'a [&'a str], expected: usize) -> impl Iterator<Item = &'a str> {
    assert_eq!(lines.len(), expected, "an answer a line: {lines:#?}");
    lines.iter().copied()
}
