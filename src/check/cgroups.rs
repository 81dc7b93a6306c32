//! Whether limits on memory, processes and CPU could be set here, by cgroup v2.

use super::row::Finding;
use crate::cgroup;

/// What a run with all of these limits would do; nothing is made, and nobody is asked.
pub(super) fn look() -> Finding {
    match cgroup::find(&["cpu", "memory", "pids"]) {
        Ok(way) => Finding::Ok(way.to_string()),
        Err(refusal) => Finding::Degraded {
            found: refusal.subject,
            remedy: refusal.remedy.into(),
        },
    }
}
