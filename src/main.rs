//! parse → policy → plan → print | run

use std::env;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use groom_ns::cli::{self, Command, PlanFormat};
use groom_ns::confine::landlock;
use groom_ns::host::Host;
use groom_ns::plan::{self, step::Plan};
use groom_ns::policy::{self, Held};
use groom_ns::refusal::{EXIT_REFUSED, Refusal};
use groom_ns::{identity, run, sys};

fn main() -> ExitCode {
    let (command, json) = match cli::parse(env::args_os()) {
        Ok(Command::Print(text)) => return finish(print(&text), false),
        Ok(Command::Run(run)) => {
            let json = run.json_errors;
            (run, json)
        }
        Err(error) => return finish(Err(error.refusal.into()), error.json),
    };
    finish(start(&command), json)
}

/// Judges, plans, and prints the plan or carries it out.
fn start(command: &cli::Run) -> Result<ExitCode> {
    // Whatever else the caller left open is nobody's business from here on.
    sys::process::close_from(3).context("close_range")?;
    let (plan, held) = plan(command)?;
    match command.plan {
        Some(PlanFormat::Text) => print(&plan.to_string()),
        Some(PlanFormat::Json) => print(&(serde_json::to_string_pretty(&plan)? + "\n")),
        None => {
            for warning in &plan.warnings {
                eprintln!("groom-ns: warning: {warning}");
            }
            Ok(ExitCode::from(run::run(&plan, &held)?))
        }
    }
}

/// The same plan whether it is printed or carried out.
fn plan(command: &cli::Run) -> Result<(Plan, Held), Refusal> {
    let host = Host::look(landlock::kernel_abi)?;
    let (policy, held) = policy::judge(command, &host)?;
    let identity = identity::pick(&host, policy.clone.owner)?;
    Ok((plan::make(&policy, &host, identity), held))
}

fn print(text: &str) -> Result<ExitCode> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// The exit code; an error is said in the way that the caller wants to hear it.
fn finish(result: Result<ExitCode>, json: bool) -> ExitCode {
    let error = match result {
        Ok(code) => return code,
        Err(error) => error,
    };
    let refused = ExitCode::from(EXIT_REFUSED);
    let Some(refusal) = error.downcast_ref::<Refusal>() else {
        eprintln!("groom-ns: {error:#}");
        return refused;
    };
    match serde_json::to_string(refusal) {
        Ok(text) if json => eprintln!("{text}"),
        _ => eprintln!("{refusal}"),
    }
    if env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
        eprintln!("{}", refusal.github_annotation());
    }
    refused
}
