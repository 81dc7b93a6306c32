//! What is told of a run while it happens, and what it leaves behind: lines on
//! `--status-fd`, and the file of `--receipt`. Where neither is asked for, nothing is done.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use nix::unistd::Pid;

use super::record::{Moment, Record};
use super::status::{Event, Status};
use super::{ascii, file};
use crate::broker::totals::Totals;
use crate::cgroup::Leaf;
use crate::files::errno;
use crate::ns::evidence::Evidence;
use crate::plan::step::Plan;
use crate::policy::ReceiptFile;
use crate::refusal::{Refusal, shown};
use crate::run::{Ending, Phase};
use crate::say;

/// The exit code where the command ended well but its receipt couldn't be written.
const RECEIPT_LOST: u8 = 1;

/// Whom a run is told to.
pub struct Told {
    status: Rc<Status>,
    receipt: Option<(Record, ReceiptFile)>,
    /// How far the run has come.
    pub(crate) phase: Phase,
    runs: Rc<Cell<bool>>,
}

impl Told {
    /// For a run that was started at `started`.
    ///
    /// # Errors
    /// `receipt`: see [`Record::begin`].
    pub fn new(
        status: Rc<Status>,
        file: Option<ReceiptFile>,
        started: Moment,
    ) -> Result<Told, Refusal> {
        let begin = |file| Record::begin(started).map(|record| (record, file));
        Ok(Told {
            status,
            receipt: file.map(begin).transpose()?,
            phase: Phase::Building,
            runs: Rc::default(),
        })
    }

    /// Whether the command's process has confined itself and is about to execute: true
    /// from then on.
    pub(crate) fn runs(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.runs)
    }

    /// Whether there is to be a receipt.
    pub(crate) fn is_recorded(&self) -> bool {
        self.receipt.is_some()
    }

    /// What the broker counts into, if somebody wants to know.
    pub(crate) fn totals(&self) -> Option<Totals> {
        let (record, _) = self.receipt.as_ref()?;
        Some(record.totals.clone())
    }

    /// Pid 1 exists and waits for its maps, in this cgroup, if one was made.
    pub(crate) fn forked(&mut self, pid: Pid, leaf: Option<&Leaf>) -> Result<(), Refusal> {
        match &mut self.receipt {
            Some((record, _)) => record.hold_init(pid, leaf),
            None => Ok(()),
        }
    }

    /// The jail stands.
    pub(crate) fn built(&self, pid: Pid) {
        self.status.say(Event::Built { pid: pid.as_raw() });
    }

    /// The jail's processes are in their final state, and wait until this was read.
    pub(crate) fn confined(&mut self, told: Evidence, handed: Vec<OwnedFd>) -> Result<(), Refusal> {
        match &mut self.receipt {
            Some((record, _)) => record.read(told, handed),
            None => Ok(()),
        }
    }

    /// The command's process is about to execute.
    pub(crate) fn running(&mut self) {
        if let Some((record, _)) = &mut self.receipt {
            record.running();
        }
        self.runs.set(true);
        self.status.say(Event::Running);
    }

    /// groom-ns stops, as the command has.
    pub(crate) fn stopped(&self) {
        self.status.say(Event::Stopped);
    }

    /// It goes on.
    pub(crate) fn continued(&self) {
        self.status.say(Event::Continued);
    }

    /// All is over. Returns the exit code: a receipt that was asked for and can't be
    /// written is said, and must not look like success.
    pub fn ended(self, plan: &Plan, ending: &Ending) -> u8 {
        let mut code = ending.code;
        if let Some((record, file)) = self.receipt {
            let written = record
                .finish(plan, ending, self.phase)
                .map_err(|error| ("make it", errno(error)))
                .and_then(|receipt| {
                    let text = serde_json::to_string_pretty(&receipt)
                        .map_err(|error| ("make it", errno(error.into())))?;
                    file::write(&file, &(ascii(&text) + "\n"))
                });
            if let Err((call, errno)) = written {
                let path = shown(&file.path);
                say::note(format_args!(
                    "the receipt is lost: {call}: {path}: {errno:?}"
                ));
                code = if code == 0 { RECEIPT_LOST } else { code };
            }
        }
        self.status.ended(ending, code);
        code
    }
}
