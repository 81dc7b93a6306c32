//! What is made on the host to be attacked: a folder, and what listens beside it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
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
    _shared_memory: SharedMemory,
    _in_dev_shm: Made,
    _folder: Made,
}

impl Ground {
    /// Makes it, in `$TMPDIR` or /tmp. `program` is this program's path.
    ///
    /// # Errors
    /// `setup`: something can't be made.
    pub(super) fn make(program: &Path) -> Result<Ground, Refusal> {
        Ground::try_make(program).map_err(|error| {
            Refusal::new(Reason::Setup, "make what the proofs attack")
                .about(error.to_string())
                .remedy("set TMPDIR to a folder that you can write to, with 50 MiB to spare")
        })
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
        let in_dev_shm = Made(Path::new("/dev/shm").join(&name));
        fs::write(&in_dev_shm.0, TEXT)?;
        let shared_memory = SharedMemory(sys::ipc::make()?);
        let leaked = File::open(&ground)?;
        let canary = format!("canary-{name}");
        let door = ground.join("door");
        let upstream = Upstream::start(&door)?;
        let facts = Facts {
            launcher: Pid::this().as_raw(),
            session: getsid(None)?.as_raw(),
            hostname: gethostname()?.to_string_lossy().into_owned(),
            namespaces: namespaces()?,
            // A high number, not close-on-exec: what a careless parent leaves open.
            leaked: fcntl(&leaked, FcntlArg::F_DUPFD(200))?,
            tcp: tcp.local_addr()?.port(),
            abstract_socket: name,
            shared_memory: shared_memory.0,
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

struct SharedMemory(i32);

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let _ = sys::ipc::remove(self.0);
    }
}
