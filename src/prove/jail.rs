//! Starting the attempts, outside and inside, and taking their answers.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::refusal::{Reason, Refusal};

use super::catalogue::Scene;
use super::ground::{CANARY, Ground};
use super::proof::{Finding, judge};

/// Makes every attempt of a scene, outside and then inside.
///
/// # Errors
/// The refusal of a jail that can't be built; `setup` where the probes can't be started.
pub(super) fn prove(scene: Scene, ground: &Ground) -> Result<Vec<Finding>, Refusal> {
    let facts = serde_json::to_string(&ground.facts)
        .map_err(|error| trouble("write the facts down").about(error.to_string()))?;
    let probe = |side: &str| -> Vec<OsString> {
        let words = ["probe", side, scene.name(), &facts];
        words.into_iter().map(OsString::from).collect()
    };
    let outside = start(
        &around(scene, ground, &[own_path()?], &probe("outside")),
        ground,
    )?;
    let mut inner = vec![ground.facts.program().into_os_string()];
    inner.extend(probe("inside"));
    let inside = start(&around(scene, ground, &run(scene, ground)?, &inner), ground)?;
    if let Some(refusal) = refusal_of(&inside) {
        return Err(refusal);
    }
    let (control, claim) = (answers(&outside), answers(&inside));
    Ok(scene
        .proofs(&ground.facts)
        .map(|proof| {
            let (control, claim) = (
                answer_of(proof.probe, &control),
                answer_of(proof.probe, &claim),
            );
            Finding {
                promise: proof.promise,
                probe: proof.probe,
                verdict: judge(&control, &claim, proof.must),
                control,
                claim,
            }
        })
        .collect())
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
    words.push("--".into());
    Ok(words)
}

/// The same in what surrounds the whole scene.
fn around(scene: Scene, ground: &Ground, first: &[OsString], rest: &[OsString]) -> Vec<OsString> {
    let mut words = Vec::new();
    if scene == Scene::Submount {
        let facts = &ground.facts;
        words.extend([first[0].clone(), "probe".into(), "bound".into()]);
        words.push(facts.ground.join("beneath").into());
        words.push(facts.given().join("mounted").into());
    }
    words.extend(first.iter().chain(rest).cloned());
    words
}

/// Runs a command to its end, with a file of the host's as standard input, and the
/// canary in its environment.
fn start(words: &[OsString], ground: &Ground) -> Result<Output, Refusal> {
    let stdin = ground.facts.ground.join("stdin");
    File::options()
        .read(true)
        .write(true)
        .open(&stdin)
        .and_then(|stdin| {
            Command::new(&words[0])
                .args(&words[1..])
                .env(CANARY, &ground.canary)
                .env_remove("GITHUB_ACTIONS")
                .stdin(stdin)
                .output()
        })
        .map_err(|error| trouble("start the probes").about(error.to_string()))
}

/// The refusal that a run ended with, if it did.
pub(super) fn refusal_of(output: &Output) -> Option<Refusal> {
    let text = String::from_utf8_lossy(&output.stderr);
    let refusal = text
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    refusal.filter(|_| output.status.code() == Some(125))
}

/// `NAME ANSWER` a line.
fn answers(output: &Output) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(&output.stdout);
    let pair = |line: &str| {
        line.split_once(' ')
            .map(|(name, answer)| (name.into(), answer.into()))
    };
    text.lines().filter_map(pair).collect()
}

fn answer_of(probe: &str, answers: &[(String, String)]) -> String {
    let found = answers.iter().find(|(name, _)| name == probe);
    found.map_or_else(|| "no answer".to_owned(), |(_, answer)| answer.clone())
}

fn trouble(step: &'static str) -> Refusal {
    Refusal::new(Reason::Setup, step)
}
