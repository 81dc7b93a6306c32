//! The proofs of the key and its broker: what a command tries, and what a process of
//! the host tries beside a run. What the controls use as a door is in `upstream`.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Stdio};

use super::attempts::broker::{
    self as attempts, CREDENTIAL, SMALL_URL, URL, hear_the_key, pass, send,
};
use super::catalogue::{Scene, proof, roots, users};
use super::ground::Ground;
use super::jail::{self, Answers, Side};
use super::proof::Proof;
use crate::refusal::Refusal;

const KEY: &str = "key";
const BROKER: &str = "broker";

const GET: &str = "GET /v1/models/MARK";
const POST: &str = "POST /v1/messages";
/// A request in another's body, for a server that sees the body end before it.
const HIDDEN: &str = "GET /v1/models/MARK HTTP/1.1\r\nhost: api\r\nx-api-key: TOKEN\r\n\r\n";
const HIDDEN_BY_CODING: &str =
    "0\r\n\r\nGET /v1/models/MARK HTTP/1.1\r\nhost: api\r\nx-api-key: TOKEN\r\n\r\n";

/// By the command. Where pieces of an answer come together, as on a slow machine, the key
/// in a stream is seen before any of it is passed on. `dropped`: the request was served, but without what was marked.
#[rustfmt::skip] // a table
pub(super) const INSIDE: &[Proof] = &[
    proof(KEY, "key-in-processes", attempts::key_in_processes, &["absent"]),
    proof(KEY, "key-in-memory", attempts::key_in_memory, &["absent"]),
    proof(KEY, "key-in-files", attempts::key_in_files, &["absent"]),
    proof(KEY, "key-in-an-answers-header", |facts| hear_the_key(facts, "echo-header"), &["502"]),
    proof(KEY, "key-in-an-answers-body", |facts| hear_the_key(facts, "echo-body"), &["502"]),
    proof(KEY, "key-in-a-stream", |facts| hear_the_key(facts, "echo-stream"), &["ECONNRESET", "502"]),
    proof(BROKER, "api-without-the-broker", attempts::ask_the_api, &["ECONNREFUSED"]),
    proof(BROKER, "no-token", |_| send(GET, "", ""), &["401"]),
    proof(BROKER, "another-token", |_| send(GET, "x-api-key: sk-ant-groom-0\r\n", ""), &["401"]),
    proof(BROKER, "own-key-beside-the-token", |_| pass(POST, "authorization: Bearer MARK\r\n", ""), &["401"]),
    proof(BROKER, "own-key-in-query", |_| pass("GET /v1/models?key=MARK", "", ""), &["401"]),
    proof(BROKER, "own-credentials-in-query", |_| pass("GET /v1/models?access_token=MARK&api_key=MARK", "", ""), &["dropped"]),
    proof(BROKER, "own-credentials-in-headers", |_| pass("GET /v1/models", "cookie: a=MARK\r\nx_api_key: MARK\r\napi-key: MARK\r\nproxy-authorization: Bearer MARK\r\nx-drop-box: MARK\r\n", ""), &["dropped"]),
    proof(BROKER, "forwarding-headers", |_| pass("GET /v1/models", "x-forwarded-for: MARK\r\nforwarded: for=MARK\r\nvia: 1.1 MARK\r\nx-original-url: /MARK\r\n", ""), &["dropped"]),
    proof(BROKER, "hop-by-hop-headers", |_| pass("GET /v1/models", "connection: upgrade\r\nupgrade: MARK\r\nte: MARK\r\nkeep-alive: MARK\r\n", ""), &["dropped"]),
    proof(BROKER, "trailers", |_| pass(POST, "transfer-encoding: chunked\r\ntrailer: x-end\r\n", "0\r\nx-end: MARK\r\n\r\n"), &["dropped"]),
    proof(BROKER, "account-choice", |_| pass("GET /v1/models", "anthropic-workspace-id: MARK\r\n", ""), &["400"]),
    proof(BROKER, "token-to-the-api", attempts::pass_the_credential, &["dropped"]),
    proof(BROKER, "unlisted-route", |_| pass("POST /v1/files/MARK", "", ""), &["404"]),
    proof(BROKER, "unlisted-method", |_| pass("DELETE /v1/models/MARK", "", ""), &["404"]),
    proof(BROKER, "unknown-method", |_| pass("PURGE /v1/models/MARK", "", ""), &["405"]),
    proof(BROKER, "connect-method", |_| pass("CONNECT MARK:443", "", ""), &["405"]),
    proof(BROKER, "encoded-path", |_| pass("GET /v1/models/..%2ffiles%2fMARK", "", ""), &["400"]),
    proof(BROKER, "dot-segments", |_| pass("GET /v1/models/../files/MARK", "", ""), &["404"]),
    proof(BROKER, "idle-segments", |_| pass("GET /v1//models/./MARK", "", ""), &["400"]),
    proof(BROKER, "absolute-form", |_| pass("GET http://other.invalid/v1/models/MARK", "", ""), &["400"]),
    proof(BROKER, "length-and-coding", |_| pass(POST, "content-length: LENGTH\r\ntransfer-encoding: chunked\r\n", HIDDEN_BY_CODING), &["400"]),
    proof(BROKER, "two-lengths", |_| pass(POST, "content-length: 0\r\ncontent-length: LENGTH\r\n", HIDDEN), &["400"]),
    proof(BROKER, "length-with-a-sign", |_| pass(POST, "content-length: +LENGTH\r\n", "MARK"), &["400"]),
    proof(BROKER, "body-of-a-get", |_| pass("GET /v1/models", "content-length: LENGTH\r\n", HIDDEN), &["400"]),
    proof(BROKER, "bare-lf", |_| pass(POST, "x-a: b\nx-b: MARK\r\n", ""), &["400"]),
    proof(BROKER, "folded-header", |_| pass(POST, "x-a: b\r\n MARK\r\n", ""), &["400"]),
    proof(BROKER, "nul-in-header", |_| pass(POST, "x-a: \0MARK\r\n", ""), &["400"]),
    proof(BROKER, "blank-before-colon", |_| pass(POST, "x-a : MARK\r\n", ""), &["400"]),
    proof(BROKER, "redirect", attempts::follow_a_redirect, &["ECONNREFUSED"]),
    proof(BROKER, "crowd", attempts::crowd_the_door, &["answers"]),
];

/// By a process of the host, as whoever has started the run.
#[rustfmt::skip] // a table
pub(super) const BESIDE: &[Proof] = &[
    proof(BROKER, "port-from-the-host", attempts::ask_at_the_port, &["ECONNREFUSED"]),
    proof(BROKER, "socket-from-the-host", attempts::ask_at_the_socket, &["403"]),
    proof(BROKER, "token-at-the-api", attempts::ask_the_api, &["401"]),
    users(KEY, "read-the-supervisor", attempts::read_the_holder, &["EACCES", "ENOENT"]),
    roots(KEY, "key-in-forks-cores-or-swap", attempts::copy_the_key, &["kept out"]),
    proof(KEY, "key-in-the-hosts-processes", attempts::key_in_processes, &["absent"]),
    proof(KEY, "key-in-the-jails-memory", attempts::key_in_the_jails_memory, &["absent"]),
];

/// What a run of this scene gets besides: nothing where it has no broker.
pub(super) fn flags(scene: Scene, ground: &Ground) -> Vec<OsString> {
    let api = &ground.upstream;
    let upstream = format!("http://127.0.0.1:{}", api.api);
    let mut flags: Vec<OsString> = vec!["--broker".into(), "anthropic".into()];
    flags.extend(["--upstream".into(), upstream.into()]);
    match scene {
        Scene::Plain | Scene::Writable | Scene::Surrounded => return Vec::new(),
        Scene::Broker => flags.extend(["--key-file".into(), ground.facts.key_file().into()]),
        Scene::Beside => {
            flags.extend(["--key-env".into(), CREDENTIAL.into(), "--shim-port".into()]);
            flags.push(api.reserved.1.to_string().into());
        }
    }
    flags
}

/// The environment of both sides: a door, and the key in the clear.
pub(super) fn environment(ground: &Ground) -> [(&'static str, String); 3] {
    let api = &ground.upstream;
    let url = |port| format!("http://127.0.0.1:{port}");
    [
        (URL, url(api.open)),
        (SMALL_URL, url(api.small)),
        (CREDENTIAL, api.key.clone()),
    ]
}

/// Makes the attempts of [`BESIDE`] while a run with a broker lives.
///
/// # Errors
/// The refusal of the run; `setup` where it or the probe can't be started.
pub(super) fn beside(ground: &Ground) -> Result<Answers, Refusal> {
    let (run, token) = Run::start(ground)?;
    let mut facts = ground.facts.clone();
    facts.holder = run.0.id().cast_signed();
    facts.door = "/run/broker.sock".into();
    let probe = jail::attempts(Scene::Beside, Side::Outside, &facts)?;
    let words = jail::words(Scene::Beside, Side::Outside, ground, &probe)?;
    let port = ground.upstream.reserved.1;
    let answered = jail::command(&words, ground).and_then(|mut command| {
        let url = format!("http://127.0.0.1:{port}");
        command.env(URL, url).env(CREDENTIAL, token).output()
    });
    let output = answered.map_err(|error| jail::not_started(&error))?;
    Ok(jail::pairs(&output.stdout))
}

/// A run whose command waits. It ends when this is dropped.
struct Run(Child);

impl Run {
    /// With the token that its command has.
    fn start(ground: &Ground) -> Result<(Run, String), Refusal> {
        let probe = ["wait".into(), CREDENTIAL.into()];
        let words = jail::words(Scene::Beside, Side::Inside, ground, &probe)?;
        let started = jail::command(&words, ground).and_then(|mut command| {
            let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
            piped.stderr(Stdio::piped()).spawn()
        });
        let mut run = Run(started.map_err(|error| jail::not_started(&error))?);
        let mut token = String::new();
        if let Some(output) = run.0.stdout.take() {
            // Where there is none, what was said instead says why.
            let _ = BufReader::new(output).read_line(&mut token);
        }
        if token.is_empty() {
            drop(run.0.stdin.take());
            let refusal = jail::refusal_in(run.0.stderr.take());
            return Err(refusal.unwrap_or_else(jail::not_run));
        }
        Ok((run, token.trim_end().to_owned()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The command's standard input ends, and so does it.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// `probe wait VARIABLE`: says what it is set to, and waits for standard input's end.
pub(super) fn wait(variable: &str) -> anyhow::Result<()> {
    println!("{}", std::env::var(variable)?);
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
