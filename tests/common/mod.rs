//! What every test of this folder uses: a workspace on the host, the jail to
//! start in it, and attacks that are tried outside before they count inside.
//!
//! The tests know the built binary and nothing of its source.
#![allow(dead_code, unused_imports, reason = "each test crate uses its part")]

pub(crate) mod attack;
pub(crate) mod broker;
pub(crate) mod certificate;
pub(crate) mod client;
pub(crate) mod desk;
pub(crate) mod folder;
pub(crate) mod host;
pub(crate) mod http;
pub(crate) mod jail;
pub(crate) mod played;
pub(crate) mod upstream;
pub(crate) mod workspace;

pub(crate) use attack::{Attack, assert_denied, assert_denied_either_way};
pub(crate) use broker::Broker;
pub(crate) use client::Client;
pub(crate) use desk::Desk;
pub(crate) use folder::Folder;
pub(crate) use host::{is_root, path_str};
pub(crate) use jail::{Jail, Run, finish};
pub(crate) use upstream::Upstream;
pub(crate) use workspace::Workspace;
