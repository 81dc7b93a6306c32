//! A whole home that is given read-only: it is shown, and that is said.

use crate::common::{Run, Workspace, path_str};

fn warned(run: &Run) -> Vec<&str> {
    let lines = run.stderr.lines();
    lines
        .filter(|line| line.contains("a whole home folder"))
        .collect()
}

#[test]
fn a_home_that_is_given_is_warned_of() {
    let workspace = Workspace::new();
    let key = workspace.file("homes/me/.ssh/id", "secret");
    let tool = workspace.file("homes/me/bin/tool", "tool");
    let home = workspace.path("homes/me");
    let jail = || workspace.jail().host_env("HOME", &home);
    std::os::unix::fs::symlink("homes", workspace.path("link")).expect("a link");
    for given in ["homes/me", "homes", "link/me"] {
        let given = workspace.path(given);
        let run = jail()
            .flag("--ro-file", &given)
            .run(&["read", path_str(&key)]);
        assert_eq!(run.ok(), "secret", "vacuous: it isn't shown");
        let said = warned(&run);
        assert_eq!(said.len(), 1, "{run:#?}");
        assert!(said[0].contains(path_str(&home)), "{run:#?}");
    }
    // What is needed of it is given without a word.
    let bin = path_str(&tool);
    for given in [workspace.path("homes/me/bin"), tool.clone()] {
        let run = jail().flag("--ro-file", given).run(&["read", bin]);
        assert_eq!((run.ok(), warned(&run).len()), ("tool", 0), "{run:#?}");
    }
    // And the same folder where it is nobody's home.
    let run = workspace
        .jail()
        .flag("--ro-file", &home)
        .run(&["read", bin]);
    assert_eq!((run.ok(), warned(&run).len()), ("tool", 0), "{run:#?}");
}
