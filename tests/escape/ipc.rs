//! System V objects, message queues, shared memory and keys of the host.

use crate::common::host::unique;
use crate::common::{Attack, Workspace, assert_denied_either_way};

/// Removes an object of the host, also when the test fails: a few queues left
/// behind use up the user's limit.
struct Removed<F: Fn()>(F);

impl<F: Fn()> Drop for Removed<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn shared_memory_of_the_host_is_unseen() {
    let workspace = Workspace::new();
    // A key that no other run uses; IPC_CREAT and 0666 make it on the host.
    let key = 0x6700_0000 | std::process::id();
    let made = workspace.unjailed(&["syscall", "shmget", &key.to_string(), "4096", "0x3b6"]);
    let id: i32 = made.ok().parse().expect("a segment");
    let _removed = Removed(|| {
        let removed = std::process::Command::new("ipcrm")
            .args(["-m", &id.to_string()])
            .status();
        assert!(
            removed.is_ok_and(|status| status.success()),
            "ipcrm of our own segment"
        );
    });
    let attack = Attack::new(format!("syscall shmget {key} 4096 0"), &["ENOENT"]);
    assert_denied_either_way(&workspace, || workspace.jail(), &[attack]);
}

#[test]
fn files_of_dev_shm_are_unseen() {
    let workspace = Workspace::new();
    let path = format!("/dev/shm/{}", unique("groom-ns-shm"));
    std::fs::write(&path, "host").expect("a file");
    let _removed = Removed(|| std::fs::remove_file(&path).expect("our file"));
    let attack = Attack::new(format!("read {path}"), &["ENOENT"]);
    assert_denied_either_way(&workspace, || workspace.jail(), &[attack]);
}

#[test]
fn message_queues_of_the_host_are_unseen() {
    let workspace = Workspace::new();
    let name = unique("groom-ns-queue");
    // O_CREAT with a mode and default attributes.
    let made = workspace.unjailed(&[
        "syscall",
        "mq_open",
        &format!("@{name}"),
        "O_CREAT",
        "0x1b6",
        "0",
    ]);
    assert!(made.outcome().starts_with("ok"), "vacuous: {made:#?}");
    let _removed = Removed(|| {
        let unlink = ["syscall", "mq_unlink", &format!("@{name}")];
        workspace.unjailed(&unlink).ok();
    });
    let attack = Attack::new(format!("syscall mq_open @{name} O_RDONLY 0 0"), &["ENOENT"]);
    assert_denied_either_way(&workspace, || workspace.jail(), &[attack]);
}

#[test]
fn keyrings_are_out_of_reach() {
    let workspace = Workspace::new();
    let attacks = [
        // KEYCTL_GET_KEYRING_ID of the session's and the user's keyring.
        Attack::new("syscall keyctl 0 -3 0", &["EPERM"]),
        Attack::new("syscall keyctl 0 -4 1", &["EPERM"]),
        Attack::new("syscall add_key @user @groom-ns-probe @x 1 -1", &["EPERM"]),
        // The control gets as far as not finding such a key.
        Attack::new("syscall request_key @user @groom-ns-none 0 -1", &["EPERM"])
            .control_answers("ENOKEY"),
    ];
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
}

#[test]
fn a_key_of_the_callers_session_is_not_found() {
    let workspace = Workspace::new();
    let name = unique("groom-ns-key");
    let find = [
        "syscall",
        "request_key",
        "@user",
        &format!("@{name}"),
        "0",
        "0",
    ];
    let situation = ["with-key", &name];
    let outside = workspace.unjailed_in(&situation, &find);
    assert!(outside.outcome().starts_with("ok"), "vacuous: {outside:#?}");
    let run = workspace.jail().in_situation(&situation).run(&find);
    // The filter says EPERM; without it, there is no such key in the jail's own keyring.
    assert!(["EPERM", "ENOKEY"].contains(&run.outcome()), "{run:#?}");
}
