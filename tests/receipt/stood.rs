//! Each value is what the command itself sees.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::{Value, json};

use super::made::{Made, route};
use crate::common::host::{program, unique};
use crate::common::jail::{Run, binary};
use crate::common::path_str;

/// What the shell tells of itself, file by file.
const LOOK: &str = r"
for name in user mnt pid net ipc uts cgroup; do readlink /proc/$$/ns/$name; done
echo ----
for fd in 0 1 2; do readlink /proc/$$/fd/$fd; done
echo ----
cat /proc/$$/status
echo ----
cat /proc/$$/limits
echo ----
cat /proc/$$/mountinfo
echo ----
cat /proc/1/status
";

fn look() -> (Made, Value, Vec<String>) {
    let made = Made::new();
    let jail = made.jail().flag("--out-dir", made.workspace.out_dir());
    let (run, receipt) = made.of(jail, &["sh", "-c", LOOK]);
    let parts: Vec<String> = run.stdout.split("----\n").map(str::to_owned).collect();
    assert_eq!(parts.len(), 6, "{run:#?}");
    (made, receipt, parts)
}

/// The numbers in a field of /proc/PID/status.
fn numbers(status: &str, name: &str) -> Value {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}:")));
    let words = line.expect(name).split_whitespace();
    json!(
        words
            .map(|word| word.parse::<u32>().unwrap())
            .collect::<Vec<_>>()
    )
}

fn word<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.expect(name).trim()
}

fn assert_is_process(process: &Value, status: &str) {
    for (field, name) in [
        ("inheritable", "CapInh"),
        ("permitted", "CapPrm"),
        ("effective", "CapEff"),
        ("bounding", "CapBnd"),
        ("ambient", "CapAmb"),
    ] {
        assert_eq!(process["capabilities"][field], word(status, name));
    }
    assert_eq!(process["no_new_privs"], word(status, "NoNewPrivs") == "1");
    assert_eq!(json!([process["seccomp_mode"]]), numbers(status, "Seccomp"));
    assert_eq!(
        json!([process["seccomp_filters"]]),
        numbers(status, "Seccomp_filters")
    );
}

#[test]
fn it_tells_what_the_command_sees() {
    let (_made, receipt, parts) = look();
    let jail = &receipt["jail"];

    let inside: Vec<&str> = parts[0].lines().collect();
    for (name, link) in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .iter()
        .zip(inside)
    {
        let own = fs::metadata(format!("/proc/self/ns/{name}")).unwrap().ino();
        assert_eq!(jail["namespaces"][name]["host"], own, "{name}");
        let number = &jail["namespaces"][name]["jail"];
        assert_eq!(link, format!("{name}:[{number}]"));
    }

    let open = jail["descriptors"]["open"].as_array().unwrap();
    let what: Vec<&str> = open.iter().map(|fd| fd["what"].as_str().unwrap()).collect();
    assert_eq!(what, parts[1].lines().collect::<Vec<_>>());

    let status = &parts[2];
    assert_is_process(&jail["command"], status);
    for (field, name) in [("uids", "Uid"), ("gids", "Gid"), ("groups", "Groups")] {
        assert_eq!(jail["command"][field], numbers(status, name));
    }
    assert_is_process(&jail["init"], &parts[5]);
}

#[test]
fn it_tells_the_limits_and_mounts_that_the_command_sees() {
    let (_made, receipt, parts) = look();
    let jail = &receipt["jail"];
    let limits = jail["limits"]["rlimits"].as_object().unwrap();
    assert_eq!(
        limits.len(),
        parts[3].lines().count() - 1,
        "but for its head"
    );
    let nofile = parts[3]
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let shown = format!("{} {}", limits["nofile"]["soft"], limits["nofile"]["hard"]);
    let words: Vec<&str> = nofile.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(words.join(" "), shown);

    let table = jail["mounts"]["table"].as_array().unwrap();
    let told: Vec<String> = table
        .iter()
        .map(|mount| {
            let options: Vec<&str> = mount["options"]
                .as_array()
                .unwrap()
                .iter()
                .map(|option| option.as_str().unwrap())
                .collect();
            let text = |name: &str| mount[name].as_str().unwrap();
            format!("{} {} {}", text("root"), text("path"), options.join(","))
        })
        .collect();
    let seen: Vec<String> = parts[4]
        .lines()
        .map(|line| {
            line.split(' ')
                .skip(3)
                .take(3)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(told, seen);
}

#[test]
fn it_tells_who_started_it_and_with_what() {
    let (_made, receipt, _) = look();
    let sum = program("sha256sum", "coreutils")
        .arg(binary())
        .output()
        .unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    assert_eq!(
        receipt["groom_ns"]["sha256"],
        sum.split(' ').next().unwrap()
    );
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(receipt["kernel"]["release"], kernel.trim());
    let (uid, gid) = (
        nix::unistd::geteuid().as_raw(),
        nix::unistd::getegid().as_raw(),
    );
    assert_eq!(receipt["started_by"]["uid"], uid);
    assert_eq!(receipt["started_by"]["gid"], gid);
    assert_eq!(receipt["started_by"]["route"], route());
    // As a user the command is the user; as root it is nobody that the host knows.
    let host = receipt["jail"]["init"]["uids"][0].as_u64().unwrap();
    assert_eq!(host == u64::from(uid), route() == "user");
    assert_ne!(host, 0);
}

#[test]
fn values_of_variables_and_arguments_are_not_in_it() {
    let made = Made::new();
    let (secret, word) = (unique("secret"), unique("word"));
    let jail = made.jail().flag("--env", format!("NAMED={secret}"));
    let script = format!("echo $NAMED; : {word}");
    let (run, receipt) = made.of(jail, &["sh", "-c", &script]);
    assert_eq!(run.stdout, format!("{secret}\n"), "vacuous: {run:#?}");
    let text = fs::read_to_string(made.file()).unwrap();
    assert!(!text.contains(&secret), "{text}");
    assert!(!text.contains(&word), "{text}");
    let names = receipt["command"]["environment"].as_array().unwrap();
    let names: BTreeSet<&str> = names.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names, ["HOME", "NAMED", "PATH", "TERM"].into());
    assert_eq!(receipt["command"]["program"], "sh");
    assert_eq!(receipt["command"]["arguments"], 2);
    let words = format!("sh\0-c\0{script}\0");
    let words = made.workspace.file("words", &words);
    let sum = program("sha256sum", "coreutils")
        .arg(words)
        .output()
        .unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    assert_eq!(receipt["command"]["sha256"], sum.split(' ').next().unwrap());
}

/// A run that may do little, and what `verify` says of it by a policy that says so.
fn strictly() -> Run {
    let made = Made::new();
    let jail = made.jail().flag("--out-dir", made.workspace.out_dir());
    let (run, receipt) = made.of(jail, &["sh", "-c", "exit 3"]);
    assert_eq!(run.code, Some(3), "{run:#?}");
    let none = "0".repeat(64);
    let policy = format!(
        r#"
        exit-code = [3]
        ended-by = ["exited"]
        version-min = "0.1.0"
        kernel-min = "5.19"
        binary-sha256 = ["{}"]
        seccomp-sha256 = ["{}"]
        command-sha256 = ["{}"]
        route = "{}"
        landlock-abi-min = 2
        landlock-absent = ["truncate", "ioctl_dev", "scope_abstract_unix_socket", "scope_signal", "resolve_unix"]
        allow-ptrace = false
        writable = ["{}"]
        environment = ["HOME", "PATH", "TERM"]
        program = ["sh"]
        max-age-s = 600
        max-command-s = 600
        rlimits = {{ core = 1, nofile = 1048576 }}
        broker.allowed = false
        "#,
        receipt["groom_ns"]["sha256"].as_str().unwrap(),
        receipt["jail"]["seccomp"]["sha256"]
            .as_str()
            .unwrap_or(&none),
        receipt["command"]["sha256"].as_str().unwrap(),
        route(),
        path_str(&made.workspace.out_dir()),
    );
    made.verify(&policy)
}

#[test]
fn a_strict_policy_holds() {
    let run = strictly();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:#?}");
    assert_eq!(run.stdout, "the receipt is as it should be\n");
}

/// Taken away, each mechanism that a receipt can show makes this one fail
/// (docs/sabotage.md). The self-check is left out: where it would refuse the run, it is
/// taken away as well.
#[test]
fn what_was_read_back_is_as_it_should_be() {
    let run = strictly();
    assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
    let lines = run.stdout.lines();
    let left: Vec<&str> = lines
        .filter(|line| !line.starts_with("jail.self_check"))
        .filter(|line| *line != "the receipt is as it should be")
        .collect();
    assert_eq!(left, [""; 0]);
}
