//! Streams: frames come one by one, and either side's end is the other's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::certificate::Identity;
use crate::common::http::{Body, chunk};
use crate::common::upstream::{Act, Down, events_head, head, ok};
use crate::common::{Broker, Client, Upstream};
use crate::hostile::{get, post};

/// A client's leaving is noticed within this.
const NOTICED: Duration = Duration::from_millis(100);

fn event(text: &str) -> Vec<u8> {
    format!("data: {text}\n\n").into_bytes()
}

/// Asks for a stream, and reads its head.
fn stream(client: &mut Client, request: &[u8]) -> Body {
    client.must_send(request);
    let head = client.head().expect("an answer");
    assert_eq!(head.status(), Ok(200), "{head:?}");
    head.answer_body("POST").expect("a body")
}

/// The next bytes of a stream until there are as many as of `wanted`.
pub(crate) fn assert_next(client: &mut Client, body: &mut Body, wanted: &[u8]) {
    let mut came = Vec::new();
    while came.len() < wanted.len() {
        let piece = client.piece(body);
        came.extend(piece.unwrap_or_else(|| panic!("the end, after {}", came.escape_ascii())));
    }
    assert_eq!(
        came.escape_ascii().to_string(),
        wanted.escape_ascii().to_string()
    );
}

#[test]
fn events_come_one_by_one() {
    let upstream = Upstream::start(|_| {
        let mut acts = vec![Act::Body, Act::Send(events_head())];
        for number in 0..20 {
            // The gate opens only when the client has the frame before.
            acts.extend([Act::Watch, Act::Send(chunk(&event(&number.to_string())))]);
        }
        [&acts[..], &[Act::Send(b"0\r\n\r\n".to_vec())]].concat()
    });
    for broker in [
        Broker::start(&upstream),
        Broker::before(&upstream).tcp().start(),
    ] {
        let mut client = broker.client();
        let mut body = stream(&mut client, &post("Content-Length: 2\r\n", "{}"));
        for number in 0..20 {
            upstream.open();
            assert_next(&mut client, &mut body, &event(&number.to_string()));
        }
        assert_eq!(client.piece(&mut body), None);
        assert!(body.is_done());
        // The connection is as good as new.
        upstream.open();
        let mut body = stream(&mut client, &post("Content-Length: 2\r\n", "{}"));
        assert_next(&mut client, &mut body, &event("0"));
        drop(client);
        upstream.wait_for_hang_up("/v1/messages");
    }
}

#[test]
fn pieces_of_an_upload_come_one_by_one() {
    let upstream = Upstream::start(|_| vec![Act::Echo]);
    let broker = Broker::start(&upstream);
    let mut client = broker.client();
    let mut body = stream(&mut client, &post("Transfer-Encoding: chunked\r\n", ""));
    for piece in [&b"{"[..], b"\"a\":", b"1}"] {
        client.must_send(&chunk(piece));
        assert_next(&mut client, &mut body, piece);
    }
    client.must_send(b"0\r\n\r\n");
    assert_eq!(client.piece(&mut body), None);
    assert!(body.is_done());
}

/// What lies in the broker's way to the hang-up.
#[derive(Clone, Copy, Debug)]
enum Behind {
    Nothing,
    /// Requests, in fewer bytes than a socket holds.
    Requests,
    /// More than the broker keeps, and than a socket holds.
    MoreThanIsKept,
}

/// Starts a request, leaves, and returns how long upstream didn't know.
fn leave(
    upstream: &Upstream,
    broker: &Broker,
    model: &str,
    behind: Behind,
    half: bool,
    with_answer: bool,
) -> Duration {
    let mut client = broker.client();
    let request = get(format!("/v1/models/{model}"));
    if with_answer {
        let mut body = stream(&mut client, &request);
        assert_next(&mut client, &mut body, &event("first"));
    } else {
        client.must_send(&request);
        upstream.wait_until("the request", |seen| {
            let mut requests = seen.iter().flat_map(|one| &one.requests);
            requests.any(|request| request.head.line.contains(model))
        });
    }
    match behind {
        Behind::Nothing => {}
        Behind::Requests => client.must_send(&get("/v1/models/behind").repeat(100)),
        Behind::MoreThanIsKept => client.must_send(&get("/v1/models/behind").repeat(100_000)),
    }
    let left = Instant::now();
    if half {
        client.half_close();
    } else {
        drop(client);
    }
    upstream
        .wait_for_hang_up(&format!("/v1/models/{model} "))
        .saturating_duration_since(left)
}

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let stalled = |head: &crate::common::http::Head| {
        if head.line.contains("silent") {
            return vec![Act::Hold];
        }
        vec![
            Act::Send(events_head()),
            Act::Send(chunk(&event("first"))),
            Act::Hold,
        ]
    };
    let mut late = Vec::new();
    for (is_tcp, behind) in [
        (false, Behind::Nothing),
        (false, Behind::Requests),
        (false, Behind::MoreThanIsKept),
        (true, Behind::Nothing),
        (true, Behind::Requests),
        (true, Behind::MoreThanIsKept),
    ] {
        let upstream = Upstream::start(stalled);
        let start = Broker::before(&upstream);
        let broker = if is_tcp { start.tcp() } else { start }.start();
        for half in [false, true] {
            for with_answer in [true, false] {
                // The machine may have been busy once, not most of the time.
                let mut times: Vec<Duration> = (0..3)
                    .map(|n| {
                        let kind = if with_answer { "stream" } else { "silent" };
                        let model = format!("{kind}-{half}-{n}");
                        leave(&upstream, &broker, &model, behind, half, with_answer)
                    })
                    .collect();
                times.sort();
                if times[1] > NOTICED {
                    late.push(format!(
                        "tcp {is_tcp}, {behind:?}, half {half}, answer {with_answer}: {times:?}"
                    ));
                }
            }
        }
        // What lay behind was never sent on: the client was gone.
        let sent = upstream.requests();
        let behind = sent
            .iter()
            .filter(|request| request.head.line.contains("behind"));
        assert_eq!(behind.count(), 0);
        broker.assert_alive();
    }
    assert!(late.is_empty(), "late:\n{}", late.join("\n"));
}

#[test]
fn a_client_that_leaves_in_its_own_upload() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    for fields in ["Content-Length: 1000\r\n", "Transfer-Encoding: chunked\r\n"] {
        let request = post(fields, "3e8\r\nhalf of a chunk");
        let mut times: Vec<Duration> = (0..3)
            .map(|_| {
                let before = upstream.requests().len();
                let mut client = broker.client();
                client.must_send(&request);
                upstream.wait_for_requests(before + 1);
                let left = Instant::now();
                drop(client);
                upstream.wait_until("the upload's connection gone", |seen| {
                    seen.iter()
                        .all(|one| one.requests.is_empty() || one.gone.is_some())
                });
                left.elapsed()
            })
            .collect();
        times.sort();
        assert!(times[1] <= NOTICED, "{times:?}");
    }
    assert!(upstream.requests().iter().all(|request| !request.is_whole));
}

#[test]
fn a_body_that_upstream_cut_has_no_valid_end() {
    let data = event("first");
    let chunked = [events_head(), chunk(&data)].concat();
    let length = head(
        "200 OK",
        &[
            ("content-length", "1000"),
            ("content-type", "application/json"),
        ],
    );
    let length = [length, data.clone()].concat();
    let close = head(
        "200 OK",
        &[
            ("connection", "close"),
            ("content-type", "text/event-stream"),
        ],
    );
    let close = [close, data.clone()].concat();
    for (name, start) in [("chunked", chunked), ("length", length), ("close", close)] {
        for end in [Act::Reset, Act::Cut, Act::Close] {
            let (start, last) = (start.clone(), end.clone());
            let upstream = Upstream::start(move |_| {
                vec![Act::Body, Act::Send(start.clone()), Act::Gate, last.clone()]
            });
            for is_tcp in [false, true] {
                let start = Broker::before(&upstream);
                let broker = if is_tcp { start.tcp() } else { start }.start();
                let mut client = broker.client();
                let mut body = stream(&mut client, &post("Content-Length: 2\r\n", "{}"));
                assert_next(&mut client, &mut body, &data);
                upstream.open();
                assert_eq!(client.piece(&mut body), None);
                // TLS's own end ends a body without framing, and nothing else does.
                let is_valid = name == "close" && matches!(end, Act::Close);
                assert_eq!(body.is_done(), is_valid, "{name}, {end:?}");
                assert!(
                    is_valid || !body.may_end_here(),
                    "{name}, {end:?}: no framing of its own"
                );
                // A UNIX socket knows no reset.
                assert_eq!(client.was_reset, is_tcp && !is_valid, "{name}, {end:?}");
                broker.assert_alive();
            }
        }
    }
}

#[test]
fn an_upstream_that_leaves_without_an_answer() {
    for end in [Act::Reset, Act::Cut, Act::Close] {
        for begun in ["", "HTTP/1.1 200 OK\r\ncontent-le"] {
            let last = end.clone();
            let upstream = Upstream::start(move |head| {
                if head.line.contains("good") {
                    return ok("spent");
                }
                vec![Act::Body, Act::Send(begun.into()), last.clone()]
            });
            let broker = Broker::start(&upstream);
            let mut client = broker.client();
            let answer = client.ask(&post("Content-Length: 2\r\n", "{}"));
            assert!(
                answer.status == 502 && answer.is_whole,
                "{end:?}, {begun:?}: {answer:?}"
            );
            // It was paid for, perhaps: nobody asks again.
            assert_eq!(upstream.requests().len(), 1);
            let good = client.ask(&get("/v1/models/good"));
            assert_eq!(good.whole(), b"spent", "the connection goes on");
        }
    }
}

#[test]
fn an_upstream_that_is_down_and_comes_back() {
    let answer = Arc::new(|_: &crate::common::http::Head| ok("spent"));
    let mut down = Down::new(Identity::Localhost, true);
    let broker = Broker::before_down(&down).start();
    let mut client = broker.client();
    for _ in 0..2 {
        assert_eq!(client.ask(&get("/v1/models")).status, 502);
        broker.assert_alive();
        let upstream = down.up(answer.clone());
        for _ in 0..3 {
            assert_eq!(client.ask(&get("/v1/models")).whole(), b"spent");
        }
        down = upstream.down();
    }
}

#[test]
fn a_kept_connection_that_upstream_closed() {
    let upstream = Upstream::start(|_| [&ok("spent")[..], &[Act::Close]].concat());
    let broker = Broker::start(&upstream);
    for count in 1..=10 {
        let answer = broker.client().ask(&post("Content-Length: 2\r\n", "{}"));
        assert_eq!(answer.whole(), b"spent", "request {count}");
        upstream.wait_until("the connection closed", |seen| {
            let used = seen.iter().filter(|one| !one.requests.is_empty());
            used.filter(|one| one.gone.is_some()).count() == count
        });
        // The broker has had a turn to see it.
        broker.assert_alive();
    }
}

#[test]
fn the_first_connection_is_there_before_it_is_asked_for() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    upstream.wait_until("a connection", |seen| !seen.is_empty());
    assert_eq!(broker.client().ask(&get("/v1/models")).whole(), b"spent");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn connections_upstream_are_kept() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    for _ in 0..20 {
        assert_eq!(
            broker
                .client()
                .ask(&post("Content-Length: 2\r\n", "{}"))
                .status,
            200
        );
    }
    let used = upstream
        .seen()
        .into_iter()
        .filter(|one| !one.requests.is_empty());
    assert!(used.count() <= 2);
}

#[test]
fn an_upstream_that_isnt_who_it_should_be() {
    for identity in [Identity::WrongName, Identity::Expired, Identity::Stranger] {
        let upstream = Upstream::as_identity(identity);
        let broker = Broker::start(&upstream);
        let answer = broker.client().ask(&post("Content-Length: 2\r\n", "{}"));
        assert_eq!(answer.status, 502, "{identity:?}");
        assert!(
            upstream.seen().iter().all(|one| one.bytes.is_empty()),
            "{identity:?}"
        );
    }
    // Without the authority it is a stranger as well.
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::to(&upstream.url(), &Upstream::start(|_| ok("")).ca_file()).start();
    assert_eq!(broker.client().ask(&get("/v1/models")).status, 502);
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn what_is_sent_ahead_beyond_what_is_kept_is_never_answered() {
    let upstream = Upstream::start(|head| {
        if head.line.contains("gated") {
            return [&[Act::Gate], &ok("spent")[..]].concat();
        }
        ok("behind")
    });
    let broker = Broker::start(&upstream);
    for (behind, answered) in [(10, 10), (10_000, 0)] {
        let mut client = broker.client();
        client.must_send(&get("/v1/models/gated"));
        client.must_send(&get("/v1/models/behind").repeat(behind));
        upstream.open();
        assert_eq!(
            client.answer_to("GET").expect("an answer").whole(),
            b"spent"
        );
        for _ in 0..answered {
            assert_eq!(
                client.answer_to("GET").expect("an answer").whole(),
                b"behind"
            );
        }
        if answered == 0 {
            assert_eq!(client.rest(), b"", "the connection ends");
        }
    }
    assert_eq!(upstream.requests().len(), 12);
    broker.assert_alive();
}
