//! The way to the API: where it is (`url`), whom TLS trusts (`roots`), through
//! which proxy (`proxy`), how a connection is made (`connect`, `resolve`), spoken
//! over (`link`), kept and used again (`pool`), and what comes back (`answer`, or a `failure`).
//!
//! HTTP/1.1 by hyper's connection type, without its pool, so that what is retried,
//! kept and cut off is decided here.

pub mod answer;
pub mod body;
pub mod connect;
pub mod failure;
mod link;
pub mod pool;
pub mod proxy;
pub mod resolve;
pub mod roots;
mod socket;
#[cfg(test)]
mod testing;
pub mod url;
