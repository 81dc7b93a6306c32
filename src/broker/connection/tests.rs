//! Time limits of connections and exchanges, on a clock that the tests turn: real
//! sockets, and minutes that pass as soon as nothing else is left to do.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinHandle;

use super::*;
use crate::broker::key::tests::key;
use crate::broker::log::Log;
use crate::broker::provider::Provider;
use crate::broker::upstream::proxy::Proxy;
use crate::broker::upstream::url::Upstream;
use crate::broker::{Config, Limits};

const KEY: &[u8] = b"sk-ant-0123456789";
const GET: &[u8] = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n";
const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nevent\r\n";
/// The end of a refusal.
const REFUSED: &str = "\"type\":\"error\"}\n";
/// From one look at what moves to the next, at most.
const LATE: Duration = Duration::from_secs(80);

/// A broker before an API that does `api` with each of its connections.
pub(super) async fn broker<F>(api: impl Fn(TcpStream) -> F + Send + 'static) -> Arc<Broker>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(api(stream));
        }
    });
    let config = Config {
        provider: Provider::Anthropic,
        auth: None,
        upstream: Upstream::judge(&url).expect("loopback"),
        routes: Vec::new(),
        roots: Vec::new(),
        proxy: Proxy::default(),
    };
    let broker = Broker::new(&config, None, key(KEY), None, Log::default(), LIMITS);
    Arc::new(broker.expect("a broker"))
}

const LIMITS: Limits = Limits {
    connections: 8,
    exchanges: 8,
    head: Duration::from_secs(30),
    idle: Duration::from_mins(10),
    connect: Duration::from_secs(10),
    drain: Duration::from_secs(30),
};

/// A client of its own, and what tells its connection that the broker ends.
pub(super) fn client(broker: &Arc<Broker>) -> (UnixStream, watch::Sender<bool>) {
    let (client, _, ends) = served(broker);
    (client, ends)
}

/// The same, and the task that serves it.
fn served(broker: &Arc<Broker>) -> (UnixStream, JoinHandle<()>, watch::Sender<bool>) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let (ends, draining) = watch::channel(false);
    let broker = Arc::clone(broker);
    let serving = async move { serve(Stream::Unix(theirs), &broker, draining).await };
    (ours, tokio::spawn(serving), ends)
}

/// Whatever comes until the connection's end, and how long that took.
async fn rest(client: &mut UnixStream) -> (String, Duration) {
    let begun = Instant::now();
    let mut text = Vec::new();
    // A reset is an end as well.
    let _ = client.read_to_end(&mut text).await;
    (String::from_utf8(text).expect("text"), begun.elapsed())
}

/// What comes up to these words.
async fn until(client: &mut UnixStream, words: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(words) {
        let byte = client.read_u8().await;
        text.push(char::from(byte.unwrap_or_else(|_| panic!("{text:?}"))));
    }
    text
}

/// Reads a head and whatever follows, and answers nothing.
async fn hear(mut stream: TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

/// Answers with this, and no more.
async fn say(mut stream: TcpStream, text: &str) {
    let _ = stream.read(&mut [0; 4096]).await;
    let _ = stream.write_all(text.as_bytes()).await;
    hear(stream).await;
}

fn assert_about(found: Duration, wanted: Duration, late: Duration) {
    assert!(found >= wanted && found <= wanted + late, "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn who_asks_nothing_is_sent_home() {
    let broker = broker(hear).await;
    let (mut silent, _ends) = client(&broker);
    let (said, waited) = rest(&mut silent).await;
    assert_eq!(said, "");
    assert_about(waited, LIMITS.head, LIMITS.head / 4);
    // Between two requests it may take longer.
    let (mut kept, _ends) = client(&broker);
    kept.write_all(HEALTH).await.expect("sent");
    until(&mut kept, "ok").await;
    let (said, waited) = rest(&mut kept).await;
    assert_eq!(said, "");
    assert_about(waited, LIMITS.idle, LATE);
}

#[tokio::test(start_paused = true)]
async fn a_head_has_its_time_from_its_first_byte_on() {
    let broker = broker(hear).await;
    for first in [&b""[..], HEALTH] {
        let (mut slow, _ends) = client(&broker);
        slow.write_all(first).await.expect("sent");
        if !first.is_empty() {
            until(&mut slow, "ok").await;
        }
        let begun = Instant::now();
        slow.write_all(b"GET /").await.expect("sent");
        let (mut reader, mut writer) = slow.split();
        let answered = async {
            let mut text = String::new();
            reader.read_to_string(&mut text).await.expect("text");
            text
        };
        let going_on = async {
            loop {
                sleep(Duration::from_secs(1)).await;
                if writer.write_all(b"x").await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let text = tokio::select! {
            text = answered => text,
            () = going_on => unreachable!(),
        };
        assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
        assert_about(begun.elapsed(), LIMITS.head, LINGER + LIMITS.head / 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_has_its_time_between_two_pieces() {
    let broker = broker(hear).await;
    let (mut slow, _ends) = client(&broker);
    slow.write_all(b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
        .await
        .expect("sent");
    for _ in 0..4 {
        sleep(LIMITS.head * 9 / 10).await;
        slow.write_all(b"x").await.expect("sent");
    }
    let begun = Instant::now();
    let text = until(&mut slow, REFUSED).await;
    assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    assert_about(begun.elapsed(), LIMITS.head, Duration::from_secs(1));
    assert_eq!(rest(&mut slow).await.0, "");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_never_answers_is_given_up() {
    let broker = broker(hear).await;
    let (mut client, _ends) = client(&broker);
    client.write_all(GET).await.expect("sent");
    let begun = Instant::now();
    let text = until(&mut client, REFUSED).await;
    assert!(text.starts_with("HTTP/1.1 504 "), "{text}");
    assert_about(begun.elapsed(), LIMITS.idle, LATE);
    // The request was whole, so that the next one may follow.
    client.write_all(HEALTH).await.expect("sent");
    until(&mut client, "ok").await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_is_cut_off_and_one_that_trickles_is_not() {
    let broker = broker(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        stream.write_all(EVENTS.as_bytes()).await.expect("sent");
        for _ in 0..4 {
            sleep(LIMITS.idle * 9 / 10).await;
            stream.write_all(b"5\r\nevent\r\n").await.expect("sent");
        }
        hear(stream).await;
    })
    .await;
    let (mut client, _ends) = client(&broker);
    client.write_all(GET).await.expect("sent");
    for _ in 0..5 {
        until(&mut client, "event\r\n").await;
    }
    let (said, waited) = rest(&mut client).await;
    assert_eq!(said, "", "no end of a body");
    assert_about(waited, LIMITS.idle, LATE);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_trickles_keeps_its_request() {
    let broker = broker(hear).await;
    let (mut client, _ends) = client(&broker);
    client
        .write_all(b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 60\r\n\r\n")
        .await
        .expect("sent");
    let begun = Instant::now();
    for _ in 0..60 {
        sleep(LIMITS.head * 9 / 10).await;
        client.write_all(b"x").await.expect("sent");
    }
    assert!(begun.elapsed() > LIMITS.idle + LATE);
    let begun = Instant::now();
    let text = until(&mut client, REFUSED).await;
    assert!(text.starts_with("HTTP/1.1 504 "), "{text}");
    assert_about(begun.elapsed(), LIMITS.idle, LATE);
}

/// More than the sockets on the way hold.
const LARGE: usize = 16 << 20;

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_given_up_and_a_slow_one_is_not() {
    let broker = broker(|stream| async move {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n");
        say(stream, &(head + &"x".repeat(LARGE))).await;
    })
    .await;
    let (mut client, _ends) = client(&broker);
    client.write_all(GET).await.expect("sent");
    until(&mut client, "\r\n\r\n").await;
    let mut taken = 0;
    let mut piece = vec![0; 1 << 20];
    for _ in 0..4 {
        sleep(LIMITS.idle * 8 / 10).await;
        taken += client.read_exact(&mut piece).await.expect("a piece");
    }
    sleep(LIMITS.idle + LATE).await;
    let (left, _) = rest(&mut client).await;
    assert!(taken + left.len() < LARGE, "it was given up");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_answer_of_the_brokers_own_is_given_up() {
    let elsewhere = &b"GET /elsewhere HTTP/1.1\r\nHost: h\r\n\r\n"[..];
    for (asked, words) in [(HEALTH, "\r\n\r\nok"), (elsewhere, REFUSED)] {
        let broker = broker(hear).await;
        let (mut client, _ends) = client(&broker);
        client.write_all(asked).await.expect("sent");
        let answer = until(&mut client, words).await;
        let mut count = 0;
        while let Ok(sent) = timeout(Duration::from_secs(1), client.write_all(asked)).await {
            sent.expect("taken");
            count += 1;
        }
        sleep(PATIENCE + LINGER * 2).await;
        let gone = timeout(Duration::from_secs(1), client.write_all(asked)).await;
        assert!(
            gone.is_ok_and(|sent| sent.is_err()),
            "its answers wait no more"
        );
        let (said, _) = rest(&mut client).await;
        assert!(answer.repeat(count).starts_with(&said), "of {count}");
        if asked == HEALTH {
            // So many fill the socket: what comes next is a word of the broker's own.
            takes_no_continue(&broker, said.len() / answer.len()).await;
        }
    }
}

async fn takes_no_continue(broker: &Arc<Broker>, answers: usize) {
    let (mut client, serving, _ends) = served(broker);
    let last = b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\
                 Content-Length: 2\r\n\r\n";
    let asked = [&HEALTH.repeat(answers)[..], last].concat();
    client.write_all(&asked).await.expect("taken");
    sleep(PATIENCE / 2).await;
    assert!(!serving.is_finished());
    sleep(PATIENCE).await;
    assert!(serving.is_finished());
    let (said, _) = rest(&mut client).await;
    assert_eq!(said.matches("ok").count(), answers);
    assert!(!said.contains("100 Continue"));
}

#[tokio::test(start_paused = true)]
async fn who_was_refused_may_send_on_for_a_moment() {
    let broker = broker(hear).await;
    let (mut client, _ends) = client(&broker);
    client.write_all(b"BAD / HTTP/1.1\r\n").await.expect("sent");
    let begun = Instant::now();
    // Closed at once, it would be thrown away with the answer.
    while client.write_all(&[0; 4096]).await.is_ok() {
        sleep(Duration::from_millis(100)).await;
    }
    assert_about(begun.elapsed(), LINGER, LINGER / 4);
    let (said, _) = rest(&mut client).await;
    assert!(said.starts_with("HTTP/1.1 405 "), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_while_its_upload_stands_still() {
    // The head, and not a byte more.
    let broker = broker(|mut stream| async move {
        let _ = stream.read(&mut [0; 64]).await;
        std::future::pending::<()>().await;
    })
    .await;
    for half in [false, true] {
        let (mut client, serving, _ends) = served(&broker);
        let head =
            format!("POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: {LARGE}\r\n\r\n");
        client.write_all(head.as_bytes()).await.expect("sent");
        let piece = vec![0; 1 << 16];
        while let Ok(sent) = timeout(Duration::from_secs(1), client.write(&piece)).await {
            sent.expect("taken");
        }
        assert!(!serving.is_finished());
        let left = Instant::now();
        client.shutdown().await.expect("shut down");
        let client = Some(client).filter(|_| half);
        serving.await.expect("its end");
        assert!(
            left.elapsed() <= Duration::from_millis(100),
            "{:?}",
            left.elapsed()
        );
        drop(client);
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_nothing_under_way_is_sent_home_when_the_broker_ends() {
    let broker =
        broker(|stream| say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")).await;
    for asked in [&b""[..], HEALTH] {
        let (mut idle, ends) = client(&broker);
        idle.write_all(asked).await.expect("sent");
        if !asked.is_empty() {
            until(&mut idle, "ok").await;
        }
        ends.send_replace(true);
        let (said, waited) = rest(&mut idle).await;
        assert_eq!((said.as_str(), waited), ("", Duration::ZERO));
    }
    // Half a head is nothing yet.
    let (mut half, ends) = client(&broker);
    half.write_all(&GET[..GET.len() - 2]).await.expect("sent");
    sleep(Duration::from_secs(1)).await;
    ends.send_replace(true);
    let (said, waited) = rest(&mut half).await;
    assert_eq!((said.as_str(), waited), ("", Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_when_the_broker_ends_is_the_last() {
    let broker = broker(|stream| async {
        sleep(Duration::from_secs(10)).await;
        say(stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
    })
    .await;
    let (mut asking, ends) = client(&broker);
    asking.write_all(GET).await.expect("sent");
    sleep(Duration::from_secs(1)).await;
    ends.send_replace(true);
    let (said, waited) = rest(&mut asking).await;
    assert!(said.ends_with("\r\n\r\nhi"), "{said}");
    assert!(waited >= Duration::from_secs(8), "{waited:?}");
}
