//! What groom-ns itself reads, so that it writes to none of it: one line of a log in the
//! key file, and the next run has no key.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::FileStat;

use super::kinds::{What, inode};
use super::paths::{Start, resolve};
use crate::cli;
use crate::plan::step::Inode;
use crate::refusal::Refusal;
use crate::sys::fd;

/// The regular files that the line says to read, each with its flag. A pipe or terminal
/// loses nothing that is written to it. What isn't there is refused where it is read.
pub(crate) struct Reads(Vec<(&'static str, Result<Inode, Errno>)>);

impl Reads {
    /// A run's: the profile, and what its broker reads.
    pub(crate) fn of_run(cwd: &Result<Start, Errno>, run: &cli::Run) -> Reads {
        let found = run.found_profile.as_ref().map(|found| found.path.as_path());
        // One that couldn't be read as a profile was named as one all the same.
        let profile = found.or(run.profile.as_deref());
        Reads::of(cwd, &run.broker_args, ("--profile", profile))
    }

    /// Those of a broker on its own.
    pub(crate) fn of_broker(cwd: &Result<Start, Errno>, broker: &cli::Broker) -> Reads {
        let token = broker.token_file.as_deref();
        Reads::of(cwd, &broker.args, ("--token-file", token))
    }

    fn of(
        cwd: &Result<Start, Errno>,
        args: &cli::BrokerArgs,
        other: (&'static str, Option<&Path>),
    ) -> Reads {
        let fds = [
            (
                "--key-stdin",
                args.key.key_stdin.then_some(libc::STDIN_FILENO),
            ),
            ("--key-fd", args.key.key_fd),
        ];
        let paths = [
            ("--key-file", args.key.key_file.as_deref()),
            ("--upstream-ca", args.upstream_ca.as_deref()),
            other,
        ];
        let fds = fds.map(|(flag, fd)| (flag, fd.map(fd::stat)));
        let paths = paths.map(|(flag, path)| {
            let found = path.map(|path| resolve(cwd, path));
            let stat = found.map(|found| found.map(|found| found.stat));
            (flag, stat.map(|stat| stat.map_err(|fault| fault.errno)))
        });
        let found = fds.into_iter().chain(paths);
        let found = found.filter_map(|(flag, stat)| Some((flag, stat?)));
        let files = found.filter(|(_, stat)| match stat {
            Ok(stat) => What::of(stat.st_mode) == What::File,
            Err(errno) => !matches!(errno, Errno::ENOENT | Errno::EBADF),
        });
        Reads(
            files
                .map(|(flag, stat)| (flag, stat.map(|stat| inode(&stat))))
                .collect(),
        )
    }

    /// Refuses to write to one of them, by whatever name it was given.
    pub(crate) fn refuse(&self, refusal: Refusal, written: &FileStat) -> Result<(), Refusal> {
        let written = inode(written);
        for (flag, read) in &self.0 {
            match read {
                Ok(read) if *read == written => {
                    return Err(refusal.remedy(format!(
                        "it is the file of {flag}, which is read and would be lost: give two"
                    )));
                }
                Ok(_) => {}
                Err(errno) => {
                    return Err(refusal.errno(*errno).remedy(format!(
                        "the file of {flag} can't be looked at, and may be the same"
                    )));
                }
            }
        }
        Ok(())
    }
}
