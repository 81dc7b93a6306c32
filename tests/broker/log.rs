//! The log: a line of JSON a request, and nothing in it that is anybody's secret.

use serde_json::Value;

use crate::common::certificate::Identity;
use crate::common::desk::nearly_full_terminal;
use crate::common::host::in_shell;
use crate::common::http::chunk;
use crate::common::upstream::{Act, Down, answer, events_head, ok};
use crate::common::{Broker, Upstream};
use crate::hostile::{EVIL, get, post};

fn usage() -> &'static [u8] {
    br#"{"model":"claude-x","usage":{"input_tokens":12,"output_tokens":34}}"#
}

#[test]
fn a_line_a_request() {
    let upstream = Upstream::start(|head| {
        if head.line.starts_with("POST") {
            return answer("200 OK", &[("content-type", "application/json")], usage());
        }
        ok("spent")
    });
    let broker = Broker::start(&upstream);
    let mut client = broker.client();
    client.ask(&post("Content-Length: 2\r\n", "{}"));
    client.ask(&get("/v1/models?limit=5"));
    client.ask(&get("/v1/files"));
    client.ask(&get("/v1/%2e%2e/v2"));
    client.ask(b"BAD /v1/models HTTP/1.1\r\nHost: h\r\n\r\n");
    let lines = broker.log_lines(5);
    assert_eq!(lines.len(), 5);
    let statuses: Vec<_> = lines.iter().map(|line| line["status"].as_u64()).collect();
    assert_eq!(statuses, [200, 200, 404, 400, 405].map(Some));
    let paths: Vec<_> = lines[..3]
        .iter()
        .map(|line| line["path"].as_str())
        .collect();
    assert_eq!(paths, ["/v1/messages", "/v1/models", "/v1/files"].map(Some));
    assert_eq!(lines[0]["method"], "POST");
    for line in &lines[..2] {
        let time = line["time"].as_str().expect("a time");
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
        for number in ["bytes_in", "bytes_out", "first_byte_ms", "total_ms"] {
            assert!(line[number].is_number(), "{number}: {line}");
        }
        assert!(line["reason"].is_null(), "{line}");
    }
    for line in &lines[2..] {
        assert!(line["reason"].is_string(), "{line}");
    }
    assert_eq!(lines[0]["model"], "claude-x");
    assert_eq!(lines[0]["input_tokens"], 12);
    assert_eq!(lines[0]["output_tokens"], 34);
    // Of the request all of it; of the answer its body.
    let asked = post("Content-Length: 2\r\n", "{}");
    assert_eq!(lines[0]["bytes_in"], asked.len());
    assert_eq!(lines[0]["bytes_out"], usage().len());
    assert_eq!(lines[0]["peer"], "unix");
}

#[test]
fn usage_is_read_along_from_a_stream() {
    let upstream = Upstream::start(|_| {
        let events = [
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-s\",\
             \"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n",
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\n\n",
        ];
        let mut acts = vec![Act::Body, Act::Send(events_head())];
        acts.extend(events.map(|event| Act::Send(chunk(event.as_bytes()))));
        [&acts[..], &[Act::Send(b"0\r\n\r\n".to_vec())]].concat()
    });
    let broker = Broker::start(&upstream);
    assert!(
        broker
            .client()
            .ask(&post("Content-Length: 2\r\n", "{}"))
            .is_whole
    );
    let line = broker.log_lines(1).remove(0);
    assert_eq!(line["model"], "claude-s");
    assert_eq!(
        (&line["input_tokens"], &line["output_tokens"]),
        (&Value::from(7), &Value::from(9))
    );
}

#[test]
fn nobodys_secret_and_no_escape() {
    let upstream = Upstream::start(|_| ok("{\"secret\":\"body-of-an-answer\"}"));
    let broker = Broker::start(&upstream);
    let fields = format!("X-Api-Key: {EVIL}\r\nUser-Agent: agent-{EVIL}\r\nContent-Length: 15\r\n");
    broker.client().ask(&post(&fields, "body-of-request"));
    broker.client().ask(&get(format!("/v1/models?key={EVIL}")));
    broker.client().ask(&get(format!("/v1/files?{EVIL}")));
    // What would be a line of its own, or a word to a terminal.
    for target in [
        &b"/v1/\x1b[2J"[..],
        b"/v1/\n{\"status\":200}",
        b"/v1/\"quoted\"",
        b"/\xff",
    ] {
        let mut client = broker.client();
        client.must_send(&get(target));
        client.answer_to("GET");
    }
    let lines = broker.log_lines(7);
    assert_eq!(lines.len(), 7);
    let log = broker.log();
    for secret in [EVIL, "body-of", broker.key.as_str()] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
    assert!(
        log.bytes()
            .all(|byte| byte == b'\n' || (b' '..0x7f).contains(&byte)),
        "{log}"
    );
    let large = get(format!("/v1/{}", "x".repeat(8000)));
    broker.client().ask(&large);
    assert!(broker.log_lines(8)[7].to_string().len() < 1500);
}

#[test]
fn without_a_file_it_goes_to_standard_error() {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::before(&upstream).without_log().start();
    broker.client().ask(&get("/v1/models"));
    let (run, _) = broker.stop();
    let line: Value = serde_json::from_str(run.stderr.trim_end()).expect("one line");
    assert_eq!(
        (line["status"].as_u64(), line["path"].as_str()),
        (Some(200), Some("/v1/models"))
    );
}

#[test]
fn a_line_says_how_a_request_ended() {
    let upstream = Upstream::start(|head| match head.line.split([' ', '/']).nth(4) {
        Some("silent") => vec![Act::Hold],
        Some("half") => vec![
            Act::Send(events_head()),
            Act::Send(chunk(b"half")),
            Act::Cut,
        ],
        Some("gone") => vec![Act::Cut],
        Some("gzip") => answer("200 OK", &[("content-encoding", "gzip")], b""),
        _ => vec![Act::Echo],
    });
    let broker = Broker::start(&upstream);
    let mut lines = 0;
    let mut last = || {
        lines += 1;
        broker.log_lines(lines).remove(lines - 1)
    };
    let mut left = broker.client();
    left.must_send(&get("/v1/models/silent"));
    upstream.wait_for_requests(1);
    drop(left);
    let line = last();
    assert_eq!(
        (&line["reason"], &line["status"]),
        (&"client-gone".into(), &Value::Null)
    );
    for (model, status, reason, cause) in [
        ("half", 200, "answer", Some("answer: ")),
        ("gone", 502, "request", Some("request: ")),
        ("gzip", 502, "answer-encoded", None),
    ] {
        let mut client = broker.client();
        client.must_send(&get(format!("/v1/models/{model}")));
        client.answer_to("GET").expect("an answer");
        let line = last();
        assert_eq!(
            (&line["status"], &line["reason"]),
            (&status.into(), &reason.into()),
            "{line}"
        );
        let said = line["cause"].as_str();
        assert_eq!(said.is_some(), cause.is_some(), "{line}");
        assert!(
            said.unwrap_or_default()
                .starts_with(cause.unwrap_or_default()),
            "{line}"
        );
    }
    // Chunks are counted without their framing, in both directions.
    let chunked = post("Transfer-Encoding: chunked\r\n", "");
    let body = [&chunk(b"one")[..], &chunk(b"twenty"), b"0\r\n\r\n"].concat();
    let answer = broker.client().ask(&[&chunked[..], &body].concat());
    assert_eq!(answer.whole(), b"onetwenty");
    let line = last();
    assert_eq!(line["bytes_in"], chunked.len() + 9);
    assert_eq!(line["bytes_out"], 9);
    let down = Down::new(Identity::Localhost, true);
    let broker = Broker::before_down(&down).start();
    assert_eq!(broker.client().ask(&get("/v1/models")).status, 502);
    let line = broker.log_lines(1).remove(0);
    assert_eq!(
        (&line["reason"], &line["cause"]),
        (&"connect".into(), &"connect: ECONNREFUSED".into())
    );
}

/// Standard error says so once, however many lines are lost.
#[test]
fn a_log_that_takes_no_more_is_no_end() {
    let upstream = Upstream::start(|_| ok("spent"));
    let start = Broker::before(&upstream);
    // 512 bytes, and the signal that comes with them is nobody's.
    let shell = in_shell("trap '' XFSZ; ulimit -f 1; exec \"$@\"", &start.command());
    let broker = start.start_as(shell);
    for _ in 0..20 {
        let answer = broker.client().ask(&get("/v1/models"));
        assert_eq!(answer.whole(), b"spent");
    }
    let (run, log) = broker.stop();
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(!log.is_empty() && log.len() <= 1024, "{}", log.len());
    assert_eq!(run.stderr.lines().count(), 1, "{run:#?}");
    assert!(run.stderr.contains("lines are lost"), "{run:#?}");
}

/// To poll(2) it has room for a line when it has room for a byte.
#[test]
fn a_terminal_that_shows_nothing_holds_no_request_up() {
    let upstream = Upstream::start(|_| ok("spent"));
    let start = Broker::before(&upstream).without_log();
    let (_master, terminal) = nearly_full_terminal();
    let mut command = start.command();
    command.stderr(terminal);
    let broker = start.start_as(command);
    for _ in 0..3 {
        let answer = broker.client().ask(&get("/v1/models"));
        assert_eq!(answer.whole(), b"spent");
    }
    let (run, _) = broker.stop();
    assert_eq!(run.code, Some(0), "{run:#?}");
}
