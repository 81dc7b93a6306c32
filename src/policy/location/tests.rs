//! Made-up mount tables.

use super::*;
use crate::plan::step::Inode;
use crate::policy::testing::{candidate, host};

/// From `ID PARENT DEVICE ROOT POINT [ro]` lines.
fn table(lines: &[&str]) -> Vec<Mount> {
    let line = |line: &&str| {
        let options = if line.ends_with(" ro") { "" } else { " rw" };
        format!(
            "{line}{options} - ext4 x rw
"
        )
    };
    let text: String = lines.iter().map(line).collect();
    mountinfo::parse(text.as_bytes()).expect("a table")
}

const ROOT: &str = "20 1 8:1 / /";

#[test]
fn places() {
    let table = table(&[
        ROOT,
        "21 20 8:1 /data /srv",
        "22 20 8:2 /@home /home",
        "23 22 8:2 /@home/u/a /home/u/b",
        // /m/n is covered by /m, and that by another.
        "24 20 8:3 / /m/n",
        "25 20 8:4 / /m",
        "26 25 8:5 / /m",
        "27 20 8:1 /etc/hosts /f",
    ]);
    for (path, device, inner) in [
        ("/", "8:1", "/"),
        ("/x/y", "8:1", "/x/y"),
        ("/srv", "8:1", "/data"),
        ("/srv/x", "8:1", "/data/x"),
        ("/srvx", "8:1", "/srvx"),
        ("/home/u/c", "8:2", "/@home/u/c"),
        ("/home/u/b/d", "8:2", "/@home/u/a/d"),
        ("/m/n/o", "8:5", "/n/o"),
        ("/f", "8:1", "/etc/hosts"),
    ] {
        let spot = locate(&table, Path::new(path)).expect(path);
        let expected = (device, Path::new(inner));
        assert_eq!((spot.device.as_str(), spot.inner.as_path()), expected);
    }
    let seen: Vec<u32> = beneath(&table, Path::new("/"))
        .map(|mount| mount.id)
        .collect();
    assert_eq!(seen, [21, 22, 23, 26, 27], "the covered ones aren't");
    assert_eq!(locate(&[], Path::new("/x")), None);
}

#[test]
fn folders_above_a_place() {
    let table = table(&[
        ROOT,
        "21 20 8:1 /w/co/pkg /mnt/pkg",
        "22 20 8:2 / /w/data",
        "23 20 8:2 /sub /srv/sub",
        // Nothing of it is seen at its own path.
        "24 20 8:3 / /hidden",
        "25 20 8:1 /hidden/co/pkg /mnt/hidden",
    ]);
    for (path, folders) in [
        ("/", &[][..]),
        ("/w/co/pkg", &["/", "/mnt", "/w", "/w/co"]),
        ("/mnt/pkg", &["/", "/mnt", "/w", "/w/co"]),
        (
            "/mnt/pkg/in",
            &["/", "/mnt", "/mnt/pkg", "/w", "/w/co", "/w/co/pkg"],
        ),
        ("/w/data/sub", &["/", "/srv", "/w", "/w/data"]),
        ("/srv/sub", &["/", "/srv", "/w", "/w/data"]),
        ("/mnt/hidden", &["/", "/mnt"]),
    ] {
        let found = above(&table, Path::new(path));
        assert_eq!(
            found,
            folders.iter().map(Path::new).collect::<Vec<_>>(),
            "{path}"
        );
    }
    let found = above(&[], Path::new("/a/b"));
    assert_eq!(found, [Path::new("/"), Path::new("/a")], "without a table");
}

/// Judges these places with `/c/.git` and `/c/n/.git` covered, if `rw`.
fn judged(lines: &[&str], rw: bool, all: &[(Role, &str)]) -> Option<Reason> {
    let table = table(&[&[ROOT], lines].concat());
    let all: Vec<Candidate> = all
        .iter()
        .map(|(role, path)| candidate(*role, path))
        .collect();
    let git = |path: &str| (PathBuf::from(path), Inode { dev: 1, ino: 1 });
    let covers = GitCovers {
        gits: vec![git("/c/.git"), git("/c/n/.git")],
        parents: Vec::new(),
    };
    let judged = judge(&all, rw, &host(), &table);
    let judged = judged.and_then(|()| {
        let covers = rw.then_some(&covers);
        covers.map_or(Ok(()), |covers| judge_gits(&all, covers, &table))
    });
    let refusal = judged.err()?;
    assert!(!refusal.remedy.is_empty() && !refusal.subject.is_empty());
    Some(refusal.reason)
}

#[test]
fn two_ways_to_one_place() {
    use Role::{Clone, OutDir, RoFile, Uds};
    let refused = Some(Reason::Overlap);
    for (mount, rw, other, expected) in [
        // The out-dir shows …
        ("8:1 /x /o", false, (RoFile, "/f"), None),
        ("8:1 /f /o", false, (RoFile, "/f"), refused),
        ("8:1 /f/sub /o", false, (RoFile, "/f"), refused),
        ("8:1 /f/sub /o/deep", false, (RoFile, "/f"), refused),
        ("8:1 / /o", false, (RoFile, "/f"), refused),
        ("8:2 /f /o", false, (RoFile, "/f"), None),
        ("8:1 /f2 /o", false, (RoFile, "/f"), None),
        ("8:1 /c/x /o", false, (RoFile, "/f"), refused),
        ("8:1 /c/x /o", true, (RoFile, "/f"), refused),
        ("8:1 /c/.git/hooks /o/x", true, (RoFile, "/f"), refused),
        ("8:1 /usr/share /o", false, (RoFile, "/f"), refused),
        ("8:1 /etc /o/x", false, (RoFile, "/f"), refused),
        ("8:1 /usr/bin /o/x", false, (RoFile, "/f"), refused),
        ("8:1 /s /o", false, (Uds, "/s/sock"), refused),
        // … or it is what a read-only place shows.
        ("8:1 /o /f/x", false, (RoFile, "/f"), refused),
        ("8:1 /o/x /c/x", false, (RoFile, "/f"), refused),
        // A writable clone.
        ("8:1 /c/src /f", true, (RoFile, "/f"), refused),
        ("8:1 /c/src /f", false, (RoFile, "/f"), None),
        ("8:1 /c/.git /c/x", true, (RoFile, "/f"), refused),
        ("8:1 /c/.git/hooks /c/x", true, (RoFile, "/f"), refused),
        ("8:1 /c/n /c/x", true, (RoFile, "/f"), refused),
        ("8:1 /c/x /c/y", true, (RoFile, "/f"), None),
        ("8:1 /c/x /c/n/.git ro", true, (RoFile, "/f"), refused),
        ("8:1 /c/n/.git /c/n/.git ro", true, (RoFile, "/f"), None),
        ("8:2 / /c/n/.git ro", true, (RoFile, "/f"), None),
        ("8:2 / /c/n", true, (RoFile, "/f"), None),
    ] {
        let line = format!("30 20 {mount}");
        let all = [(Clone, "/c"), (OutDir, "/o"), other];
        assert_eq!(judged(&[&line], rw, &all), expected, "{mount} rw={rw}");
    }
}

#[test]
fn a_mount_in_a_git() {
    let all = [(Role::Clone, "/c")];
    for (point, rw, reason) in [
        ("/c/.git/hooks", true, Some(Reason::Git)),
        ("/c/.git/hooks ro", true, Some(Reason::Git)),
        ("/c/.git", true, Some(Reason::Git)),
        ("/c/.git ro", true, None),
        ("/c/n/.git/x/y", true, Some(Reason::Git)),
        ("/c/.git/hooks", false, None),
        ("/c/.gitx", true, None),
    ] {
        let line = format!("30 20 8:2 / {point}");
        assert_eq!(judged(&[&line], rw, &all), reason, "{point}");
    }
}
