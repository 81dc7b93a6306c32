//! What is asked of the broker, judged: of a run's, and of one on its own.

mod files;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::errno::Errno;

use super::env;
use super::ground::Ground;
use super::kept::Kept;
use super::own::{self, LogFile};
use super::paths::Start;
use super::reads::Reads;
use crate::broker::Config;
use crate::broker::alone::{Alone, Listen};
use crate::broker::key_source::KeySource;
use crate::broker::log::Log;
use crate::broker::provider::{AuthHeader, Provider};
use crate::broker::route::Route;
use crate::broker::upstream::proxy::Proxy;
use crate::broker::upstream::url::{Scheme, Upstream};
use crate::cli;
use crate::refusal::{Reason, Refusal};
use crate::sys::process::{stderr, stdin};

/// Reads a variable of groom-ns's own environment.
type Variable = fn(&OsStr) -> Option<OsString>;

/// The broker of a run. Pure data: what it gets as descriptors and secrets is in
/// [`Supplies`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerPolicy {
    /// What it is told.
    pub config: Config,
    /// Its port on the jail's 127.0.0.1; 0: the kernel picks one.
    pub shim_port: u16,
}

/// What a run's broker is given as descriptors and secrets, beside the policy.
#[derive(Debug)]
pub struct Supplies {
    /// Where the key is read from.
    pub key: KeySource,
    /// Where its log goes, if anywhere.
    pub log: Option<LogFile>,
}

/// Judges the flags of a run's broker, but for the key; none without `--broker`.
///
/// # Errors
/// `usage` for what the flags say, `broker` for the files that they name.
pub(crate) fn judge(
    run: &cli::Run,
    ground: &Ground,
    variable: Variable,
) -> Result<Option<(BrokerPolicy, Option<LogFile>)>, Refusal> {
    let Some(provider) = run.broker else {
        return Ok(None);
    };
    let policy = BrokerPolicy {
        config: config(provider, &run.broker_args, ground, variable)?,
        shim_port: run.shim_port.unwrap_or(0),
    };
    let typed = run.broker_log.as_deref();
    let reads = || Reads::of_run(ground.cwd, run);
    let log = typed.map(|typed| own::log(ground, files::BROKER_LOG, typed, reads));
    Ok(Some((policy, log.transpose()?)))
}

/// Refuses an `--env` that hands the command the key's own variable.
pub(crate) fn not_handed_over(run: &cli::Run) -> Result<(), Refusal> {
    match &run.broker_args.key.key_env {
        Some(name) if run.env.contains(name) => {
            Err(Refusal::new(Reason::Usage, "compare --env with --key-env")
                .about(env::valid_name("--key-env", name)?)
                .remedy("it would hand the key to the command: leave that --env out"))
        }
        _ => Ok(()),
    }
}

/// Judges where the key comes from, last of all: what stood in the environment is
/// taken out of it, and a FIFO's writer is waited for, if `wait` says so.
///
/// # Errors
/// `key` where it can't be read, or the command could; `usage` for a variable's name.
pub(crate) fn key(
    typed: &cli::KeyArgs,
    kept: Option<(OwnedFd, i32)>,
    ground: &Ground,
    wait: bool,
) -> Result<KeySource, Refusal> {
    if let Some(path) = &typed.key_file {
        files::key(ground, path, wait)
    } else if let Some(name) = &typed.key_env {
        KeySource::take_env(env::valid_name("--key-env", name)?)
    } else if let Some((fd, number)) = kept {
        files::opened(ground, "--key-fd", &fd)?;
        Ok(KeySource::Fd(fd, number))
    } else {
        files::opened(ground, "--key-stdin", stdin())?;
        Ok(KeySource::Stdin)
    }
}

/// Judges `groom-ns broker`. Its log is made last, if it isn't there; nothing is
/// bound yet.
///
/// # Errors
/// `usage` for what the flags say, `key` and `broker` for what they name.
pub fn judge_alone(broker: &cli::Broker, kept: Kept) -> Result<Alone, Refusal> {
    alone_from(&Start::here(), |name| std::env::var_os(name), broker, kept)
}

fn alone_from(
    cwd: &Result<Start, Errno>,
    variable: Variable,
    broker: &cli::Broker,
    kept: Kept,
) -> Result<Alone, Refusal> {
    let ground = Ground::alone(cwd);
    let config = config(broker.provider, &broker.args, &ground, variable)?;
    let listen = listen(&broker.listen, &ground)?;
    if broker.peer_uid.is_some() && matches!(listen, Listen::Tcp(_)) {
        return Err(Refusal::new(Reason::Usage, "read --peer-uid")
            .about("beside tcp")
            .remedy("a TCP client has no user: leave it out, or listen on unix:PATH"));
    }
    let token = broker.token_file.as_deref();
    let token = token.map(|typed| files::token(&ground, typed));
    let token = token.transpose()?;
    let log = broker.log.as_deref();
    let reads = || Reads::of_broker(cwd, broker);
    let log = log.map(|typed| own::log(&ground, files::LOG, typed, reads));
    let log = log.transpose()?;
    Ok(Alone {
        config,
        listen,
        token,
        peer_uid: broker.peer_uid,
        key: key(&broker.args.key, kept.key, &ground, true)?,
        ready: kept.ready,
        log: open_log(log.as_ref())?,
    })
}

/// The log that was named, or standard error.
fn open_log(file: Option<&LogFile>) -> Result<Log, Refusal> {
    let fd = match file {
        Some(file) => file.open()?.0,
        None => stderr().try_clone_to_owned().map_err(|error| {
            Refusal::new(Reason::Broker, "keep standard error for the log")
                .errno(Errno::try_from(error).unwrap_or(Errno::EIO))
                .remedy("name a file with --log")
        })?,
    };
    Ok(Log::to(fd))
}

/// `unix:PATH` or `tcp:PORT`.
fn listen(typed: &OsStr, ground: &Ground) -> Result<Listen, Refusal> {
    let bytes = typed.as_bytes();
    if let Some(path) = bytes.strip_prefix(b"unix:").filter(|path| !path.is_empty()) {
        return files::socket(ground, Path::new(OsStr::from_bytes(path)));
    }
    let port = typed.to_str().and_then(|text| text.strip_prefix("tcp:"));
    // from_str would take a `+`.
    let port = port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    match port.and_then(|port| port.parse().ok()) {
        Some(port) => Ok(Listen::Tcp(port)),
        None => Err(Refusal::new(Reason::Usage, "read --listen")
            .path(Path::new(typed))
            .remedy("give unix:PATH, or tcp:PORT with a port from 0 to 65535")),
    }
}

/// What run and stand-alone broker have in common.
fn config(
    provider: cli::Provider,
    args: &cli::BrokerArgs,
    ground: &Ground,
    variable: Variable,
) -> Result<Config, Refusal> {
    let provider = match provider {
        cli::Provider::Anthropic => Provider::Anthropic,
        cli::Provider::Openai => Provider::OpenAi,
        cli::Provider::Gemini => Provider::Gemini,
        cli::Provider::Custom => Provider::Custom,
    };
    let upstream = upstream(provider, args)?;
    let auth = args.auth_header.as_deref().map(AuthHeader::judge);
    let auth = auth.transpose()?;
    if auth.is_some() && provider != Provider::Custom {
        return Err(Refusal::new(Reason::Usage, "read --auth-header")
            .about("beside a provider with a header of its own")
            .remedy("leave it out, or choose the provider custom"));
    }
    let routes = args.allow_routes.iter().map(|typed| Route::judge(typed));
    let routes = routes.collect::<Result<Vec<_>, _>>()?;
    let proxy = Proxy::judge(&upstream, |name| variable(OsStr::new(name)))?;
    let roots = args.upstream_ca.as_deref();
    let roots = roots.map(|typed| files::certificates(ground, typed));
    Ok(Config {
        provider,
        auth,
        upstream,
        roots: roots.transpose()?.unwrap_or_default(),
        proxy,
        routes,
    })
}

fn upstream(provider: Provider, args: &cli::BrokerArgs) -> Result<Upstream, Refusal> {
    let typed = args.upstream.as_deref().or(provider.default_upstream());
    let Some(typed) = typed else {
        return Err(Refusal::new(Reason::Usage, "read --upstream")
            .about("none")
            .remedy("the provider custom has no address of its own: give one"));
    };
    let upstream = Upstream::judge(typed)?;
    if upstream.scheme == Scheme::Http && args.upstream_ca.is_some() {
        return Err(Refusal::new(Reason::Usage, "read --upstream-ca")
            .about("beside http")
            .remedy("http has no certificates: leave it out, or give an https URL"));
    }
    Ok(upstream)
}

#[cfg(test)]
mod tests;
