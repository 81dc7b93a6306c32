//! What is tried, a subject a file. Nothing here knows on which side it runs.

pub(super) mod broker;
pub(super) mod calls;
pub(super) mod files;
pub(super) mod identity;
pub(super) mod network;
pub(super) mod processes;
