# Runs the libFuzzer targets of tests/fuzz.

help_fuzz() {
    cat <<'END'
usage: ./tern fuzz [SECONDS] [TARGET...]

Builds the fuzzers with clang and runs each for SECONDS (60), or only the named ones. What they
find and learn is kept in build/fuzz; a crash stops the run and names the file that reproduces it.
END
}

verb_fuzz() {
    local seconds=60 dir=$TERN_BUILD/fuzz program name corpus
    if [[ ${1:-} =~ ^[0-9]+$ ]]; then
        seconds=$1
        shift
    fi
    [ -d "$TERN_ROOT/tests/fuzz" ] || fail "this version has no fuzz targets (tests/fuzz)"
    verb_setup build test fuzz
    say "build (fuzz)"
    mkdir -p "$dir"
    quietly "$dir/configure.log" "configuring the fuzz build" \
        cmake -S "$TERN_ROOT" -B "$dir" -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug \
        -DTERN_FUZZ=ON
    cmake --build "$dir" -j "$(cores)" --target fuzzers || fail "the fuzz build failed"
    for program in "$dir"/fuzz/*; do
        [ -x "$program" ] && [ -f "$program" ] || continue
        name=$(basename "$program")
        [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
        say "$name for $seconds s"
        corpus=$dir/corpus/$name
        mkdir -p "$corpus"
        "$program" -max_total_time="$seconds" -print_final_stats=1 \
            -artifact_prefix="$dir/$name-" "$corpus" \
            $([ -d "$TERN_ROOT/tests/fuzz/seeds/$name" ] && echo "$TERN_ROOT/tests/fuzz/seeds/$name") ||
            fail "$name failed; the input that does it is $dir/$name-*"
    done
}
