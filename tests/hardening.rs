//! The binary itself: what a flaw in its code would be worth to whoever finds it, and
//! that nothing of the host is loaded into it. .ci/run asks the same of the release.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use common::Workspace;
use common::host::program;
use common::jail::binary;

/// What the linker leaves out in each of these programs; its word here.
const WEAK: [(&str, &[&str]); 6] = [
    ("fixed addresses", &["-static", "-no-pie"]),
    ("an interpreter", &["-pie"]),
    ("an executable stack", &["-static-pie", "-Wl,-z,execstack"]),
    ("no RELRO", &["-static-pie", "-Wl,-z,norelro"]),
    ("lazy binding", &["-static-pie", "-Wl,-z,lazy"]),
    (
        "writable code",
        &["-nostdlib", "-no-pie", "-Wl,--omagic,--entry=main"],
    ),
];

#[test]
fn nothing_of_it_is_weaker_than_it_could_be() {
    let workspace = Workspace::new();
    for (weakness, flags) in WEAK {
        let found = weaknesses(&linked(&workspace, flags));
        assert!(
            found.contains(&weakness),
            "vacuous: {weakness} isn't seen in a program linked with {flags:?}: {found:?}"
        );
    }
    assert_eq!(weaknesses(&binary()), [""; 0]);
}

#[test]
fn a_refusal_is_one_where_backtraces_are_asked_for() {
    // The release has nothing to find the caller of a function by.
    let workspace = Workspace::new();
    let jail = workspace.jail().host_env("RUST_BACKTRACE", "1");
    jail.flag("--clone", "/").refused("path");
}

/// A program that does nothing.
fn linked(workspace: &Workspace, flags: &[&str]) -> PathBuf {
    let source = workspace.file("main.c", "int main(void) { return 0; }\n");
    let program_path = workspace.path("linked");
    let status = program("gcc", "gcc")
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&program_path)
        .status()
        .expect("gcc starts");
    assert!(status.success(), "gcc {flags:?}");
    program_path
}

/// What elf(5) says of a 64-bit program, in the words of `WEAK`.
fn weaknesses(path: &Path) -> Vec<&'static str> {
    let bytes = fs::read(path).expect("a program");
    let elf = Elf(&bytes);
    let segments = elf.segments();
    let of = |kind| segments.iter().filter(move |segment| segment.kind == kind);
    let is_now = |[tag, value]: [u64; 2]| tag == DT_FLAGS && value & DF_BIND_NOW != 0;
    let both = |flags| flags & libc::PF_W != 0 && flags & libc::PF_X != 0;
    let stack_is_data = |flags| flags & libc::PF_X == 0;
    let mut dynamic = of(libc::PT_DYNAMIC).flat_map(|segment| elf.pairs(segment.file.clone()));

    let mut found = Vec::new();
    let mut say = |is_so: bool, weakness| found.extend(is_so.then_some(weakness));
    say(elf.number::<2>(E_TYPE) != ET_DYN, "fixed addresses");
    say(of(libc::PT_INTERP).count() > 0, "an interpreter");
    say(
        !of(libc::PT_GNU_STACK).any(|segment| stack_is_data(segment.flags)),
        "an executable stack",
    );
    say(of(libc::PT_GNU_RELRO).count() == 0, "no RELRO");
    say(!dynamic.any(is_now), "lazy binding");
    say(
        of(libc::PT_LOAD).any(|segment| both(segment.flags)),
        "writable code",
    );
    found
}

// Where elf(5) puts them, in bytes, and values that libc has no names for.
const E_TYPE: usize = 16;
const E_PHOFF: usize = 32;
const E_PHENTSIZE: usize = 54;
const E_PHNUM: usize = 56;
const ET_DYN: u64 = 3;
const DT_FLAGS: u64 = 30;
const DF_BIND_NOW: u64 = 8;

struct Elf<'file>(&'file [u8]);

struct Segment {
    kind: u32,
    flags: u32,
    file: Range<usize>,
}

impl Elf<'_> {
    fn segments(&self) -> Vec<Segment> {
        let [first, size, count] = [
            self.size::<8>(E_PHOFF),
            self.size::<2>(E_PHENTSIZE),
            self.size::<2>(E_PHNUM),
        ];
        let heads = (0..count).map(|index| first + index * size);
        let segment = |head: usize| Segment {
            kind: u32::try_from(self.number::<4>(head)).expect("four bytes"),
            flags: u32::try_from(self.number::<4>(head + 4)).expect("four bytes"),
            file: self.size::<8>(head + 8)..self.size::<8>(head + 8) + self.size::<8>(head + 32),
        };
        heads.map(segment).collect()
    }

    /// The tags and values of a dynamic section.
    fn pairs(&self, file: Range<usize>) -> Vec<[u64; 2]> {
        let places = file.step_by(16);
        let pair = |place| [self.number::<8>(place), self.number::<8>(place + 8)];
        places.map(pair).collect()
    }

    fn size<const BYTES: usize>(&self, place: usize) -> usize {
        usize::try_from(self.number::<BYTES>(place)).expect("a size")
    }

    fn number<const BYTES: usize>(&self, place: usize) -> u64 {
        let mut number = [0; 8];
        number[..BYTES].copy_from_slice(&self.0[place..place + BYTES]);
        u64::from_le_bytes(number)
    }
}
