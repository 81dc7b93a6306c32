//! The tree: most of it stands from the beginning, some of it is bent by each input.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::stat::Mode;

use crate::{bytes, path};

const FOLDERS: &[&str] = &[
    "c/.git/hooks",
    "c/.git/info",
    "c/.git/objects/info",
    "c/.git/objects/pack",
    "c/.git/refs/heads",
    "c/.git/modules/sub/objects",
    "c/.git/modules/sub/refs",
    "c/bare/objects",
    "c/bare/refs",
    "c/nest/repo/.GIT/objects",
    "c/nest/repo/.GIT/refs",
    "c/src/deep/er",
    "c/sub",
    "c/x/.gIT/hooks",
    "d/odd\n\u{1b}[31m",
    "d/\u{202e}e\u{301}",
    "d/sp ace",
    "d/C",
    "d/repo/.git/objects",
    "d/repo/.git/refs",
    "d/repo/.git/hooks",
    "d/repo/.git/worktrees/w",
    "h/u/src",
    "o/in",
    "w",
];

const FILES: &[&str] = &[
    "c/.git/HEAD",
    "c/.git/config",
    "c/.git/hooks/post-checkout",
    "c/.git/modules/sub/HEAD",
    "c/.git/objects/pack/p.pack",
    "c/nest/repo/.GIT/HEAD",
    "c/src/f",
    "d/f",
    "d/key",
    "d/repo/.git/HEAD",
    "d/repo/.git/worktrees/w/HEAD",
    "h/u/.netrc",
    "w/.git",
];

/// What an input bends, a byte each.
const BENT: [(Kind, &str); 21] = [
    (Kind::Link, "l"),
    (Kind::Link, "d/l"),
    (Kind::Link, "o/l"),
    (Kind::Link, "c/l"),
    (Kind::Link, "c/src/l"),
    (Kind::Link, "c/.git/hooks/l"),
    (Kind::Link, "c/.git/info/l"),
    (Kind::Link, "c/nest/l"),
    (Kind::Text("gitdir: "), "c/sub/.git"),
    (Kind::Text(""), "c/.git/commondir"),
    (Kind::Text(""), "c/.git/objects/info/alternates"),
    (Kind::Text(""), "c/nest/repo/.GIT/commondir"),
    (Kind::Text(""), "c/bare/HEAD"),
    (Kind::Name, "c/.git/name"),
    (Kind::Name, "c/x/name"),
    (Kind::Name, "d/name"),
    (Kind::Program, "o/in/program"),
    (Kind::Text("gitdir: "), "w/.git"),
    (Kind::Text(""), "d/repo/.git/worktrees/w/gitdir"),
    (Kind::Text(""), "d/repo/.git/worktrees/w/commondir"),
    (Kind::Link, "d/repo/.git/hooks/l"),
];

/// How many bytes of an input are the tree's.
pub const SLOTS: usize = BENT.len();

#[derive(Clone, Copy)]
enum Kind {
    /// A symbolic link with a text.
    Link,
    /// A file with this, a text and a line end.
    Text(&'static str),
    /// One more name (a hard link) of a file.
    Name,
    /// A set-user-id program.
    Program,
}

/// Texts beside the words of the input; the first is for nothing at all.
const TEXTS: &[&str] = &[
    "",
    ".",
    "..",
    "/",
    "../..",
    "../c",
    "../o",
    "../d",
    "c",
    "d",
    "o",
    "o/in",
    "f",
    "d/f",
    "l",
    "d/l",
    "o/l",
    "c/l",
    "../l",
    "../../l",
    "../d/l",
    "src/l",
    "../src",
    "src",
    ".git",
    "../.git",
    "../.git/modules/sub",
    "../../.git/objects",
    "@/c",
    "@/c/l",
    "@/c/src",
    "@/c/src/f",
    "@/c/.git",
    "@/c/.git/modules/sub",
    "@/c/.git/config",
    "@/c/.git/hooks/post-checkout",
    "@/c/nest/repo/.GIT",
    "@/d",
    "@/d/f",
    "@/d/key",
    "@/d/repo/.git/objects",
    "@/d/C",
    "@/h/u",
    "@/h/u/src",
    "@/o",
    "@/o/in",
    "@/o/in/new",
    "@/o/l",
    "@/l",
    "@/s",
    "@/none",
    "/dev/null",
    "/etc/passwd",
    "/usr",
    "/proc/self/cwd",
    "@/d/repo/.git/worktrees/w",
    "../d/repo/.git/worktrees/w",
    "@/w/.git",
    "../../../../../w/.git",
    "@/d/repo/.git",
];

/// The tree, and what watches it.
pub struct Tree {
    pub base: PathBuf,
    watch: Inotify,
    /// What each slot says by now.
    bent: Mutex<Vec<Vec<u8>>>,
}

impl Tree {
    /// In `TMPDIR`. The process's environment and current folder become its own.
    pub fn new() -> Tree {
        let template = std::env::temp_dir().join("groom-ns-policy-XXXXXX");
        let base = nix::unistd::mkdtemp(&template)
            .unwrap()
            .canonicalize()
            .unwrap();
        for folder in FOLDERS {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        for file in FILES {
            fs::write(base.join(file), "sk-0123456789\n").unwrap();
        }
        fs::create_dir(base.join(path(b"d/\xff\xfe"))).unwrap();
        nix::unistd::mkfifo(&base.join("d/p"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        // Longer than any walk may be, and a loop.
        for at in 0..45 {
            symlink(format!("k{}", at + 1), base.join(format!("d/k{at}"))).unwrap();
        }
        fs::write(base.join("d/k45"), "").unwrap();
        symlink("loop", base.join("d/loop")).unwrap();
        // Of another owner, where that can be had.
        fs::create_dir(base.join("d/foreign")).unwrap();
        fs::write(base.join("d/foreign/f"), "").unwrap();
        let _ = std::os::unix::fs::chown(base.join("d/foreign/f"), Some(4242), None);
        drop(UnixListener::bind(base.join("d/dead")).unwrap());
        answer(UnixListener::bind(base.join("s")).unwrap());
        answer(UnixListener::bind(base.join("c/src/s")).unwrap());
        for (name, _) in std::env::vars_os() {
            // SAFETY: no other thread looks at the environment.
            unsafe { std::env::remove_var(name) };
        }
        // SAFETY: as above.
        unsafe { std::env::set_var("HOME", base.join("h/u")) };
        Tree {
            watch: watch(&base),
            bent: Mutex::new(vec![Vec::new(); SLOTS]),
            base,
        }
    }

    /// An `@` at the beginning is the tree.
    pub fn expand(&self, text: &[u8]) -> PathBuf {
        match text.strip_prefix(b"@") {
            Some(rest) => path(&[bytes(&self.base), rest].concat()).to_owned(),
            None => path(text).to_owned(),
        }
    }

    /// Each slot says what its byte does: a text of the table, or a word of the input.
    pub fn bend(&self, shape: &[u8], words: &[(u8, PathBuf)]) {
        let mut bent = self.bent.lock().unwrap();
        for ((slot, now), byte) in BENT.iter().zip(bent.iter_mut()).zip(shape) {
            let at = usize::from(*byte);
            let text = match words.get(at % 128 % words.len().max(1)) {
                Some(word) if at >= 128 => bytes(&word.1).to_vec(),
                _ => bytes(&self.expand(TEXTS[at % TEXTS.len()].as_bytes())).to_vec(),
            };
            if *now != text {
                self.bend_one(*slot, &text);
                *now = text;
            }
        }
        drop(bent);
        // What was done here isn't the judge's doing.
        self.is_still();
    }

    fn bend_one(&self, (kind, name): (Kind, &str), text: &[u8]) {
        let at = self.base.join(name);
        let _ = fs::remove_file(&at);
        if text.is_empty() {
            return;
        }
        match kind {
            Kind::Link => drop(symlink(path(text), &at)),
            Kind::Text(prefix) => {
                fs::write(&at, [prefix.as_bytes(), text, b"\n"].concat()).unwrap()
            }
            Kind::Name => drop(fs::hard_link(path(text), &at)),
            Kind::Program => {
                fs::write(&at, "").unwrap();
                fs::set_permissions(&at, fs::Permissions::from_mode(0o4755)).unwrap();
            }
        }
    }

    /// Makes one of four folders the current one.
    pub fn enter(&self, mode: u8) -> PathBuf {
        let cwd = match mode >> 4 & 3 {
            0 => self.base.clone(),
            1 => self.base.join("c"),
            2 => self.base.join("o/in"),
            _ => self.base.join("c/src/deep"),
        };
        std::env::set_current_dir(&cwd).unwrap();
        cwd
    }

    /// Whether nothing in the tree was made, changed or removed since this was asked last.
    pub fn is_still(&self) -> bool {
        let mut is_still = true;
        while !matches!(self.watch.read_events(), Err(Errno::EAGAIN)) {
            is_still = false;
        }
        is_still
    }
}

/// Every folder, for all that changes it or a file in it.
fn watch(base: &Path) -> Inotify {
    let watch = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).unwrap();
    let changes = AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_MOVE;
    let mut pending = vec![base.to_owned()];
    while let Some(folder) = pending.pop() {
        watch.add_watch(&folder, changes).unwrap();
        let entries = fs::read_dir(&folder).unwrap().map(Result::unwrap);
        pending.extend(
            entries
                .filter(|it| it.file_type().unwrap().is_dir())
                .map(|it| it.path()),
        );
    }
    watch
}

/// A broker that is well.
fn answer(listener: UnixListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        }
    });
}
