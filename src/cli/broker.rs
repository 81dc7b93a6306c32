//! The broker's flags, and the two subcommands of those who start its parts by
//! themselves.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// Whose API a broker opens onto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Provider {
    /// api.anthropic.com
    Anthropic,
    /// api.openai.com
    Openai,
    /// generativelanguage.googleapis.com
    Gemini,
    /// What --upstream and --auth-header say
    Custom,
}

/// A heading of `--help`.
const API: &str = "The API and its key";

/// The flags of a broker in a run and of one on its own. Each wants a provider:
/// `--broker` there, an argument here.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[group(id = "broker-flags")]
pub struct BrokerArgs {
    /// Where the API is: https, or http for a loopback address; a path is kept as
    /// prefix [default: the provider's own]
    #[arg(
        long,
        value_name = "URL",
        requires = "broker",
        required_if_eq("broker", "custom"), help_heading = API)]
    pub upstream: Option<String>,

    /// Certificates (PEM) that the API's may be signed with, beside the system's roots
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "broker", help_heading = API)]
    pub upstream_ca: Option<PathBuf>,

    /// Where the key comes from.
    #[command(flatten)]
    pub key: KeyArgs,

    /// The header that the key goes in, and what stands before it; for the provider
    /// custom
    #[arg(
        long,
        value_name = "NAME[:PREFIX]",
        requires = "broker",
        required_if_eq("broker", "custom"), help_heading = API)]
    pub auth_header: Option<String>,

    /// Forward one more route of the API; may be repeated
    #[arg(long = "allow-route", value_name = "METHOD /PATH", requires = "broker", help_heading = API)]
    pub allow_routes: Vec<String>,
}

/// Where the key comes from; one of them is given beside a provider. Never an
/// argument, which everybody can read in the process list.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[group(id = "key", multiple = false, requires = "broker")]
pub struct KeyArgs {
    /// Read the key from the first line of standard input; the rest is a run's command's
    #[arg(long, help_heading = API)]
    pub key_stdin: bool,

    /// Read the key from this file or FIFO, no link; in a run it may not lie in what
    /// the command sees
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = API)]
    pub key_file: Option<PathBuf>,

    /// Read the key from this descriptor, 3 or higher
    #[arg(long, value_name = "N", help_heading = API)]
    pub key_fd: Option<i32>,

    /// Take the key out of this variable of groom-ns's own environment
    #[arg(long, value_name = "NAME", help_heading = API)]
    pub key_env: Option<OsString>,
}

/// Start a key broker that no run is tied to.
///
/// It listens for requests to one paid API, puts the key into those that it
/// understands, forwards them, and relays the answers. It serves until a signal
/// ends it.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(after_help = BROKER_AFTER_HELP)]
pub struct Broker {
    /// Whose API it opens onto
    #[arg(id = "broker", value_name = "PROVIDER", value_enum, requires = "key")]
    pub provider: Provider,

    /// Where it listens: a UNIX socket of its owner's alone, or a port of 127.0.0.1
    /// (0: one that is free)
    #[arg(long, value_name = "unix:PATH|tcp:PORT")]
    pub listen: OsString,

    /// What a run's broker takes too.
    #[command(flatten)]
    pub args: BrokerArgs,

    /// Say on this descriptor, 3 or higher, that it listens, and close it
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<i32>,

    /// Let this user's processes connect too, by number; for a UNIX socket
    #[arg(long, value_name = "UID")]
    pub peer_uid: Option<u32>,

    /// Ask every client for the token in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,

    /// Append a line of JSON a request to this file [default: standard error]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,

    /// Print a refusal as one line of JSON
    #[arg(long)]
    pub json_errors: bool,
}

const BROKER_AFTER_HELP: &str = "\
SIGTERM ends it; what is under way has 30 seconds. Exit codes: 0; 1 if something
was cut off; 125 if it did not start.

Examples:
  groom-ns broker anthropic --listen unix:/run/user/1000/broker --key-file key
  groom-ns broker openai --listen tcp:8080 --key-env OPENAI_API_KEY";

/// Forward a port of 127.0.0.1 to a UNIX socket.
///
/// For programs that speak to a port alone, in a jail that shows a broker's
/// socket (`groom-ns run --uds`).
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Shim {
    /// The port; 0: one that is free
    #[arg(value_name = "PORT")]
    pub port: u16,

    /// The socket
    #[arg(value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,

    /// Print a refusal as one line of JSON
    #[arg(long)]
    pub json_errors: bool,
}
