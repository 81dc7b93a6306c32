//! What a broker did in all, for a run's receipt: numbers alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::usage::Reported;

/// The sums so far. A clone counts into the same.
#[derive(Clone, Debug, Default)]
pub struct Totals(Arc<Mutex<Sums>>);

/// Sums over all requests of a broker, health checks included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    /// Requests that were begun.
    pub requests: u64,
    /// Requests by the status of their answer.
    pub by_status: BTreeMap<u16, u64>,
    /// Requests that were not answered.
    pub unanswered: u64,
    /// Bytes of requests: heads, and bodies without the framing.
    pub bytes_in: u64,
    /// Bytes of answers.
    pub bytes_out: u64,
    /// Tokens, where the API reported them, in its own counting.
    pub input_tokens: u64,
    /// See `input_tokens`.
    pub output_tokens: u64,
    /// See `input_tokens`.
    pub cache_read_tokens: u64,
    /// See `input_tokens`.
    pub cache_creation_tokens: u64,
}

impl Totals {
    /// Counts a request that has ended. `bytes` came in and went out.
    pub(super) fn add(&self, status: Option<u16>, bytes: [u64; 2], reported: &Reported) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The API's word: it may be any number.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut sums.requests, 1);
        match status {
            Some(status) => add(sums.by_status.entry(status).or_default(), 1),
            None => add(&mut sums.unanswered, 1),
        }
        add(&mut sums.bytes_in, bytes[0]);
        add(&mut sums.bytes_out, bytes[1]);
        let tokens = |told: Option<u64>| told.unwrap_or_default();
        add(&mut sums.input_tokens, tokens(reported.input_tokens));
        add(&mut sums.output_tokens, tokens(reported.output_tokens));
        add(
            &mut sums.cache_read_tokens,
            tokens(reported.cache_read_tokens),
        );
        add(
            &mut sums.cache_creation_tokens,
            tokens(reported.cache_creation_tokens),
        );
    }

    /// The sums, once nothing is under way.
    pub fn sums(&self) -> Sums {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
