//! The plan of a run: ordered steps, pure data. No effect is imported here.

pub mod step;
