//! Where the key is read from.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;

use super::key::{Key, MIN, no_page};
use crate::refusal::{Reason, Refusal, shown};
use crate::sys::process;
use crate::sys::secret::{CAPACITY, SecretPage, take_from_environ, wipe_from_environ};

/// A source of the key. What it holds is open, and judged, already; it owns its
/// descriptor.
#[derive(Debug)]
pub enum KeySource {
    /// The first line of standard input.
    Stdin,
    /// All of a file, and its path for messages.
    File(OwnedFd, PathBuf),
    /// The first line of an inherited descriptor, and its number for messages.
    Fd(OwnedFd, i32),
    /// The value of a variable, which is gone from the environment, and its name.
    Env(SecretPage, String),
}

impl KeySource {
    /// Takes the key out of the environment (see [`take_from_environ`], which says
    /// when): before a fork, as nothing else wipes it there.
    ///
    /// # Errors
    /// `Reason::Key`: the variable isn't set, or there is no page to keep it in.
    pub fn take_env(name: &str) -> Result<KeySource, Refusal> {
        match take_from_environ(name).map_err(no_page)? {
            Some(page) => {
                // It may stand there a second time, under a name that is nobody's.
                let value = page.bytes().trim_ascii();
                if value.len() >= MIN {
                    wipe_from_environ(value);
                }
                Ok(KeySource::Env(page, name.to_owned()))
            }
            None => Err(Refusal::new(Reason::Key, "read the key")
                .about(format!("--key-env {}", shown(Path::new(name))))
                .remedy("set the variable, or name another source")),
        }
    }

    /// Reads the key, up to the newline or the end and no further: what follows on
    /// standard input is the command's. Waits for a pipe; where there is an event loop,
    /// it feeds a [`LineReader`] instead.
    ///
    /// # Errors
    /// `Reason::Key`, with the source as its subject and nothing of the key in it.
    pub fn read(self) -> Result<Key, Refusal> {
        let subject = self.flag();
        let read_failed = |errno| unreadable(&subject, errno);
        let page = match self {
            KeySource::Env(page, _) => page,
            KeySource::File(fd, _) => {
                let mut page = SecretPage::new().map_err(no_page)?;
                while read_into(&mut page, fd.as_fd()).map_err(read_failed)? {}
                page
            }
            KeySource::Fd(fd, _) => first_line(fd.as_fd(), read_failed)?,
            KeySource::Stdin => first_line(process::stdin(), read_failed)?,
        };
        Key::judge(page).map_err(|refusal| refusal.about(subject))
    }

    /// The flag that named it.
    fn flag(&self) -> String {
        match self {
            KeySource::Stdin => STDIN_FLAG.to_owned(),
            KeySource::File(_, path) => format!("--key-file {}", shown(path)),
            KeySource::Fd(_, number) => format!("--key-fd {number}"),
            KeySource::Env(_, name) => format!("--key-env {}", shown(Path::new(name))),
        }
    }
}

const STDIN_FLAG: &str = "--key-stdin";

/// The refusal of a key whose source, that this flag named, can't be read.
pub(crate) fn unreadable(flag: &str, errno: Errno) -> Refusal {
    Refusal::new(Reason::Key, "read the key")
        .about(flag)
        .errno(errno)
        .remedy("name a source that can be read")
}

/// Collects the first line of standard input byte by byte, in memory for a secret.
pub struct LineReader(SecretPage);

impl LineReader {
    /// # Errors
    /// `Reason::Key`: there is no page to keep it in.
    pub fn new() -> Result<LineReader, Refusal> {
        SecretPage::new().map(LineReader).map_err(no_page)
    }

    /// Takes one byte; says whether it was the last to read: a newline, or one too many
    /// for any key.
    pub fn push(&mut self, byte: u8) -> bool {
        if byte == b'\n' {
            return true;
        }
        self.0.fill(|free| match free.first_mut() {
            Some(first) => {
                *first = byte;
                1
            }
            None => 0,
        });
        self.0.bytes().len() == CAPACITY
    }

    /// The line was read, or the input ended.
    ///
    /// # Errors
    /// `Reason::Key`, as for [`KeySource::read`].
    pub fn finish(self) -> Result<Key, Refusal> {
        Key::judge(self.0).map_err(|refusal| refusal.about(STDIN_FLAG))
    }
}

fn first_line(
    fd: BorrowedFd<'_>,
    read_failed: impl Fn(Errno) -> Refusal,
) -> Result<SecretPage, Refusal> {
    let mut line = LineReader::new()?;
    let mut byte = [0];
    while read(fd, &mut byte).map_err(&read_failed)? > 0 {
        if line.push(byte[0]) {
            break;
        }
    }
    Ok(line.0)
}

/// Whether there may be more.
fn read_into(page: &mut SecretPage, fd: BorrowedFd<'_>) -> nix::Result<bool> {
    let mut got = Ok(0);
    // A page that is full reads nothing more, which ends it.
    page.fill(|free| {
        got = read(fd, free);
        got.unwrap_or(0)
    });
    got.map(|count| count > 0)
}

/// read(2), also of a descriptor that someone made non-blocking.
fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<usize> {
    loop {
        match unistd::read(fd, buffer) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut wait = [PollFd::new(fd, PollFlags::POLLIN)];
                match poll(&mut wait, PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::time::Duration;

    use nix::fcntl::{OFlag, open};
    use nix::sys::stat::Mode;
    use nix::unistd::pipe2;

    use super::*;
    use crate::broker::key::tests::page;

    /// A pipe with `bytes` in it; its writer stays open.
    fn filled(bytes: &[u8], flags: OFlag) -> (OwnedFd, File) {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | flags).expect("pipe2");
        let mut writer = File::from(writer);
        writer.write_all(bytes).expect("write");
        (reader, writer)
    }

    #[test]
    fn the_first_line_of_a_descriptor_is_read_and_not_a_byte_more() {
        for rest in [&b""[..], b"\n", b"the command's own\n"] {
            let (reader, mut writer) = filled(b"  sk-12345\r\n", OFlag::empty());
            writer.write_all(rest).expect("write");
            let left = reader.try_clone().expect("dup");
            let key = KeySource::Fd(reader, 7).read().expect("key");
            assert_eq!(key.expose(), b"sk-12345");
            drop(writer);
            let mut buffer = [0; 64];
            let count = unistd::read(&left, &mut buffer).expect("read");
            assert_eq!(&buffer[..count], rest);
        }
    }

    #[test]
    fn a_line_without_a_newline_ends_with_its_input() {
        let (reader, writer) = filled(b"sk-12345", OFlag::empty());
        drop(writer);
        let key = KeySource::Fd(reader, 7).read().expect("key");
        assert_eq!(key.expose(), b"sk-12345");
    }

    #[test]
    fn a_non_blocking_pipe_is_waited_for() {
        let (reader, mut writer) = filled(b"sk-", OFlag::O_NONBLOCK);
        let late = std::thread::spawn(move || {
            // Most likely after the first read; the answer is the same if it isn't.
            std::thread::sleep(Duration::from_millis(20));
            writer.write_all(b"12345\n").expect("write");
        });
        let key = KeySource::Fd(reader, 7).read().expect("key");
        assert_eq!(key.expose(), b"sk-12345");
        late.join().expect("writer");
    }

    #[test]
    fn all_of_a_file_is_the_key() {
        for (content, expected) in [
            (&b"\n sk-12345\n\n"[..], Ok(&b"sk-12345"[..])),
            (b"sk-12345\nsk-67890\n", Err("no header")),
            (b"", Err("empty")),
            (&[b'x'; 5000], Err("longer")),
        ] {
            let (reader, writer) = filled(content, OFlag::empty());
            drop(writer);
            let key = KeySource::File(reader, PathBuf::from("/k")).read();
            match (key, expected) {
                (Ok(key), Ok(expected)) => assert_eq!(key.expose(), expected),
                (Err(refusal), Err(expected)) => {
                    assert_eq!(refusal.subject, "--key-file /k");
                    assert!(refusal.remedy.contains(expected), "{refusal}");
                }
                (key, expected) => panic!("{key:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_source_that_fails_is_named() {
        let folder = || open("/", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
        let folder = || folder().expect("open");
        let path = PathBuf::from("/a\nb");
        for (source, subject, errno) in [
            (
                KeySource::File(folder(), path),
                "--key-file /a\\nb",
                Some("EISDIR"),
            ),
            (KeySource::Fd(folder(), 7), "--key-fd 7", Some("EISDIR")),
            (KeySource::Env(page(b""), "K".into()), "--key-env K", None),
        ] {
            let refusal = source.read().expect_err("no key");
            assert_eq!(refusal.reason, Reason::Key);
            assert_eq!(refusal.subject, subject);
            assert_eq!(refusal.errno.as_deref(), errno);
        }
        let refusal = KeySource::take_env("GROOM_NS_NOT_SET").expect_err("not set");
        assert_eq!(refusal.subject, "--key-env GROOM_NS_NOT_SET");
    }

    #[test]
    fn a_line_is_collected_byte_by_byte() {
        for (input, taken, expected) in [
            (&b"sk-12345\nmore"[..], 9, Some(&b"sk-12345"[..])),
            (b" sk-12345 ", 10, Some(b"sk-12345")),
            (b"\nsk-12345", 1, None),
            (&[b'x'; 5000], CAPACITY, None),
        ] {
            let mut line = LineReader::new().expect("page");
            let last = input.iter().position(|byte| line.push(*byte));
            assert_eq!(last.map_or(input.len(), |last| last + 1), taken);
            let key = line.finish();
            assert_eq!(key.as_ref().ok().map(Key::expose), expected);
        }
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        let source = KeySource::Env(page(b"sk-12345"), "K".into());
        assert_eq!(format!("{source:?}"), "Env(SecretPage(…), \"K\")");
    }
}
