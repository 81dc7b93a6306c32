#!/bin/sh
# Stands in for rustc while run.sh builds. What is fuzzed, and the targets, tell libFuzzer
# which edges they take and what they compare; what they depend on is built plain, which
# is half of the work and leaves the counters to what matters.
rustc=$1
shift
case " $* " in
*" --crate-name groom_ns "* | *" fuzz_targets/"*)
    set -- "$@" -C passes=sancov-module -C codegen-units=1 \
        -C llvm-args=-sanitizer-coverage-level=4 \
        -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
        -C llvm-args=-sanitizer-coverage-pc-table \
        -C llvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
exec "$rustc" "$@"
