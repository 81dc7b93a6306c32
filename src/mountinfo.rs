//! The mount table of this process: /proc/self/mountinfo (proc_pid_mountinfo(5)).
//!
//! Read by hand: the procfs crate leaves the escapes of mount points in, and
//! builds two maps a line where a start needs a few fields.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::iter;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use memchr::memchr;

/// More than most hosts' mount tables are long, in bytes.
const TABLE_SIZE: usize = 32 << 10;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its number, and that of the mount that it lies on.
    pub id: u32,
    /// See `id`. Of the outermost it is no mount's in the table, or its own.
    pub parent: u32,
    /// Device, as `major:minor`.
    pub device: String,
    /// Which folder or file of that filesystem it shows.
    pub root: PathBuf,
    /// Where it is, as seen from this process's root.
    pub point: PathBuf,
    /// Its filesystem type, in kernel words.
    pub kind: String,
    /// Whether the mount (not the superblock beneath it) is read-only.
    pub read_only: bool,
}

/// Reads the table. A line that can't be read is an error, not a gap.
pub fn read() -> io::Result<Vec<Mount>> {
    // With room from the start: the table is made anew for every small read.
    let mut table = Vec::with_capacity(TABLE_SIZE);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut table)?;
    parse(&table).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

pub(crate) fn parse(table: &[u8]) -> Option<Vec<Mount>> {
    split(table, b'\n')
        .filter(|line| !line.is_empty())
        .map(mount)
        .collect()
}

/// As slice::split: at the speed of memory, since pid 1 reads its own table in each start.
fn split(text: &[u8], at: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest?;
        let (part, further) = match memchr(at, text) {
            Some(end) => (&text[..end], Some(&text[end + 1..])),
            None => (text, None),
        };
        rest = further;
        Some(part)
    })
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = split(line, b' ');
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape(field)));
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let device = text(fields.next()?);
    let root = path(fields.next()?);
    let point = path(fields.next()?);
    let read_only = fields
        .next()?
        .split(|byte| *byte == b',')
        .any(|option| option == b"ro");
    fields.find(|field| *field == b"-")?;
    let kind = text(fields.next()?);
    Some(Mount {
        id,
        parent,
        device,
        root,
        point,
        kind,
        read_only,
    })
}

/// Blanks, tabs, newlines and backslashes come as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    if memchr(b'\\', field).is_none() {
        return field.to_vec();
    }
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        match tail {
            [
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ] if *first == b'\\' => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_table() {
        let table = read().expect("a mount table");
        assert!(table.iter().any(|mount| mount.point.as_os_str() == "/"));
        assert!(table.iter().any(|mount| mount.kind == "proc"));
    }

    #[test]
    fn a_line() {
        let line = b"36 35 98:0 /ro /a\\040b ro,noatime shared:1 master:1 - ext3 /dev/root rw\n";
        let mount = Mount {
            id: 36,
            parent: 35,
            device: "98:0".to_owned(),
            root: "/ro".into(),
            point: "/a b".into(),
            kind: "ext3".to_owned(),
            read_only: true,
        };
        assert_eq!(parse(line), Some(vec![mount]));
        let rw = parse(b"1 1 0:1 / / rw,errors=ro - ext4 x ro").expect("a line");
        assert!(
            !rw[0].read_only,
            "a superblock's ro or another option's value is not the mount's"
        );
        assert_eq!(parse(b"36 35 98:0 /\n"), None);
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape(b"/a\\040b\\134c\\012"), b"/a b\\c\n");
        assert_eq!(unescape(b"/a\\04"), b"/a\\04");
        assert_eq!(unescape(b"\\999"), b"\\999");
    }
}
