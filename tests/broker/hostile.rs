//! Hostile requests, as tables: what each is answered, and what of it reaches the
//! API, byte for byte.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::common::http::{Head, holds};
use crate::common::upstream::{Request, ok};
use crate::common::{Broker, Client, Upstream};

/// A word that stands for an attacker's own credential. It never arrives.
pub(crate) const EVIL: &str = "EVIL-k3y-of-an-attacker";

/// What becomes of a request.
pub(crate) enum Then {
    /// One of these answers; the connection goes on.
    Refused(&'static [u16]),
    /// One of these answers, then the connection's end.
    Closed(&'static [u16]),
    /// One of these answers or none, then the end; upstream a request may have
    /// begun, but not ended.
    CutOff(&'static [u16]),
    /// Upstream: this line and these fields beside those that every request has,
    /// and this body.
    Sent(&'static str, &'static [&'static str], &'static str),
}

/// An attack of the table.
pub(crate) struct Row {
    what: String,
    bytes: Vec<u8>,
    /// No byte follows: the client half-closes.
    ends: bool,
    then: Then,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, bytes: impl AsRef<[u8]>, then: Then) -> Self {
        let bytes = bytes.as_ref().to_vec();
        Row {
            what: what.into(),
            bytes,
            ends: false,
            then,
        }
    }

    /// The client half-closes behind it.
    #[must_use]
    pub(crate) fn and_end(mut self) -> Self {
        self.ends = true;
        self
    }
}

/// A request for this target, which is no text where a test wants so.
pub(crate) fn get(target: impl AsRef<[u8]>) -> Vec<u8> {
    let end = b" HTTP/1.1\r\nHost: localhost\r\n\r\n";
    [b"GET ", target.as_ref(), end].concat()
}

/// A request with these lines after Host, and this behind its head.
pub(crate) fn post(fields: &str, rest: &str) -> Vec<u8> {
    format!("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{rest}").into_bytes()
}

/// What upstream sees of a request to `anthropic`, in the order of the names.
pub(crate) fn arrived(broker: &Broker, upstream: &Upstream, line: &str, own: &[&str]) -> String {
    let always = [
        "accept-encoding: identity".to_owned(),
        format!("host: {}", upstream.authority()),
        format!("x-api-key: {}", broker.key),
    ];
    let mut fields: Vec<String> = own.iter().map(ToString::to_string).collect();
    fields.extend(always);
    let pair = |field: String| {
        let (name, value) = field.split_once(": ").expect("a field");
        (name.to_owned(), value.to_owned())
    };
    let fields = fields.into_iter().map(pair).collect();
    Head {
        line: line.into(),
        fields,
    }
    .sorted()
}

/// Tries every row on a connection of its own, and says all that is wrong.
pub(crate) fn assert_all(rows: &[Row]) {
    let upstream = Upstream::start(|_| ok("spent"));
    let broker = Broker::start(&upstream);
    let control = Upstream::start(|_| ok("spent"));
    let mut wrong = Vec::new();
    for row in rows {
        let tried = AssertUnwindSafe(|| try_row(row, &broker, &upstream));
        let problem = catch_unwind(tried).unwrap_or_else(|why| Some(text_of(&*why)));
        wrong.extend(problem.map(|problem| format!("{}: {problem}", row.what)));
        // Without the broker the very same bytes arrive.
        let mut straight = Client::straight(&control);
        straight.must_send(&row.bytes);
        straight.half_close();
        straight.rest();
    }
    broker.assert_alive();
    let _ = broker.stop();
    // Nothing came late either.
    let sent = rows
        .iter()
        .filter(|row| matches!(row.then, Then::Sent(..)))
        .count();
    let cut_off = rows
        .iter()
        .filter(|row| matches!(row.then, Then::CutOff(_)))
        .count();
    let (mut whole, mut parts) = (0, 0);
    for seen in upstream.wait_until_alone() {
        if let Some(why) = seen.broken {
            wrong.push(format!("upstream: {why}"));
        }
        let count = seen
            .requests
            .iter()
            .filter(|request| request.is_whole)
            .count();
        whole += count;
        parts += seen.requests.len() - count;
        if holds(&seen.bytes, EVIL.as_bytes()) {
            wrong.push(format!("upstream: {}", seen.bytes.escape_ascii()));
        }
    }
    if whole != sent || parts > cut_off {
        wrong.push(format!(
            "upstream: {whole} whole requests, not {sent}, and {parts} parts"
        ));
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let arrived = control.wait_until_alone();
    for row in rows {
        // It stops to read where no request can be, but not at once.
        let start = &row.bytes[..row.bytes.len().min(4096)];
        let here = arrived.iter().any(|seen| seen.bytes.starts_with(start));
        assert!(here, "vacuous: {} doesn't arrive even straight", row.what);
    }
}

/// What is wrong, if anything is.
fn try_row(row: &Row, broker: &Broker, upstream: &Upstream) -> Option<String> {
    let before = upstream.requests().len();
    let mut client = broker.client();
    client.read_timeout(Duration::from_secs(5));
    // A refusal may come before the last byte is sent.
    let _ = client.send(&row.bytes);
    if row.ends {
        client.half_close();
    }
    let answer = client.answer_to("GET");
    let status = answer.as_ref().map(|answer| answer.status);
    if answer.is_some_and(|answer| !answer.is_whole) {
        return Some(format!("{status:?}, cut off"));
    }
    let requests = upstream.requests();
    let new = requests.get(before..).unwrap_or_default();
    let one_of = |wanted: &[u16]| status.is_some_and(|status| wanted.contains(&status));
    let lines = || {
        new.iter()
            .map(|request| request.head.sorted())
            .collect::<Vec<_>>()
    };
    match &row.then {
        Then::Refused(wanted) => {
            let is_right = one_of(wanted) && new.is_empty();
            let goes_on = is_right && still_answers(&mut client);
            let upstream = lines();
            (!goes_on).then(|| format!("{status:?}, goes on: {goes_on}, upstream: {upstream:?}"))
        }
        Then::Closed(wanted) => {
            let is_right = one_of(wanted) && new.is_empty();
            let upstream = lines();
            if !is_right {
                return Some(format!("{status:?}, upstream: {upstream:?}"));
            }
            let rest = client.rest();
            (!rest.is_empty()).then(|| format!("more comes: {}", rest.escape_ascii()))
        }
        Then::CutOff(wanted) => {
            client.rest();
            if status.is_some() && !one_of(wanted) {
                return Some(format!("{status:?}"));
            }
            // Its connection is gone, since a part of a request is on it.
            upstream.wait_until("the part's connection gone", |seen| {
                let mut seen = seen.iter();
                seen.all(|one| one.gone.is_some() || one.requests.iter().all(|r| r.is_whole))
            });
            let whole = upstream.requests()[before..]
                .iter()
                .any(|request| request.is_whole);
            whole.then(|| format!("a whole request arrived: {:?}", lines()))
        }
        Then::Sent(line, fields, body) => {
            let wanted = arrived(broker, upstream, line, fields);
            sent(status, new, &wanted, body)
        }
    }
}

fn sent(status: Option<u16>, new: &[Request], head: &str, body: &str) -> Option<String> {
    let [request] = new else {
        return Some(format!("{status:?}, {} requests upstream", new.len()));
    };
    if status != Some(200) || request.head.sorted() != head || request.body != body.as_bytes() {
        let (came, body) = (request.head.sorted(), request.body.escape_ascii());
        return Some(format!(
            "{status:?}, upstream:\n{came}\n{body}\nnot:\n{head}"
        ));
    }
    None
}

/// Whether the connection takes another request.
fn still_answers(client: &mut Client) -> bool {
    let sent = client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = sent.ok().and_then(|()| client.answer_to("GET"));
    answer.is_some_and(|answer| answer.status == 200 && answer.body.trim_ascii() == b"ok")
}

pub(crate) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    text.unwrap_or_else(|| "panicked".into())
}
