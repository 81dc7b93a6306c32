//! A request and its answer that are under way at once.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::tests::{broker, client};

/// More than the sockets between hold.
const LENGTH: usize = 16 << 20;

/// Answers at the request's first byte, and takes all of it meanwhile.
async fn answer_early(mut stream: TcpStream) {
    let (mut reader, mut writer) = stream.split();
    let _ = reader.read_u8().await;
    let answer = async {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
        let _ = writer.write_all(head.as_bytes()).await;
        let _ = writer.write_all(&vec![b'a'; LENGTH]).await;
    };
    let hear = async {
        let mut taken = 0;
        let mut piece = vec![0; 1 << 16];
        while taken < LENGTH {
            match reader.read(&mut piece).await {
                Ok(count) if count > 0 => taken += count,
                _ => return,
            }
        }
    };
    tokio::join!(answer, hear);
}

/// A client that looks at its answer only when it has sent all it has to say.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_takes_yet_holds_up_no_request() {
    let (mut client, _ends) = client(&broker(answer_early).await);
    let head = format!("POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: {LENGTH}\r\n\r\n");
    client.write_all(head.as_bytes()).await.expect("a head");
    let sent = client.write_all(&vec![b'r'; LENGTH]).await;
    sent.expect("the whole request is taken");
    let mut answer = vec![0; LENGTH];
    client.read_exact(&mut answer).await.expect("its answer");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

/// One piece of an answer, and what isn't one, that come together.
async fn answer_and_break(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]).await;
    let answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nevent\r\nno size\r\n";
    let _ = stream.write_all(answer).await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test(start_paused = true)]
async fn what_came_before_an_answer_broke_is_passed_on() {
    let (mut client, _ends) = client(&broker(answer_and_break).await);
    let request = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n";
    client.write_all(request).await.expect("a request");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.expect("an end");
    let answer = String::from_utf8(answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n5\r\nevent\r\n"), "{answer}");
}
