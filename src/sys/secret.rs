//! Memory for a secret (mmap(2), mlock(2), madvise(2)), a search for it, its way out
//! of the environment (environ(7)), and random bytes (getrandom(2)).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;

use memchr::memmem::{self, Finder};
use nix::Result;
use nix::errno::Errno;
use zeroize::Zeroize as _;

use crate::sabotage::{Mechanism, stands};

/// What one [`SecretPage`] holds: a page of x86_64.
pub const CAPACITY: usize = 4096;

/// The one source copy of a secret: a page of its own that is never swapped
/// (mlock(2)), that a fork sees as zeroes (`MADV_WIPEONFORK`), that no core file has
/// in it (`MADV_DONTDUMP`), and that is zeroed before it is unmapped.
pub struct SecretPage {
    page: NonNull<u8>,
    length: usize,
}

// SAFETY: the page is anonymous and private memory that this value alone owns; it is
// written through `&mut self` only.
unsafe impl Send for SecretPage {}
// SAFETY: likewise.
unsafe impl Sync for SecretPage {}

impl SecretPage {
    /// An empty page.
    ///
    /// # Errors
    /// mlock(2)'s `EPERM` or `ENOMEM`: `RLIMIT_MEMLOCK` leaves no page to lock.
    pub fn new() -> Result<SecretPage> {
        // SAFETY: no address is asked for, so no mapping of ours is replaced.
        let page = unsafe {
            libc::mmap(
                ptr::null_mut(),
                CAPACITY,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let page = SecretPage {
            page: NonNull::new(page.cast()).ok_or(Errno::ENOMEM)?,
            length: 0,
        };
        if stands(Mechanism::KeyWipedOnFork) {
            page.advise(libc::MADV_WIPEONFORK)?;
        }
        if stands(Mechanism::KeyUndumped) {
            page.advise(libc::MADV_DONTDUMP)?;
        }
        if stands(Mechanism::KeyLocked) {
            // SAFETY: the page is mapped; locking it changes no byte.
            Errno::result(unsafe { libc::mlock(page.start(), CAPACITY) })?;
        }
        Ok(page)
    }

    /// Appends: `with` writes into what is still free and says how much it wrote.
    pub fn fill(&mut self, with: impl FnOnce(&mut [u8]) -> usize) {
        let length = self.length;
        let free = &mut self.whole()[length..];
        let most = free.len();
        self.length += with(free).min(most);
    }

    /// What was filled in.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the page is mapped and readable for as long as `self` lives, begins
        // as zeroes, and isn't written while it is borrowed.
        let whole = unsafe { slice::from_raw_parts(self.page.as_ptr(), CAPACITY) };
        &whole[..self.length]
    }

    fn whole(&mut self) -> &mut [u8] {
        // SAFETY: the page is mapped and writable for as long as `self` lives, and
        // `&mut self` says that nobody else looks at it.
        unsafe { slice::from_raw_parts_mut(self.page.as_ptr(), CAPACITY) }
    }

    fn start(&self) -> *mut c_void {
        self.page.as_ptr().cast()
    }

    fn advise(&self, advice: c_int) -> Result<()> {
        // SAFETY: both advices change what a fork or a core file sees, not the bytes
        // that this process sees.
        Errno::result(unsafe { libc::madvise(self.start(), CAPACITY, advice) }).map(drop)
    }
}

impl AsRef<[u8]> for SecretPage {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for SecretPage {
    fn drop(&mut self) {
        self.whole().zeroize();
        // SAFETY: `new` mapped this page; every borrow of it has ended with `self`.
        let _ = unsafe { libc::munmap(self.start(), CAPACITY) };
    }
}

impl fmt::Debug for SecretPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretPage(…)")
    }
}

/// A secret and the search for it. The search's tables are made once; what it looks
/// for are the page's own bytes, so that there is no second copy.
pub struct Sought {
    // Dropped first: it borrows from the page.
    finder: Finder<'static>,
    _page: SecretPage,
}

impl Sought {
    /// Looks for `part` of what `page` holds; the page isn't written again.
    pub fn new(page: SecretPage, part: Range<usize>) -> Sought {
        let needle = &page.bytes()[part];
        // SAFETY: the bytes lie in the mapping, not in `page` itself, so that they stay
        // where they are when it moves; it is unmapped when `_page` is dropped, after
        // `finder`; nothing can write it, since `_page` is private; and `needle()`
        // borrows from `self`, so that no reference outlives it.
        let needle = unsafe { slice::from_raw_parts(needle.as_ptr(), needle.len()) };
        Sought {
            finder: Finder::new(needle),
            _page: page,
        }
    }

    /// The secret.
    pub fn needle(&self) -> &[u8] {
        self.finder.needle()
    }

    /// Whether the secret is in there.
    pub fn is_in(&self, haystack: &[u8]) -> bool {
        self.finder.find(haystack).is_some()
    }
}

// environ(7): pointers to "NAME=value", the last one null. None of the crates has it.
unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// Copies `name`'s value out of the environment into a page and zeroes it in place
/// (under each of its entries, if there are several; the first one counts, as for
/// getenv(3)). `None`: it isn't set. A value that is longer than [`CAPACITY`] is cut.
///
/// Call it while the process has one thread.
///
/// # Errors
/// Those of [`SecretPage::new`]; the environment then is as it was.
pub fn take_from_environ(name: &str) -> Result<Option<SecretPage>> {
    take(environment(), name)
}

/// Zeroes `secret` wherever it stands in the environment, under whatever name.
///
/// Call it while the process has one thread.
pub fn wipe_from_environ(secret: &[u8]) {
    if stands(Mechanism::KeyWipedFromEnviron) {
        wipe(environment(), secret);
    }
}

fn wipe<'a>(entries: impl Iterator<Item = &'a mut [u8]>, secret: &[u8]) {
    for entry in entries {
        while let Some(at) = memmem::find(entry, secret) {
            entry[at..at + secret.len()].zeroize();
        }
    }
}

fn take<'a>(entries: impl Iterator<Item = &'a mut [u8]>, name: &str) -> Result<Option<SecretPage>> {
    let mut taken = None;
    for value in entries.filter_map(|entry| value_of(entry, name)) {
        if taken.is_none() {
            let mut page = SecretPage::new()?;
            page.fill(|free| {
                let length = value.len().min(free.len());
                free[..length].copy_from_slice(&value[..length]);
                length
            });
            taken = Some(page);
        }
        if stands(Mechanism::KeyWipedFromEnviron) {
            value.zeroize();
        }
    }
    Ok(taken)
}

fn value_of<'a>(entry: &'a mut [u8], name: &str) -> Option<&'a mut [u8]> {
    let equals = name.len();
    if entry.get(equals) != Some(&b'=') || !entry.starts_with(name.as_bytes()) {
        return None;
    }
    entry.get_mut(equals + 1..)
}

/// Every entry of the environment, without its final NUL.
fn environment() -> impl Iterator<Item = &'static mut [u8]> {
    // SAFETY: libc set this variable before main; nothing writes it at the same time,
    // since there is one thread.
    let mut next = unsafe { environ };
    std::iter::from_fn(move || {
        // SAFETY: `next` points into the array and not behind its null, at which the
        // iteration ends.
        let entry = (!next.is_null()).then(|| unsafe { *next })?;
        if entry.is_null() {
            return None;
        }
        // SAFETY: the entry before the array's null was not the last one.
        next = unsafe { next.add(1) };
        // SAFETY: an entry is a string with a NUL, and stays for the life of the process.
        let length = unsafe { CStr::from_ptr(entry) }.count_bytes();
        // SAFETY: these bytes are writable (execve(2) laid them on the stack, setenv(3)
        // on the heap); `std::env` copies and keeps no reference; each is given out once.
        Some(unsafe { slice::from_raw_parts_mut(entry.cast::<u8>(), length) })
    })
}

/// Fills `buffer`, of 256 bytes at most, with random bytes.
///
/// # Errors
/// `ENOSYS` or `EPERM` where an outer seccomp filter denies the call.
pub fn random(buffer: &mut [u8]) -> Result<()> {
    // SAFETY: `buffer` is writable for its length.
    let got = unsafe { libc::getrandom(buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    // Up to 256 bytes come whole, and no signal interrupts (getrandom(2)).
    match Errno::result(got)? {
        got if got.unsigned_abs() == buffer.len() => Ok(()),
        _ => Err(Errno::EIO),
    }
}

#[cfg(test)]
mod tests;
