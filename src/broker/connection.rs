//! One client's connection: requests one after the other, each answered before the
//! next is looked at.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::BytesMut;
use http::{Method, Request, StatusCode};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answer;
use super::exchange::{self, Client, Order, Outcome, PATIENCE};
use super::front::body::{BodyReader, Piece};
use super::front::head::{Framing, Head, HeadReader, Version};
use super::front::{Refused, target};
use super::intake::ROOM;
use super::log::{Entry, Peer};
use super::pulse::Pulse;
use super::route::Decision;
use super::stream::Stream;
use super::{Broker, fields, query};
use crate::sabotage::{Mechanism, stands};

/// Bytes read at a time while a head is awaited; most fit, small bodies included.
const HEAD_ROOM: usize = 4 * 1024;

/// How long a client that was refused may go on sending: closed at once, its kernel
/// would throw the answer away (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(2);

/// How a connection ends.
enum End {
    /// Both sides know.
    Close,
    /// The client may still be sending.
    Linger,
    /// In the middle of an answer.
    Reset,
}

/// Serves a client until one of the two ends it. `draining` turns true when the
/// broker ends: then the request under way is the last.
pub(super) async fn serve(
    mut stream: Stream,
    broker: &Broker,
    mut draining: watch::Receiver<bool>,
) {
    let peer = stream.kind();
    let (reader, writer) = stream.split();
    let pulse = Pulse::default();
    let mut client = Client {
        reader,
        writer,
        buffer: BytesMut::new(),
        timer: pin!(sleep(broker.limits.head.min(broker.limits.idle) / 8)),
        pulse: &pulse,
    };
    let ending = draining.clone();
    // As with the timer: one for all requests.
    let mut told = pin!(async {
        // An error: the broker is gone already.
        let _ = draining.wait_for(|is_draining| *is_draining).await;
    });
    let end = requests(&mut client, broker, peer, told.as_mut(), &ending).await;
    if let End::Linger = end {
        linger(&mut client).await;
    }
    if let End::Reset = end {
        stream.reset();
    }
}

async fn requests(
    client: &mut Client<'_>,
    broker: &Broker,
    peer: Peer,
    mut told: Pin<&mut impl Future<Output = ()>>,
    ending: &watch::Receiver<bool>,
) -> End {
    let mut patience = broker.limits.head;
    loop {
        let head = match next_head(client, broker, patience, told.as_mut()).await {
            Ok(Some(head)) => head,
            Ok(None) => return End::Close,
            Err((refused, begun)) => {
                let mut entry = broker.log.entry_since(peer, begun.into_std());
                refuse(client, refused, &Method::GET, &mut entry).await;
                return End::Linger;
            }
        };
        patience = broker.limits.idle;
        let is_last = !head.keeps_alive() || *ending.borrow();
        if let Some(end) = one(client, broker, peer, &head, is_last).await {
            return end;
        }
    }
}

/// Waits for a request's head. None: the client has nothing more to ask, or the
/// broker ends. What is refused comes with the moment of its first byte.
async fn next_head(
    client: &mut Client<'_>,
    broker: &Broker,
    patience: Duration,
    mut told: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<Head>, (Refused, Instant)> {
    let Client {
        reader,
        buffer,
        timer,
        pulse,
        ..
    } = client;
    let mut state = HeadReader::default();
    if buffer.is_empty() {
        // Between two requests a connection may rest.
        pulse.beat();
        tokio::select! {
            biased;
            read = reader.read(buffer, HEAD_ROOM) => match read {
                Ok(count) if count > 0 => {}
                _ => return Ok(None),
            },
            () = told.as_mut() => return Ok(None),
            () = pulse.stopped(timer.as_mut(), patience) => return Ok(None),
        }
    }
    let begun = Instant::now();
    let deadline = begun + broker.limits.head;
    loop {
        if let Some(head) = state.read(buffer).map_err(|refused| (refused, begun))? {
            return Ok(Some(head));
        }
        tokio::select! {
            biased;
            read = timeout_at(deadline, reader.read(buffer, HEAD_ROOM)) => match read {
                Ok(Ok(count)) if count > 0 => {}
                Ok(_) => return Ok(None),
                Err(_) => return Err((SLOW_HEAD, begun)),
            },
            () = told.as_mut() => return Ok(None),
        }
    }
}

/// Answers one request; the end of the connection if it is its last.
async fn one(
    client: &mut Client<'_>,
    broker: &Broker,
    peer: Peer,
    head: &Head,
    is_last: bool,
) -> Option<End> {
    let method = http::Method::from(head.method());
    let mut entry = broker.log.entry(peer);
    entry.request(head.method().as_str(), head.target());
    entry.received(head.len());
    let verdict =
        target::judge(head.target()).and_then(|target| judge(broker, head, &method, &target));
    let outcome = match verdict {
        Ok(None) => {
            let is_last = is_last || !skip_body(client, head.framing());
            let bytes = answer::ok(&method, is_last);
            entry.status(StatusCode::OK.as_u16());
            let is_heard = say(client, &bytes).await;
            return (is_last || !is_heard).then_some(End::Linger);
        }
        Ok(Some(request)) => match broker.exchange() {
            Some(_turn) => {
                let order = Order {
                    request,
                    framing: head.framing(),
                    expects_continue: head.expects_continue(),
                    close: is_last,
                };
                exchange::forward(broker, client, order, &mut entry).await
            }
            None => unread(client, head, TOO_MANY),
        },
        Err(refused) => unread(client, head, refused),
    };
    match outcome {
        Outcome::Answered => None,
        Outcome::Last => Some(End::Linger),
        Outcome::Refused(mut refused) => {
            refused.close |= is_last;
            let is_heard = refuse(client, refused, &method, &mut entry).await;
            (refused.close || !is_heard).then_some(End::Linger)
        }
        Outcome::Cut(reason) => {
            entry.reason(reason);
            Some(End::Reset)
        }
        Outcome::Gone => {
            entry.reason("client-gone");
            Some(End::Close)
        }
    }
}

/// What goes to the API, if the request may; none where it is answered here, as `/`
/// and `/healthz` are.
fn judge(
    broker: &Broker,
    head: &Head,
    method: &Method,
    target: &target::Target<'_>,
) -> Result<Option<Request<()>>, Refused> {
    let decision = broker.routes.decide(method, target.path);
    if matches!(decision, Decision::Healthz | Decision::Root) {
        return Ok(None);
    }
    if !broker.admits(head, target.query) {
        return Err(NOT_ADMITTED);
    }
    if decision == Decision::NotFound && stands(Mechanism::ListedRoutes) {
        return Err(NOT_FOUND);
    }
    if head.version() == Version::Http10 {
        return Err(OLD_VERSION);
    }
    let has_body = !matches!(head.framing(), Framing::None | Framing::Length(0));
    if has_body && matches!(*method, Method::GET | Method::HEAD) {
        return Err(UNWANTED_BODY);
    }
    let query = match target.query {
        Some(query) if stands(Mechanism::ChosenQuery) => query::outgoing(broker.provider, query)?,
        query => query.map(str::to_owned),
    };
    let connection: Vec<&[u8]> = head.connection_names().collect();
    let auth = broker.auth.as_ref();
    let sent = head.fields().map(|field| (field.name, field.value_bytes()));
    let mut headers = fields::outgoing(broker.provider, auth, sent, &connection)?;
    broker.injection.inject(&mut headers);
    let mut request = Request::new(());
    *request.method_mut() = method.clone();
    *request.uri_mut() = broker
        .upstream
        .uri(target.path, query.as_deref())
        .map_err(|_| BAD_TARGET)?;
    headers.insert(http::header::HOST, broker.host.clone());
    *request.headers_mut() = headers;
    Ok(Some(request))
}

/// A request that is refused before anything of its body was taken.
fn unread(client: &mut Client<'_>, head: &Head, mut refused: Refused) -> Outcome {
    refused.close |= !skip_body(client, head.framing());
    Outcome::Refused(refused)
}

/// Whether a request's body lay in the buffer already, and has been taken out of it.
fn skip_body(client: &mut Client<'_>, framing: Framing) -> bool {
    let mut body = BodyReader::new(framing);
    loop {
        match body.read(&mut client.buffer) {
            Ok(Piece::Data(_)) => {}
            Ok(Piece::End) => return true,
            Ok(Piece::More) | Err(_) => return false,
        }
    }
}

/// Whether the client took all of the answer.
async fn refuse(
    client: &mut Client<'_>,
    refused: Refused,
    method: &Method,
    entry: &mut Entry,
) -> bool {
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::BAD_REQUEST);
    entry.status(status.as_u16());
    entry.reason(refused.reason);
    let bytes = answer::refusal(status, refused.reason, method, refused.close);
    say(client, &bytes).await
}

/// Writes an answer of the broker's own, and says whether the client took all of it.
/// One that is short of room for so little doesn't read its answers.
async fn say(client: &mut Client<'_>, bytes: &[u8]) -> bool {
    let said = timeout(PATIENCE, client.writer.write_all(bytes)).await;
    matches!(said, Ok(Ok(())))
}

/// Ends our side and reads on for a moment.
async fn linger(client: &mut Client<'_>) {
    if client.writer.shutdown().await.is_err() {
        return;
    }
    let _ = timeout(LINGER, async {
        loop {
            client.buffer.clear();
            match client.reader.read(&mut client.buffer, ROOM).await {
                Ok(count) if count > 0 => {}
                _ => break,
            }
        }
    })
    .await;
}

const SLOW_HEAD: Refused = Refused::closing(408, "slow-head");
const NOT_ADMITTED: Refused = Refused::open(401, "token");
const NOT_FOUND: Refused = Refused::open(404, "route");
const BAD_TARGET: Refused = Refused::open(400, "target");
const TOO_MANY: Refused = Refused::open(429, "too-many-requests");
const OLD_VERSION: Refused = Refused::closing(505, "http-1.0");
const UNWANTED_BODY: Refused = Refused::closing(400, "unwanted-body");

#[cfg(test)]
mod both_ways;
#[cfg(test)]
mod tests;
