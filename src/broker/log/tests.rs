use std::fs::File;
use std::io::{Read as _, Write as _};

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use serde_json::{Value, json};

use super::*;

fn pipe() -> (Log, File) {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).expect("pipe2");
    (Log::to(writer), File::from(reader))
}

/// Every line that was written so far; each is JSON in ASCII.
fn lines(reader: &mut File) -> Vec<Value> {
    let mut bytes = Vec::new();
    // The writer is open: it ends with EAGAIN.
    let _ = reader.read_to_end(&mut bytes);
    assert!(
        bytes
            .iter()
            .all(|byte| (b' '..=b'~').contains(byte) || *byte == b'\n')
    );
    let text = String::from_utf8(bytes).expect("ASCII");
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_line_says_everything_once() {
    let (log, mut reader) = pipe();
    let mut entry = log.entry(Peer::Unix);
    entry.request("POST", b"/v1/messages?key=secret");
    entry.received(100);
    entry.received(20);
    entry.status(200);
    assert!(entry.is_kept());
    entry.sent(30);
    let first = entry.0.as_ref().expect("open").line.first_byte_ms;
    entry.sent(3);
    entry.reported(Reported {
        model: Some("m".into()),
        input_tokens: Some(1),
        output_tokens: Some(2),
        cache_read_tokens: Some(3),
        cache_creation_tokens: Some(4),
    });
    entry.reason("client-gone");
    entry.reason("second");
    assert_eq!(
        lines(&mut reader),
        Vec::<Value>::new(),
        "not before its end"
    );
    drop(entry);

    let mut all = lines(&mut reader);
    assert_eq!(all.len(), 1);
    let line = all[0].as_object_mut().expect("object");
    let time = line.remove("time").expect("time");
    assert_eq!(
        time.as_str().map(str::len),
        Some("2024-02-29T12:00:00.000Z".len())
    );
    let total = line.remove("total_ms").and_then(|total| total.as_f64());
    assert!(total >= first);
    assert_eq!(line.remove("first_byte_ms"), Some(json!(first)));
    let expected = json!({
        "method": "POST", "path": "/v1/messages", "status": 200, "bytes_in": 120,
        "bytes_out": 33, "model": "m", "input_tokens": 1, "output_tokens": 2,
        "cache_read_tokens": 3, "cache_creation_tokens": 4, "reason": "client-gone",
        "peer": "unix",
    });
    assert_eq!(all[0], expected);
}

#[test]
fn what_is_not_known_is_left_out() {
    let (log, mut reader) = pipe();
    drop(log.clone().entry(Peer::Tcp));
    let line = lines(&mut reader).remove(0);
    let names: Vec<_> = line.as_object().expect("object").keys().cloned().collect();
    assert_eq!(names, ["bytes_in", "bytes_out", "peer", "time", "total_ms"]);
    assert_eq!(line["peer"], "tcp");
}

#[test]
fn a_request_that_is_aborted_has_its_line_too() {
    let (log, mut reader) = pipe();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("runtime");
    let mut entry = log.entry(Peer::Tcp);
    let task = runtime.spawn(async move {
        entry.request("GET", b"/v1/models");
        std::future::pending::<()>().await;
        drop(entry);
    });
    runtime.block_on(tokio::task::yield_now());
    task.abort();
    runtime.block_on(task).expect_err("aborted");
    let all = lines(&mut reader);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["path"], "/v1/models");
}

#[test]
fn without_a_log_nothing_is_kept() {
    let mut entry = Log::default().entry(Peer::Tcp);
    entry.request("GET", b"/");
    entry.sent(1);
    assert!(!entry.is_kept());
}

#[test]
fn paths_are_cut_and_escaped() {
    let (log, mut reader) = pipe();
    let quotes = format!("/{}", "\"".repeat(600));
    let cut = &quotes[..MAX_PATH];
    for (target, expected) in [
        (&b"/a\"b\\c\n\x1b[31m\x7f"[..], "/a\"b\\c\n\u{1b}[31m\u{7f}"),
        (b"/a#b?c", "/a"),
        (
            "/\u{9b}\u{202e}\u{1f600}".as_bytes(),
            "/\u{9b}\u{202e}\u{1f600}",
        ),
        (b"/\xff", "/\u{fffd}"),
        (quotes.as_bytes(), cut),
    ] {
        log.entry(Peer::Tcp).request("GET", target);
        assert_eq!(lines(&mut reader)[0]["path"], expected);
    }
    // A user and a password are nobody's to read.
    log.entry(Peer::Tcp)
        .request("GET", b"http://user:word@h/v1/x");
    assert!(lines(&mut reader)[0].get("path").is_none());
}

#[test]
fn the_longest_line_fits_a_pipe_at_once() {
    let (log, mut reader) = pipe();
    let mut entry = log.entry(Peer::Unix);
    entry.request("OPTIONS", format!("/{}", "\"".repeat(8191)).as_bytes());
    entry.reported(Reported {
        model: Some("\u{1f600}".repeat(128)),
        input_tokens: Some(u64::MAX),
        output_tokens: Some(u64::MAX),
        cache_read_tokens: Some(u64::MAX),
        cache_creation_tokens: Some(u64::MAX),
    });
    drop(entry);
    let mut bytes = Vec::new();
    let _ = reader.read_to_end(&mut bytes);
    assert!((2000..=4096).contains(&bytes.len()), "{}", bytes.len());
}

#[test]
fn a_pipe_that_nobody_reads_loses_lines_and_delays_nobody() {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).expect("pipe2");
    let mut fill = File::from(writer.try_clone().expect("dup"));
    let mut before = Vec::new();
    while say::has_room(&writer) {
        fill.write_all(&[b'x'; 4096]).expect("write");
        before.resize(before.len() + 4096, 0);
    }
    let log = Log::to(writer);
    for _ in 0..3 {
        drop(log.entry(Peer::Tcp)); // would wait for ever
    }
    let mut reader = File::from(reader);
    reader.read_exact(&mut before).expect("read");
    drop((log.entry(Peer::Tcp), fill));
    // It is said once.
    drop(log.entry(Peer::Tcp));
    drop(log);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).expect("read");
    let all: Vec<Value> = rest
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0]["lines_lost_before"], 3);
    assert_eq!(all[1].get("lines_lost_before"), None);
}

#[test]
fn a_files_last_lines_are_written_though_the_runtime_has_ended() {
    let path = nix::unistd::mkdtemp(&std::env::temp_dir().join("groom-log-XXXXXX"));
    let folder = path.expect("a folder");
    let file = folder.join("log");
    let log = Log::to(File::create(&file).expect("a file").into());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("runtime");
    let own = log.clone();
    runtime.block_on(async move { drop(own.entry(Peer::Tcp)) });
    let written = || {
        std::fs::read_to_string(&file)
            .expect("a log")
            .lines()
            .count()
    };
    assert_eq!(written(), 0, "vacuous: it was written at once");
    drop((runtime, log));
    assert_eq!(written(), 1);
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn a_log_that_fails_is_no_panic() {
    let (log, reader) = pipe();
    drop(reader);
    drop(log.entry(Peer::Tcp)); // EPIPE
    let log = Log::to(
        File::options()
            .write(true)
            .open("/dev/full")
            .expect("open")
            .into(),
    );
    drop(log.entry(Peer::Tcp)); // ENOSPC
    let sink = log.sink.expect("sink");
    assert_eq!(sink.lock().expect("lock").lost, 1);
}

#[test]
fn a_line_that_was_cut_stays_one_of_its_own() {
    let (log, mut reader) = pipe();
    let sink = log.sink.as_ref().expect("sink");
    {
        let mut sink = sink.lock().expect("lock");
        sink.last = b'x';
        sink.lost = 2;
    }
    drop(log.entry(Peer::Tcp));
    drop(log.entry(Peer::Tcp));
    let mut text = String::new();
    let _ = reader.read_to_string(&mut text);
    let text = text.strip_prefix('\n').expect("the cut line's end");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["lines_lost_before"], 2);
    assert!(lines[1].get("lines_lost_before").is_none());
}
