//! Certificates, names, proxies and time-outs, over loopback.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, UdpSocket};

use super::super::body::Outgoing;
use super::super::pool::Pool;
use super::super::testing::{Authority, PATIENCE, Peer, pool, request, run, serve, text};
use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// For what must run out of time.
const SHORT: Duration = Duration::from_millis(150);

async fn answer(mut peer: Peer) {
    while peer.request().await.is_some() {
        peer.say(OK).await;
    }
}

async fn outcome(pool: &Pool) -> Result<String, (String, u16)> {
    match pool.send(request("GET", Outgoing::Empty)).await {
        Ok(answer) => Ok(text(answer).await.unwrap()),
        Err(failure) => Err((failure.to_string(), failure.status())),
    }
}

#[test]
fn only_a_valid_certificate_of_a_trusted_issuer_is_accepted() {
    let (ours, other) = (Authority::new(), Authority::new());
    for (authority, name, year, expected) in [
        (&ours, "127.0.0.1", 2099, Ok("ok")),
        (
            &other,
            "127.0.0.1",
            2099,
            Err("tls: certificate of an unknown issuer"),
        ),
        (
            &ours,
            "127.0.0.2",
            2099,
            Err("tls: certificate of another name"),
        ),
        (
            &ours,
            "localhost",
            2099,
            Err("tls: certificate of another name"),
        ),
        (&ours, "127.0.0.1", 2002, Err("tls: certificate expired")),
    ] {
        let acceptor = authority.acceptor(&[name], year);
        run(async {
            let address = serve(Some(acceptor), answer).await;
            let outcome = outcome(&pool(address, Some(ours.trusted()))).await;
            let expected = expected
                .map(str::to_owned)
                .map_err(|why| (why.to_owned(), 502));
            assert_eq!(outcome, expected);
        });
    }
}

#[test]
fn plain_http_and_a_name_that_needs_no_server() {
    run(async {
        let address = serve(None, answer).await;
        let upstream = Upstream::judge(&format!("http://localhost:{}", address.port())).unwrap();
        let pool = Pool::new(upstream, None, Proxy::default(), PATIENCE);
        assert_eq!(outcome(&pool).await, Ok("ok".to_owned()));
    });
}

#[test]
fn https_is_never_spoken_without_tls() {
    run(async {
        let address = serve(None, answer).await;
        let upstream = Upstream::judge(&format!("https://{address}")).unwrap();
        let unset = Pool::new(upstream, None, Proxy::default(), PATIENCE);
        assert_eq!(
            outcome(&unset).await,
            Err(("tls: not set up".to_owned(), 502))
        );
        // A server that doesn't speak it.
        let address = serve(None, |mut peer| async move {
            peer.byte().await;
            peer.say("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        })
        .await;
        let trusted = Authority::new().trusted();
        let (shown, status) = outcome(&pool(address, Some(trusted))).await.unwrap_err();
        assert!(shown.starts_with("tls: ") && status == 502, "{shown}");
    });
}

#[test]
fn each_step_runs_out_of_time() {
    run(async {
        // Accepted by the kernel, answered by nobody.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let upstream = Upstream::judge(&format!("https://{address}")).unwrap();
        let proxy = Proxy::judge(&upstream, |_| Some(format!("http://{address}").into()));
        for (proxy, expected) in [
            (Proxy::default(), "tls: timed out"),
            (proxy.unwrap(), "proxy: timed out"),
        ] {
            let trusted = Some(Authority::new().trusted());
            let pool = Pool::new(upstream.clone(), trusted, proxy, SHORT);
            assert_eq!(outcome(&pool).await, Err((expected.to_owned(), 504)));
        }
    });
}

#[test]
fn the_api_is_reached_and_verified_through_a_proxy() {
    run(async {
        let authority = Authority::new();
        let api = serve(Some(authority.acceptor(&["api.test"], 2099)), answer).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(client.read_u8().await.unwrap());
            }
            // The name is the proxy's to look up.
            assert!(asked.starts_with(b"CONNECT api.test:8443 HTTP/1.1\r\n"));
            let mut api = TcpStream::connect(api).await.unwrap();
            client.write_all(b"HTTP/1.1 200 Go\r\n\r\n").await.unwrap();
            let _ = copy_bidirectional(&mut client, &mut api).await;
        });
        let upstream = Upstream::judge("https://api.test:8443").unwrap();
        let proxy = Proxy::judge(&upstream, |name| {
            (name == "HTTPS_PROXY").then(|| format!("http://user:s3cret@{proxy}").into())
        });
        let pool = Pool::new(
            upstream,
            Some(authority.trusted()),
            proxy.unwrap(),
            PATIENCE,
        );
        assert_eq!(outcome(&pool).await, Ok("ok".to_owned()));
        assert!(!format!("{pool:?}").contains("s3cret"));
    });
}

/// A DNS server (RFC 1035, section 4) that knows `v4.test` and `v6.test`, denies
/// `no.test`, and has no answer to anything else.
async fn name_server() -> Names {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = socket.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut question = [0; 512];
        loop {
            let (length, from) = socket.recv_from(&mut question).await.unwrap();
            if let Some(answer) = dns_answer(&question[..length]) {
                socket.send_to(&answer, from).await.unwrap();
            }
        }
    });
    let mut udp = ConnectionConfig::udp();
    udp.port = port;
    let server = NameServerConfig::new(IpAddr::V4(Ipv4Addr::LOCALHOST), true, vec![udp]);
    let config = ResolverConfig::from_parts(None, vec![], vec![server]);
    let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    Names::with(resolver.build().unwrap())
}

fn dns_answer(question: &[u8]) -> Option<Vec<u8>> {
    // The name starts at byte 12; its type follows the zero byte at its end.
    let end = 12 + question[12..].iter().position(|byte| *byte == 0)? + 1;
    let name = question[12..end].to_ascii_lowercase();
    let of_type = [question[end], question[end + 1]];
    let (code, data): (u8, &[u8]) = match (name.as_slice(), of_type) {
        (b"\x02v4\x04test\0", [0, 1]) => (0, &[127, 0, 0, 1]),
        (b"\x02v6\x04test\0", [0, 28]) => (0, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        (b"\x02v4\x04test\0" | b"\x02v6\x04test\0", _) => (0, &[]),
        (b"\x02no\x04test\0", _) => (3, &[]),
        _ => return None,
    };
    let mut answer = question[..2].to_vec();
    let answers = u8::from(!data.is_empty());
    answer.extend_from_slice(&[0x81, 0x80 | code, 0, 1, 0, answers, 0, 0, 0, 0]);
    answer.extend_from_slice(&question[12..end + 4]);
    if answers == 1 {
        answer.extend_from_slice(&[0xc0, 12, of_type[0], of_type[1], 0, 1, 0, 0, 0, 60, 0]);
        answer.push(u8::try_from(data.len()).unwrap());
        answer.extend_from_slice(data);
    }
    Some(answer)
}

#[test]
fn names_are_looked_up() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = listener.local_addr().unwrap().port();
        drop(listener);
        let open = serve(None, answer).await.port();
        for (host, port, expected) in [
            ("v4.test", open, Ok(())),
            ("v4.test", closed, Err(("connect: ECONNREFUSED", 502))),
            ("v6.test", closed, Err(("connect: ", 502))),
            ("no.test", open, Err(("name: it has no address", 502))),
            ("slow.test", open, Err(("name: timed out", 504))),
        ] {
            let dialer = Dialer {
                upstream: Upstream::judge("http://localhost").unwrap(),
                tls: None,
                proxy: Proxy::default(),
                names: name_server().await,
            };
            let patience = if host == "slow.test" { SHORT } else { PATIENCE };
            match (
                dialer.reach(host, port, Instant::now() + patience).await,
                expected,
            ) {
                (Ok(_), Ok(())) => {}
                (Err(failure), Err((shown, status))) => {
                    assert!(failure.to_string().starts_with(shown), "{host}: {failure}");
                    assert_eq!(failure.status(), status);
                }
                (outcome, _) => panic!("{host}: {outcome:?}"),
            }
        }
    });
}

/// A port of 127.0.0.1 whose connections stay on the way, and of ::1, if there is IPv6.
async fn half_dead() -> Option<(u16, TcpListener, Vec<TcpStream>)> {
    let alive = TcpListener::bind("[::1]:0").await.ok()?;
    let port = alive.local_addr().unwrap().port();
    let dead = tokio::net::TcpSocket::new_v4().unwrap();
    dead.bind((Ipv4Addr::LOCALHOST, port).into()).ok()?;
    let dead = dead.listen(0).unwrap();
    tokio::spawn(async move {
        let _dead = dead;
        std::future::pending::<()>().await;
    });
    // Its backlog is full: who comes now isn't answered.
    let mut full = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(SHORT, TcpStream::connect((Ipv4Addr::LOCALHOST, port))).await
    {
        full.push(stream.unwrap());
    }
    Some((port, alive, full))
}

#[test]
fn an_address_that_is_dead_leaves_time_for_the_next() {
    run(async {
        let Some((port, alive, _full)) = half_dead().await else {
            return;
        };
        tokio::spawn(async move {
            let (mut stream, _) = alive.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1000]).await;
            stream.write_all(OK.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        });
        let upstream = Upstream::judge(&format!("http://localhost:{port}")).unwrap();
        let pool = Pool::new(upstream, None, Proxy::default(), SHORT * 20);
        let begun = Instant::now();
        assert_eq!(outcome(&pool).await, Ok("ok".to_owned()));
        // Half of the time, and not all of it.
        assert!(begun.elapsed() < SHORT * 18, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_write_waits_for_no_other() {
    run(async {
        let address = serve(None, answer).await;
        assert!(connect(address).await.unwrap().nodelay().unwrap());
    });
}
