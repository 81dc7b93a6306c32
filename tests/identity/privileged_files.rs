//! Programs that give rights to whoever runs them, where the command can write.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use crate::common::host::{chmod, program, system_program};
use crate::common::{Workspace, is_root, path_str};

/// cap_net_bind_service+ep, as linux/capability.h lays it out (revision 2).
const SET_CAPABILITIES: &str = "import os, struct, sys
value = struct.pack('<5I', 0x02000001, 1 << 10, 0, 0, 0)
os.setxattr(sys.argv[1], 'security.capability', value)";
const HAS_CAPABILITIES: &str = "import os, sys
sys.exit('security.capability' not in os.listxattr(sys.argv[1]))";
/// Through a shared mapping, which leaves bits and attributes alone.
const REWRITE: &str = "import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
mmap.mmap(file, 0)[0:7] = b'planted'";

fn python(script: &str, path: &Path) -> bool {
    let mut python = program("python3", "python3");
    let status = python.args(["-c", script]).arg(path).status();
    status.expect("python3 starts").success()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Right {
    Mode(u32),
    Capabilities,
}

impl Right {
    fn give(self, path: &Path) {
        match self {
            Right::Mode(mode) => chmod(path, mode),
            Right::Capabilities => assert!(python(SET_CAPABILITIES, path), "setxattr"),
        }
    }

    fn is_on(self, path: &Path) -> bool {
        match self {
            Right::Mode(mode) => fs::metadata(path).expect("a file").mode() & 0o7777 == mode,
            Right::Capabilities => python(HAS_CAPABILITIES, path),
        }
    }
}

#[test]
fn as_root_they_are_refused_by_name_where_they_could_be_rewritten() {
    let rights = [
        Right::Mode(0o4755),
        Right::Mode(0o2755),
        // Without an execute bit: an ACL sets that and keeps the other.
        Right::Mode(0o2644),
        Right::Mode(0o4644),
        Right::Capabilities,
    ];
    for right in rights {
        for place in ["clone/tools", "out/tools"] {
            let workspace = Workspace::with_git();
            let file = workspace.file(&format!("{place}/tool"), "a program\n");
            chmod(&file, 0o755);
            // A set-group-id folder gives no rights.
            chmod(file.parent().expect("a folder"), 0o2755);
            if !is_root() {
                // A user's own: the command is that user already.
                let run = workspace.jail_with_out().writable().run(&["say", "ran"]);
                assert_eq!(run.ok(), "ran");
                continue;
            }
            let run = workspace.jail_with_out().writable().run(&["say", "ran"]);
            assert_eq!(run.ok(), "ran", "without rights: {run:#?}");
            right.give(&file);
            let run = workspace.jail_with_out().writable().refused("owner");
            assert!(run.refusal().contains(path_str(&file)), "{run:#?}");
            if place == "clone/tools" {
                // It can't be rewritten in a read-only clone.
                let run = workspace.jail_with_out().run(&["say", "ran"]);
                assert_eq!(run.ok(), "ran", "{run:#?}");
            }
            assert_rewritten(&workspace, &file, right);
        }
    }
}

/// Below Linux 6.13, and in an outer filter that doesn't know the newer call, an older one
/// is asked. Where nobody answers, that is no "no".
#[test]
fn as_root_capabilities_are_seen_where_the_newer_call_is_denied() {
    if !is_root() {
        // A user's own give nothing that the command hasn't: it isn't asked for them.
        assert_ne!(nix::unistd::geteuid().as_raw(), 0);
        return;
    }
    let workspace = Workspace::with_git();
    let file = workspace.file("clone/tools/tool", "a program\n");
    let (probe, getxattrat) = (workspace.probe(), "464");
    let jail = |situation: &[&str]| workspace.jail().writable().in_situation(situation);
    let newer = ["ENOSYS", "EPERM"].map(|errno| ["deny-syscall", getxattrat, errno]);
    let older = ["--", path_str(&probe), "deny-syscall", "lgetxattr", "EPERM"];
    for newer in &newer {
        assert_eq!(jail(newer).run(&["say", "ran"]).ok(), "ran", "without");
        let both = [&newer[..], &older].concat();
        let run = jail(&both).refused("owner");
        assert!(run.refusal().contains("/clone/"), "{run:#?}");
    }
    Right::Capabilities.give(&file);
    for newer in &newer {
        let run = jail(newer).refused("owner");
        assert!(run.refusal().contains(path_str(&file)), "{run:#?}");
    }
}

/// The control: the file's owner, with no privilege, as which the command runs.
fn assert_rewritten(workspace: &Workspace, file: &Path, right: Right) {
    chmod(workspace.root(), 0o711);
    let mut owner = program("setpriv", "util-linux");
    chown(file, Some(2_000_000_125), Some(2_000_000_125)).expect("root");
    right.give(file);
    owner.args(["--reuid=2000000125", "--regid=2000000125", "--clear-groups"]);
    let status = owner
        .args([&system_program("python3", "python3"), "-c", REWRITE])
        .arg(file)
        .status();
    assert!(status.expect("setpriv starts").success(), "a mapping");
    let text = fs::read_to_string(file).expect("a file");
    assert_eq!(text, "plantedam\n");
    assert!(right.is_on(file), "vacuous: {right:?} went away");
}

/// What the system's folders show is what anybody may read there.
#[test]
fn as_root_nothing_private_of_the_system_is_given() {
    let workspace = Workspace::new();
    for path in ["/etc/shadow", "/etc", "/usr/share"] {
        let jail = workspace.jail().flag("--ro-file", path);
        if is_root() {
            let run = jail.refused("path");
            assert!(run.refusal().contains("shown already"), "{run:#?}");
        } else if path == "/usr/share" {
            assert_eq!(jail.run(&["pids"]).code, Some(0));
        } else {
            // Whatever is given, the user is who reads.
            let run = jail.run_program(&["cat", "/etc/shadow"]);
            assert_ne!(run.code, Some(0), "{run:#?}");
        }
    }
}
