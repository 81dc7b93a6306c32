//! `groom-ns completions` and `groom-ns man`: what is told of the flags elsewhere, from
//! the same definitions.

use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command, CommandFactory as _, ValueEnum};
use clap_complete::generate;
use clap_complete::shells::{Bash, Fish, Zsh};
use clap_mangen::Man as Page;

use super::Cli;
use crate::refusal::{Reason, Refusal, shown};

/// Print a script that completes groom-ns's command lines.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = "\
Examples:
  groom-ns completions bash > ~/.local/share/bash-completion/completions/groom-ns
  groom-ns completions zsh > ~/.zfunc/_groom-ns
  groom-ns completions fish > ~/.config/fish/completions/groom-ns.fish")]
pub(super) struct Completions {
    /// Whose
    #[arg(value_name = "SHELL", value_enum)]
    pub(super) shell: Shell,
}

/// A shell that completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    /// From bash 4 on
    Bash,
    /// With compinit
    Zsh,
    /// Of any age
    Fish,
}

/// Print a manual page.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = "\
Examples:
  groom-ns man | man -l -
  groom-ns man run > ~/.local/share/man/man1/groom-ns-run.1")]
pub(super) struct Man {
    /// Of this subcommand, not of groom-ns as a whole
    #[arg(value_name = "SUBCOMMAND")]
    pub(super) subcommand: Vec<String>,
}

impl Completions {
    /// The script.
    pub(super) fn text(&self) -> String {
        let mut visible = visible();
        let mut script = Vec::new();
        match self.shell {
            Shell::Bash => generate(Bash, &mut visible, NAME, &mut script),
            Shell::Zsh => generate(Zsh, &mut visible, NAME, &mut script),
            Shell::Fish => generate(Fish, &mut visible, NAME, &mut script),
        }
        // clap_complete's bash looks a hyphenated program's subcommands up by another name
        // than it files them under (clap-rs/clap#6421, open for 4.6.12).
        String::from_utf8_lossy(&script).replace("groom__subcmd__ns__", "groom__ns__")
    }
}

impl Man {
    /// The page, as roff; man(7).
    ///
    /// # Errors
    /// `usage`: there is no such subcommand.
    pub(super) fn text(&self) -> Result<String, Refusal> {
        let mut all = visible();
        all.build();
        let mut asked = &all;
        for name in &self.subcommand {
            asked = asked.find_subcommand(name).ok_or_else(|| {
                let names: Vec<&str> = asked.get_subcommands().map(Command::get_name).collect();
                Refusal::new(Reason::Usage, "look for the page of a subcommand")
                    .about(shown(Path::new(name)))
                    .remedy(match names[..] {
                        [] => "it has none".to_owned(),
                        _ => format!("there are {}", names.join(", ")),
                    })
            })?;
        }
        // As `--help` has it: clap_mangen's own leaves out the `--` before a command.
        let mut page = asked.clone();
        let usage = page.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").to_owned();
        let mut roff = Vec::new();
        // A Vec takes all that is written to it.
        let _ = Page::new(page.override_usage(usage))
            .source(format!("{NAME} {}", env!("CARGO_PKG_VERSION")))
            .render(&mut roff);
        Ok(String::from_utf8_lossy(&roff).replace("\n.SH EXTRA\n", "\n.SH NOTES\n"))
    }
}

const NAME: &str = "groom-ns";

/// What is for people: clap_complete would offer what `--help` hides.
fn visible() -> Command {
    let all = Cli::command();
    let shown: Vec<Command> = all
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .cloned()
        .collect();
    let names: Vec<String> = shown.iter().map(|sub| sub.get_name().to_owned()).collect();
    Command::new(NAME)
        .version(all.get_version().unwrap_or_default().to_owned())
        .about(all.get_about().cloned().unwrap_or_default())
        .after_help(all.get_after_help().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(shown)
        .mut_subcommand("man", |man| {
            man.mut_arg("subcommand", |arg| {
                arg.value_parser(PossibleValuesParser::new(names))
            })
        })
}
