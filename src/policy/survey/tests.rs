//! Trees with everything in them that matters.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use super::*;
use crate::policy::testing::{TempDir, held};

fn me() -> u32 {
    nix::unistd::geteuid().as_raw()
}

const NOTHING: Ask = Ask {
    gits: false,
    sockets: false,
    foreign_to: None,
    privileged: false,
    command: 0,
};

fn look_for(temp: &TempDir, ask: Ask) -> Found {
    walk(held(temp.path()).as_fd(), &ask)
}

#[test]
fn gits_of_every_kind_but_not_beneath_one() {
    let temp = TempDir::new();
    temp.dir(".git/modules/x/.git");
    temp.dir("a/b/.GIT");
    temp.file("c/.git", "gitdir: x");
    temp.link("d", "a");
    temp.link("a/.git", "b");
    temp.file("a/git", "");
    let ask = Ask {
        gits: true,
        ..NOTHING
    };
    let expected = [".git", "a/.git", "a/b/.GIT", "c/.git"].map(PathBuf::from);
    assert_eq!(look_for(&temp, ask).gits, expected);
    let ask = Ask {
        sockets: true,
        ..ask
    };
    assert_eq!(look_for(&temp, ask).gits, expected);
}

#[test]
fn bare_repositories_but_not_the_tree_itself() {
    let temp = TempDir::new();
    for name in ["", "a/x/", "a/less/", "a/x/modules/y/"] {
        temp.file(&format!("{name}HEAD"), "");
        temp.dir(&format!("{name}objects"));
        temp.dir(&format!("{name}refs"));
    }
    temp.dir("a/x/.git");
    std::fs::remove_file(temp.at("a/less/HEAD")).expect("remove");
    for foreign_to in [None, Some(me())] {
        let ask = Ask {
            gits: true,
            foreign_to,
            ..NOTHING
        };
        assert_eq!(look_for(&temp, ask).gits, [PathBuf::from("a/x")]);
    }
}

#[test]
fn sockets_everywhere() {
    let temp = TempDir::new();
    temp.dir(".git/x");
    temp.dir("a");
    let _one = UnixListener::bind(temp.at(".git/x/s")).expect("bind");
    let _two = UnixListener::bind(temp.at("a/s")).expect("bind");
    let ask = Ask {
        sockets: true,
        ..NOTHING
    };
    let found = look_for(&temp, ask);
    assert_eq!(found.sockets, [".git/x/s", "a/s"].map(PathBuf::from));
    assert!(found.gits.is_empty() && NOTHING.is_empty() && !ask.is_empty());
}

#[test]
fn foreign_owners() {
    let temp = TempDir::new();
    temp.file("a/b/f", "");
    let ask = |owner| Ask {
        foreign_to: Some(owner),
        ..NOTHING
    };
    assert_eq!(look_for(&temp, ask(me())).foreign, None);
    let foreign = look_for(&temp, ask(me() + 1)).foreign;
    assert_eq!(foreign, Some(PathBuf::from("a")));
}

#[test]
fn programs_with_more_rights() {
    for (mode, refused) in [
        (0o4755, true),
        (0o4644, true),
        (0o2755, true),
        (0o2745, true),
        (0o2644, true),
        (0o1755, false),
        (0o755, false),
    ] {
        let temp = TempDir::new();
        let mode_of = |path: &Path, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("chmod");
        };
        mode_of(&temp.dir("a"), 0o2755);
        mode_of(&temp.file("a/f", ""), mode);
        temp.link("a/l", "f");
        let ask = Ask {
            foreign_to: Some(me()),
            privileged: true,
            ..NOTHING
        };
        let expected = refused.then(|| PathBuf::from("a/f"));
        assert_eq!(look_for(&temp, ask).privileged, expected, "{mode:o}");
        let ask = Ask {
            privileged: false,
            ..ask
        };
        assert_eq!(look_for(&temp, ask).privileged, None, "{mode:o}");
    }
}

#[test]
fn folders_that_the_command_could_open() {
    let temp = TempDir::new();
    temp.dir("closed/x");
    temp.dir("listed/x");
    let mode = |name: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(temp.at(name), mode).expect("chmod");
    };
    mode("closed", 0o000);
    mode("listed", 0o400);
    let ask = Ask {
        gits: true,
        command: me(),
        ..NOTHING
    };
    let mut closed = look_for(&temp, ask).closed;
    let others = look_for(
        &temp,
        Ask {
            command: me() + 1,
            ..ask
        },
    )
    .closed;
    mode("closed", 0o700);
    mode("listed", 0o700);
    closed.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = ["closed", "listed/x"].map(|name| (PathBuf::from(name), Errno::EACCES));
    // Root reads everything.
    let expected = if me() == 0 { &[][..] } else { &expected };
    assert_eq!(closed, expected);
    assert_eq!(others, []);
}

#[test]
fn deeper_than_a_path_may_be_long() {
    let temp = TempDir::new();
    let name = "d".repeat(250);
    let mut at = held(temp.path());
    for _ in 0..20 {
        nix::sys::stat::mkdirat(&at, name.as_str(), nix::sys::stat::Mode::S_IRWXU)
            .expect("mkdirat");
        at = open_without_links(at.as_fd(), Path::new(&name)).expect("open");
    }
    let found = look_for(
        &temp,
        Ask {
            gits: true,
            ..NOTHING
        },
    );
    assert_eq!(found.closed.len(), 1);
    assert_eq!(found.closed[0].1, Errno::ENAMETOOLONG);
}

#[test]
fn a_walk_ends_at_the_first_of_another_owner() {
    let temp = TempDir::new();
    for number in 0..20 {
        temp.file(&format!("{number}"), "");
    }
    let mut entries = std::fs::read_dir(temp.path()).expect("a folder");
    let first = entries.next().expect("an entry").expect("an entry");
    let ask = Ask {
        foreign_to: Some(me() + 1),
        ..NOTHING
    };
    let found = look_for(&temp, ask).foreign;
    assert_eq!(found, Some(PathBuf::from(first.file_name())));
}
