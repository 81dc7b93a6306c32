//! Time limits, in real time. One test, since all of them wait at once, and named
//! so that it is the first to start: tests go by their names.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::common::upstream::{Act, events_head, ok};
use crate::common::{Broker, Client, Upstream};
use crate::hostile::{get, post};

/// Longer than the longest of these limits.
const WAIT: Duration = Duration::from_secs(45);

fn client(broker: &Broker) -> Client {
    let client = broker.client();
    client.read_timeout(WAIT);
    client
}

/// The answer, and after how many seconds it came.
fn timed(client: &mut Client) -> (Option<u16>, u64) {
    let start = Instant::now();
    let status = client.answer_to("POST").map(|answer| answer.status);
    (status, start.elapsed().as_secs())
}

#[test]
fn whoever_takes_too_long_is_told_so() {
    let upstream = Upstream::start(|head| {
        if head.line.contains("endless") {
            return vec![Act::Send(events_head()), Act::Hold];
        }
        ok("spent")
    });
    let broker = Broker::start(&upstream);
    let drained = Broker::start(&upstream);
    // Connections come in and nobody speaks TLS on them.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = mute.local_addr().expect("its address").port();
    let deaf = Broker::to(&format!("https://localhost:{port}"), &upstream.ca_file()).start();
    let chunked = |rest| post("Transfer-Encoding: chunked\r\n", rest);
    let slow = [
        b"GET /v1/mod".to_vec(),
        b"GET /v1/models HTTP/1.1\r\nHost: loc".to_vec(),
        post("Content-Length: 10\r\n", "half"),
        chunked("a\r\nhalf"),
        chunked(""),
    ];
    thread::scope(|scope| {
        for bytes in &slow {
            scope.spawn(|| half_a_request(&broker, bytes));
        }
        scope.spawn(|| a_head_by_bytes(&broker));
        scope.spawn(|| a_body_by_bytes(&broker));
        scope.spawn(|| nothing_asked(&broker));
        scope.spawn(|| nobody_answers(&deaf));
        scope.spawn(|| an_answer_without_an_end(drained));
    });
    broker.assert_alive();
}

fn half_a_request(broker: &Broker, bytes: &[u8]) {
    let mut client = client(broker);
    client.must_send(bytes);
    let (status, seconds) = timed(&mut client);
    let what = bytes.escape_ascii();
    assert_eq!(status, Some(408), "{what}");
    assert!((25..40).contains(&seconds), "{what}: {seconds} s");
    assert_eq!(client.rest(), b"", "{what}");
}

/// A byte now and then is no head.
fn a_head_by_bytes(broker: &Broker) {
    let mut client = client(broker);
    let start = Instant::now();
    for byte in get(format!("/{}", "x".repeat(100))) {
        let is_refused = client.send(&[byte]).is_err();
        if is_refused || client.is_readable_within(Duration::from_millis(500)) {
            break;
        }
    }
    assert_eq!(timed(&mut client).0, Some(408));
    assert!((25..40).contains(&start.elapsed().as_secs()));
}

/// A byte now and then is a body, as long as it takes.
fn a_body_by_bytes(broker: &Broker) {
    let mut client = client(broker);
    client.must_send(&post("Content-Length: 35\r\n", ""));
    for _ in 0..34 {
        client.must_send(b"x");
        assert!(!client.is_readable_within(Duration::from_secs(1)));
    }
    client.must_send(b"x");
    assert_eq!(timed(&mut client).0, Some(200));
}

/// Who asks nothing isn't slow.
fn nothing_asked(broker: &Broker) {
    let mut client = client(broker);
    assert_eq!(client.ask(&get("/v1/models")).status, 200);
    assert!(!client.is_readable_within(Duration::from_secs(32)));
    assert_eq!(client.ask(&get("/v1/models")).status, 200);
}

fn nobody_answers(deaf: &Broker) {
    let mut client = client(deaf);
    client.must_send(&get("/v1/models"));
    let (status, seconds) = timed(&mut client);
    assert!(status == Some(502) || status == Some(504), "{status:?}");
    assert!((8..20).contains(&seconds), "{seconds} s");
    deaf.assert_alive();
}

/// It doesn't keep a broker that was told to go.
fn an_answer_without_an_end(broker: Broker) {
    let mut client = client(&broker);
    client.must_send(&get("/v1/models/endless"));
    let head = client.head().expect("an answer");
    let mut body = head.answer_body("GET").expect("a body");
    let start = Instant::now();
    broker.signal(Signal::SIGTERM);
    assert_eq!(client.piece(&mut body), None);
    assert!(!body.may_end_here(), "cut, not ended");
    let _ = broker.finish();
    assert!((20..40).contains(&start.elapsed().as_secs()));
}
