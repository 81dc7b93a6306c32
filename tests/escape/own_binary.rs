//! Overwriting the launcher's binary through /proc (CVE-2019-5736).

use std::fs;

use crate::common::host::install;
use crate::common::jail::binary;
use crate::common::{Attack, Workspace, assert_denied, path_str};

#[test]
fn the_binary_cannot_be_opened_for_writing() {
    let workspace = Workspace::new();
    let copy = workspace.path("groom-ns");
    install(&binary(), &copy);
    let before = fs::read(&copy).expect("the binary");
    let file = workspace.file("file", "x");
    let control = format!("syscall openat AT_FDCWD @{} O_RDWR", path_str(&file));
    let attacks = ["/proc/1/exe", "/proc/self/exe"].map(|exe| {
        let attempt = format!("syscall openat AT_FDCWD @{exe} O_RDWR");
        Attack::new(attempt, &["EACCES", "EPERM", "EROFS", "ETXTBSY"]).control(&control)
    });
    assert_denied(&workspace, workspace.jail().binary(copy.clone()), &attacks);
    assert_eq!(fs::read(&copy).expect("the binary"), before, "it changed");
}

#[test]
fn not_even_by_a_command_that_is_a_script_run_by_the_binary() {
    // runc's hole: the container's own program was /proc/self/exe.
    let workspace = Workspace::new();
    let script = workspace.file("clone/script", "#!/proc/self/exe\n");
    crate::common::host::chmod(&script, 0o755);
    let run = workspace.jail().run_program(&[path_str(&script)]);
    assert_ne!(run.code, Some(0), "{run:#?}");
    let run = workspace
        .jail()
        .run_program(&["/proc/self/exe", "--version"]);
    assert_ne!(
        run.code,
        Some(0),
        "the launcher isn't executable in the jail: {run:#?}"
    );
}
