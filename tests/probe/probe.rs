//! The program that the tests run inside the jail, and outside as the control.
//!
//! `probe VERB ARGS…` tries one thing and prints one outcome: `ok …`, or the
//! errno's name (`EPERM`). It is static and calls the kernel directly, so that
//! no answer depends on which tools a host has. A denial is an outcome, not an
//! error: the exit code is 0 unless the probe was used wrongly (2).
//!
//! Verbs before `--` (`situation.rs`) make a surrounding and execute a command
//! in it; they are how tests start groom-ns where something is amiss.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used)]

mod filter;
mod http;
mod life;
mod look;
#[path = "../common/http.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod message;
mod net;
mod nth;
mod procs;
mod raw;
mod scan;
mod situation;
mod value;
mod world;

use std::process::ExitCode;

use nix::errno::Errno;

/// What a verb found out: text after `ok`, or the kernel's answer.
type Outcome = Result<String, Errno>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Some(at) = args.iter().position(|arg| *arg == "--") {
        return situation::run(&args[..at], &args[at + 1..]);
    }
    // A verb's output may be all that the run prints: nothing goes before it.
    println!("{}", shown(&verb(&args)));
    ExitCode::SUCCESS
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Ok(text) if text.is_empty() => "ok".into(),
        Ok(text) => format!("ok {text}"),
        Err(errno) => format!("{errno:?}"),
    }
}

fn verb(args: &[&str]) -> Outcome {
    match args {
        // Several in one process, or a child for each; an outcome a line.
        ["seq", items @ ..] => Ok(many(items, |words| shown(&verb(words)))),
        ["each", items @ ..] => Ok(many(items, |words| raw::in_child(|| verb(words)))),
        ["again-and-again", rest @ ..] => loop {
            // Of no interest but that it goes on.
            let _ = verb(rest);
        },
        ["in-userns", rest @ ..] => {
            world::own_userns()?;
            verb(rest)
        }
        ["filtered", name, rest @ ..] => filter::reaches_kernel(name, rest),
        ["syscall", name, rest @ ..] => value::syscall(name, rest),
        ["int80"] => Ok(raw::getpid_by_int80().to_string()),
        ["setns", path, kind] => procs::setns(path, kind),
        ["peek", pid] => procs::peek(pid),
        ["take-fd", pid] => procs::take_fd(pid),
        ["trace-child"] => procs::trace_child(),
        ["by-handle", path] => procs::by_handle(path),
        ["ids"] => Ok(procs::ids()),
        ["privileges"] => Ok(procs::privileges()),
        ["become-root"] => procs::become_root(),
        ["links"] => Ok(procs::links()),
        ["pids"] => Ok(procs::pids()),
        ["state"] => procs::state(),
        ["scan", masked] => Ok(scan::needle(masked, &procs::visible())),
        ["scan-pids", masked, pids @ ..] => {
            let pids: Vec<u32> = pids.iter().map(|pid| pid.parse().expect("a pid")).collect();
            Ok(scan::needle(masked, &pids))
        }
        ["scan-self", masked] => Ok(scan::needle(masked, &[std::process::id()])),
        ["propagates", dir] => world::propagates(dir),
        ["say", words @ ..] => Ok(words.join(" ")),
        ["read", path] => look::read(path),
        ["write", path, text] => look::write(path, text),
        ["list", path] => look::list(path),
        ["stat", path] => look::stat(path),
        ["find", part] => Ok(look::find(part)),
        ["writable"] => Ok(look::writable()),
        ["open-all", root] => Ok(look::open_all_for_writing(root)),
        ["env"] => Ok(look::env()),
        ["cwd"] => look::cwd(),
        ["fds"] => look::fds(),
        ["misuse-fd", fd] => Ok(look::misuse_fd(fd)),
        ["steal", fd] => look::steal(fd),
        ["up-from-fd", fd] => Ok(look::up_from_fd(fd)),
        ["reread-stdin"] => look::reread_stdin(),
        ["connect-unix", path] => net::connect_unix(path),
        ["connect-abstract", name] => net::connect_abstract(name),
        ["connect-tcp", address] => net::connect_tcp(address),
        ["http", place, request] => http::request(place, request),
        ["http-watch", place, request] => http::watch(place, request),
        ["send-udp", address] => net::send_udp(address),
        ["listen-tcp", address] => net::listen_tcp(address),
        ["threads", count] => Ok(life::threads(count)),
        ["sleep", seconds, ..] => Ok(life::sleep(seconds)),
        ["stubborn", seconds, ..] => Ok(life::stubborn(seconds)),
        ["daemon", seconds, ..] => life::daemon(seconds),
        ["catch", ..] => Ok(life::catch()),
        ["die-by", signal] => life::die_by(signal),
        ["exit", code] => std::process::exit(code.parse().expect("an exit code")),
        _ => misused(args),
    }
}

fn many(items: &[&str], run: impl Fn(&[&str]) -> String) -> String {
    let line = |item: &&str| run(&item.split_whitespace().collect::<Vec<_>>());
    let lines: Vec<String> = items.iter().map(line).collect();
    format!("\n{}", lines.join("\n"))
}

/// Ends the probe: a wrong test must not pass for a denial.
fn misused(args: &[&str]) -> ! {
    eprintln!("probe: no such verb: {args:?}");
    std::process::exit(2);
}
