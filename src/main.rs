//! parse → policy → plan → print | run

use std::env;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::resource::{Resource as Rlimit, getrlimit, setrlimit};

use groom_ns::cli::{self, Command, PlanFormat};
use groom_ns::confine::landlock;
use groom_ns::host::Host;
use groom_ns::plan::{self, step::Plan};
use groom_ns::policy::{self, CloneMode, Held, Policy};
use groom_ns::refusal::{EXIT_REFUSED, Reason, Refusal, shown};
use groom_ns::run::{self, Caller};
use groom_ns::{identity, say, sys};

fn main() -> ExitCode {
    // First of all, so that a caller that dies right now is not missed.
    let caller = begin();
    let (command, json) = match cli::parse(env::args_os()) {
        Ok(Command::Print(text)) => return finish(print(&text), false),
        Ok(Command::Run(run)) => {
            let json = run.json_errors;
            (run, json)
        }
        Err(error) => return finish(Err(error.refusal.into()), error.json),
    };
    finish(
        caller
            .map_err(Into::into)
            .and_then(|caller| start(&command, caller)),
        json,
    )
}

/// Leaves behind what the caller left to this process, and takes hold of the
/// caller itself, whose death is to end the run.
fn begin() -> Result<Caller, Refusal> {
    // Whatever else is open is nobody's business from here on.
    sys::process::close_from(3).map_err(leave("close_range"))?;
    let caller = Caller::hold()?;
    // Each path that is named is held open, however many: the command's own limit
    // is set later.
    let (_, hard) = getrlimit(Rlimit::RLIMIT_NOFILE).map_err(leave("getrlimit"))?;
    setrlimit(Rlimit::RLIMIT_NOFILE, hard, hard).map_err(leave("setrlimit"))?;
    // Ignored, it would let the kernel reap pid 1 before its end is known.
    sys::signal::set_default(libc::SIGCHLD).map_err(leave("rt_sigaction"))?;
    // A file that has grown to its limit is an error of one write(2), no more.
    sys::signal::ignore(libc::SIGXFSZ).map_err(leave("rt_sigaction"))?;
    Ok(caller)
}

/// Judges, plans, and prints the plan or carries it out.
fn start(command: &cli::Run, caller: Caller) -> Result<ExitCode> {
    let (policy, plan, held) = plan(command)?;
    match command.plan {
        Some(PlanFormat::Text) => print(&plan.to_string()),
        Some(PlanFormat::Json) => print(&(serde_json::to_string_pretty(&plan)? + "\n")),
        None => {
            for warning in &plan.warnings {
                say::note(format_args!("warning: {warning}"));
            }
            let code = run::run(&plan, &held, caller)?;
            report_new_repositories(&policy);
            Ok(ExitCode::from(code))
        }
    }
}

fn leave(call: &'static str) -> impl Fn(Errno) -> Refusal {
    move |errno| {
        Refusal::new(Reason::Setup, "leave the caller's process state behind")
            .about(call)
            .errno(errno)
            .remedy("an outer sandbox denies it: allow it there")
    }
}

/// The same plan whether it is printed or carried out.
fn plan(command: &cli::Run) -> Result<(Policy, Plan, Held), Refusal> {
    let host = Host::look(landlock::kernel_abi)?;
    let (policy, held) = policy::judge(command, &host)?;
    let identity = identity::pick(&host, policy.clone.owner)?;
    let plan = plan::make(&policy, &host, identity);
    Ok((policy, plan, held))
}

/// Names the repositories that weren't there when the jail was built: whoever
/// runs git in one of them obeys configuration that the command wrote.
fn report_new_repositories(policy: &Policy) {
    if let CloneMode::RwGitRo(covers) = &policy.clone_mode {
        for path in policy::git::new_gits(&policy.clone.path, covers) {
            say::note(format_args!("note: new repository: {}", shown(&path)));
        }
    }
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
        say::note(format_args!("{error:#}"));
        return refused;
    };
    match serde_json::to_string(refusal) {
        // Nothing else, so that standard error can be parsed.
        Ok(text) if json => {
            say::line(text);
            return refused;
        }
        _ => say::line(refusal),
    }
    if env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
        say::line(refusal.github_annotation());
    }
    refused
}
