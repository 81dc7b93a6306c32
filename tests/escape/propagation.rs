//! Mounts that arrive later through a shared source (bubblewrap#522).

use crate::common::{Workspace, path_str};

#[test]
fn a_later_mount_of_the_host_does_not_appear_inside() {
    let workspace = Workspace::new();
    let (clone, out) = (workspace.clone_dir(), workspace.folder("out"));
    let trigger = out.join("trigger");
    let (dir, trigger) = (path_str(&clone).to_owned(), path_str(&trigger).to_owned());
    // The command asks for the mount, waits until it is there (the trigger is
    // gone), and looks.
    let script = format!(
        "echo >{trigger}; while [ -e {trigger} ]; do sleep 0.01; done; cat {dir}/late/seen || echo unseen"
    );
    let situation = ["late-mount", &dir, &trigger];
    let control = [&situation[..], &["--", "sh", "-c", &script]].concat();
    assert_eq!(workspace.unjailed(&control).outcome(), "seen", "vacuous");
    let jail = workspace.jail_with_out().in_situation(&situation);
    let run = jail.run_program(&["sh", "-c", &script]);
    assert_eq!(run.outcome(), "unseen");
}
