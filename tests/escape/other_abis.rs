//! The kernel's other entries (firejail#87, seccompiler#74, kafel#19).

use crate::common::{Attack, Workspace, assert_denied_either_way};

#[test]
fn x32_numbers_are_absent() {
    let workspace = Workspace::new();
    // Where the kernel has no x32 it says ENOSYS itself, so a direct attempt is
    // vacuous there; the listener shows that the filter says it first.
    // read, ptrace (521 of the x32 table), and one beyond the table.
    let attacks = ["0x40000000", "0x40000027", "0x40000209", "0x400003e8"]
        .map(|nr| Attack::filtered(nr, &["ENOSYS"]));
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
}

#[test]
fn the_32_bit_entry_kills() {
    let workspace = Workspace::new();
    let outside = workspace.unjailed(&["each", "int80"]);
    if !outside.lines()[0].starts_with("ok ") {
        eprintln!("vacuous: this kernel has no 32-bit entry: {outside:?}");
    }
    let run = workspace.jail().run(&["each", "int80"]);
    assert!(["SIGSYS", "SIGSEGV"].contains(&run.lines()[0]), "{run:#?}");
    if outside.lines()[0].starts_with("ok ") {
        assert_eq!(run.lines(), ["SIGSYS"]);
    }
}
