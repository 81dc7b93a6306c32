//! What the linker is told about the release: what it leaves out, and what it puts together.

use std::env;

const SCRIPTS: [&str; 2] = ["release.ld", "start.ld"];

fn main() {
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    for script in SCRIPTS {
        println!("cargo::rerun-if-changed={script}");
        if let (true, Ok(here)) = (is_release, env::var("CARGO_MANIFEST_DIR")) {
            println!("cargo::rustc-link-arg-bins=-T{here}/{script}");
        }
    }
}
