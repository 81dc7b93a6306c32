//! The paid API that the broker's proofs play, and doors to it that are as bad as a door
//! can be: they add the key to whatever comes. It reads leniently, so that it acts on
//! all that the broker must refuse, and remembers what came.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use memchr::memmem;
use tokio::net::TcpSocket;

use crate::broker::token::Token;

/// At once, by the door that has few places.
const PLACES: usize = 64;
/// Before a part of an answer, so that the one before is passed on by itself.
const PAUSE: Duration = Duration::from_millis(50);

/// What listens, until the process ends. Each is a port of 127.0.0.1.
pub(super) struct Upstream {
    /// A key that is made up for this API.
    pub key: String,
    /// The API: it answers 401 to what doesn't have the key.
    pub api: u16,
    /// The bad door.
    pub open: u16,
    /// The same with few places.
    pub small: u16,
    /// A port that nobody listens on, and nobody else can.
    pub reserved: (TcpSocket, u16),
}

impl Upstream {
    /// Starts its threads. The bad door is at `socket`, too.
    pub(super) fn start(socket: &Path) -> io::Result<Upstream> {
        let key = Token::make("sk-ant-prove-")?.expose().to_owned();
        let tcp = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (api, open, small) = (tcp()?, tcp()?, tcp()?);
        let port = |tcp: &TcpListener| Ok::<u16, io::Error>(tcp.local_addr()?.port());
        let upstream = Upstream {
            api: port(&api)?,
            open: port(&open)?,
            small: port(&small)?,
            reserved: reserve()?,
            key,
        };
        let played = Arc::new(Played {
            key: upstream.key.clone(),
            elsewhere: upstream.open,
            seen: Mutex::default(),
        });
        let unix = UnixListener::bind(socket)?;
        let (closed, many) = (false, usize::MAX);
        let tcp = |listener: TcpListener| move || listener.accept().map(|(stream, _)| stream);
        let unix = move || unix.accept().map(|(stream, _)| stream);
        listen(&played, closed, many, tcp(api))?;
        listen(&played, true, many, tcp(open))?;
        listen(&played, true, many, unix)?;
        listen(&played, true, PLACES, tcp(small))?;
        Ok(upstream)
    }
}

/// Takes a port of 127.0.0.1, and doesn't listen on it.
fn reserve() -> io::Result<(TcpSocket, u16)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}

/// Serves each connection on a thread of its own; one over `places` is hung up on.
fn listen<S: Read + Write + Send + 'static>(
    played: &Arc<Played>,
    adds_key: bool,
    places: usize,
    mut accept: impl FnMut() -> io::Result<S> + Send + 'static,
) -> io::Result<()> {
    let played = Arc::clone(played);
    let accepts = move || {
        let place = Arc::new(());
        while let Ok(stream) = accept() {
            // One is held here.
            if Arc::strong_count(&place) <= places {
                let (played, place) = (Arc::clone(&played), Arc::clone(&place));
                // Without a thread the client is hung up on, as by a full door.
                let _ = thread::Builder::new().spawn(move || {
                    // A client that breaks off is one that has left.
                    let _ = played.converse(stream, adds_key);
                    drop(place);
                });
            }
        }
    };
    thread::Builder::new().spawn(accepts).map(drop)
}

struct Played {
    key: String,
    /// The port that a redirect leads to.
    elsewhere: u16,
    seen: Mutex<Vec<Vec<u8>>>,
}

impl Played {
    /// Until the client leaves.
    fn converse(&self, mut stream: impl Read + Write, adds_key: bool) -> io::Result<()> {
        let (mut unread, mut piece) = (Vec::new(), [0; 16 * 1024]);
        loop {
            match stream.read(&mut piece)? {
                0 => return Ok(()),
                count => unread.extend_from_slice(&piece[..count]),
            }
            // All that came together is acted on before the first is answered: who has
            // an answer can ask what was seen.
            let mut answers = Vec::new();
            while let Some(length) = message_length(&unread) {
                let request: Vec<u8> = unread.drain(..length).collect();
                answers.extend(self.answer(&request, adds_key));
            }
            for (at, part) in answers.iter().enumerate() {
                if at > 0 {
                    thread::sleep(PAUSE);
                }
                stream.write_all(part)?;
            }
        }
    }

    /// In the parts that it's sent in.
    fn answer(&self, request: &[u8], adds_key: bool) -> Vec<Vec<u8>> {
        let key = &self.key;
        if !adds_key && memmem::find(request, key.as_bytes()).is_none() {
            return vec![answer("401 Unauthorized", "", "no key")];
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let name = model(request);
        if let Some(mark) = name.strip_prefix("seen-") {
            let is_seen = seen
                .iter()
                .any(|one| memmem::find(one, mark.as_bytes()).is_some());
            return vec![answer("200 OK", "", if is_seen { SEEN } else { UNSEEN })];
        }
        seen.push(request.to_vec());
        if let Some(mark) = name.strip_prefix("redirect-") {
            let port = self.elsewhere;
            let to = format!("location: http://127.0.0.1:{port}/v1/models/elsewhere-{mark}\r\n");
            return vec![answer("307 Temporary Redirect", &to, "")];
        }
        match name.as_str() {
            "echo-header" => vec![answer("200 OK", &format!("x-echo: {key}\r\n"), "")],
            "echo-body" => vec![answer("200 OK", "", key)],
            "echo-stream" => {
                let whole = answer("200 OK", "", &format!("event: {key}"));
                let (first, rest) = whole.split_at(whole.len() - key.len());
                let (second, third) = rest.split_at(key.len() / 2);
                [first, second, third].map(<[u8]>::to_vec).to_vec()
            }
            _ => vec![answer("200 OK", "", "served")],
        }
    }
}

/// Said of a mark that was in a request.
pub(super) const SEEN: &str = "seen";
/// Said of another.
pub(super) const UNSEEN: &str = "unseen";

fn answer(status: &str, fields: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{fields}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// What stands behind `/v1/models/` in the target of a request, in any form.
fn model(request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    let target = text.split_ascii_whitespace().nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    let name = path.split_once("/v1/models/").map(|(_, name)| name);
    name.unwrap_or_default().to_owned()
}

/// How long the message that `bytes` begin with is, if it's whole. Lines may end in any
/// way; a coding goes before a length, and of two lengths the first counts.
pub(super) fn message_length(bytes: &[u8]) -> Option<usize> {
    let ends = [&b"\n\r\n"[..], b"\n\n"];
    let end_of = |end: &&[u8]| Some(memmem::find(bytes, end)? + end.len());
    let head = ends.iter().filter_map(end_of).min()?;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let body = &bytes[head..];
    let length = if field("transfer-encoding:").is_some() {
        memmem::find(body, b"\r\n\r\n")? + 4
    } else {
        let value = field("content-length:").unwrap_or("0");
        value.trim().parse().unwrap_or(0)
    };
    (length <= body.len()).then_some(head + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played() -> Played {
        Played {
            key: "sk-ant-prove-1".into(),
            elsewhere: 1,
            seen: Mutex::default(),
        }
    }

    #[test]
    fn a_message_ends_where_a_careless_reader_thinks() {
        for (bytes, length) in [
            ("GET / HTTP/1.1\r\n\r\nGET", Some(18)),
            ("GET / HTTP/1.1\nhost: a\n\nrest", Some(24)),
            ("GET / HTTP/1.1\r\nhost: a\r\n", None),
            ("P / H\r\nContent-Length: 2\r\n\r\nabc", Some(30)),
            ("P / H\r\ncontent-length: 4\r\n\r\nabc", None),
            (
                "P / H\r\ncontent-length: 0\r\ncontent-length: 3\r\n\r\nabc",
                Some(47),
            ),
            (
                "P / H\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET",
                Some(61),
            ),
            ("P / H\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", None),
        ] {
            assert_eq!(message_length(bytes.as_bytes()), length, "{bytes}");
        }
    }

    #[test]
    fn the_api_wants_the_key_and_remembers_who_had_it() {
        let played = played();
        let ask = |request: &str, adds_key| {
            let answer = played.answer(request.as_bytes(), adds_key).concat();
            String::from_utf8_lossy(&answer).into_owned()
        };
        let is_seen = || ask("GET /v1/models/seen-mark HTTP/1.1\r\n\r\n", true);
        assert!(ask("GET /mark HTTP/1.1\r\n\r\n", false).starts_with("HTTP/1.1 401"));
        assert!(is_seen().ends_with("\r\n\r\nunseen"));
        // It has asked for the mark itself.
        assert!(is_seen().ends_with("\r\n\r\nunseen"));
        let with_key = "GET /mark HTTP/1.1\r\nx-api-key: sk-ant-prove-1\r\n\r\n";
        assert!(ask(with_key, false).starts_with("HTTP/1.1 200"));
        assert!(is_seen().ends_with("\r\n\r\nseen"));
    }
}
