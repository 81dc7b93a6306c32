//! What the linker leaves out of the release.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=release.ld");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if let (true, Ok(here)) = (is_release, env::var("CARGO_MANIFEST_DIR")) {
        println!("cargo::rustc-link-arg-bins=-T{here}/release.ld");
    }
}
