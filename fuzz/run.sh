#!/bin/sh
# Fuzzes one target with a stable compiler and g++:
#
#   fuzz/run.sh head -max_total_time=300
#
# Further words are libFuzzer's. New inputs gather in fuzz/target/corpus; a finding is
# a file fuzz/target/crash-…, which `fuzz/run.sh head target/crash-…` replays.
set -eu
cd "$(dirname "$0")"
name=$1
shift
# What cargo-fuzz would pass. The variable takes the place of the flags in
# ../.cargo/config.toml: in a static program libFuzzer's dlsym(3) finds no memcmp.
export RUSTFLAGS="--cfg fuzzing -C passes=sancov-module \
 -C llvm-args=-sanitizer-coverage-level=4 \
 -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
 -C llvm-args=-sanitizer-coverage-pc-table \
 -C llvm-args=-sanitizer-coverage-trace-compares \
 -C codegen-units=1"
if [ ! -f "${1:-}" ]; then
    mkdir -p "target/corpus/$name"
    set -- -max_len=4096 -dict="$name.dict" -artifact_prefix=target/ "$@" \
        "target/corpus/$name" "corpus/$name"
fi
exec cargo run --release --locked --bin "$name" -- "$@"
