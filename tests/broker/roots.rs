//! Whose certificates count where the command line names none: those of the host, whose
//! folder of them is another one here, in a mount namespace of the broker's own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::folder::Folder;
use crate::common::host::path_str;
use crate::common::jail::probe_binary;
use crate::common::upstream::ok;
use crate::common::{Broker, Upstream};
use crate::hostile::get;

const PLACE: &str = "/etc/ssl/certs";

/// What a broker answers whose host keeps its roots in this folder.
fn answer(certificates: &Path, upstream: &Upstream, variable: Option<(&str, &str)>) -> u16 {
    assert!(
        Path::new(PLACE).is_dir(),
        "this test needs {PLACE}: install the package ca-certificates"
    );
    // Another API's authority is named, which changes nothing.
    let stranger = Upstream::start(|_| ok(""));
    let start = Broker::to(&upstream.url(), &stranger.ca_file());
    let groom_ns = start.command();
    let over = format!("bind:{}:{PLACE}", path_str(certificates));
    let mut command = Command::new(probe_binary());
    command.args(["mounts", &over, "--"]);
    command
        .arg(groom_ns.get_program())
        .args(groom_ns.get_args());
    for (name, _) in groom_ns.get_envs().filter(|(_, value)| value.is_none()) {
        command.env_remove(name);
    }
    command
        .env_remove("SSL_CERT_FILE")
        .env_remove("SSL_CERT_DIR");
    command.envs(variable);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let broker = start.start_as(command);
    broker.client().ask(&get("/v1/models")).status
}

#[test]
fn a_file_of_all_roots_is_all_that_is_read() {
    let (of_the_file, of_the_folder) = (Upstream::start(|_| ok("")), Upstream::start(|_| ok("")));
    let folder = Folder::new();
    let copy = |upstream: &Upstream, name| {
        fs::copy(upstream.ca_file(), folder.path(name)).expect("a folder of our own");
    };
    copy(&of_the_folder, "one.pem");
    let at = |upstream, variable| answer(&folder.path(""), upstream, variable);

    // Without such a file, or where it is empty, the folder counts: the control.
    assert_eq!(at(&of_the_folder, None), 200);
    fs::write(folder.path("ca-certificates.crt"), "").expect("a folder of our own");
    assert_eq!(at(&of_the_folder, None), 200);
    assert_eq!(at(&of_the_file, None), 502);

    copy(&of_the_file, "ca-certificates.crt");
    assert_eq!(at(&of_the_file, None), 200);
    assert_eq!(at(&of_the_folder, None), 502);

    // Where the folder is named it counts, whatever is in it.
    let named = Some(("SSL_CERT_DIR", PLACE));
    assert_eq!(at(&of_the_folder, named), 200);
    assert_eq!(at(&of_the_file, named), 200);
}
