//! Files that are read whole, up to a size, and what a failure of it is called.

use std::io::{self, Read};

use nix::errno::Errno;

/// What is left to read, or none where that is more than `most` bytes: a stranger's file
/// takes no more memory than that.
///
/// # Errors
/// read(2)'s.
pub fn at_most(from: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// The errno of an error of the standard library's, or EIO where it has none.
#[allow(clippy::needless_pass_by_value, reason = "as map_err gives it")]
pub fn errno(error: io::Error) -> Errno {
    Errno::try_from(error).unwrap_or(Errno::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_that_is_none() {
        let read = |most| at_most(&b"abc"[..], most).expect("read");
        assert_eq!(read(3).as_deref(), Some(&b"abc"[..]));
        assert_eq!(read(u64::MAX).as_deref(), Some(&b"abc"[..]));
        assert_eq!(read(2), None);
    }

    #[test]
    fn every_error_has_an_errno() {
        assert_eq!(
            errno(io::Error::from_raw_os_error(libc::ENOENT)),
            Errno::ENOENT
        );
        assert_eq!(errno(io::ErrorKind::UnexpectedEof.into()), Errno::EIO);
    }
}
