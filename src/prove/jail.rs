//! Starting the attempts, outside and inside, and taking their answers.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::refusal::{EXIT_REFUSED, Reason, Refusal};

use super::broker;
use super::catalogue::Scene;
use super::facts::Facts;
use super::ground::{CANARY, Ground};
use super::proof::{Finding, Proof};

/// Where something is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// On the host: the control.
    Outside,
    /// In the jail: the claim.
    Inside,
}

impl Side {
    /// As it is passed on to a probe.
    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Outside => "outside",
            Side::Inside => "inside",
        }
    }
}

/// Makes every attempt of a scene, outside and then inside.
///
/// # Errors
/// The refusal of a jail that can't be built; `setup` where the probes can't be started.
pub(super) fn prove(scene: Scene, ground: &Ground) -> Result<Vec<Finding>, Refusal> {
    let control = answers(scene, Side::Outside, ground)?;
    let claim = match scene {
        Scene::Beside => broker::beside(ground)?,
        _ => answers(scene, Side::Inside, ground)?,
    };
    let finding = |proof: &Proof| {
        let [control, claim] = [&control, &claim].map(|answers| answer_of(proof.probe, answers));
        Finding::of(proof.promise, proof.probe, control, claim, proof.must)
    };
    Ok(scene.proofs(&ground.facts).map(finding).collect())
}

/// The answers to all attempts of a scene, by the probe's name.
pub(super) type Answers = Vec<(String, String)>;

fn answers(scene: Scene, side: Side, ground: &Ground) -> Result<Answers, Refusal> {
    let probe = attempts(scene, side, &ground.facts)?;
    let output = start(&words(scene, side, ground, &probe)?, ground)?;
    if side == Side::Inside && output.status.code().unwrap_or_default() >= i32::from(EXIT_REFUSED) {
        return Err(refusal_in(Some(output.stderr.as_slice())).unwrap_or_else(not_run));
    }
    Ok(pairs(&output.stdout))
}

/// The words that let a probe make a scene's attempts.
pub(super) fn attempts(scene: Scene, side: Side, facts: &Facts) -> Result<[OsString; 3], Refusal> {
    let facts = serde_json::to_string(facts)
        .map_err(|error| trouble("write the facts down").about(error.to_string()))?;
    Ok([side.name(), scene.name(), &facts].map(OsString::from))
}

/// The command line of a probe.
pub(super) fn words(
    scene: Scene,
    side: Side,
    ground: &Ground,
    probe: &[OsString],
) -> Result<Vec<OsString>, Refusal> {
    let mut words = Vec::new();
    if scene == Scene::Surrounded {
        let beneath = ground.facts.ground.join("beneath");
        let mounted = ground.facts.given().join("mounted");
        words.extend([own_path()?, "probe".into(), "surrounded".into()]);
        words.extend([beneath.into(), mounted.into()]);
    }
    match side {
        Side::Outside => words.push(own_path()?),
        Side::Inside => {
            words.extend(run(scene, ground)?);
            words.push(ground.facts.program().into());
        }
    }
    words.push("probe".into());
    words.extend_from_slice(probe);
    Ok(words)
}

/// This program by the path that it was started by: a security module may know it by
/// that, and allow it what it doesn't allow a copy.
pub(super) fn own_path() -> Result<OsString, Refusal> {
    std::env::current_exe()
        .map(PathBuf::into_os_string)
        .map_err(|error| trouble("find this program").about(error.to_string()))
}

/// `groom-ns run`, up to the command.
fn run(scene: Scene, ground: &Ground) -> Result<Vec<OsString>, Refusal> {
    let facts = &ground.facts;
    let mut words = vec![own_path()?, "run".into(), "--json-errors".into()];
    let mut flag = |name: &str, value: OsString| words.extend([name.into(), value]);
    flag("--clone", facts.clone_dir().into());
    flag("--out-dir", facts.out_dir().into());
    flag("--ro-file", facts.given().into());
    flag("--ro-file", facts.program().into());
    if scene == Scene::Writable {
        flag("--clone-mode", "rw-git-ro".into());
    }
    words.extend(broker::flags(scene, ground));
    words.push("--".into());
    Ok(words)
}

/// Runs a command to its end.
fn start(words: &[OsString], ground: &Ground) -> Result<Output, Refusal> {
    command(words, ground)
        .and_then(|mut command| command.output())
        .map_err(|error| not_started(&error))
}

/// With a file of the host's as standard input, and the canary and the key in its
/// environment.
pub(super) fn command(words: &[OsString], ground: &Ground) -> io::Result<Command> {
    let stdin = ground.facts.ground.join("stdin");
    let stdin = File::options().read(true).write(true).open(stdin)?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env(CANARY, &ground.canary)
        .envs(broker::environment(ground))
        .stdin(stdin);
    Ok(command)
}

pub(super) fn not_started(error: &io::Error) -> Refusal {
    trouble("start the probes").about(error.to_string())
}

/// The refusal among what a run of groom-ns has said, with --json-errors. The flags aren't
/// the caller's, so what can be done about a tree that can't be given is said anew.
pub(super) fn refusal_in(said: Option<impl Read>) -> Option<Refusal> {
    let mut text = String::new();
    said?.read_to_string(&mut text).ok()?;
    let mut refusals = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    refusals
        .next()
        .map(|refusal: Refusal| match refusal.reason {
            Reason::Owner | Reason::Path | Reason::Overlap => refusal.remedy(
                "set TMPDIR to a folder that a run may be given; as root on a file system that can \
             be id-mapped (ext4, xfs, btrfs, tmpfs since Linux 6.3)",
            ),
            _ => refusal,
        })
}

/// The jail stands, and what was to run in it doesn't.
pub(super) fn not_run() -> Refusal {
    trouble("execute this program in the jail")
        .remedy("set TMPDIR to a folder where programs may be executed (no noexec)")
}

/// `NAME ANSWER` a line.
pub(super) fn pairs(text: &[u8]) -> Answers {
    let text = String::from_utf8_lossy(text);
    let pair = |line: &str| {
        let (name, answer) = line.split_once(' ')?;
        Some((name.to_owned(), answer.to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

fn answer_of(probe: &str, answers: &[(String, String)]) -> String {
    let found = answers.iter().find(|(name, _)| name == probe);
    found.map_or_else(|| "no answer".to_owned(), |(_, answer)| answer.clone())
}

pub(super) fn trouble(step: &'static str) -> Refusal {
    Refusal::new(Reason::Setup, step)
}
