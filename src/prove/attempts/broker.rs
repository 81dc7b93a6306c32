//! Promise 1, the key, and the broker that stands in for it. On both sides the address
//! of a door and what to present there are where clients of the API look for them, in
//! the environment. Outside the door adds the key to whatever comes, and what is
//! presented is the key; inside they are groom-ns's, and the run's token.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek as _, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use memchr::memchr_iter;
use nix::errno::Errno;

use super::processes::{find_in_processes, status_field};
use crate::broker::token::Token;
use crate::prove::facts::Facts;
use crate::prove::proof::{Denial, OUT_OF_SIGHT, Outcome};
use crate::prove::upstream::{SEEN, UNSEEN, message_length};

/// Where the door is.
pub(in crate::prove) const URL: &str = "ANTHROPIC_BASE_URL";
/// What is presented there.
pub(in crate::prove) const CREDENTIAL: &str = "ANTHROPIC_API_KEY";
/// Where another door is, outside: one that has few places.
pub(in crate::prove) const SMALL_URL: &str = "GROOM_NS_PROVE_SMALL_URL";

/// More than the small door serves, and fewer than any broker.
const CROWD: usize = 80;
/// Of a file that may hold a key, and of how many.
const MAX_FILE: u64 = 1024 * 1024;
const MAX_FILES: usize = 5000;

struct Door {
    address: SocketAddr,
    credential: String,
}

impl Door {
    fn by(variable: &str) -> Result<Door, Denial> {
        let value = |name| std::env::var(name).map_err(|_| Denial::says(format!("no {name}")));
        let url = value(variable)?;
        let address = url.strip_prefix("http://").and_then(|at| at.parse().ok());
        Ok(Door {
            address: address.ok_or_else(|| Denial::says(url.clone()))?,
            credential: value(CREDENTIAL)?,
        })
    }

    fn ask(&self, request: &str) -> Result<Answer, Denial> {
        Ok(exchange(TcpStream::connect(self.address)?, request))
    }

    /// A plain request of the API, as its clients make them.
    fn plain(&self, model: &str) -> String {
        let credential = &self.credential;
        format!("GET /v1/models/{model} HTTP/1.1\r\nhost: api\r\nx-api-key: {credential}\r\n\r\n")
    }

    /// Whether the API has had `mark` in a request. That it can be asked shows that the
    /// door stands, and adds the key to what may go.
    fn has_passed(&self, mark: &str) -> Result<bool, Denial> {
        let answer = self.ask(&self.plain(&format!("seen-{mark}")))?;
        match answer.body() {
            SEEN => Ok(true),
            UNSEEN => Ok(false),
            _ => Err(Denial::says(format!("then {}", answer.status()))),
        }
    }

    /// `Ok` if the API has had `mark`, or else what was answered.
    fn passed(&self, mark: &str, answer: &Answer) -> Outcome {
        if self.has_passed(mark)? {
            return Ok(());
        }
        Err(Denial::says(match answer.status() {
            // It was served, but without what was marked.
            "200" => "dropped",
            status => status,
        }))
    }
}

/// What came of a request.
struct Answer {
    bytes: Vec<u8>,
    broken: Option<std::io::Error>,
}

impl Answer {
    fn status(&self) -> &str {
        let status = self.bytes.get(9..12).and_then(|it| str::from_utf8(it).ok());
        status.unwrap_or("hung up")
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.bytes).unwrap_or_default()
    }

    fn body(&self) -> &str {
        self.text().split_once("\r\n\r\n").unwrap_or_default().1
    }

    /// `Ok` if it was served.
    fn is_served(&self) -> Outcome {
        match self.status() {
            "200" => Ok(()),
            status => Err(Denial::says(status)),
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> Answer {
    // What is refused early is perhaps not read to its end; the answer tells.
    let _ = stream.write_all(request.as_bytes());
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let broken = loop {
        if message_length(&bytes).is_some() {
            break None;
        }
        match stream.read(&mut piece) {
            Ok(0) => break None,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) => break Some(error),
        }
    };
    Answer { bytes, broken }
}

fn new_mark() -> Result<String, Denial> {
    Ok(Token::make("mark-")?.expose().to_owned())
}

/// Sends a request of a first line, fields and a body, in which `MARK` stands for what
/// the API must not get, `TOKEN` for what is presented, `LENGTH` for the body's length.
pub(in crate::prove) fn pass(line: &str, fields: &str, body: &str) -> Outcome {
    send(line, &format!("x-api-key: TOKEN\r\n{fields}"), body)
}

/// The same without anything that is presented.
pub(in crate::prove) fn send(line: &str, fields: &str, body: &str) -> Outcome {
    let (door, mark) = (Door::by(URL)?, new_mark()?);
    let filled = |text: &str| {
        text.replace("MARK", &mark)
            .replace("TOKEN", &door.credential)
    };
    let body = filled(body);
    let head = filled(&format!("{line} HTTP/1.1\r\nhost: api\r\n{fields}\r\n"));
    let head = head.replace("LENGTH", &body.len().to_string());
    let answer = door.ask(&(head + &body))?;
    door.passed(&mark, &answer)
}

/// What is presented to the door, wherever it's taken from.
pub(in crate::prove) fn pass_the_credential(_: &Facts) -> Outcome {
    let door = Door::by(URL)?;
    let token = &door.credential;
    let answer = door.ask(&format!(
        "GET /v1/models/one?key={token} HTTP/1.1\r\nhost: api\r\nx-api-key: {token}\r\n\
         authorization: Bearer {token}\r\nx-goog-api-key: {token}\r\n\r\n"
    ))?;
    door.passed(token, &answer)
}

/// As a client that goes wherever it's sent; the door must not be one.
pub(in crate::prove) fn follow_a_redirect(_: &Facts) -> Outcome {
    let (door, mark) = (Door::by(URL)?, new_mark()?);
    let answer = door.ask(&door.plain(&format!("redirect-{mark}")))?;
    let location = answer.text().split_once("location: http://");
    let rest = location.and_then(|(_, rest)| rest.split_once('/'));
    let Some(Ok(address)) = rest.map(|(address, _)| address.parse()) else {
        return Err(Denial::says(answer.status()));
    };
    let elsewhere = format!("elsewhere-{mark}");
    let there = TcpStream::connect::<SocketAddr>(address)
        .map(|stream| exchange(stream, &door.plain(&elsewhere)));
    if door.has_passed(&elsewhere)? {
        return Ok(());
    }
    Err(Denial::says(there?.status()))
}

/// To the API itself, past any door.
pub(in crate::prove) fn ask_the_api(facts: &Facts) -> Outcome {
    let api = SocketAddr::from((Ipv4Addr::LOCALHOST, facts.api));
    let request = Door::by(URL)?.plain("one");
    exchange(TcpStream::connect(api)?, &request).is_served()
}

/// At the port where clients of the door find it.
pub(in crate::prove) fn ask_at_the_port(_: &Facts) -> Outcome {
    let door = Door::by(URL)?;
    door.ask(&door.plain("one"))?.is_served()
}

/// At the door's socket, which a process that belongs to it shows in its root.
pub(in crate::prove) fn ask_at_the_socket(facts: &Facts) -> Outcome {
    let request = Door::by(URL)?.plain("one");
    let socket = facts.door.strip_prefix("/").unwrap_or(&facts.door);
    for pid in descendants(facts.holder)? {
        let shown = PathBuf::from(format!("/proc/{pid}/root")).join(socket);
        if let Ok(stream) = UnixStream::connect(shown) {
            return exchange(stream, &request).is_served();
        }
    }
    Err(Denial::says(OUT_OF_SIGHT))
}

/// Takes up every place, with clients that never come to an end.
pub(in crate::prove) fn crowd_the_door(_: &Facts) -> Outcome {
    let door = Door::by(SMALL_URL).or_else(|_| Door::by(URL))?;
    let head = "POST /v1/messages HTTP/1.1\r\nhost: api\r\nx-api-key: ";
    let (endless, token) = ("a".repeat(100 * 1024), &door.credential);
    let unfinished = [
        String::new(),
        head.to_owned(),
        format!("{head}{token}\r\ncontent-length: 9\r\n\r\n{{"),
        format!(
            "{head}{token}\r\ntransfer-encoding: chunked\r\ntrailer: x-end\r\n\r\n1\r\n{{\r\n0\r\nx-"
        ),
        format!("{head}{endless}"),
    ];
    let mut clients = Vec::new();
    for text in unfinished.iter().cycle().take(CROWD) {
        let mut client = TcpStream::connect(door.address)?;
        // One that is hung up on, or answered early, is written to in vain.
        let _ = client.write_all(text.as_bytes());
        clients.push(client);
    }
    match door.has_passed(&new_mark()?) {
        Ok(_) => Err(Denial::says("answers")),
        Err(_) => Ok(()),
    }
}

/// From an API that says it.
pub(in crate::prove) fn hear_the_key(facts: &Facts, model: &str) -> Outcome {
    let door = Door::by(URL)?;
    let answer = door.ask(&door.plain(model))?;
    if holds_the_key(facts, &answer.bytes) {
        return Ok(());
    }
    let said = Denial::says(answer.status());
    Err(answer.broken.map_or(said, Denial::from))
}

/// Without a copy of the key in this process.
fn holds_the_key(facts: &Facts, bytes: &[u8]) -> bool {
    let masked = &facts.masked_key;
    let first = masked.first().map_or(0, |byte| !byte);
    memchr_iter(first, bytes).any(|at| {
        let found = bytes.get(at..at + masked.len());
        found.is_some_and(|found| found.iter().zip(masked).all(|(one, other)| *one == !other))
    })
}

pub(in crate::prove) fn key_in_processes(facts: &Facts) -> Outcome {
    find_in_processes(|text| holds_the_key(facts, text))
}

/// Of itself, its parent and pid 1.
pub(in crate::prove) fn key_in_memory(facts: &Facts) -> Outcome {
    let own = std::process::id().cast_signed();
    find_in_memory(facts, [own, nix::unistd::getppid().as_raw(), 1])
}

/// Of all that the holder has started: inside, pid 1 and the command.
pub(in crate::prove) fn key_in_the_jails_memory(facts: &Facts) -> Outcome {
    find_in_memory(facts, descendants(facts.holder)?)
}

fn find_in_memory(facts: &Facts, pids: impl IntoIterator<Item = i32>) -> Outcome {
    let mut is_read = false;
    for pid in pids {
        let text = memory(pid).unwrap_or_default();
        if holds_the_key(facts, &text) {
            return Ok(());
        }
        is_read |= !text.is_empty();
    }
    Err(Denial::says(if is_read { "absent" } else { OUT_OF_SIGHT }))
}

/// What a process can write and read of its own memory (proc_pid_maps(5)).
fn memory(pid: i32) -> std::io::Result<Vec<u8>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let mut memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut text = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let range = line.split(['-', ' ']).take(2);
        let range: Vec<u64> = range.flat_map(|at| u64::from_str_radix(at, 16)).collect();
        if let [start, end] = range[..] {
            memory.seek(SeekFrom::Start(start))?;
            // What can't be read to its end (a hole) is read as far as it goes.
            let _ = (&mut memory).take(end - start).read_to_end(&mut text);
        }
    }
    Ok(text)
}

/// By a fork, a core file or swap space, unless the holder's kernel keeps a page of it
/// out of each (proc_pid_smaps(5), VmFlags: locked, not dumped, wiped on fork).
pub(in crate::prove) fn copy_the_key(facts: &Facts) -> Outcome {
    let mappings = match fs::read_to_string(format!("/proc/{}/smaps", facts.holder)) {
        // Of a kernel without page monitoring, or of a process that doesn't show.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Denial::says(OUT_OF_SIGHT));
        }
        mappings => mappings?,
    };
    let mut flags = mappings
        .lines()
        .filter_map(|line| line.strip_prefix("VmFlags:"));
    let has_all = |flags: &str| ["lo", "dd", "wf"].iter().all(|one| flags.contains(one));
    if flags.any(has_all) {
        return Err(Denial::says("kept out"));
    }
    Ok(())
}

/// In the files beside the clone and where programs leave some, and in open ones.
pub(in crate::prove) fn key_in_files(facts: &Facts) -> Outcome {
    let mut paths: Vec<PathBuf> = ["/proc/self/fd", "/tmp", "/run"].map(PathBuf::from).into();
    paths.push(facts.ground.clone());
    let mut read = 0;
    while let Some(path) = paths.pop().filter(|_| read < MAX_FILES) {
        read += 1;
        // Links are followed to files, and never to folders.
        if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            paths.extend(entries.map(|entry| entry.path()));
        }
        let fits = |found: &fs::Metadata| found.is_file() && found.len() <= MAX_FILE;
        if path.metadata().is_ok_and(|found| fits(&found))
            && holds_the_key(facts, &fs::read(&path).unwrap_or_default())
        {
            return Ok(());
        }
    }
    Err(Denial::says("absent"))
}

/// Its environment, memory and descriptors: `Ok` if any can be had.
pub(in crate::prove) fn read_the_holder(facts: &Facts) -> Outcome {
    let of = |file: &str| format!("/proc/{}/{file}", facts.holder);
    let tried = [
        fs::read(of("environ")).map(drop),
        File::open(of("mem")).map(drop),
        fs::read_dir(of("fd")).map(drop),
    ];
    let mut denied = Err(Denial::Errno(Errno::ENODATA));
    for one in tried {
        denied = Err(Denial::from(match one {
            Ok(()) => return Ok(()),
            Err(error) => error,
        }));
    }
    denied
}

/// The processes below one, the nearest first.
fn descendants(of: i32) -> Result<Vec<i32>, Denial> {
    let names = fs::read_dir("/proc")?.flatten();
    let numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: Vec<(i32, i32)> = numbers
        .filter_map(|pid| Some((pid, status_field(pid, "PPid").ok()?.parse().ok()?)))
        .collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        next += 1;
        let below = parents.iter().filter(|(_, parent)| *parent == above);
        found.extend(below.map(|(pid, _)| *pid));
    }
    Ok(found.split_off(1))
}
