//! Framing, row by row.

use super::{check, play};

fn with_fields(fields: &str, body: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}").into_bytes()
}

#[test]
fn lengths() {
    let table: &[(&str, &str)] = &[
        (
            "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
            "400c two-framings",
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
            "400c two-framings",
        ),
        (
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            "400c two-framings",
        ),
        (
            "Content-Length: 2\r\nContent-Length: 2\r\n",
            "400c two-framings",
        ),
        (
            "Content-Length: 2\r\ncontent-length: 3\r\n",
            "400c two-framings",
        ),
        (
            "Content-Length: 0\r\nContent-Length: 0\r\n",
            "400c two-framings",
        ),
        ("Content-Length: 2, 2\r\n", "400c bad-length"),
        ("Content-Length: 2,2\r\n", "400c bad-length"),
        ("Content-Length: 2,\r\n", "400c bad-length"),
        ("Content-Length: +2\r\n", "400c bad-length"),
        ("Content-Length: -1\r\n", "400c bad-length"),
        ("Content-Length: 0x2\r\n", "400c bad-length"),
        ("Content-Length: a\r\n", "400c bad-length"),
        ("Content-Length: 2.0\r\n", "400c bad-length"),
        ("Content-Length: 2 2\r\n", "400c bad-length"),
        ("Content-Length: \"2\"\r\n", "400c bad-length"),
        ("Content-Length:\r\n", "400c bad-length"),
        ("Content-Length: \t \r\n", "400c bad-length"),
        (
            "Content-Length: 18446744073709551616\r\n",
            "400c bad-length",
        ),
        (
            "Content-Length: 18446744073709551615\r\n",
            "400c bad-length",
        ),
        ("Content-Length: 9007199254740993\r\n", "400c bad-length"),
        ("Content-Length: 00000000000000002\r\n", "400c bad-length"),
        ("Content-Length: 9007199254740992\r\n", "ok, body…"),
        ("Content-Length: 1\r\n", "ok, body…"),
        ("Content-Length: 0\r\n", "ok"),
        ("Content-Length:\t000 \r\n", "ok"),
        ("", "ok"),
    ];
    for (fields, wanted) in table {
        check(&[(&with_fields(fields, ""), wanted)]);
    }
}

#[test]
fn codings() {
    let table: &[(&str, &str)] = &[
        ("Transfer-Encoding: chunked\r\n", "ok, body…"),
        ("transfer-encoding:CHUNKED\r\n", "ok, body…"),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "400c two-framings",
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "400c two-framings",
        ),
        (
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            "501c unknown-coding",
        ),
        (
            "Transfer-Encoding: chunked, chunked\r\n",
            "501c unknown-coding",
        ),
        (
            "Transfer-Encoding: gzip, chunked\r\n",
            "501c unknown-coding",
        ),
        (
            "Transfer-Encoding: chunked, identity\r\n",
            "501c unknown-coding",
        ),
        ("Transfer-Encoding: chunked;q=1\r\n", "501c unknown-coding"),
        ("Transfer-Encoding: \"chunked\"\r\n", "501c unknown-coding"),
        ("Transfer-Encoding: xchunked\r\n", "501c unknown-coding"),
        ("Transfer-Encoding: chunked,\r\n", "501c unknown-coding"),
        (
            "Transfer-Encoding: chunked\u{85}\r\n",
            "501c unknown-coding",
        ),
        ("Transfer-Encoding: identity\r\n", "501c unknown-coding"),
        ("Transfer-Encoding:\r\n", "400c bad-coding"),
        ("Transfer-Encoding:\r\n chunked\r\n", "400c bad-coding"),
        ("X: y\r\n Transfer-Encoding: chunked\r\n", "400c obs-fold"),
        ("Transfer-Encoding: chunked\r\n ,gzip\r\n", "400c obs-fold"),
        ("Transfer-Encoding: \x0bchunked\r\n", "400c bad-value"),
        ("Transfer-Encoding : chunked\r\n", "400c blank-before-colon"),
    ];
    for (fields, wanted) in table {
        check(&[(&with_fields(fields, ""), wanted)]);
    }
    check(&[(
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "400c bad-coding",
    )]);
}

#[test]
fn chunks() {
    let most = "x".repeat(256);
    let flood = format!("1;{most}\r\nz\r\n");
    let table: &[(&str, &str)] = &[
        ("0\r\n\r\n", "ok"),
        ("000\r\n\r\n", "ok"),
        ("2\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\n", "ok"),
        ("2;x=y\r\nab\r\n0;z\r\n\r\n", "ok"),
        (&format!("{flood}0\r\n\r\n"), "ok"),
        ("0x2\r\nab\r\n0\r\n\r\n", "ok, 400c bad-chunk-size"),
        ("-2\r\nab\r\n", "ok, 400c bad-chunk-size"),
        ("+2\r\nab\r\n", "ok, 400c bad-chunk-size"),
        (" 2\r\nab\r\n", "ok, 400c bad-chunk-size"),
        ("2 \r\nab\r\n", "ok, 400c bad-chunk-size"),
        ("g\r\n", "ok, 400c bad-chunk-size"),
        ("\r\n", "ok, 400c bad-chunk-size"),
        (";x\r\n", "ok, 400c bad-chunk-size"),
        ("10000000000000000\r\n", "ok, 400c bad-chunk-size"),
        ("ffffffffffffffff\r\n", "ok, 400c bad-chunk-size"),
        ("20000000000001\r\n", "ok, 400c bad-chunk-size"),
        ("00000000000000002\r\nab\r\n", "ok, 400c bad-chunk-size"),
        ("20000000000000\r\n", "ok, body…"),
        ("2\nab\r\n", "ok, 400c bare-lf"),
        ("2\r\nab\n0\r\n\r\n", "ok, 400c chunk-overrun"),
        ("2\rab\r\n", "ok, 400c bare-cr"),
        ("2\r\r\nab\r\n", "ok, 400c bare-cr"),
        ("2;x\nab\r\n", "ok, 400c bare-lf"),
        ("2;\r\nab\r\n", "ok, 400c bad-chunk-extension"),
        ("2;x\0\r\nab\r\n", "ok, 400c bad-chunk-extension"),
        (&format!("2;{most}x\r\nab\r\n"), "ok, 400c chunk-extensions"),
        (&flood.repeat(65), "ok, 400c chunk-extensions"),
        (&flood.repeat(64), "ok, body…"),
        ("2\r\nabc\r\n0\r\n\r\n", "ok, 400c chunk-overrun"),
        ("2\r\nab0\r\n\r\n", "ok, 400c chunk-overrun"),
        ("2\r\nab\rc", "ok, 400c bare-cr"),
        ("2\r\na", "ok, body…"),
        ("2\r\nab\r\n", "ok, body…"),
        ("0\r\n", "ok, body…"),
        ("0\r\n\r", "ok, body…"),
        (
            "0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "ok, 400c blank-before-colon",
        ),
        ("0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "ok, ok"),
    ];
    for (body, wanted) in table {
        check(&[(&with_fields("Transfer-Encoding: chunked\r\n", body), wanted)]);
    }
}

#[test]
fn trailers_are_read_strictly_and_dropped() {
    let long = format!("X: {}\r\n\r\n", "y".repeat(8 * 1024 - 7));
    let longer = format!("X: {}\r\n\r\n", "y".repeat(8 * 1024 - 6));
    let many = "a:\r\n".repeat(3000);
    let table: &[(&str, &str)] = &[
        ("X: y\r\nauthorization: z\r\n\r\n", "ok"),
        (
            "Content-Length: 5\r\nTransfer-Encoding: gzip\r\nHost: b\r\n\r\n",
            "ok",
        ),
        (&long, "ok"),
        (&longer, "ok, 431c trailers-too-large"),
        (&many, "ok, 431c trailers-too-large"),
        ("X: y\n\r\n", "ok, 400c bare-lf"),
        ("X : y\r\n\r\n", "ok, 400c blank-before-colon"),
        (" X: y\r\n\r\n", "ok, 400c obs-fold"),
        ("X: y\r\n z\r\n\r\n", "ok, 400c obs-fold"),
        (": y\r\n\r\n", "ok, 400c empty-name"),
        ("X\r\n\r\n", "ok, 400c no-colon"),
        ("X: \0\r\n\r\n", "ok, 400c bad-value"),
        ("X: y\r\n\rz", "ok, 400c bare-cr"),
        ("X: y\r\n", "ok, body…"),
    ];
    for (trailers, wanted) in table {
        let body = format!("3\r\nabc\r\n0\r\n{trailers}");
        let bytes = with_fields("Transfer-Encoding: chunked\r\n", &body);
        check(&[(&bytes, wanted)]);
        assert_eq!(play([&bytes[..]]).bodies, [b"abc"]);
    }
    check(&[
        (
            &with_fields("Trailer: X\r\nContent-Length: 3\r\n", "abc"),
            "ok",
        ),
        (&with_fields("Trailer: X\r\n", ""), "ok"),
    ]);
}

#[test]
fn a_body_is_what_its_framing_says() {
    let bodies = |fields: &str, body: &str| play([&with_fields(fields, body)[..]]).bodies;
    assert_eq!(bodies("Content-Length: 3\r\n", "abc"), [b"abc"]);
    assert_eq!(bodies("Content-Length: 5\r\n", "abc"), [b"abc"]);
    assert_eq!(bodies("", ""), [b""]);
    let chunked = "1\r\na\r\n00b;x\r\n0\r\n\r\nhello!\r\n0\r\nX: y\r\n\r\n";
    let coding = "Transfer-Encoding: chunked\r\n";
    assert_eq!(bodies(coding, chunked), [b"a0\r\n\r\nhello!"]);
}
