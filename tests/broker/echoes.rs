//! The key in answers: an API that sends it back is cut off before it arrives.

use crate::common::host::unique;
use crate::common::http::{chunk, holds};
use crate::common::upstream::{Act, answer, events_head, ok};
use crate::common::{Broker, Upstream};
use crate::hostile::{get, post};
use crate::streams::assert_next;

/// What an API that gives keys away sends, by the request's model.
fn echo(model: &str, key: &str) -> Vec<Act> {
    let json = ("content-type", "application/json");
    match model {
        "whole" => whole("200 OK", &[json], &format!("{{\"key\":\"{key}\"}}")),
        "alone" => whole("200 OK", &[json], key),
        "end" => whole("200 OK", &[json], &format!("at the end {key}")),
        "far" => whole("200 OK", &[json], &format!("{}{key}", "x".repeat(1 << 20))),
        "header" => whole("200 OK", &[("x-echo", key)], "{}"),
        "name" => whole("200 OK", &[(key, "x")], "{}"),
        "small-name" => whole("200 OK", &[(&key.to_lowercase(), "x")], "{}"),
        "reason" => whole(&format!("200 {key}"), &[], ""),
        "error" => whole("401 Unauthorized", &[], &format!("wrong key: {key}")),
        "trailer" => {
            let end = format!("0\r\nx-echo: {key}\r\n\r\n");
            let text = [&chunk(b"fine")[..], end.as_bytes()].concat();
            vec![Act::Send(events_head()), Act::Send(text)]
        }
        // Good pieces, and the key, in one write with the head: the client has none of it.
        "late" => {
            let good = chunk(b"fine, ");
            let pieces = [events_head(), good.clone(), good, chunk(key.as_bytes())];
            vec![Act::Body, Act::Send(pieces.concat())]
        }
        _ => echo_in_chunks(model, key),
    }
}

fn whole(status: &str, fields: &[(&str, &str)], body: &str) -> Vec<Act> {
    answer(status, fields, body.as_bytes())
}

fn echo_in_chunks(model: &str, key: &str) -> Vec<Act> {
    let (first, second) = key.split_at(key.len() / 2);
    let send = |text: &str| Act::Send(chunk(text.as_bytes()));
    let middle = match model {
        "split" => vec![
            send(&format!("data: {first}")),
            Act::Gate,
            send(&format!("{second}\n\n")),
        ],
        "bytes" => {
            let bytes = key.bytes().flat_map(|byte| chunk(&[byte])).collect();
            vec![Act::Send(bytes)]
        }
        // The same after a piece that was passed on.
        "later" => {
            let pieces = [chunk(b"two, "), chunk(key.as_bytes())];
            vec![send("one, "), Act::Gate, Act::Send(pieces.concat())]
        }
        // A beginning of the key, and then the key.
        "restart" => vec![send(&format!("{first}{key}"))],
        "near" => vec![send(&key[..key.len() - 1]), Act::Gate, send("!")],
        "half" => vec![send(&format!("data: {first}"))],
        _ => return ok("spent"),
    };
    let start = [Act::Body, Act::Send(events_head())];
    let end = [Act::Send(b"0\r\n\r\n".to_vec())];
    [&start[..], &middle, &end].concat()
}

#[test]
fn an_api_that_sends_it_back_is_cut_off() {
    let key = some_key();
    let upstream = echoing(&key);
    // The gate of `split` opens at once; that of `near` is opened below.
    upstream.open();
    for is_tcp in [false, true] {
        let start = Broker::before(&upstream).key(&key);
        let broker = if is_tcp { start.tcp() } else { start }.start();
        for model in [
            "whole", "alone", "end", "far", "error", "split", "bytes", "restart",
        ] {
            if is_tcp && model == "split" {
                upstream.open();
            }
            let mut client = broker.client();
            client.must_send(&get(format!("/v1/models/{model}")));
            let answer = client.answer_to("GET");
            let is_cut = answer
                .as_ref()
                .is_none_or(|answer| !answer.is_whole || answer.status == 502);
            assert!(is_cut, "{model}: {answer:?}");
            client.half_close();
            client.rest();
            assert!(!holds(&client.received, key.as_bytes()), "{model}");
        }
        for model in ["header", "name", "small-name", "reason"] {
            let mut client = broker.client();
            client.must_send(&get(format!("/v1/models/{model}")));
            let answer = client.answer_to("GET");
            client.half_close();
            client.rest();
            let received = client.received.to_ascii_lowercase();
            assert!(!holds(&received, key.to_lowercase().as_bytes()), "{model}");
            // A reason phrase is nobody's, and may as well be left out.
            let is_fine = answer
                .as_ref()
                .is_none_or(|answer| !answer.is_whole || answer.status == 502 || model == "reason");
            assert!(is_fine, "{model}: {answer:?}");
        }
        let (_, log) = broker.stop();
        assert!(!log.contains(&key), "{log}");
    }
}

fn some_key() -> String {
    format!("sk-ant-api03-{}-{}", unique("canary"), "k3Y_".repeat(16))
}

/// An API that sends the key back in the way that the model's name says.
fn echoing(key: &str) -> Upstream {
    let own = key.to_owned();
    Upstream::start(move |head| {
        let model = head.line.split([' ', '/']).nth(4).unwrap_or_default();
        echo(model, &own)
    })
}

/// An answer of which the client has nothing is refused, and its connection says why; else
/// the client gets what came before the key.
#[test]
fn what_came_before_it_decides_how_the_answer_ends() {
    let key = some_key();
    let upstream = echoing(&key);
    let broker = Broker::before(&upstream).key(&key).start();
    let late = broker.client().ask(&get("/v1/models/late"));
    assert_eq!(late.status, 502);
    assert!(holds(late.whole(), b"key-echo"), "{late:?}");

    let mut client = broker.client();
    client.must_send(&get("/v1/models/later"));
    let head = client.head().expect("an answer");
    let mut body = head.answer_body("GET").expect("a body");
    assert_next(&mut client, &mut body, b"one, ");
    upstream.open();
    assert_next(&mut client, &mut body, b"two, ");
    while client.piece(&mut body).is_some() {}
    assert!(!body.is_done() && !holds(&client.received, key.as_bytes()));
    let (_, log) = broker.stop();
    assert_eq!(log.matches("key-echo").count(), 2, "{log}");
}

#[test]
fn what_only_begins_like_it_is_passed_on() {
    let key = some_key();
    let upstream = echoing(&key);
    let broker = Broker::before(&upstream).key(&key).start();
    upstream.open();
    let near = broker.client().ask(&get("/v1/models/near"));
    assert_eq!(
        near.whole(),
        format!("{}!", &key[..key.len() - 1]).as_bytes()
    );
    let half = broker.client().ask(&get("/v1/models/half"));
    assert_eq!(
        half.whole(),
        format!("data: {}", &key[..key.len() / 2]).as_bytes()
    );
    assert_eq!(
        broker.client().ask(&get("/v1/models/trailer")).whole(),
        b"fine"
    );
    // Only what could be its beginning waits.
    let mut client = broker.client();
    client.must_send(&get("/v1/models/split"));
    let head = client.head().expect("an answer");
    let mut body = head.answer_body("GET").expect("a body");
    assert_next(&mut client, &mut body, b"data: ");
    upstream.open();
    while client.piece(&mut body).is_some() {}
    assert!(!body.is_done() && !holds(&client.received, key.as_bytes()));
    assert_eq!(
        broker
            .client()
            .ask(&post("Content-Length: 2\r\n", "{}"))
            .status,
        200
    );
}
