//! A whole jail, in the current folder: this program's own `run`.

use std::process::{Command, Stdio};

use crate::refusal::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_REFUSED, Reason, Refusal};

/// Runs `true` in a jail of the current folder.
///
/// # Errors
/// The refusal of that run, whatever it is.
pub(super) fn run() -> Result<String, Refusal> {
    let trouble = || Refusal::new(Reason::Setup, "run a whole jail");
    // By the path that it was started by: a security module may know it by that.
    let program = std::env::current_exe().map_err(|error| trouble().about(error.to_string()))?;
    let output = Command::new(program)
        .args(["run", "--json-errors", "--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(|error| trouble().about(error.to_string()))?;
    // Where there is no `true` the jail stood all the same.
    let stood = [0, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND].map(i32::from);
    match output.status.code() {
        Some(code) if stood.contains(&code) => Ok("it stood".to_owned()),
        Some(code) if code == i32::from(EXIT_REFUSED) => {
            Err(refusal_in(&output.stderr).unwrap_or_else(trouble))
        }
        _ => Err(trouble()
            .about(output.status.to_string())
            .remedy("an outer sandbox ends it: run groom-ns outside of it")),
    }
}

/// The refusal among the lines that a run says.
fn refusal_in(said: &[u8]) -> Option<Refusal> {
    let lines = said.split(|byte| *byte == b'\n');
    lines
        .into_iter()
        .find_map(|line| serde_json::from_slice(line).ok())
}
