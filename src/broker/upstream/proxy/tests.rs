use super::*;
use crate::broker::upstream::testing::run;

fn judge(upstream: &str, variables: &[(&str, &str)]) -> Result<Proxy, Refusal> {
    let upstream = Upstream::judge(upstream).unwrap();
    Proxy::judge(&upstream, |name| {
        let found = variables.iter().find(|(known, _)| *known == name)?;
        Some(found.1.into())
    })
}

#[test]
fn the_variables_name_a_proxy_or_none() {
    let api = "https://api.example.com";
    let through = |host: &str, port| Some((host.to_owned(), port));
    for (upstream, variables, expected) in [
        (api, &[][..], None),
        (api, &[("HTTPS_PROXY", "")], None),
        (api, &[("HTTP_PROXY", "http://p:1")], None),
        (api, &[("HTTPS_PROXY", "http://p:1")], through("p", 1)),
        (api, &[("https_proxy", "http://p/")], through("p", 80)),
        (
            api,
            &[("HTTPS_PROXY", ""), ("ALL_PROXY", "p:3128")],
            through("p", 3128),
        ),
        (api, &[("HTTPS_PROXY", "http://[::1]:1")], through("::1", 1)),
        (
            api,
            &[("HTTPS_PROXY", "http://a"), ("ALL_PROXY", "socks5://b")],
            through("a", 80),
        ),
        (
            api,
            &[("HTTPS_PROXY", "http://p"), ("NO_PROXY", "example.com")],
            None,
        ),
        (
            api,
            &[("HTTPS_PROXY", "http://p"), ("no_proxy", "x, .example.com")],
            None,
        ),
        (api, &[("HTTPS_PROXY", "http://p"), ("NO_PROXY", "*")], None),
        (
            api,
            &[("HTTPS_PROXY", "http://p"), ("NO_PROXY", "ample.com")],
            through("p", 80),
        ),
        // What isn't used needn't be readable.
        (
            api,
            &[("HTTPS_PROXY", "socks5://p"), ("NO_PROXY", "example.com")],
            None,
        ),
        (
            "https://127.0.0.1:1",
            &[("HTTPS_PROXY", "http://p"), ("NO_PROXY", "127.0.0.0/8")],
            None,
        ),
        (
            "https://[::1]",
            &[("HTTPS_PROXY", "http://p"), ("NO_PROXY", "::1")],
            None,
        ),
        (
            "https://127.0.0.1:1",
            &[("HTTPS_PROXY", "http://p")],
            through("p", 80),
        ),
        (
            "http://127.0.0.1:1",
            &[("HTTPS_PROXY", "http://p"), ("ALL_PROXY", "socks5://p")],
            None,
        ),
    ] {
        let proxy = judge(upstream, variables).unwrap();
        let found = proxy.via().map(|via| (via.host.clone(), via.port));
        assert_eq!(found, expected, "{upstream} {variables:?}");
    }
}

#[test]
fn a_proxy_that_cannot_be_used_is_refused() {
    for value in [
        "https://user:s3cret@p:1",
        "socks5://user:s3cret@p:1",
        "ftp://p",
        "http://",
        "http://p:port",
        "http://p:",
        "http://p/s3cret",
        "http://p/a/",
        "http://p?a",
        "http://p p",
        "://p",
    ] {
        for name in ["HTTPS_PROXY", "all_proxy"] {
            let refusal = judge("https://a.b", &[(name, value)]).expect_err(value);
            assert_eq!(refusal.reason, Reason::Broker);
            assert_eq!(refusal.subject, name);
            assert!(!refusal.to_string().contains("s3cret"));
        }
    }
}

#[test]
fn a_tunnel_is_asked_for_and_its_answer_judged() {
    let variables = [("HTTPS_PROXY", "http://user:s3cr%65t@p:1")];
    let proxy = judge("https://a.b:8443/gw", &variables).unwrap();
    assert_eq!(format!("{proxy:?}"), "Proxy(p:1)");
    let request = "CONNECT a.b:8443 HTTP/1.1\r\nHost: a.b:8443\r\n\
        Proxy-Authorization: Basic dXNlcjpzM2NyZXQ=\r\n\r\n";
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(MAX_HEAD));
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\n\r\n", Ok(())),
        ("HTTP/1.0 299\r\nvia: x\r\n\r\n", Ok(())),
        ("HTTP/1.1 407 Who\r\n\r\n", Err("proxy: it answered 407")),
        ("HTTP/1.1 101 Switch\r\n\r\n", Err("proxy: it answered 101")),
        ("HTTP/1.1 302 Go\r\n\r\n", Err("proxy: it answered 302")),
        ("HTTP/1.1 2x0 OK\r\n\r\n", Err("proxy: it answered 2x0")),
        (
            "HTTP/1.1 2000 OK\r\n\r\n",
            Err("proxy: its answer isn't HTTP/1"),
        ),
        (
            "HTTP/2 200 OK\r\n\r\n",
            Err("proxy: its answer isn't HTTP/1"),
        ),
        ("\r\n\r\n", Err("proxy: its answer isn't HTTP/1")),
        (
            "HTTP/1.1 200 OK\r\n\r\n\x16",
            Err("proxy: bytes behind its answer"),
        ),
        (
            "HTTP/1.1 200 OK\r\n",
            Err("proxy: closed before its answer"),
        ),
        ("", Err("proxy: closed before its answer")),
        (&long, Err("proxy: its answer is too long")),
    ] {
        run(async {
            let (mut ours, mut theirs) = tokio::io::duplex(64 * 1024);
            let asked = async {
                let mut asked = vec![0; request.len()];
                theirs.read_exact(&mut asked).await.unwrap();
                theirs.write_all(answer.as_bytes()).await.unwrap();
                theirs.shutdown().await.unwrap();
                String::from_utf8(asked).unwrap()
            };
            let via = proxy.via().unwrap();
            let (outcome, asked) = tokio::join!(via.tunnel(&mut ours, "a.b:8443"), asked);
            assert_eq!(asked, request);
            let outcome = outcome.map_err(|failure| failure.to_string());
            assert_eq!(outcome, expected.map_err(str::to_owned), "{answer:?}");
        });
    }
}
