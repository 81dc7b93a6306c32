//! A cgroup (v2) for the jail, where a limit needs one: how it can be come by, and the
//! making and the end of it. Reference: Documentation/admin-guide/cgroup-v2.rst.

mod bus;
mod find;
mod leaf;

pub use find::{Way, find};
pub use leaf::{Counts, Leaf, Place};
