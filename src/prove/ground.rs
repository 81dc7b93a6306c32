//! What is made on the host to be attacked: a folder, and what listens beside it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::{Pid, gethostname, getsid, getuid, mkdtemp};

use crate::refusal::{Reason, Refusal};
use crate::sys;

use super::facts::{Facts, NAMESPACES};
use super::upstream::Upstream;

/// The variable of the launcher's environment that the command must not find.
pub(super) const CANARY: &str = "GROOM_NS_PROVE_CANARY";

/// What lies in a file of the ground.
const TEXT: &str = "groom-ns prove\n";

/// What is attacked. All of it goes when this is dropped.
pub(super) struct Ground {
    /// What the probes are told.
    pub facts: Facts,
    /// The value of [`CANARY`].
    pub canary: String,
    /// The API that the broker opens onto.
    pub upstream: Upstream,
    // Held, so that there is something to connect to, to inherit and to find.
    _listeners: (TcpListener, UnixListener, UnixListener),
    _leaked: File,
    _shared_memory: sys::ipc::Segment,
    _in_dev_shm: Made,
    _folder: Made,
}

impl Ground {
    /// Makes it, in `$TMPDIR` or /tmp. `program` is this program's path.
    ///
    /// # Errors
    /// `setup`: something can't be made, or 127.0.0.1 can't be reached.
    pub(super) fn make(program: &Path) -> Result<Ground, Refusal> {
        let ground = Ground::try_make(program).map_err(|error| {
            Refusal::new(Reason::Setup, "make what the proofs attack")
                .about(error.to_string())
                .remedy(
                    "set TMPDIR to a folder that you can write to, by a short path of UTF-8, with \
                     room for this program, which must be readable",
                )
        })?;
        TcpStream::connect((Ipv4Addr::LOCALHOST, ground.facts.tcp)).map_err(|error| {
            Refusal::new(Reason::Setup, "connect to 127.0.0.1")
                .about(error.to_string())
                .remedy("bring the loopback interface up: `ip link set lo up`")
        })?;
        Ok(ground)
    }

    fn try_make(program: &Path) -> io::Result<Ground> {
        let folder = mkdtemp(&std::env::temp_dir().join("groom-ns-prove-XXXXXX"))?;
        let folder = Made(folder.canonicalize()?);
        let ground = folder.0.clone();
        lay_out(&ground)?;

        let name = ground
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let by_name = SocketAddr::from_abstract_name(&name)?;
        let listeners = (
            UnixListener::bind_addr(&by_name)?,
            UnixListener::bind(ground.join("given/socket"))?,
        );
        // Not the folder's own name, which may lie there too.
        let in_dev_shm = Made(Path::new("/dev/shm").join(format!("{name}-file")));
        // Where it can't be made, what looks for it is vacuous, and says so.
        let _ = fs::write(&in_dev_shm.0, TEXT);
        let shared_memory = sys::ipc::Segment::make()?;
        let leaked = File::open(&ground)?;
        let canary = format!("canary-{name}");
        let door = ground.join("door");
        let upstream = Upstream::start(&door)?;
        let facts = Facts {
            launcher: Pid::this().as_raw(),
            arguments: fs::read("/proc/self/cmdline")?,
            session: getsid(None)?.as_raw(),
            hostname: gethostname()?.to_string_lossy().into_owned(),
            namespaces: namespaces()?,
            // Not close-on-exec: what a careless parent leaves open.
            leaked: fcntl(&leaked, FcntlArg::F_DUPFD(3))?,
            tcp: tcp.local_addr()?.port(),
            abstract_socket: name,
            shared_memory: shared_memory.id(),
            in_dev_shm: in_dev_shm.0.clone(),
            masked_needle: masked(&canary),
            api: upstream.api,
            masked_key: masked(&upstream.key),
            holder: Pid::this().as_raw(),
            door,
            by_root: getuid().is_root(),
            ground,
        };
        fs::copy(program, facts.program())?;
        fs::write(facts.key_file(), &upstream.key)?;
        Ok(Ground {
            facts,
            canary,
            upstream,
            _listeners: (tcp, listeners.0, listeners.1),
            _leaked: leaked,
            _shared_memory: shared_memory,
            _in_dev_shm: in_dev_shm,
            _folder: folder,
        })
    }
}

/// Every bit turned over.
fn masked(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| !byte).collect()
}

/// The clone with its repositories, by hand: a host without git has proofs too.
fn lay_out(ground: &Path) -> io::Result<()> {
    for folder in [
        "clone",
        "clone/nested/inner",
        "out",
        "given/mounted",
        "beneath",
    ] {
        fs::create_dir_all(ground.join(folder))?;
    }
    for repository in ["clone/.git", "clone/nested/inner/.git"] {
        let git = ground.join(repository);
        for folder in ["hooks", "objects", "refs/heads"] {
            fs::create_dir_all(git.join(folder))?;
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n")?;
        fs::write(
            git.join("config"),
            "[core]\n\trepositoryformatversion = 0\n",
        )?;
    }
    for file in [
        "secret",
        "clone/file",
        "given/file",
        "beneath/file",
        "stdin",
    ] {
        fs::write(ground.join(file), TEXT)?;
    }
    Ok(())
}

fn namespaces() -> io::Result<BTreeMap<String, u64>> {
    let inode = |name: &str| {
        Ok((
            name.to_owned(),
            fs::metadata(format!("/proc/self/ns/{name}"))?.ino(),
        ))
    };
    NAMESPACES.into_iter().map(inode).collect()
}

/// A file or folder that was made here.
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0).or_else(|_| fs::remove_file(&self.0));
    }
}
