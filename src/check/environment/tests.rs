//! What each environment shows of itself: recorded, or as its own sources have it.

use super::*;

/// `uname -v` and mounts of an ordinary host.
const UBUNTU: &str = "Linux version 6.8.0-45-generic (buildd@lcy02-amd64-115) (x86_64-linux-gnu-gcc-13) #45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024\n";
const HOST_MOUNTS: &str = "\
22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw
28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
35 22 0:31 / /proc/sys/fs/binfmt_misc rw,relatime shared:15 - autofs systemd-1 rw,fd=32
40 35 0:38 / /proc/sys/fs/binfmt_misc rw,nosuid shared:16 - binfmt_misc binfmt_misc rw
";
/// `docker run` without flags: read-only binds, tmpfs over folders, /dev/null over files.
const DOCKER_MOUNTS: &str = "\
600 500 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
601 600 0:53 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
620 601 0:53 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw
625 601 0:60 / /proc/acpi ro,relatime - tmpfs tmpfs ro
626 601 0:54 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
";
const PRIVILEGED_MOUNTS: &str = "\
600 500 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
601 600 0:53 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
";

fn status(bounding: &str, no_new_privs: u8, seccomp: u8) -> String {
    format!(
        "Name:\tgroom-ns\nCapEff:\t0000000000000000\nCapBnd:\t{bounding}\n\
         NoNewPrivs:\t{no_new_privs}\nSeccomp:\t{seccomp}\nSeccomp_filters:\t{seccomp}\n"
    )
}

/// An ordinary host: no filter, the first user namespace.
fn host() -> Facts {
    Facts {
        version: UBUNTU.to_owned(),
        status: status("000001ffffffffff", 0, 0),
        mountinfo: HOST_MOUNTS.to_owned(),
        uid_map: "         0          0 4294967295\n".to_owned(),
        init: "systemd\n".to_owned(),
        cpu_flags: "flags\t\t: fpu vme de sse2 vmx".to_owned(),
        ..Facts::default()
    }
}

fn docker() -> Facts {
    Facts {
        status: status("00000000a80425fb", 0, 2),
        mountinfo: DOCKER_MOUNTS.to_owned(),
        dockerenv: true,
        init: "bash\n".to_owned(),
        ..host()
    }
}

fn says(summary: &str, facts: &Facts) {
    assert_eq!(recognise(facts).summary(), summary);
}

/// The flag that every hypervisor sets.
fn in_vm(facts: Facts) -> Facts {
    Facts {
        cpu_flags: "flags\t\t: fpu hypervisor lahf_lm".to_owned(),
        ..facts
    }
}

fn with_version(version: &str) -> Facts {
    Facts {
        version: version.to_owned(),
        ..host()
    }
}

fn on_actions(runner: &str, facts: Facts) -> Facts {
    Facts {
        github_actions: "true".to_owned(),
        runner_environment: runner.to_owned(),
        ..facts
    }
}

#[test]
fn hosts_and_runners() {
    says("on Linux", &host());
    says("on Linux in a virtual machine", &in_vm(host()));
    says(
        "a GitHub-hosted runner, on Linux in a virtual machine",
        &on_actions("github-hosted", in_vm(host())),
    );
    says(
        "a self-hosted runner, on Linux",
        &on_actions("self-hosted", host()),
    );
    // Nothing can be read: nothing is claimed.
    says("on Linux", &Facts::default());
}

#[test]
fn containers() {
    const PLAIN: &str = "unprivileged, on Linux, /proc has covers, an outer seccomp filter";
    says(&format!("a Docker container, {PLAIN}"), &docker());
    says(
        "a Docker container, privileged, on Linux",
        &Facts {
            status: status("000001ffffffffff", 0, 0),
            mountinfo: PRIVILEGED_MOUNTS.to_owned(),
            ..docker()
        },
    );
    // A job with `container:`.
    says(
        &format!("a GitHub-hosted runner, a Docker container, {PLAIN}"),
        &on_actions("github-hosted", docker()),
    );
    // Rootless.
    says(
        &format!("a Podman container, {PLAIN}, in a user namespace"),
        &Facts {
            dockerenv: false,
            containerenv: true,
            container: "podman".to_owned(),
            uid_map: "         0       1000          1\n         1     100000      65536\n"
                .to_owned(),
            ..docker()
        },
    );
    says(
        "a container, privileged, on Linux",
        &Facts {
            container: "systemd-nspawn".to_owned(),
            ..host()
        },
    );
}

#[test]
fn other_kernels() {
    let wsl2 = "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f) \
                #1 SMP Tue Nov 5 00:21:55 UTC 2024\n";
    let wsl2 = Facts {
        container: "wsl".to_owned(),
        ..in_vm(with_version(wsl2))
    };
    says("on WSL 2", &wsl2);
    says(
        "on WSL 1",
        &with_version(
            "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) \
             #1237-Microsoft Sat Sep 11 14:32:00 PST 2021\n",
        ),
    );
    // Today's, and those before 2023.
    for release in ["4.19.0-gvisor", "4.4.0"] {
        let version = format!("Linux version {release} #1 SMP Sun Jan 10 15:06:54 PST 2016\n");
        says("on gVisor", &with_version(&version));
    }
}

#[test]
fn sandboxes() {
    says(
        "a bubblewrap sandbox, on Linux, no_new_privs, in a user namespace",
        &Facts {
            init: "bwrap\n".to_owned(),
            status: status("0000000000000000", 1, 0),
            uid_map: "      1000       1000          1\n".to_owned(),
            ..host()
        },
    );
    says(
        "on Linux, an outer seccomp filter, no_new_privs",
        &Facts {
            status: status("000001ffffffffff", 1, 2),
            ..host()
        },
    );
}

#[test]
fn only_true_is_github_actions() {
    for value in ["", "false", "1"] {
        let facts = Facts {
            github_actions: value.to_owned(),
            runner_environment: "github-hosted".to_owned(),
            ..host()
        };
        assert_eq!(recognise(&facts).runner, None, "{value:?}");
    }
}

#[test]
fn the_advice_fits_the_place() {
    let hosted = on_actions("github-hosted", host());
    let gvisor = with_version("Linux version 4.19.0-gvisor #1 SMP\n");
    for (facts, reason, says) in [
        (host(), Reason::Userns, None),
        (
            hosted.clone(),
            Reason::Userns,
            Some("setup apparmor --install"),
        ),
        (hosted.clone(), Reason::Path, None),
        (docker(), Reason::Userns, Some("seccomp=unconfined")),
        (docker(), Reason::Proc, Some("systempaths=unconfined")),
        (docker(), Reason::Owner, Some("volume")),
        (docker(), Reason::Path, None),
        (gvisor, Reason::Landlock, Some("gVisor")),
        (
            Facts {
                init: "bwrap".to_owned(),
                ..host()
            },
            Reason::Userns,
            Some("start groom-ns outside"),
        ),
    ] {
        let advice = recognise(&facts).advice(reason);
        match says {
            Some(says) => assert!(advice.is_some_and(|advice| advice.contains(says)), "{says}"),
            None => assert_eq!(advice, None, "{reason:?}"),
        }
    }
}
