//! The broker's own files, beside what the command sees.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use groom_ns::broker::key_source::KeySource;
use groom_ns::cli::{BrokerArgs, KeyArgs};
use groom_ns::policy::{Policy, Supplies};

use crate::places::{self, shown};
use crate::{Case, way};

pub fn args(key_file: Option<PathBuf>, upstream_ca: Option<PathBuf>) -> BrokerArgs {
    BrokerArgs {
        upstream: None,
        upstream_ca,
        key: KeyArgs {
            key_stdin: key_file.is_none(),
            key_file,
            key_fd: None,
            key_env: None,
        },
        auth_header: None,
        allow_routes: Vec::new(),
    }
}

/// Key and log are in nothing that the command sees, and it had no say in where they are.
pub fn check(case: &Case, policy: &Policy, supplies: Option<&Supplies>) {
    assert_eq!(policy.broker.is_some(), case.run.broker.is_some());
    assert_eq!(supplies.is_some(), case.run.broker.is_some());
    let Some(supplies) = supplies else {
        return;
    };
    let args = &case.run.broker_args;
    if let (Some(typed), KeySource::File(_, path)) = (&args.key.key_file, &supplies.key) {
        apart(case, policy, typed, path);
        let file = path.symlink_metadata().unwrap();
        assert!(!file.is_symlink() && !file.is_dir() && file.nlink() == 1);
    }
    if let (Some(typed), Some(log)) = (&case.run.broker_log, &supplies.log) {
        apart(case, policy, typed, &log.path);
        assert!(!log.path.symlink_metadata().is_ok_and(|log| !log.is_file()));
    }
    if let Some(typed) = &args.upstream_ca {
        let way = way::walk(&case.cwd, typed).unwrap();
        let mut untrusted = places::untrusted(policy);
        assert!(untrusted.all(|tree| !way.end.starts_with(tree)));
    }
}

fn apart(case: &Case, policy: &Policy, typed: &Path, judged: &Path) {
    let name = judged.file_name().unwrap();
    let folder = typed
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let way = way::walk(&case.cwd, folder.unwrap_or(Path::new("."))).unwrap();
    assert_eq!(way.end.join(name), judged);
    assert!(typed.file_name() == Some(name));
    for tree in shown(policy) {
        assert!(!judged.starts_with(tree), "{judged:?} in {tree:?}");
    }
    for tree in places::untrusted(policy) {
        assert!(
            !way.links.iter().any(|link| link.starts_with(tree)),
            "{way:?}"
        );
    }
}
