//! Every unsafe line of the crate, a file a subject.

#[allow(unsafe_code)]
pub(crate) mod users;
