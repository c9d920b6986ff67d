# Every test in three builds, under one ctest, so that its closing lines count them all.

help_test() {
    cat <<'END'
usage: ./tern test [--quick] [--no-skips] [-- CTEST-OPTION...]

Installs what is missing, builds, and runs every test: in a release build, again under the address
and undefined-behaviour sanitizers, and the aggregator's under the thread sanitizer. The output
ends with ctest's summary of all of them.

  --quick      the release build only
  --no-skips   a skipped test is a failure (CI does this)

Tests on real input read the folder that the environment variable TERN_DATA_DIR names (the four
IDX .gz files of Fashion-MNIST); without it they are reported as skipped.

  ./tern test --quick -- -R codec      only the tests whose name matches

Images for microcontrollers have a compiler and tests of their own: ./tern firmware --test
END
}

# Tests of what runs in several threads: the aggregator, and a fleet against it.
TERN_THREADED_TESTS='^(admin_|aggregator_|service_|store_|test_listener|test_http|script_experiment|test_fleet_p)'

# Only what these tests run: their own programs, and those that their scripts start.
build_threaded() {
    local targets
    [ -z "${TERN_SKIP_BUILD:-}" ] || return 0
    configure_variant tsan
    mapfile -t targets < <(cmake --build "$TERN_BUILD/tsan" --target help |
        sed -nE 's/^(\.\.\. )?([a-z_]+)(: phony)?$/\2/p' | grep -E "$TERN_THREADED_TESTS")
    [ ${#targets[@]} -gt 0 ] || fail "no target is a test for the thread sanitizer"
    build_variant tsan "${targets[@]}" tern-aggregator tern-fleet make_federation
}

verb_test() {
    local quick=no skips=yes
    while [ $# -gt 0 ]; do
        case $1 in
        --quick) quick=yes ;;
        --no-skips) skips=no ;;
        --)
            shift
            break
            ;;
        *) usage_error "test: unknown option '$1'; ./tern test --help" ;;
        esac
        shift
    done
    if [ -n "${TERN_DATA_DIR:-}" ]; then
        TERN_DATA_DIR=$(cd -- "$TERN_DATA_DIR" 2>/dev/null && pwd) ||
            fail "TERN_DATA_DIR names a folder that is not there"
        export TERN_DATA_DIR
    fi
    verb_setup build test
    build_variant release
    local variants=("release:$TERN_BUILD:-LE:firmware")
    if [ "$quick" = no ]; then
        build_variant asan
        build_threaded
        variants+=("asan:$TERN_BUILD/asan:-LE:lint|release|fuzz|real-input|firmware")
        variants+=("tsan:$TERN_BUILD/tsan:-R:$TERN_THREADED_TESTS")
    fi
    run_tests "$skips" "${variants[@]}" -- "$@"
}

run_tests() { # SKIPS VARIANT... -- CTEST-OPTION...
    local skips=$1 variants=() all=$TERN_BUILD/all-tests
    shift
    while [ "$1" != -- ]; do
        variants+=("$1")
        shift
    done
    shift
    mkdir -p "$all"
    python3 "$TERN_ROOT/cmake/verbs/merge_tests.py" "$all" "${variants[@]}" ||
        fail "the tests could not be listed"
    say "tests"
    local status=0
    ctest --test-dir "$all" -j "$(cores)" --output-on-failure --no-tests=error "$@" \
        --output-log "$all/log.txt" || status=$?
    if [ "$skips" = no ] && grep -qE '\*\*\*(Skipped|Not Run)' "$all/log.txt"; then
        fail "tests were skipped (named above), and --no-skips does not allow that"
    fi
    [ "$status" -eq 0 ] || fail "tests failed; the whole log is $all/log.txt"
}
