//! Of a broker on its own.

use super::*;

fn alone(temp: &TempDir, flags: &[&str]) -> Result<Alone, Refusal> {
    let Command::Broker(broker) = parsed(&[&["broker"], flags].concat()) else {
        panic!("{flags:?}");
    };
    alone_from(&Ok(start(temp)), |_| None, &broker, Kept::default())
}

#[test]
fn a_broker_on_its_own() {
    let temp = tree();
    temp.file("token", "0123456789abcdef\n");
    temp.link("token-link", "token");
    drop(UnixListener::bind(temp.at("stale")).expect("bind"));
    // Longer than sun_path, but for its last part.
    let deep = temp.dir(&["d"; 60].join("/")).join("s");
    let deep = deep.to_str().expect("text");
    let key = ["anthropic", "--key-file", "c/key"];
    for (listen, path) in [
        ("unix:s".to_owned(), temp.at("s")),
        ("unix:keys/s".to_owned(), temp.at("keys/s")),
        ("unix:stale".to_owned(), temp.at("stale")),
        (format!("unix:{deep}"), deep.into()),
    ] {
        let flags = [
            "--listen",
            &listen,
            "--peer-uid",
            "1000",
            "--log",
            "new-log",
        ];
        let judged = alone(&temp, &[&key[..], &flags].concat());
        let alone = judged.unwrap_or_else(|refusal| panic!("{listen}: {refusal}"));
        assert_eq!(alone.peer_uid, Some(1000));
        assert!(
            matches!(alone.listen, Listen::Unix { path: found, .. } if found == path),
            "{listen}"
        );
    }
    for (listen, port) in [("tcp:0", 0), ("tcp:65535", 65535)] {
        let flags = ["--listen", listen, "--token-file", "token-link"];
        let alone = alone(&temp, &[&key[..], &flags].concat()).expect(listen);
        assert!(matches!(alone.listen, Listen::Tcp(found) if found == port));
        assert!(alone.token.is_some() && alone.ready.is_none());
    }
    assert!(!temp.at("s").exists() && !temp.at("keys/s").exists());
    assert!(temp.at("new-log").exists());
}

#[test]
fn a_broker_on_its_own_is_refused() {
    let temp = tree();
    temp.file("short", "0123");
    let long = format!("unix:{}", "n".repeat(100));
    for (flags, reason) in [
        (&["--listen", "s"][..], Reason::Usage),
        (&["--listen", "tcp:"], Reason::Usage),
        (&["--listen", "tcp:+80"], Reason::Usage),
        (&["--listen", "tcp:65536"], Reason::Usage),
        (&["--listen", "tcp:0.0.0.0:80"], Reason::Usage),
        (&["--listen", "udp:80"], Reason::Usage),
        (&["--listen", "tcp:80", "--peer-uid", "1"], Reason::Usage),
        (&["--listen", "unix:"], Reason::Usage),
        (&["--listen", "unix:keys"], Reason::Socket),
        (&["--listen", "unix:key"], Reason::Socket),
        (&["--listen", "unix:s/"], Reason::Socket),
        (&["--listen", "unix:none/s"], Reason::Socket),
        (&["--listen", "unix:/proc/s"], Reason::Socket),
        (&["--listen", &long], Reason::Socket),
        (&["--listen", "tcp:0", "--log", "keys"], Reason::Broker),
        (
            &["--listen", "tcp:0", "--token-file", "none"],
            Reason::Broker,
        ),
        (
            &["--listen", "tcp:0", "--token-file", "keys"],
            Reason::Broker,
        ),
        (
            &["--listen", "tcp:0", "--token-file", "short"],
            Reason::Broker,
        ),
    ] {
        let flags = [&["openai", "--key-stdin"], flags].concat();
        let refusal = alone(&temp, &flags).map(drop).expect_err("refused");
        assert_eq!(refusal.reason, reason, "{flags:?}: {refusal}");
        assert!(!refusal.remedy.is_empty(), "{refusal}");
    }
}
