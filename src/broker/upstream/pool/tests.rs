//! What is kept, retried and warmed, against servers that misbehave.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use tokio::sync::{Notify, mpsc};

use super::super::testing::{
    Authority, PATIENCE, Peer, pool, request, run, run_as_a_task, run_however_long, serve, text,
    whole,
};
use super::*;

pub(super) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

async fn ok(pool: &Pool) {
    let answer = pool.send(request("POST", whole("hi"))).await.unwrap();
    assert_eq!(text(answer).await, Ok("ok".to_owned()));
}

pub(super) async fn failure(pool: &Pool) -> Failure {
    pool.send(request("POST", whole("hi")))
        .await
        .expect_err("it must fail")
}

#[test]
fn one_connection_serves_request_after_request() {
    run(async {
        let authority = Authority::new();
        let tls = authority.acceptor(&["127.0.0.1"], 2099);
        for (acceptor, trusted) in [(None, None), (Some(tls), Some(authority.trusted()))] {
            let connections = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&connections);
            let address = serve(acceptor, move |mut peer| {
                counted.fetch_add(1, SeqCst);
                async move {
                    for answer in [
                        OK,
                        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\nx: y\r\n\r\n",
                        "HTTP/1.1 204 No Content\r\n\r\n",
                        "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                        OK,
                    ] {
                        peer.request().await.unwrap();
                        peer.say(answer).await;
                    }
                }
            })
            .await;
            let pool = pool(address, trusted);
            for (expected, status) in [("ok", 200), ("ok", 200), ("", 204), ("", 200), ("ok", 200)]
            {
                let answer = pool.send(request("POST", whole("hi"))).await.unwrap();
                assert_eq!(answer.head.status, status);
                assert_eq!(text(answer).await, Ok(expected.to_owned()));
            }
            assert_eq!(connections.load(SeqCst), 1);
        }
    });
}

/// Closes kept connections in every way and at every moment at which no request is
/// on its way; counts what it was asked.
async fn fickle(mut peer: Peer, busy: Arc<AtomicBool>, asked: Arc<AtomicUsize>) {
    let mut dice = peer.number * 7919 + 1;
    while peer.request().await.is_some() {
        asked.fetch_add(1, SeqCst);
        peer.say(OK).await;
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        for _ in 0..(dice >> 33) % 12 {
            tokio::task::yield_now().await;
        }
        match (dice >> 40) % 4 {
            0 if !busy.load(SeqCst) => return,
            1 if !busy.load(SeqCst) => return peer.close().await,
            _ => {}
        }
    }
}

#[test]
fn a_connection_that_ended_while_idle_gets_no_request() {
    run_as_a_task(async {
        let authority = Authority::new();
        let tls = authority.acceptor(&["127.0.0.1"], 2099);
        for (acceptor, trusted) in [(None, None), (Some(tls), Some(authority.trusted()))] {
            let (asked, closed) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
            let busy = Arc::new(AtomicBool::new(false));
            let shared = (Arc::clone(&busy), Arc::clone(&asked), Arc::clone(&closed));
            let address = serve(acceptor, move |peer| {
                let (busy, asked, closed) = shared.clone();
                async move {
                    fickle(peer, busy, asked).await;
                    closed.fetch_add(1, SeqCst);
                }
            })
            .await;
            let pool = pool(address, trusted);
            for round in 0..300 {
                busy.store(true, SeqCst);
                ok(&pool).await;
                busy.store(false, SeqCst);
                for _ in 0..round % 9 {
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(asked.load(SeqCst), 300);
            assert!(closed.load(SeqCst) > 20);
        }
    });
}

/// Between the end and the next request nobody asks epoll, so that tokio can't know.
#[test]
fn an_end_that_epoll_has_not_told_yet_is_seen() {
    run_as_a_task(async {
        let authority = Authority::new();
        let tls = authority.acceptor(&["127.0.0.1"], 2099);
        for (acceptor, trusted) in [(None, None), (Some(tls), Some(authority.trusted()))] {
            let asked = Arc::new(AtomicUsize::new(0));
            let (end, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let shared = (Arc::clone(&asked), Arc::clone(&end), Arc::clone(&ended));
            let address = serve(acceptor, move |mut peer| {
                let (asked, end, ended) = shared.clone();
                async move {
                    peer.request().await.unwrap();
                    asked.fetch_add(1, SeqCst);
                    peer.say(OK).await;
                    end.notified().await;
                    if peer.number % 2 == 0 {
                        peer.close().await;
                    } else {
                        drop(peer);
                    }
                    ended.notify_one();
                }
            })
            .await;
            let pool = pool(address, trusted);
            for _ in 0..6 {
                ok(&pool).await;
                end.notify_one();
                ended.notified().await;
            }
            assert_eq!(asked.load(SeqCst), 6);
        }
    });
}

#[test]
fn a_server_that_always_closes_gets_each_request_once() {
    run(async {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let address = serve(None, move |mut peer| {
            let counted = Arc::clone(&counted);
            async move {
                peer.request().await.unwrap();
                counted.fetch_add(1, SeqCst);
                peer.say(OK).await;
            }
        })
        .await;
        let pool = pool(address, None);
        for _ in 0..20 {
            ok(&pool).await;
        }
        assert_eq!(asked.load(SeqCst), 20);
    });
}

#[test]
fn a_request_that_was_read_is_not_sent_again() {
    run(async {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let address = serve(None, move |mut peer| {
            let counted = Arc::clone(&counted);
            async move {
                while peer.request().await.is_some() {
                    if counted.fetch_add(1, SeqCst) == 1 {
                        return;
                    }
                    peer.say(OK).await;
                }
            }
        })
        .await;
        let pool = pool(address, None);
        ok(&pool).await;
        let failure = failure(&pool).await;
        assert_eq!((failure.step(), failure.status()), (Step::Request, 502));
        assert_eq!(asked.load(SeqCst), 2);
    });
}

#[test]
fn a_warmed_connection_is_waited_for_and_used() {
    run(async {
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let address = serve(None, move |mut peer| {
            counted.fetch_add(1, SeqCst);
            async move {
                while peer.request().await.is_some() {
                    peer.say(OK).await;
                }
            }
        })
        .await;
        let pool = pool(address, None);
        pool.warm();
        pool.warm();
        ok(&pool).await;
        pool.warm();
        ok(&pool).await;
        assert_eq!(connections.load(SeqCst), 1);
        tokio::join!(ok(&pool), ok(&pool), ok(&pool));
        tokio::join!(ok(&pool), ok(&pool), ok(&pool));
        assert_eq!(connections.load(SeqCst), 3);
        assert_eq!(pool.state().idle.len(), 3);
    });
}

#[test]
fn a_warming_that_fails_is_not_an_error() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let pool = pool(address, None);
        pool.warm();
        assert_eq!(failure(&pool).await.to_string(), "connect: ECONNREFUSED");
        assert_eq!(failure(&pool).await.to_string(), "connect: ECONNREFUSED");
    });
}

#[test]
fn what_is_idle_for_too_long_is_closed() {
    run_however_long(async {
        let (tell, mut told) = mpsc::unbounded_channel();
        let address = serve(None, move |mut peer| {
            let tell = tell.clone();
            async move {
                while peer.request().await.is_some() {
                    peer.say(OK).await;
                }
                tell.send(()).unwrap();
            }
        })
        .await;
        let pool = pool(address, None);
        ok(&pool).await;
        // The sweeper sleeps by now.
        tokio::task::yield_now().await;
        tokio::time::pause();
        tokio::time::advance(KEPT_FOR * 49 / 50).await;
        tokio::time::resume();
        assert_eq!(pool.state().idle.len(), 1);
        tokio::time::pause();
        tokio::time::advance(KEPT_FOR / 25).await;
        tokio::time::resume();
        told.recv().await.unwrap();
        assert!(pool.state().idle.is_empty());
        // Also the second time, and counted from its last request.
        ok(&pool).await;
        turn(KEPT_FOR / 2).await;
        ok(&pool).await;
        turn(KEPT_FOR * 3 / 4).await;
        assert_eq!(pool.state().idle.len(), 1);
        turn(KEPT_FOR / 2).await;
        let closed = tokio::time::timeout(PATIENCE, told.recv()).await;
        closed.expect("it is closed").unwrap();
        assert!(pool.state().idle.is_empty());
    });
}

/// Nobody asks for it; one that is still there stays.
#[test]
fn what_the_api_has_closed_is_closed_soon() {
    run_however_long(async {
        let (end, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let shared = (Arc::clone(&end), Arc::clone(&ended));
        let address = serve(None, move |mut peer| {
            let (end, ended) = shared.clone();
            async move {
                peer.request().await.unwrap();
                peer.say(OK).await;
                if peer.number == 0 {
                    peer.rest().await;
                }
                end.notified().await;
                drop(peer);
                ended.notify_one();
            }
        })
        .await;
        let pool = pool(address, None);
        tokio::join!(ok(&pool), ok(&pool));
        end.notify_one();
        ended.notified().await;
        assert_eq!(pool.state().idle.len(), 2, "vacuous");
        turn(LOOK).await;
        let swept = async {
            while pool.state().idle.len() == 2 {
                tokio::task::yield_now().await;
            }
        };
        let swept = tokio::time::timeout(PATIENCE, swept).await;
        swept.expect("it is closed");
        turn(LOOK).await;
        assert_eq!(pool.state().idle.len(), 1);
    });
}

/// Turns the clock, and lets whoever waited for it have a turn.
async fn turn(time: Duration) {
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    tokio::task::yield_now().await;
}

#[test]
fn no_more_are_kept_than_is_worth_it() {
    run(async {
        let address = serve(None, |mut peer| async move {
            while peer.request().await.is_some() {
                peer.say(OK).await;
            }
        })
        .await;
        let pool = pool(address, None);
        let mut answers = Vec::new();
        for _ in 0..MAX_KEPT + 10 {
            answers.push(pool.send(request("POST", whole("hi"))).await.unwrap());
        }
        for answer in answers {
            assert_eq!(text(answer).await, Ok("ok".to_owned()));
        }
        assert_eq!(pool.state().idle.len(), MAX_KEPT);
    });
}
