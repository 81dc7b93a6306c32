//! The broker's part of a run. It is made while pid 1 builds the jail, and opens once
//! the key and both listeners are there; only then does the command start.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};
use tokio::io::Interest;
use tokio::sync::oneshot;

use crate::broker::key::Key;
use crate::broker::key_source::{self, KeySource, LineReader};
use crate::broker::log::Log;
use crate::broker::serve::{Listener, Peers, Service};
use crate::broker::token::Token;
use crate::broker::{Broker, Config, Limits};
use crate::ns::listeners::Listening;
use crate::plan::command::{EnvValue, Exec};
use crate::plan::step::Inode;
use crate::refusal::{Reason, Refusal, shown};
use crate::sabotage::{Mechanism, stands};

use crate::sys::watch::Descriptor;

use super::events::failed;
use super::pump::Outer;

/// What the broker is made of, from before the fork.
pub(super) struct Door {
    pub(super) config: Config,
    pub(super) key: KeySource,
    pub(super) token: Token,
    pub(super) log: Log,
}

impl Door {
    /// Whether the key is the first line of standard input.
    pub(super) fn wants_line(&self) -> bool {
        matches!(self.key, KeySource::Stdin)
    }

    /// Makes the broker and lets it serve processes of the pid namespace `peers`.
    /// `line` is the key where [`Door::wants_line`]; `exec` is what the command gets.
    ///
    /// # Errors
    /// `key`: it can't be read, or the command would get it. `broker`: no roots.
    pub(super) async fn open(
        self,
        exec: &Exec,
        peers: Inode,
        line: oneshot::Receiver<Result<Key, Refusal>>,
        listeners: oneshot::Receiver<Listening>,
    ) -> Result<Service, Refusal> {
        let lost = |_| Refusal::new(Reason::Setup, "start the broker").about("a lost message");
        let tls = self.config.tls()?;
        let key = match self.key {
            KeySource::Stdin => line.await.map_err(lost)??,
            KeySource::Fd(fd, number) => first_line(fd, format!("--key-fd {number}")).await?,
            KeySource::File(fd, path) if is_fifo(&fd) => {
                first_line(fd, format!("--key-file {}", shown(&path))).await?
            }
            at_hand => at_hand.read()?,
        };
        if stands(Mechanism::KeyRefusedToCommand) {
            refuse_given(&key, exec)?;
        }
        let broker = Broker::new(
            &self.config,
            tls,
            key,
            Some(self.token),
            self.log,
            Limits::here(),
        )?;
        let service = Service::new(broker);
        let Listening { tcp, unix, .. } = listeners.await.map_err(lost)?;
        let watched = |error| failed("watch the broker's listeners", &error);
        let Inode { dev, ino } = peers;
        service.listen(Listener::Tcp(
            tokio::net::TcpListener::from_std(tcp).map_err(watched)?,
        ));
        service.listen(Listener::Unix(
            tokio::net::UnixListener::from_std(unix).map_err(watched)?,
            Peers::PidNamespace { dev, ino },
        ));
        Ok(service)
    }
}

/// Refuses a command that would be given the key itself.
fn refuse_given(key: &Key, exec: &Exec) -> Result<(), Refusal> {
    let refusal = |about: &str, remedy: &'static str| {
        Err(
            Refusal::new(Reason::Key, "compare the key with what the command gets")
                .about(about)
                .remedy(remedy),
        )
    };
    if exec.argv.iter().any(|arg| key.is_in(arg.to_bytes())) {
        return refusal("its arguments", "they hold the key: leave it out");
    }
    for var in &exec.env {
        if let EnvValue::Callers(value) = &var.value
            && key.is_in(value.to_bytes())
        {
            return refusal(
                &format!("--env {}", var.name),
                "it holds the key: leave it out, the command gets a token in its place",
            );
        }
    }
    Ok(())
}

fn is_fifo(fd: &OwnedFd) -> bool {
    fstat(fd).is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFIFO.bits())
}

/// The first line of a descriptor that may keep us waiting.
async fn first_line(fd: OwnedFd, flag: String) -> Result<Key, Refusal> {
    let named = |refusal: Refusal| refusal.about(flag.clone());
    let outer = Outer::new(fd, Interest::READABLE).map_err(|error| named(unreadable(&error)))?;
    key_line(&outer).await.map_err(named)
}

/// Reads byte by byte: what follows the line is somebody else's.
pub(super) async fn key_line<D: Descriptor + AsFd>(outer: &Outer<D>) -> Result<Key, Refusal> {
    let mut line = LineReader::new()?;
    let mut byte = [0];
    loop {
        let count = outer
            .read(&mut byte)
            .await
            .map_err(|error| unreadable(&error))?;
        if count == 0 || line.push(byte[0]) {
            return line.finish();
        }
    }
}

fn unreadable(error: &io::Error) -> Refusal {
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    key_source::unreadable("--key-stdin", errno)
}
