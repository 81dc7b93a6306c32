//! The key broker: the jail's one way out.
//!
//! It reads what an untrusted client sends once, strictly (`front`), builds a new
//! request out of what it understood (`route`, `query`, `fields`), puts the key in
//! (`key`), and relays the answer as it comes (`exchange`, `scan`). Nothing here
//! knows of namespaces or mounts.

pub mod fields;
pub mod front;
pub mod health;
pub mod key;
pub mod key_source;
pub mod provider;
pub mod query;
pub mod route;
pub mod scan;
pub mod token;
pub mod upstream;
