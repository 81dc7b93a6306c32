//! The strict front: what a client sends is read once, here, heads and framing.
//!
//! A pure state machine, without sockets or clocks: bytes go in, in whatever pieces
//! they come, and what comes out depends on the bytes alone. Whoever judges heads
//! also owns the framing, or two parsers could disagree about where a request ends,
//! which is what request smuggling is. Each byte is looked at a fixed number of
//! times, and a refusal is known at the first byte that shows it.

pub mod body;
pub mod head;
pub mod target;

mod facts;
mod lines;
#[cfg(test)]
mod tests;

pub use body::{BodyReader, Piece};
pub use head::{Field, Framing, Head, HeadReader, MAX_FIELDS, MAX_HEAD, MAX_TARGET};
pub use head::{Method, Version};
pub use target::Target;

/// What the front answers instead of forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status code (RFC 9110, section 15).
    pub status: u16,
    /// The connection ends with the answer, as where the next request would begin
    /// isn't known.
    pub close: bool,
    /// A short word for the log, such as `bare-lf`; stable.
    pub reason: &'static str,
}

impl Refused {
    /// A refusal that ends the connection.
    pub const fn closing(status: u16, reason: &'static str) -> Refused {
        Refused {
            status,
            close: true,
            reason,
        }
    }

    /// A refusal of this request alone: the next one may follow.
    pub const fn open(status: u16, reason: &'static str) -> Refused {
        Refused {
            status,
            close: false,
            reason,
        }
    }
}
