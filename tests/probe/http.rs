//! A client in the jail: raw bytes to the broker, and what came back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::Outcome;
use crate::message::{Body, Head};

const PATIENCE: Duration = Duration::from_secs(10);

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Where the broker's base URL and the run's token stand, by provider.
const VARIABLES: [(&str, &str); 4] = [
    ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
    ("GROOM_NS_BROKER_URL", "GROOM_NS_BROKER_TOKEN"),
];

fn variables() -> (String, String) {
    let set = VARIABLES
        .iter()
        .find_map(|(url, token)| Some((std::env::var(url).ok()?, std::env::var(token).ok()?)));
    set.expect("the variables of a provider")
}

/// `shim` is the TCP port of the base URL, `/PATH` a UNIX socket, else ADDRESS:PORT.
fn connect(place: &str) -> Result<Box<dyn Stream>, Errno> {
    let errno = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
    if place.starts_with('/') {
        let stream = UnixStream::connect(place).map_err(errno)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(errno)?;
        return Ok(Box::new(stream));
    }
    let url;
    let address = if place == "shim" {
        url = variables().0;
        let after = url.strip_prefix("http://").expect("a URL of http");
        after.split('/').next().expect("an address")
    } else {
        place
    };
    let stream = TcpStream::connect(address).map_err(errno)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(errno)?;
    Ok(Box::new(stream))
}

/// `\r`, `\n`, `\s` (a space), `\\`, `\xNN`, and `{token}`: the run's token.
fn bytes(text: &str) -> Vec<u8> {
    let mut rest = text.to_owned();
    if rest.contains("{token}") {
        rest = rest.replace("{token}", &variables().1);
    }
    let (mut out, mut chars) = (Vec::new(), rest.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.extend_from_slice(c.to_string().as_bytes());
            continue;
        }
        match chars.next() {
            Some('r') => out.push(b'\r'),
            Some('n') => out.push(b'\n'),
            Some('s') => out.push(b' '),
            Some('\\') => out.push(b'\\'),
            Some('x') => {
                let hex: String = chars.by_ref().take(2).collect();
                out.push(u8::from_str_radix(&hex, 16).expect("hexadecimal"));
            }
            other => panic!("no escape: {other:?}"),
        }
    }
    out
}

/// Sends a request; the outcome is `STATUS BODY`, `STATUS cut BODY` where the body
/// has no valid end, or `closed` where nothing came.
pub(crate) fn request(place: &str, text: &str) -> Outcome {
    let mut body = Vec::new();
    let ended = exchange(place, text, &mut |piece| body.extend(piece))?;
    let Some((status, is_whole)) = ended else {
        return Ok("closed".into());
    };
    let cut = if is_whole { "" } else { "cut " };
    Ok(format!("{status} {cut}{}", body.escape_ascii()))
}

/// The same, and each piece is printed when it comes, with the milliseconds since
/// the request was sent.
pub(crate) fn watch(place: &str, text: &str) -> Outcome {
    let start = Instant::now();
    let mut print = |piece: Vec<u8>| {
        println!("{} {}", start.elapsed().as_millis(), piece.escape_ascii());
        // Somebody waits for the line.
        let _ = std::io::stdout().flush();
    };
    Ok(match exchange(place, text, &mut print)? {
        Some((status, true)) => format!("{status} whole"),
        Some((status, false)) => format!("{status} cut"),
        None => "closed".into(),
    })
}

fn exchange(
    place: &str,
    text: &str,
    take: &mut dyn FnMut(Vec<u8>),
) -> Result<Option<(u16, bool)>, Errno> {
    let request = bytes(text);
    let method = request.split(|byte| *byte == b' ').next().expect("a word");
    let method = String::from_utf8_lossy(method).into_owned();
    let mut stream = connect(place)?;
    // Who refuses may have closed before all was sent.
    let _ = stream.write_all(&request);
    let mut buffer = Vec::new();
    let head = loop {
        match Head::take(&mut buffer) {
            Ok(Some(head)) => break head,
            Ok(None) if more(&mut *stream, &mut buffer)? => {}
            Ok(None) => return Ok(None),
            Err(why) => panic!("no answer: {why}"),
        }
    };
    let status = head.status().unwrap_or_else(|why| panic!("{why}"));
    let mut body: Body = head
        .answer_body(&method)
        .unwrap_or_else(|why| panic!("{why}"));
    loop {
        let piece = body.take(&mut buffer).unwrap_or_else(|why| panic!("{why}"));
        if !piece.is_empty() {
            take(piece);
        } else if body.is_done() || !more(&mut *stream, &mut buffer)? {
            return Ok(Some((status, body.may_end_here())));
        }
    }
}

/// Reads once; false at the end of the connection, in whichever way it ended.
fn more(stream: &mut dyn Stream, buffer: &mut Vec<u8>) -> Result<bool, Errno> {
    let mut piece = [0; 16 << 10];
    match stream.read(&mut piece) {
        Ok(count) => {
            buffer.extend_from_slice(&piece[..count]);
            Ok(count > 0)
        }
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(Errno::ETIMEDOUT),
        Err(_) => Ok(false),
    }
}
