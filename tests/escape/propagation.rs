//! Mounts that travel through a shared source, in either direction (bubblewrap#522).

use std::fs;

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

#[test]
fn no_mount_of_the_jail_appears_outside() {
    let workspace = Workspace::with_git();
    // Control: beneath a shared mount, another namespace's mount does appear.
    let shared = workspace.folder("shared");
    let outside = workspace.unjailed(&["propagates", path_str(&shared)]);
    assert_eq!(outside.outcome(), "ok seen", "vacuous");

    let out = workspace.folder("out");
    let path = |name: &str| path_str(&workspace.path(name)).to_owned();
    let (before, during, out) = (path("before"), path("during"), path_str(&out));
    // The table is read while the command waits.
    let script = format!(
        "cat /proc/self/mounts >{before}; \"$@\" & \
         while [ ! -e {out}/ready ] && kill -0 $!; do sleep 0.01; done; \
         cat /proc/self/mounts >{during}; : >{out}/done; wait $!"
    );
    let mount = format!("shared:{}", path_str(&shared));
    let file = format!("file:{}/file:text", path_str(&shared));
    let jail = workspace
        .jail_with_out()
        .writable()
        .flag("--ro-file", &shared);
    let jail = jail.in_situation(&["mounts", &mount, &file, "--", "sh", "-c", &script]);
    let waits = format!(
        ": >{out}/ready; while [ ! -e {out}/done ]; do sleep 0.01; done; cat {}/file",
        path_str(&shared)
    );
    let run = jail.run_program(&["sh", "-c", &waits]);
    assert_eq!(run.outcome(), "text");
    let [before, during] = [before, during].map(|path| fs::read_to_string(path).expect("a table"));
    assert!(before.contains(path_str(&shared)), "vacuous: {before}");
    assert_eq!(before, during);
}
