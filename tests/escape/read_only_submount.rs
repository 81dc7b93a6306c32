//! Read-only that isn't recursive (bubblewrap#11; hakoniwa).

use crate::common::{Workspace, path_str};

#[test]
fn a_mount_beneath_a_read_only_source_is_read_only() {
    let workspace = Workspace::new();
    for place in ["clone/sub", "given/sub"] {
        let sub = workspace.folder(place);
        // Not a tmpfs, which root can't id-map before Linux 6.3.
        let from = workspace.folder(&format!("from-{}", place.replace('/', "-")));
        let mount = format!("bind:{}:{}", path_str(&from), path_str(&sub));
        let file = format!("file:{}/inner:text", path_str(&sub));
        let write = format!("write {}/new x", path_str(&sub));
        let read = format!("read {}/inner", path_str(&sub));
        // Control: in the same surroundings, unjailed, it can be written as root
        // or as the user that mounted it.
        let situation = ["mounts", &mount, &file];
        let outside = workspace.unjailed_in(&situation, &["each", &read, &write]);
        assert_eq!(outside.lines(), ["ok text", "ok"], "vacuous");

        let jail = workspace
            .jail()
            .flag("--ro-file", workspace.folder("given"));
        let run = jail.in_situation(&situation).run(&["each", &read, &write]);
        assert_eq!(run.lines(), ["ok text", "EROFS"], "{place}");
    }
}
