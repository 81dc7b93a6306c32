//! `--profile FILE`: what flags of `run` say, as TOML, turned into words of a command
//! line. Which keys there are and what they take is clap's own knowledge of the flags.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use said::Said;

use super::{Cli, Command, Run, UsageError, refuse, strict, wants_json};
use crate::refusal::{Reason, Refusal, shown};

/// Where the words of a profile go: after `groom-ns run`.
const AFTER_RUN: usize = 2;
/// The key of what follows `--`, which has no flag.
const COMMAND: &str = "command";
const PROFILE: &str = "profile";
const RECEIPT: &str = "receipt";
const PLAN: &str = "plan";

/// A profile as it was found: where, and by which symbolic links, in order. Canonical
/// paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFile {
    /// Its own path.
    pub path: PathBuf,
    /// The links that led there.
    pub followed: Vec<PathBuf>,
    /// Whether it says where the run's receipt goes, and the line doesn't. False until
    /// both are put together.
    pub names_receipt: bool,
    /// What it says of the run, for refusals. None until it is put together with the line.
    pub says: Vec<Said>,
}

/// What was typed, where a profile is part of it. None where there is none, or where
/// the line can't be read whatever a profile has: [`strict`] says why.
pub(super) fn typed(args: &[OsString]) -> Option<ArgMatches> {
    let is_run = args.get(1).is_some_and(|word| word == "run");
    let mut flags = args.iter().take_while(|word| *word != "--");
    let names_one = |word: &OsString| word.as_encoded_bytes().starts_with(b"--profile");
    if !is_run || !flags.any(names_one) {
        return None;
    }
    let typed = loose().try_get_matches_from(args.get(1..)?).ok()?;
    typed.contains_id(PROFILE).then_some(typed)
}

/// Refuses a run whose profile wasn't read: [`typed`] must not know less than clap.
pub(super) fn read_or_none(command: Command) -> Result<Command, UsageError> {
    match command {
        Command::Run(run) if run.profile.is_some() && run.found_profile.is_none() => {
            Err(UsageError {
                refusal: Refusal::new(Reason::Usage, "read --profile")
                    .about("not read")
                    .remedy("write `--profile FILE` right after `groom-ns run`"),
                json: run.json_errors,
                run: None,
            })
        }
        command => Ok(command),
    }
}

/// Reads a line as if the profile's flags stood before the typed ones.
///
/// # Errors
/// `read`'s; `usage` for what the profile says, and for both together.
pub(super) fn merge(
    args: &[OsString],
    typed: &ArgMatches,
    read: impl FnOnce(&Path) -> Result<(ProfileFile, Vec<u8>), Refusal>,
) -> Result<Command, UsageError> {
    let mut json = wants_json(args);
    let merged = (|| {
        let path = typed.get_one::<PathBuf>(PROFILE);
        let (mut file, bytes) = read(path.map_or(Path::new(""), PathBuf::as_path))?;
        let profile = Profile::parse(&file, &bytes, &mut json)?;
        let says = profile.says(typed);
        let words = profile.before(args, typed)?;
        file.says = says;
        match strict(&words) {
            Ok(Command::Run(mut run)) => {
                file.names_receipt = run.receipt.is_some() && !typed.contains_id(RECEIPT);
                run.found_profile = Some(file);
                Ok(Command::Run(run))
            }
            Ok(other) => Ok(other),
            Err(mut error) => {
                error.refusal.step = "read the command line with its profile".into();
                let both = format!("{} ({})", error.refusal.subject, shown(&file.path));
                error.refusal.subject = both;
                error.refusal.remedy =
                    "both together must be a line that could be typed: see `groom-ns run --help`"
                        .into();
                Err(error.refusal)
            }
        }
    })();
    merged.map_err(|refusal| UsageError {
        refusal,
        json,
        run: None,
    })
}

/// What was typed of a `run` whose line is refused, where each flag by itself can be
/// read, and not of a mere plan.
pub(super) fn typed_alone(args: &[OsString]) -> Option<Box<Run>> {
    let (_, words) = args.split_first()?;
    let is_run = words.first().is_some_and(|word| word == "run");
    let typed = loose()
        .try_get_matches_from(is_run.then_some(words)?)
        .ok()?;
    // Without a format it would be read as if it weren't there.
    if typed.contains_id(PLAN) {
        return None;
    }
    Run::from_arg_matches(&typed).ok().map(Box::new)
}

/// `run` with every flag and nothing that they ask of each other: a profile may have
/// what a typed flag needs.
fn loose() -> clap::Command {
    let mut loose = clap::Command::new("run").disable_help_flag(true);
    for flag in definition().get_arguments() {
        let mut arg = Arg::new(flag.get_id().clone())
            .action(flag.get_action().clone())
            .value_parser(flag.get_value_parser().clone())
            .value_names(flag.get_value_names().unwrap_or_default())
            .short(flag.get_short())
            .require_equals(flag.is_require_equals_set())
            .allow_hyphen_values(flag.is_allow_hyphen_values_set())
            .default_values(flag.get_default_values().to_vec())
            .last(flag.is_last_set());
        if let Some(long) = flag.get_long() {
            arg = arg.long(long.to_owned());
        }
        if let Some(count) = flag.get_num_args() {
            arg = arg.num_args(count);
        }
        loose = loose.arg(arg);
    }
    loose
}

/// `run` as clap has it.
fn definition() -> clap::Command {
    let run = Cli::command().find_subcommand("run").cloned();
    run.unwrap_or_default()
}

/// What a profile says.
struct Profile<'p> {
    file: &'p ProfileFile,
    flags: Vec<Flag>,
}

/// A flag of the profile's, or the command, as words of a command line.
struct Flag {
    arg: Arg,
    words: Vec<OsString>,
    line: usize,
}

impl<'p> Profile<'p> {
    /// Sets `json` as soon as the profile is known to want it.
    fn parse(file: &'p ProfileFile, bytes: &[u8], json: &mut bool) -> Result<Profile<'p>, Refusal> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            refusal(file, bytes, error.valid_up_to(), "it isn't UTF-8").remedy("TOML is UTF-8")
        })?;
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            refusal(file, bytes, at, error.message()).remedy("write it as TOML has it (toml.io)")
        })?;
        let table = table.into_inner();
        let wanted = table.get("json-errors").map(Spanned::get_ref);
        *json |= wanted.and_then(DeValue::as_bool) == Some(true);
        let known = definition();
        let mut flags = Vec::new();
        for (key, value) in &table {
            let at = key.span().start;
            let wrong = |text: &str| refusal(file, bytes, at, text);
            let arg = find(&known, key.get_ref()).map_err(|remedy| {
                wrong(&format!("there is no key `{}`", key.get_ref())).remedy(remedy)
            })?;
            let words = words(arg, value.get_ref(), &file.path).map_err(|wanted| {
                wrong(&format!("`{}` takes {wanted}", key.get_ref()))
                    .remedy("write it so, or give the flag on the command line")
            })?;
            if let Err(error) = loose().try_get_matches_from(line(arg, &words)) {
                let error = refuse(&error, None);
                return Err(wrong(&error.subject).remedy("see `groom-ns run --help`"));
            }
            let (arg, line) = (arg.clone(), line_of(bytes, at));
            flags.push(Flag { arg, words, line });
        }
        Ok(Profile { file, flags })
    }

    /// The whole line: the profile's flags, but for those that the line has or undoes,
    /// then what was typed, and the profile's command if none was.
    fn before(self, args: &[OsString], typed: &ArgMatches) -> Result<Vec<OsString>, Refusal> {
        let known = definition();
        let undone = |arg: &Arg| {
            let opposite = opposite(arg.get_long().unwrap_or_default());
            let mut others = known.get_arguments();
            others.any(|one| one.get_long() == Some(&opposite) && is_typed(typed, one))
        };
        let (run, rest) = args.split_at_checked(AFTER_RUN).unwrap_or((args, &[]));
        let mut line = run.to_vec();
        let mut command = Vec::new();
        for Flag { arg, words, .. } in self.flags {
            let adds = matches!(arg.get_action(), ArgAction::Append);
            if arg.is_positional() {
                command = words;
            } else if adds || !(is_typed(typed, &arg) || undone(&arg)) {
                line.extend(words);
            }
        }
        line.extend_from_slice(rest);
        if !is_given(typed, COMMAND) {
            if command.is_empty() {
                return Err(
                    Refusal::new(Reason::Usage, "read the command line with its profile")
                        .about(format!(
                            "no command, and none in {}",
                            shown(&self.file.path)
                        ))
                        .remedy("the command follows `--`, or is the profile's key `command`"),
                );
            }
            line.extend((!rest.iter().any(|word| word == "--")).then(|| "--".into()));
            line.extend(command);
        }
        Ok(line)
    }
}

fn is_given(typed: &ArgMatches, id: &str) -> bool {
    typed.value_source(id) == Some(ValueSource::CommandLine)
}

fn is_typed(typed: &ArgMatches, arg: &Arg) -> bool {
    is_given(typed, arg.get_id().as_str())
}

/// What undoes a switch: `no-tty` for `tty`, and the other way round.
fn opposite(long: &str) -> String {
    match long.strip_prefix("no-") {
        Some(positive) => positive.to_owned(),
        None => format!("no-{long}"),
    }
}

/// The flag of a key, or what to do about a key that has none.
fn find<'k>(known: &'k clap::Command, key: &str) -> Result<&'k Arg, String> {
    if key == PROFILE {
        return Err("a profile names no other: one file says it all".into());
    }
    let mut all = known.get_arguments();
    let is_it = |arg: &&Arg| arg.get_long().unwrap_or(COMMAND) == key;
    all.find(is_it).ok_or_else(|| {
        let typed = ["run".to_owned(), format!("--{key}")];
        let nearest = loose().try_get_matches_from(typed).err();
        match nearest
            .as_ref()
            .and_then(|error| error.get(ContextKind::SuggestedArg))
        {
            Some(ContextValue::String(flag))
                if key.len() > 2 && flag.trim_start_matches('-') != PROFILE =>
            {
                format!("did you mean `{}`?", flag.trim_start_matches('-'))
            }
            _ => "a key is the long name of a flag: see `groom-ns run --help`".into(),
        }
    })
}

/// A flag as it would be typed. Fails with what it takes instead.
fn words(arg: &Arg, value: &DeValue, profile: &Path) -> Result<Vec<OsString>, &'static str> {
    let long = arg.get_long();
    let flag = OsString::from(format!("--{}", long.unwrap_or_default()));
    let with = |value: &DeValue| {
        let value = text(arg, value, profile)?;
        if long.is_none() {
            return Some(value);
        }
        let mut word = flag.clone();
        word.push("=");
        word.push(value);
        Some(word)
    };
    let may_be_bare = arg
        .get_num_args()
        .is_some_and(|count| count.min_values() == 0);
    match (arg.get_action(), value) {
        (ArgAction::Append, DeValue::Array(values)) => {
            let words = values.iter().map(|value| with(value.get_ref()));
            words.collect::<Option<_>>().ok_or(LIST)
        }
        (ArgAction::Append, _) => Err(LIST),
        (ArgAction::SetTrue, DeValue::Boolean(is_on)) => {
            Ok(is_on.then_some(flag).into_iter().collect())
        }
        (ArgAction::SetTrue, _) => Err("true or false"),
        (_, DeValue::Boolean(is_on)) if may_be_bare => {
            Ok(is_on.then_some(flag).into_iter().collect())
        }
        (_, value) if may_be_bare => Ok(vec![with(value).ok_or("true, false or a string")?]),
        (_, value) if takes_number(arg) => {
            Ok(vec![with(value).ok_or("a string or a decimal number")?])
        }
        (_, value) => Ok(vec![with(value).ok_or("a string")?]),
    }
}

const LIST: &str = "an array of strings";

/// A single value as it would be typed, a path from the profile's folder on. No argument
/// of a process has a NUL byte.
fn text(arg: &Arg, value: &DeValue, profile: &Path) -> Option<OsString> {
    match value {
        DeValue::String(text) if text.contains('\0') => None,
        DeValue::String(text)
            if !text.is_empty() && arg.get_value_parser().type_id() == TypeId::of::<PathBuf>() =>
        {
            Some(profile.with_file_name("").join(&**text).into())
        }
        DeValue::String(text) => Some((**text).into()),
        DeValue::Integer(number) if takes_number(arg) && number.radix() == 10 => {
            Some(number.as_str().into())
        }
        DeValue::Float(number) if takes_number(arg) => Some(number.as_str().into()),
        _ => None,
    }
}

/// Whether digits can be meant: not for a path, a variable, a word of the command, or
/// one of a list.
fn takes_number(arg: &Arg) -> bool {
    let takes = arg.get_value_parser().type_id();
    takes != TypeId::of::<PathBuf>()
        && takes != TypeId::of::<OsString>()
        && arg.get_possible_values().is_empty()
}

/// One flag by itself, or the command.
fn line(arg: &Arg, words: &[OsString]) -> Vec<OsString> {
    let before: &[&str] = if arg.is_positional() {
        &["run", "--"]
    } else {
        &["run"]
    };
    before
        .iter()
        .map(OsString::from)
        .chain(words.iter().cloned())
        .collect()
}

/// The number of the line that a byte is in.
fn line_of(bytes: &[u8], at: usize) -> usize {
    let before = bytes.iter().take(at);
    1 + before.filter(|byte| **byte == b'\n').count()
}

/// A refusal at a byte of the profile.
fn refusal(file: &ProfileFile, bytes: &[u8], at: usize, what: &str) -> Refusal {
    let line = line_of(bytes, at);
    let what = shown(Path::new(what));
    Refusal::new(Reason::Usage, "read --profile")
        .about(format!("{}:{line}: {what}", shown(&file.path)))
}

mod said;
#[cfg(test)]
mod tests;
