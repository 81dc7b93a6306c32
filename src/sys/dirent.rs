//! Reading folders: getdents64(2) into one buffer that is used again for the next, since
//! a walk of a large tree makes no call that it needn't.

use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::errno::Errno;

/// Room for entries, in bytes: what glibc's readdir(3) takes.
const ROOM: usize = 32 << 10;
/// Where an entry's length, type and name lie in it (`linux_dirent64`).
const LENGTH: usize = 16;
const TYPE: usize = 18;
const NAME: usize = 19;

/// Some entries of a folder.
pub struct Batch {
    bytes: Vec<u8>,
    filled: usize,
}

/// An entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name in the folder.
    pub name: &'a CStr,
    /// `DT_DIR` and the like; `DT_UNKNOWN` where the filesystem doesn't tell.
    pub d_type: u8,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            bytes: vec![0; ROOM],
            filled: 0,
        }
    }
}

impl Batch {
    /// Reads the next entries of `folder`, which isn't `O_PATH`. False at its end, and where
    /// it was removed meanwhile.
    ///
    /// # Errors
    /// Those of getdents64(2), but for that ENOENT.
    pub fn read(&mut self, folder: BorrowedFd<'_>) -> Result<bool, Errno> {
        // SAFETY: the kernel writes to the buffer alone, and no more than its length.
        let count = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                folder.as_raw_fd(),
                self.bytes.as_mut_ptr(),
                self.bytes.len(),
            )
        };
        self.filled = 0;
        self.filled = match Errno::result(count) {
            // Only an empty folder can be removed; readdir(3) takes it for the end, too.
            Err(Errno::ENOENT) => 0,
            count => usize::try_from(count?).map_err(|_| Errno::EIO)?,
        };
        Ok(self.filled > 0)
    }

    /// What was read, but for `.` and `..`. EIO where it can't be told apart: no entry is
    /// passed over.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry<'_>, Errno>> {
        let mut rest = self.bytes.get(..self.filled).unwrap_or_default();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let split = split(rest);
            rest = split.map_or(&[], |(_, rest)| rest);
            Some(split.map(|(entry, _)| entry).ok_or(Errno::EIO))
        })
        .filter(|entry| !entry.is_ok_and(|entry| entry.name == c"." || entry.name == c".."))
    }
}

/// The first entry, and what comes after it.
fn split(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let length = bytes.get(LENGTH..TYPE)?.try_into().map(u16::from_ne_bytes);
    let (entry, rest) = bytes.split_at_checked(usize::from(length.ok()?))?;
    let entry = Entry {
        name: CStr::from_bytes_until_nul(entry.get(NAME..)?).ok()?,
        d_type: *entry.get(TYPE)?,
    };
    Some((entry, rest))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_folder_is_read_whole_in_as_many_batches_as_it_takes() {
        let dir = std::env::temp_dir().join(format!("groom-ns-dirent.{}", std::process::id()));
        let count = 3000;
        fs::create_dir(&dir).expect("a folder");
        for number in 0..count {
            fs::write(dir.join(format!("a file with a long name {number}")), "").expect("a file");
        }
        fs::create_dir(dir.join("folder")).expect("a folder in it");
        let folder = fs::File::open(&dir).expect("opens");
        let (mut batch, mut batches, mut files, mut folders) = (Batch::default(), 0, 0, 0);
        while batch.read(folder.as_fd()).expect("getdents64") {
            batches += 1;
            for entry in batch.entries() {
                let entry = entry.expect("an entry");
                if entry.name == c"folder" {
                    assert_eq!(entry.d_type, libc::DT_DIR);
                    folders += 1;
                } else {
                    assert_eq!(entry.d_type, libc::DT_REG, "{entry:?}");
                    files += 1;
                }
            }
        }
        fs::remove_dir_all(&dir).expect("goes");
        assert!(batches > 2, "vacuous: {batches}");
        assert_eq!((files, folders), (count, 1));
    }

    #[test]
    fn what_cannot_be_told_apart_is_an_error() {
        let batch = |bytes: &[u8]| Batch {
            bytes: bytes.to_vec(),
            filled: bytes.len(),
        };
        let mut entry = vec![0; 24];
        entry[LENGTH] = 24;
        entry[NAME] = b'a';
        let whole = batch(&entry);
        let names: Vec<_> = whole.entries().map(|entry| entry.map(|e| e.name)).collect();
        assert_eq!(names, [Ok(c"a")], "the control");
        for (at, byte) in [(LENGTH, 0), (LENGTH, 25), (LENGTH, 19)] {
            let mut bent = entry.clone();
            bent[at] = byte;
            let bent = batch(&bent);
            assert_eq!(bent.entries().next(), Some(Err(Errno::EIO)), "{byte}");
        }
    }

    #[test]
    fn a_folder_that_was_removed_has_no_more_entries() {
        let dir = std::env::temp_dir().join(format!("groom-ns-removed.{}", std::process::id()));
        fs::create_dir(&dir).expect("a folder");
        let folder = fs::File::open(&dir).expect("opens");
        fs::remove_dir(&dir).expect("goes");
        let mut batch = Batch::default();
        assert_eq!(batch.read(folder.as_fd()), Ok(false));
        assert_eq!(batch.entries().count(), 0);
    }

    #[test]
    fn what_is_no_folder_says_so() {
        let file = fs::File::open("/proc/self/status").expect("opens");
        assert_eq!(Batch::default().read(file.as_fd()), Err(Errno::ENOTDIR));
    }
}
