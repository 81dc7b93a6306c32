//! What goes over the wire, what is cut off, and what is no answer.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::super::body::{Gone, stream};
use super::super::link::{MAX_FIELDS, MAX_HEAD};
use super::super::testing::{Authority, pool, request, run, serve, text, whole};
use super::tests::{OK, failure};
use super::*;

#[test]
fn what_is_sent() {
    run(async {
        let (tell, mut told) = mpsc::unbounded_channel();
        let address = serve(None, move |mut peer| {
            let tell = tell.clone();
            async move {
                while let Some(head) = peer.head().await {
                    let mut body = Vec::new();
                    let ending: &[u8] = if head.contains("chunked") {
                        b"0\r\n\r\n"
                    } else {
                        b"!"
                    };
                    let length = head.contains("chunked") || head.contains("content-length: 3");
                    while length && !body.ends_with(ending) {
                        body.push(peer.byte().await);
                    }
                    tell.send(head + std::str::from_utf8(&body).unwrap())
                        .unwrap();
                    peer.say(OK).await;
                }
            }
        })
        .await;
        let pool = pool(address, None);
        let streamed = |length| {
            let (sender, body) = stream(length);
            tokio::spawn(async move {
                sender.send("hi".into()).await.unwrap();
                sender.send("!".into()).await.unwrap();
                sender.finish();
            });
            body
        };
        for (method, body, expected) in [
            ("GET", Outgoing::Empty, "\r\n\r\n"),
            ("DELETE", Outgoing::Empty, "\r\n\r\n"),
            ("POST", Outgoing::Empty, "\r\ncontent-length: 0\r\n\r\n"),
            ("PUT", stream(Some(0)).1, "\r\ncontent-length: 0\r\n\r\n"),
            ("POST", whole("hi!"), "\r\ncontent-length: 3\r\n\r\nhi!"),
            (
                "POST",
                streamed(Some(3)),
                "\r\ncontent-length: 3\r\n\r\nhi!",
            ),
            (
                "POST",
                streamed(None),
                "\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n\r\n",
            ),
        ] {
            let answer = pool.send(request(method, body)).await.unwrap();
            assert_eq!(text(answer).await, Ok("ok".to_owned()));
            let sent = told.recv().await.unwrap();
            assert_eq!(
                sent,
                format!("{method} /v1/x?y HTTP/1.1\r\nhost: api{expected}")
            );
        }
    });
}

#[test]
fn an_early_answer_is_read_while_the_upload_is_cut() {
    run(async {
        let early = "HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\nconnection: close\r\n\r\nmuch";
        // With the upload unread in the kernel, the end of the connection is a reset.
        let address = serve(None, move |mut peer| async move {
            peer.head().await.unwrap();
            peer.say(early).await;
        })
        .await;
        let pool = pool(address, None);
        for length in [None, Some(1 << 40)] {
            for _ in 0..20 {
                let (sender, body) = stream(length);
                let upload = tokio::spawn(async move {
                    while sender.send(Bytes::from_static(&[b'x'; 16000])).await == Ok(()) {}
                });
                let answer = pool.send(request("POST", body)).await.unwrap();
                assert_eq!(answer.head.status, 413);
                assert_eq!(text(answer).await, Ok("much".to_owned()));
                upload.await.unwrap();
            }
        }
    });
}

#[test]
fn an_upload_that_stops_after_the_answers_head_leaves_the_answer() {
    run(async {
        let (tell, mut told) = mpsc::unbounded_channel();
        let address = serve(None, move |mut peer| {
            let tell = tell.clone();
            async move {
                peer.head().await.unwrap();
                peer.say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nso")
                    .await;
                // The rest comes once the client is told of; it has stopped by then.
                let first = peer.byte().await;
                peer.say("on").await;
                let mut rest = peer.rest().await;
                rest.insert(0, first);
                tell.send(rest).unwrap();
            }
        })
        .await;
        let pool = pool(address, None);
        let (sender, body) = stream(None);
        let answer = pool.send(request("POST", body)).await.unwrap();
        sender.send("abc".into()).await.unwrap();
        drop(sender);
        assert_eq!(text(answer).await, Ok("soon".to_owned()));
        assert_eq!(told.recv().await.unwrap(), b"3\r\nabc\r\n");
        assert!(pool.state().idle.is_empty());
    });
}

#[test]
fn a_body_that_is_cut_off_gets_no_valid_end() {
    run(async {
        let (tell, mut told) = mpsc::unbounded_channel();
        let address = serve(None, move |mut peer| {
            let tell = tell.clone();
            async move {
                let mut got = peer.head().await.unwrap().into_bytes();
                while !got.ends_with(b"abc") {
                    got.push(peer.byte().await);
                }
                tell.send(Vec::new()).unwrap();
                tell.send(peer.rest().await).unwrap();
            }
        })
        .await;
        let pool = pool(address, None);
        for (length, finished, rest) in [
            (None, false, &b"\r\n"[..]),
            (Some(9), false, b""),
            (Some(9), true, b""),
        ] {
            let (sender, body) = stream(length);
            let upload = async {
                sender.send("abc".into()).await.unwrap();
                told.recv().await.unwrap();
                if finished {
                    sender.finish();
                } else {
                    drop(sender);
                }
            };
            let (sent, ()) = tokio::join!(pool.send(request("POST", body)), upload);
            let failure = sent.expect_err("it was cut off");
            let cause = if finished {
                "user body write aborted"
            } else {
                "the request was cut off"
            };
            assert!(failure.to_string().contains(cause), "{failure}");
            assert_eq!(told.recv().await.unwrap(), rest);
        }
    });
}

#[test]
fn nobody_takes_the_pieces_of_a_failed_exchange() {
    run(async {
        let address = serve(None, |mut peer| async move { drop(peer.head().await) }).await;
        let (sender, body) = stream(None);
        assert!(
            pool(address, None)
                .send(request("POST", body))
                .await
                .is_err()
        );
        sender.gone().await;
        assert_eq!(sender.send("x".into()).await, Err(Gone));
    });
}

#[test]
fn a_cut_answer_has_no_valid_end() {
    let authority = Authority::new();
    let tls = authority.acceptor(&["127.0.0.1"], 2099);
    run(async move {
        for (secure, answer, came) in [
            (
                false,
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
                "abc",
            ),
            (
                false,
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
                "abc",
            ),
            (
                false,
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
                "abc",
            ),
            (
                false,
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcd",
                "abc",
            ),
            (
                true,
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
                "abc",
            ),
            // Only TLS can tell this end from a cut.
            (true, "HTTP/1.1 200 OK\r\n\r\nabc", "abc"),
        ] {
            let acceptor = secure.then(|| tls.clone());
            let address = serve(acceptor, move |mut peer| async move {
                peer.request().await.unwrap();
                peer.say(answer).await;
            })
            .await;
            let pool = pool(address, secure.then(|| authority.trusted()));
            let answer = pool.send(request("POST", whole("hi"))).await.unwrap();
            let (text, failure) = text(answer).await.expect_err("it was cut");
            assert_eq!((text.as_str(), failure.step()), (came, Step::Answer));
            assert!(pool.state().idle.is_empty());
        }
    });
}

#[test]
fn what_is_no_answer_is_a_failure() {
    run(async {
        let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(MAX_HEAD));
        let many = format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            "x: y\r\n".repeat(MAX_FIELDS + 1)
        );
        for answer in [
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\ntunnel",
            "HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx: y",
            "SSH-2.0-OpenSSH\r\n",
            "<html>",
            "",
            &long,
            &many,
        ] {
            let answer = answer.to_owned();
            let (tell, mut told) = mpsc::unbounded_channel();
            let address = serve(None, move |mut peer| {
                let (answer, tell) = (answer.clone(), tell.clone());
                async move {
                    peer.request().await.unwrap();
                    peer.say(answer.clone()).await;
                    // The one that says 101 keeps the connection: we must close it.
                    if answer.contains("tunnel") {
                        peer.rest().await;
                    }
                    tell.send(()).unwrap();
                }
            })
            .await;
            let failure = failure(&pool(address, None)).await;
            assert_eq!(
                (failure.step(), failure.status()),
                (Step::Request, 502),
                "{failure}"
            );
            told.recv().await.unwrap();
        }
    });
}

#[test]
fn what_is_dropped_early_is_closed() {
    run(async {
        let (tell, mut told) = mpsc::unbounded_channel();
        let address = serve(None, move |mut peer| {
            let tell = tell.clone();
            async move {
                let head = peer.head().await.unwrap();
                if head.starts_with("POST") {
                    peer.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
                        .await;
                }
                tell.send(()).unwrap();
                peer.rest().await;
                tell.send(()).unwrap();
            }
        })
        .await;
        let pool = pool(address, None);
        let mut answer = pool.send(request("POST", Outgoing::Empty)).await.unwrap();
        assert_eq!(answer.body.length(), Some(9));
        assert_eq!(answer.body.next().await, Some(Ok("abc".into())));
        told.recv().await.unwrap();
        drop(answer);
        told.recv().await.unwrap();
        tokio::select! {
            _ = pool.send(request("GET", Outgoing::Empty)) => unreachable!(),
            _ = told.recv() => {}
        }
        told.recv().await.unwrap();
    });
}
