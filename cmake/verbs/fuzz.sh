# Runs the libFuzzer targets of tests/fuzz for longer than ./tern test does.

help_fuzz() {
    cat <<'END'
usage: ./tern fuzz [SECONDS] [TARGET...]

Runs each fuzz target for SECONDS (60), or only the named ones, e.g. ./tern fuzz 600 wire. What they
learn is kept in build/fuzz/TARGET and used the next time; a failure names the input that caused it.
END
}

fuzz_target() { # NAME SECONDS
    local learned=$TERN_BUILD/fuzz/$1
    say "fuzz_$1 for $2 s"
    mkdir -p "$learned"
    "$TERN_BUILD/tests/fuzz_$1" -max_total_time="$2" -timeout=10 -rss_limit_mb=512 \
        -malloc_limit_mb=64 -print_final_stats=1 -artifact_prefix="$learned-" "$learned" \
        "$TERN_ROOT/tests/fuzz/corpus/$1" ||
        fail "fuzz_$1 failed; reproduce: $TERN_BUILD/tests/fuzz_$1 $learned-*"
}

verb_fuzz() {
    local seconds=60 targets=() target
    if [[ ${1:-} =~ ^[0-9]+$ ]]; then
        seconds=$1
        shift
    fi
    verb_setup build test
    targets=("$@")
    if [ ${#targets[@]} -eq 0 ]; then
        for target in "$TERN_ROOT"/tests/fuzz/corpus/*; do
            targets+=("$(basename "$target")")
        done
    fi
    for target in "${targets[@]}"; do
        [ -d "$TERN_ROOT/tests/fuzz/corpus/$target" ] ||
            usage_error "fuzz: there is no target '$target'; see tests/fuzz/corpus"
    done
    build_variant release "${targets[@]/#/fuzz_}"
    for target in "${targets[@]}"; do
        fuzz_target "$target" "$seconds"
    done
}
