//! Supplementary groups, which open files that nobody meant to give (nsjail#288).

use std::os::unix::fs::chown;

use crate::common::host::chmod;
use crate::common::{Jail, Workspace, is_root, path_str};

const USER: u32 = 2_000_000_301;
const GROUP: &str = "2000000302";

/// A user's own groups can't be dropped: what they open is open to the command, so
/// the plan names them. Made by root, as which alone a group can be put on.
#[test]
fn a_users_are_kept_and_named_in_the_plan() {
    if !is_root() {
        // That a user's are those of the plan is shown in tests/identity.rs.
        assert_ne!(nix::unistd::geteuid().as_raw(), 0);
        return;
    }
    let workspace = Workspace::new();
    let (binary, _) = workspace.named_binary();
    let secret = workspace.file("given/secret", "of the group");
    chown(&secret, Some(0), Some(GROUP.parse().expect("a group"))).expect("root");
    chmod(&secret, 0o640);
    chmod(workspace.root(), 0o755);
    chown(workspace.clone_dir(), Some(USER), Some(USER)).expect("root");
    let user = USER.to_string();
    let as_user = |groups: &[&str]| -> Jail {
        let situation = [&["as-user", user.as_str()], groups].concat();
        let jail = workspace.jail().binary(binary.clone());
        let jail = jail.flag("--ro-file", workspace.path("given"));
        jail.in_situation(&situation)
    };
    let read = ["read", path_str(&secret)];
    assert_eq!(as_user(&[GROUP]).run(&read).ok(), "of the group");
    assert_eq!(as_user(&[]).run(&read).outcome(), "EACCES", "control");
    let plan = as_user(&[GROUP]).switch("--plan=json").run(&["exit", "0"]);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).expect("a plan");
    assert_eq!(plan["identity"]["groups"].to_string(), format!("[{GROUP}]"));
}
