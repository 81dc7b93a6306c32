//! Names into addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::RecordType;

use super::failure::{Failure, Step};

/// The two families, in the order in which they are tried.
pub(super) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// Looks names up as `/etc/hosts` and `/etc/resolv.conf` say. The files are read at
/// the first need, and again after a failure: a laptop changes its network.
#[derive(Default)]
pub(super) struct Names(Mutex<Option<Arc<TokioResolver>>>);

impl Names {
    /// Asks this one, until it fails.
    #[cfg(test)]
    pub(super) fn with(resolver: TokioResolver) -> Names {
        Names(Mutex::new(Some(Arc::new(resolver))))
    }

    /// The addresses of `host` in one family; none is not an error.
    ///
    /// # Errors
    /// Where nobody could say.
    pub(super) async fn addresses(
        &self,
        host: &str,
        family: Family,
    ) -> Result<Vec<IpAddr>, Failure> {
        if let Some(known) = known(host) {
            return Ok(known
                .into_iter()
                .filter(|address| family.has(address))
                .collect());
        }
        let resolver = self.resolver()?;
        // An absolute name would skip the search list, which an intranet's name may need.
        match resolver.lookup(host, family.record()).await {
            Ok(lookup) => Ok(lookup
                .answers()
                .iter()
                .filter_map(|record| record.data.ip_addr())
                .filter(|address| family.has(address))
                .collect()),
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => {
                self.slot().take();
                Err(failure(&error))
            }
        }
    }

    fn resolver(&self) -> Result<Arc<TokioResolver>, Failure> {
        let mut slot = self.slot();
        if let Some(resolver) = &*slot {
            return Ok(Arc::clone(resolver));
        }
        let made = TokioResolver::builder_tokio()
            .and_then(hickory_resolver::ResolverBuilder::build)
            .map_err(|error| failure(&error))?;
        Ok(Arc::clone(slot.insert(Arc::new(made))))
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<TokioResolver>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Family {
    fn record(self) -> RecordType {
        match self {
            Family::V4 => RecordType::A,
            Family::V6 => RecordType::AAAA,
        }
    }

    fn has(self, address: &IpAddr) -> bool {
        address.is_ipv4() == (self == Family::V4)
    }
}

/// What needs no looking up.
fn known(host: &str) -> Option<Vec<IpAddr>> {
    if host == "localhost" {
        return Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    host.parse().ok().map(|address| vec![address])
}

fn failure(error: &NetError) -> Failure {
    match error {
        NetError::Timeout => Failure::timeout(Step::Name),
        NetError::Io(error) => Failure::io(Step::Name, error),
        other => Failure::new(Step::Name, other),
    }
}
