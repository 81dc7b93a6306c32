#!/bin/bash
# Fuzzes one target, or each for a while, with a stable compiler and g++:
#
#   fuzz/run.sh head -max_total_time=300
#   fuzz/run.sh --all 40
#
# Further words after a target's name are libFuzzer's. New inputs gather in
# fuzz/target/corpus; a finding is a file fuzz/target/NAME-crash-…, which
# `fuzz/run.sh NAME FILE` replays. See docs/fuzzing.md.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
targets=(flags head policy route)
# Slower by orders of magnitude than any input should be, in seconds.
readonly hang=25

# The variable takes the place of the flags in ../.cargo/config.toml: in a static
# program libFuzzer's dlsym(3) finds no memcmp.
build() {
    (cd "$here" && RUSTC_WRAPPER="$here/rustc.sh" RUSTFLAGS='--cfg fuzzing' \
        cargo build --release --locked "$@")
    host=$(rustc -vV | sed -n 's/^host: //p')
    built=${CARGO_TARGET_DIR:-$here/target}/$host/release
}

# By absolute paths throughout, since a target may change its folder.
fuzz() {
    local name=$1
    shift
    # Command lines are short, and there is much to say in one from the beginning.
    local lengths=(-max_len=4096)
    [[ $name != flags && $name != policy ]] || lengths=(-max_len=512 -len_control=0)
    mkdir -p "$here/target/corpus/$name"
    TMPDIR=$work "$built/$name" "${lengths[@]}" -timeout="$hang" -dict="$here/dict/$name" \
        -artifact_prefix="$here/target/$name-" "$@" \
        "$here/target/corpus/$name" "$here/corpus/$name"
}

# All at once: each has a core for half of the time on two.
all() {
    local name pids=() failed=0
    for name in "${targets[@]}"; do
        fuzz "$name" -max_total_time="$1" -print_final_stats=1 >"$here/target/$name.log" 2>&1 &
        pids+=($!)
    done
    for name in "${targets[@]}"; do
        if wait "${pids[0]}"; then
            printf '%-7s %s\n' "$name" "$(awk '/DONE/{c=$4} /^Done /{n=$2} END{print n " inputs, " c " edges"}' \
                "$here/target/$name.log")"
        else
            failed=1
            printf '%s: a finding, or it did not start:\n' "$name" >&2
            tail -n 40 "$here/target/$name.log" >&2
        fi
        pids=("${pids[@]:1}")
    done
    return "$failed"
}

# What `policy` builds its tree in, if possible in memory.
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

name=${1:?the name of a target, or --all SECONDS}
shift
if [[ $name == --all ]]; then
    build --bins
    all "${1:?seconds for each target}"
elif [[ -f ${1:-} ]]; then
    file=$(readlink -f "$1")
    build --bin "$name"
    TMPDIR=$work "$built/$name" "${@:2}" "$file"
else
    build --bin "$name"
    fuzz "$name" "$@"
fi
