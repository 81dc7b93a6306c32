//! parse → policy → plan → print | run

use std::env;
use std::io::Write as _;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::resource::{Resource as Rlimit, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use groom_ns::broker::{alone, shim};
use groom_ns::cli::{self, Command, PlanFormat, Setup, SetupWhat};
use groom_ns::confine::landlock;
use groom_ns::host::{self, Host};
use groom_ns::plan::{
    self,
    step::{Plan, Route},
};
use groom_ns::policy::{self, CloneMode, Held, Kept, Policy, ReceiptFile, Supplies};
use groom_ns::receipt::record::Moment;
use groom_ns::receipt::status::{Event, Status};
use groom_ns::receipt::told::Told;
use groom_ns::receipt::verify;
use groom_ns::refusal::{EXIT_REFUSED, Reason, Refusal, shown};
use groom_ns::run::{self, Caller};
use groom_ns::sabotage::{self, Mechanism, stands};
use groom_ns::{apparmor, check, identity, prove, say, sys};

fn main() -> ExitCode {
    // First of all, so that a caller that dies right now is not missed.
    let parent = getppid();
    let started = Moment::now();
    sabotage::begin();
    let command = match cli::parse_with(env::args_os(), policy::read_profile) {
        Ok(command) => command,
        Err(error) => {
            // The receipt that such a line names isn't its own either.
            let removed = error.run.as_deref().map(policy::remove_stale_receipt);
            let refusal = removed.and_then(Result::err).unwrap_or(error.refusal);
            return finish(Err(refusal.into()), error.json);
        }
    };
    let json = command.json_errors();
    finish(carry_out(&command, parent, started), json)
}

fn carry_out(command: &Command, parent: Pid, started: Moment) -> Result<ExitCode> {
    match command {
        Command::Print(text) => print(text),
        Command::Run(run) => {
            say::set_loudness(run.loudness());
            let mut kept = begin(command).map_err(|refusal| run.refused(refusal))?;
            let status = Rc::new(Status::to(kept.status()));
            let ending = start(run, kept, parent, (Rc::clone(&status), started));
            if let Some(refusal) = ending.as_ref().err().and_then(|error| error.downcast_ref()) {
                status.say(Event::Refused { refusal });
            }
            ending
        }
        Command::Broker(broker) => {
            let alone = policy::judge_alone(broker, begin(command)?)?;
            Ok(ExitCode::from(alone::run(alone)?))
        }
        Command::Shim(shim) => {
            begin(command)?;
            Ok(ExitCode::from(shim::run(shim.port, &shim.socket)?))
        }
        Command::Prove(asked) => {
            begin(command)?;
            show(asked, &prove::run()?)
        }
        Command::Check(asked) => {
            let begun = begin(command).map(drop);
            show_check(asked, &check::run(begun, parent))
        }
        Command::Setup(Setup {
            what: SetupWhat::Apparmor(asked),
        }) => {
            begin(command)?;
            print(&apparmor::run(asked)?)
        }
        Command::Verify(asked) => {
            begin(command)?;
            let verdict = verify::run(&asked.receipt, &asked.policy)?;
            print(&verdict.text(asked.json)?)?;
            Ok(ExitCode::from(u8::from(!verdict.holds())))
        }
        // What its caller left to it is what it is asked for.
        Command::Probe(probe) => {
            host::caller()?;
            prove::probe::run(&probe.words)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn show(asked: &cli::Prove, report: &prove::Report) -> Result<ExitCode> {
    if asked.json {
        print(&(serde_json::to_string_pretty(report)? + "\n"))?;
    } else {
        print(&report.to_string())?;
    }
    Ok(ExitCode::from(u8::from(!report.holds())))
}

fn show_check(asked: &cli::Check, report: &check::Report) -> Result<ExitCode> {
    if asked.json {
        print(&(serde_json::to_string_pretty(report)? + "\n"))?;
    } else {
        print(&report.to_string())?;
    }
    Ok(if report.can_run() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_REFUSED)
    })
}

/// Leaves behind what the caller left to this process, but for the descriptors that
/// the command line names.
fn begin(command: &Command) -> Result<Kept, Refusal> {
    host::caller()?;
    // Whatever refuses this run, the last one's receipt isn't taken for its own.
    if let Command::Run(run) = command {
        policy::remove_stale_receipt(run)?;
    }
    // Before anything is opened and kept: it could get one of their numbers.
    let kept = Kept::take(command)?;
    // Whatever else is open is nobody's business from here on.
    if stands(Mechanism::ClosedAtStart) {
        sys::process::close_all_but(kept.iter()).map_err(leave("close_range"))?;
    }
    // Each path that is named is held open, however many: the command's own limit
    // is set later.
    let (_, hard) = getrlimit(Rlimit::RLIMIT_NOFILE).map_err(leave("getrlimit"))?;
    setrlimit(Rlimit::RLIMIT_NOFILE, hard, hard).map_err(leave("setrlimit"))?;
    // Ignored, it would let the kernel reap pid 1 before its end is known.
    sys::signal::set_default(libc::SIGCHLD).map_err(leave("rt_sigaction"))?;
    // A file that has grown to its limit is an error of one write(2), no more.
    sys::signal::ignore(libc::SIGXFSZ).map_err(leave("rt_sigaction"))?;
    Ok(kept)
}

/// Judges, plans, and prints the plan or carries it out.
fn start(
    command: &cli::Run,
    kept: Kept,
    parent: Pid,
    (status, started): (Rc<Status>, Moment),
) -> Result<ExitCode> {
    let caller = Caller::hold(parent)?;
    let planned = plan(command, kept).map_err(|refusal| command.refused(refusal));
    let (policy, plan, (held, supplies, receipt)) = planned?;
    match command.plan {
        Some(PlanFormat::Text) => print(&plan.to_string()),
        Some(PlanFormat::Json) => print(&plan.json()?),
        None => {
            for warning in &plan.warnings {
                say::warning(warning);
            }
            let config = policy.broker.as_ref().map(|broker| broker.config.clone());
            let mut told = Told::new(status, receipt, started)?;
            let ending = run::run(&plan, &held, caller, config.zip(supplies), &mut told)?;
            report_new_repositories(&policy);
            let code = told.ended(&plan, &ending);
            // A shell's loop or script ends with a command that Ctrl-C has ended, and goes
            // on after one that exits, whatever its code.
            if ending.cause.is_interrupt() {
                sys::signal::die_of(Signal::SIGINT);
            }
            // Nothing of a run is written through std, and the kernel lets go of all at once.
            sys::process::exit_at_once(code)
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

/// What goes with a plan and isn't data.
type Beside = (Held, Option<Supplies>, Option<ReceiptFile>);

/// The same plan whether it is printed or carried out.
fn plan(command: &cli::Run, kept: Kept) -> Result<(Policy, Plan, Beside), Refusal> {
    if let Some(profile) = &command.found_profile {
        say::step(format_args!(
            "flags are taken from {}",
            shown(&profile.path)
        ));
    }
    let host = Host::look(landlock::kernel_abi)?;
    say::step(format_args!(
        "Linux {}, landlock ABI {}, started by {}",
        host.kernel,
        host.landlock
            .map_or("none".to_owned(), |abi| abi.to_string()),
        match host.route {
            Route::Root => "root",
            Route::User => "a user",
        },
    ));
    let (policy, held, supplies, receipt) = policy::judge(command, &host, kept)?;
    say::step("the flags and what they name are in order");
    let identity = identity::pick(&host, policy.clone.owner)?;
    say::step(format_args!(
        "the command is uid {} of the host",
        identity.host.uid
    ));
    let mut plan = plan::make(&policy, &host, identity);
    sabotage::plan(&mut plan);
    Ok((policy, plan, (held, supplies, receipt)))
}

/// Names the repositories that weren't there when the jail was built: whoever
/// runs git in one of them obeys configuration that the command wrote.
fn report_new_repositories(policy: &Policy) {
    if let CloneMode::RwGitRo(covers) = &policy.clone_mode {
        for path in policy::git::new_gits(&policy.clone.path, covers) {
            say::remark(format_args!("new repository: {}", shown(&path)));
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
        _ => say::refusal(refusal),
    }
    if env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
        say::line(refusal.github_annotation());
    }
    refused
}
