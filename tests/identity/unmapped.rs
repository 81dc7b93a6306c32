//! Root of a user namespace that doesn't map every group, as in a rootless container.

use std::os::unix::fs::chown;

use crate::common::host::chmod;
use crate::common::{Workspace, is_root, path_str};

#[test]
fn root_without_every_group_is_told_to_be_a_normal_user() {
    let workspace = Workspace::new();
    if !is_root() {
        // A user maps its own alone, and then there is no other id to be.
        let mut unshare = crate::common::host::program("unshare", "util-linux");
        unshare
            .args(["--user", "--map-root-user"])
            .arg(crate::common::jail::binary());
        unshare
            .args(["run", "--clone"])
            .arg(workspace.clone_dir())
            .args(["--", "true"]);
        unshare.env_remove("GITHUB_ACTIONS");
        let run = crate::common::finish(crate::common::jail::spawn(&mut unshare));
        run.assert_refused("identity");
        assert!(run.refusal().contains("as a normal user"), "{run:#?}");
        return;
    }
    let group = 60_001;
    chmod(workspace.root(), 0o755);
    chmod(&workspace.probe(), 0o755);
    let few = ["few-groups", "50000"];
    let says = "doesn't map every group";
    // An out-dir that is new gets the clone's owner; a group that isn't mapped can't be given.
    chown(workspace.clone_dir(), None, Some(group)).expect("chgrp");
    for (jail, reason) in [
        (workspace.jail_with_out(), "path"),
        (workspace.jail(), "maps"),
    ] {
        let run = jail.in_situation(&few).refused(reason);
        assert!(run.refusal().contains(says), "{run:#?}");
        assert!(run.refusal().contains("as a normal user"), "{run:#?}");
    }
    // What it says to do works, whatever the clone's group is.
    let uid = 4_300;
    chown(workspace.clone_dir(), Some(uid), None).expect("chown");
    let out = workspace.folder("out");
    chown(&out, Some(uid), None).expect("chown");
    let probe = workspace.probe();
    let user = [&few[..], &["--", path_str(&probe), "as-user", "4300"]].concat();
    // The user may not reach where it was built.
    let (copy, _) = workspace.named_binary();
    let run = workspace
        .jail_with_out()
        .binary(copy)
        .in_situation(&user)
        .run(&["say", "ran"]);
    assert_eq!(run.ok(), "ran");
}
