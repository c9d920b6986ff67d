# build, format, lint, clean.

help_build() {
    cat <<'END'
usage: ./tern build [release|debug|asan|tsan] [TARGET...]

Builds the programs, or the named targets, with warnings as errors. The programs of the release
build, which is the default, are in build/bin; the other variants have folders of their own in build.
The target all is everything: programs, tests, fuzzers and benchmarks.

Environment: TERN_BUILD_DIR names another folder than build; with TERN_SKIP_BUILD=1 the other verbs
use what is built there and install nothing.
END
}

build_dir() { # VARIANT
    case $1 in
    release) printf '%s\n' "$TERN_BUILD" ;;
    *) printf '%s\n' "$TERN_BUILD/$1" ;;
    esac
}

# Where ccache is installed, and has a folder to write to, objects are compiled once for all build folders.
use_ccache() {
    [ -z "${CMAKE_C_COMPILER_LAUNCHER+set}" ] || return 0
    ! ccache --get-config cache_dir >/dev/null 2>&1 || export CMAKE_C_COMPILER_LAUNCHER=ccache
}

configure_variant() { # VARIANT
    local variant=$1 dir generator=()
    [ -z "${TERN_SKIP_BUILD:-}" ] || return 0
    dir=$(build_dir "$variant")
    mkdir -p "$dir"
    if [ ! -f "$dir/CMakeCache.txt" ] && command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    (cd "$TERN_ROOT" && use_ccache && quietly "$dir/configure.log" "configuring the $variant build" \
        cmake --preset "$variant" -B "$dir" "${generator[@]}") || exit 1
}

# Configures when needed and builds.
build_variant() { # VARIANT TARGET...
    local variant=$1 dir
    [ -z "${TERN_SKIP_BUILD:-}" ] || return 0
    shift
    dir=$(build_dir "$variant")
    say "build ($variant)"
    local lock
    mkdir -p "$dir"
    exec {lock}>"$dir/.building" # two builds would write the same files
    flock --nonblock "$lock" || {
        say "waiting for another build in $dir"
        flock "$lock"
    }
    configure_variant "$variant"
    cmake --build "$dir" -j "$(cores)" --target "$@" || fail "the $variant build failed"
    exec {lock}>&-
}

verb_build() {
    local variant=release
    case ${1:-} in
    release | debug | asan | tsan)
        variant=$1
        shift
        ;;
    esac
    verb_setup build
    [ $# -gt 0 ] || set -- tern-programs
    build_variant "$variant" "$@"
}

# Every C file of the project, NUL-separated.
c_files() {
    find "$TERN_ROOT"/{shared,client,aggregator,helper,ring,firmware_port,bindings,lab,tests} -name '*.[ch]' -print0 | sort -z
}

help_format() {
    cat <<'END'
usage: ./tern format [--check]

Lays out every C file by clang-format 14 (.clang-format), which is Debian 12's: other versions make
something else of the same settings. --check changes nothing and fails when a file would change;
./tern test does that, where it is that version.
END
}

verb_format() {
    verb_setup test
    local options=(-i)
    case ${1:-} in
    --check) options=(--dry-run --Werror) ;;
    '') ;;
    *) usage_error "format: unknown option '$1'" ;;
    esac
    clang-format --version | grep -q 'version 14\.' ||
        fail "the layout needs clang-format 14 (Debian 12); installed is $(clang-format --version)"
    c_files | xargs -0 -P "$(cores)" -n 16 clang-format --style=file "${options[@]}" ||
        fail "the layout of these files differs from .clang-format. Run ./tern format"
}

help_lint() {
    cat <<'END'
usage: ./tern lint

Layout (clang-format), the checks labelled "lint" in ctest (cppcheck and the include rules), then
clang-tidy over every source. The first two are part of ./tern test; clang-tidy takes minutes.
END
}

verb_lint() {
    verb_setup build test lint
    verb_format --check
    build_variant release all
    TERN_LONG_TESTS=yes ctest --test-dir "$TERN_BUILD" -L lint --output-on-failure || fail "the lint tests failed"
    say "clang-tidy"
    find "$TERN_ROOT"/{shared,client,aggregator,helper,ring,bindings,lab} -name '*.c' -print0 | sort -z |
        xargs -0 -P "$(cores)" -n 4 clang-tidy --quiet -p "$TERN_BUILD" ||
        fail "clang-tidy reported the problems above"
}

help_clean() {
    cat <<'END'
usage: ./tern clean

Removes build/ with everything in it. Installed Debian packages stay.
END
}

verb_clean() {
    [ -f "$TERN_BUILD/CMakeCache.txt" ] || [ ! -e "$TERN_BUILD" ] ||
        [ "$TERN_BUILD" = "$TERN_ROOT/build" ] ||
        fail "$TERN_BUILD does not look like a build folder: remove it by hand"
    rm -rf -- "$TERN_BUILD"
}
