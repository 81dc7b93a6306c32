//! The caller's groups that matter: a user can't drop them (setgroups is denied with its
//! map), so the command keeps them.

/// Groups whose members can become root, or read or write what root alone should.
const TELLING_GROUPS: [&str; 11] = [
    "adm", "disk", "docker", "incus", "kvm", "libvirt", "lxd", "podman", "shadow", "sudo", "wheel",
];

/// Names those of the caller's that matter. `/etc/group`, or nothing: it serves a warning,
/// and a host may have none.
pub(super) fn warning(groups: &[u32], primary: u32) -> Option<String> {
    named(
        groups,
        primary,
        &std::fs::read("/etc/group").unwrap_or_default(),
    )
}

fn named(groups: &[u32], primary: u32, etc_group: &[u8]) -> Option<String> {
    let held = |gid: u32| gid == primary || groups.contains(&gid);
    let names: Vec<&str> = etc_group
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b':');
            let (name, gid) = (fields.next()?, str::from_utf8(fields.nth(1)?).ok()?);
            let name = TELLING_GROUPS
                .iter()
                .find(|known| known.as_bytes() == name)?;
            held(gid.parse().ok()?).then_some(*name)
        })
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "the command keeps your groups, {} among them: files and sockets that it is shown \
             and that they may open, it may open (started with sudo, it has no groups)",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings() {
        let file = "root:x:0:\ndocker:x:999:u\ndisk:x:6:\nstaff:x:50:u\nbroken\nadm:x:no:\n";
        for (groups, primary, names) in [
            (&[50, 999][..], 1000, Some("docker")),
            (&[999, 6], 1000, Some("docker, disk")),
            (&[], 999, Some("docker")),
            (&[50], 1000, None),
            (&[], 1000, None),
        ] {
            let warning = named(groups, primary, file.as_bytes());
            match names {
                Some(names) => assert!(warning.is_some_and(|w| w.contains(names)), "{names}"),
                None => assert_eq!(warning, None),
            }
        }
    }
}
