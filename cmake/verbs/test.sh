# Every test in three builds, under one ctest, so that its closing lines count them all.

help_test() {
    cat <<'END'
usage: ./tern test [--quick|--long|--all] [--no-skips] [-- CTEST-OPTION...]

Installs what is missing, builds, and runs every test in a release build. The address and
undefined-behaviour sanitizers run the tests written in C again, and ten scripts that reach the most C
code (label "sanitized"); the thread sanitizer runs those of the service, its listener and its
administration. The sanitizers leave out what takes a minute there or repeats another test (label
"long"), the thread sanitizer also what starts the same threads as other tests (label "threads_long"). Tests of thousands of trials make fewer of them under a sanitizer, and each fuzzer tries its
corpus. Temporary files are in memory, below /dev/shm, where 8 GB of it are available
and TMPDIR is not set. The output ends with ctest's summary of all of them.

  --quick      the release build only
  --long       every test under the address sanitizer, the long tests under both sanitizers, all
               trials of tests that inject faults, and cppcheck over the tests, too
  --all        everything there is, and how long each part took: --long, each fuzzer for a minute,
               ./tern cross of every architecture, ./tern firmware with every image, each with its
               tests, ./tern image, ./tern browser, and tests with PyTorch, which it installs (600 MB). Goes on where
               one of them fails; exit code 1 then
  --no-skips   a skipped test is a failure (CI does this)

A test that fails is a failure. Those that tests/quarantine.txt names, at most five, each with the reason, are run
once more, alone, before they are one.

Tests on real input read the folder that the environment variable TERN_DATA_DIR names (the four
IDX .gz files of Fashion-MNIST); without it they are reported as skipped.

  ./tern test --quick -- -R codec      only the tests whose name matches

Images for microcontrollers have a compiler and tests of their own: ./tern firmware --test
END
}

# Runs another verb and notes how long it took, and whether it failed.
test_part() { # NAME VERB...
    local name=$1 began=$SECONDS outcome="took"
    shift
    say "$name: ./tern $*"
    if ! "$TERN_ROOT/tern" "$@"; then
        outcome="FAILED after"
        parts_failed=yes
    fi
    parts+=("$(printf '%-10s %s %d s' "$name" "$outcome" $((SECONDS - began)))")
}

test_everything() { # TEST-OPTION...
    local parts=() parts_failed=no
    verb_setup torch # whose tests the build looks for
    test_part tests test --long "$@"
    test_part fuzzers fuzz 60
    test_part boards cross amd64 arm64 armhf --static --long
    test_part java java test arm64
    test_part firmware firmware --test --all
    test_part images image --test
    test_part browser browser
    say "everything"
    printf '%s\n' "${parts[@]}"
    [ "$parts_failed" = no ] || fail "a part failed"
}

# The tests that the address sanitizer runs, and the programs that scripts with the label "sanitized" start.
build_sanitized() {
    build_variant asan tern-short-tests tern-aggregator tern-client tern-codec tern-fleet make_federation conservation_client reference_driver
}

# The tests that the thread sanitizer runs, and the program that scripts with the label "threaded" start.
build_threaded() {
    build_variant tsan tern-threaded-tests tern-aggregator
}

# Programs that a service is run beside, and that the tests start for themselves: COMMAND:PACKAGE. To
# install them would start their services on this machine. Where one cannot be had, its tests are skipped.
NEIGHBOURS=(nginx:nginx nginx-stream:libnginx-mod-stream haproxy:haproxy varnishd:varnish fail2ban-regex:fail2ban promtool:prometheus pg_ctlcluster:postgresql
    tayga:tayga kubectl:kubernetes-client apache2:apache2-bin mod-auth-openidc:libapache2-mod-auth-openidc)

# Those of the packages that are named, or of all, that this machine has not.
unpack_neighbours() { # [PACKAGE...]
    [ -z "${TERN_SKIP_BUILD:-}" ] || return 0
    command -v dpkg-deb >/dev/null || return 0
    local pair package missing=()
    for pair in "${NEIGHBOURS[@]}"; do
        package=${pair#*:}
        [ $# -eq 0 ] || [[ " $* " == *" $package "* ]] || continue
        command -v "${pair%:*}" >/dev/null || [ -e "$TERN_BUILD/$package/.complete" ] ||
            missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    (archive_open "$TERN_BUILD/archive" "$(dpkg --print-architecture)" deb) || true
    for package in "${missing[@]}"; do
        (archive_program "$TERN_BUILD/archive" "$TERN_BUILD/$package" "$package") ||
            warn "$package could not be unpacked: tests that need it are skipped or fail"
    done
}

verb_test() {
    local extent=usual skips=yes unwatched='long|threads_long'
    while [ $# -gt 0 ]; do
        case $1 in
        --quick | --long | --all) extent=${1#--} ;;
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
            fail "TERN_DATA_DIR names a folder that does not exist"
        export TERN_DATA_DIR
    fi
    if [ "$extent" = all ]; then
        local options=(-- "$@")
        [ "$skips" = yes ] || options=(--no-skips "${options[@]}")
        test_everything "${options[@]}"
        return 0
    fi
    # Runs on every extent: larger inputs only take longer, and no sanitizer-relevant code is left out.
    local without='lint|release|fuzz|real-input|firmware' sanitized="-L '^(compiled|sanitized)$'"
    if [ "$extent" = long ]; then
        unwatched=none sanitized=
        export TERN_LONG_TESTS=yes
    else
        without+='|long'
    fi
    verb_setup build test
    unpack_neighbours
    build_variant release all
    local variants=("release:$TERN_BUILD:-LE firmware")
    if [ "$extent" != quick ]; then
        if [ "$extent" = long ]; then
            build_variant asan all
            build_variant tsan tern-compiled-tests tern-programs make_federation
        else
            build_sanitized
            build_threaded
        fi
        variants+=("asan:$TERN_BUILD/asan:$sanitized -LE '$without'")
        variants+=("tsan:$TERN_BUILD/tsan:-L threaded -LE $unwatched")
    fi
    run_tests "$skips" "${variants[@]}" -- "$@"
}

# Tests that may fail once, a name and the reason a line, and how many these may be at most.
QUARANTINE=$TERN_ROOT/tests/quarantine.txt QUARANTINE_MOST=5

in_quarantine() { sed -n '/^[^#]/s/ .*//p' "$QUARANTINE"; }

# Whether all tests that failed are in quarantine, and pass when they are run alone; names those that do.
pass_alone() { # FOLDER
    local failed=$1/Testing/Temporary/LastTestsFailed.log name
    [ -s "$failed" ] || return 1
    cp -- "$failed" "$1/failed.txt"
    while IFS=: read -r _ name; do
        in_quarantine | grep -qxF -- "$name" || return 1
    done <"$1/failed.txt"
    say "running the failed tests of the quarantine again, one at a time"
    ctest --test-dir "$1" --rerun-failed -j 1 --output-on-failure --no-tests=error \
        --output-log "$1/log-again.txt" || return 1
    while IFS=: read -r _ name; do
        warn "UNSTEADY: $name failed beside other tests and passed alone; its first output is above"
    done <"$1/failed.txt"
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
    [ "$(in_quarantine | wc -l)" -le "$QUARANTINE_MOST" ] || fail "$QUARANTINE names more than $QUARANTINE_MOST tests"
    # Six more computing tests than cores run at once, because most wait for another program now and then.
    local waiting=6 computing=$(($(cores) + 6))
    "$PYTHON" "$TERN_ROOT/cmake/verbs/merge_tests.py" "$all" "$waiting" "$computing" "${variants[@]}" ||
        fail "cmake/verbs/merge_tests.py could not list the tests"
    say "tests"
    use_memory
    local status=0
    export TSAN_OPTIONS="suppressions=$TERN_ROOT/tests/tsan.supp${TSAN_OPTIONS:+ $TSAN_OPTIONS}"
    ctest --test-dir "$all" -j $((waiting + computing)) --resource-spec-file "$all/resources.json" --output-on-failure \
        --no-tests=error "$@" --output-log "$all/log.txt" || status=$?
    if [ "$skips" = no ] && grep -qE '\*\*\*(Skipped|Not Run)' "$all/log.txt"; then
        fail "--no-skips: the tests above were skipped"
    fi
    if [ "$status" -ne 0 ] && pass_alone "$all"; then
        status=0
    fi
    [ "$status" -eq 0 ] || fail "tests failed; the log is $all/log.txt"
}
