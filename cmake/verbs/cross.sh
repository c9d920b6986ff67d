# Builds Tern for Linux boards: libraries from a private sysroot, a light libcurl, tests in emulation.

help_cross() {
    cat <<'END_HELP'
usage: ./tern cross amd64|arm64|armhf... [--static] [--package] [--prepare|--test|--long]

Builds Tern for these architectures of Debian, of the release that runs here (12 or 13), optimized
for size, and prints how large the programs are. They are in build/cross/ARCH/dynamic/bin, or
static/bin.

  --static    tern-client and tern-codec need nothing on the board: they are linked with their own
              libcurl, of Debian's source, which speaks HTTP over mbedTLS and nothing else
  --package   the .deb files too, in the same folder
  --test      runs the unit, contract, power-loss and vector tests (with --static, those of the client),
              in qemu-user where the processor is another one; then compares codecs and a federation over TLS, byte for byte, with
              this machine's, puts a captive portal before a light client, and resumes its TLS sessions
  --prepare   builds what --test runs, for later
  --long      --test of the aggregator, too, and those of the tests that take minutes in emulation

Compilers are Debian's. Libraries are unpacked below build/cross/ARCH, from the archive that this
machine's apt uses, and cached there; this machine's package system is not changed.
END_HELP
}

cross_triplet() { # ARCH
    case $1 in
    amd64) printf 'x86_64-linux-gnu\n' ;;
    arm64) printf 'aarch64-linux-gnu\n' ;;
    armhf) printf 'arm-linux-gnueabihf\n' ;;
    esac
}

cross_is_native() { [ "$1" = "$(dpkg --print-architecture)" ]; } # ARCH

cross_dir() { printf '%s\n' "$TERN_BUILD/cross/$1"; } # ARCH

# Prints CMake's arguments for an architecture, one a line.
cross_toolchain() { # ARCH
    cross_is_native "$1" || printf '%s\n' \
        "-DCMAKE_TOOLCHAIN_FILE=$TERN_ROOT/configs/toolchains/$(cross_triplet "$1").cmake" \
        "-DTERN_SYSROOT=$(cross_dir "$1")/sysroot"
}

# The libraries that Tern is built with are those of configs/packages.txt, which are installed here.
cross_sysroot() { # ARCH
    local dir names packages
    cross_is_native "$1" && return 0
    dir=$(cross_dir "$1")
    # shellcheck disable=SC2046
    names=$(installed_of $(packages_of build | grep -e '-dev$' | sort)) || exit 1
    mapfile -t packages <<<"$names"
    archive_unpack "$dir" "$1" "$dir/sysroot" "${packages[@]}"
}

# Everything of libcurl that Tern does not use is left out.
CROSS_CURL_OPTIONS=(
    -DHTTP_ONLY=ON -DCURL_USE_MBEDTLS=ON -DCURL_USE_OPENSSL=OFF -DBUILD_CURL_EXE=OFF
    -DCURL_ZLIB=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DUSE_LIBIDN2=OFF -DUSE_NGHTTP2=OFF
    -DCURL_USE_LIBPSL=OFF -DCURL_USE_LIBSSH2=OFF -DCURL_USE_LIBSSH=OFF -DCURL_USE_GSSAPI=OFF
    -DCURL_DISABLE_ALTSVC=ON -DCURL_DISABLE_COOKIES=ON -DCURL_DISABLE_CRYPTO_AUTH=ON
    -DCURL_DISABLE_DOH=ON -DCURL_DISABLE_GETOPTIONS=ON -DCURL_DISABLE_HSTS=ON
    -DCURL_DISABLE_MIME=ON -DCURL_DISABLE_NETRC=ON -DCURL_DISABLE_NTLM=ON
    -DCURL_DISABLE_PARSEDATE=ON -DCURL_DISABLE_PROGRESS_METER=ON
    -DENABLE_UNIX_SOCKETS=OFF -DENABLE_MANUAL=OFF -DBUILD_TESTING=OFF
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON # for libternjni
    -DCURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt -DCURL_CA_PATH=none)

# A static library of Debian's source, in build/cross/ARCH/light; cached.
cross_light_library() { # ARCH PACKAGE CMAKE-OPTION...
    local arch=$1 package=$2 dir generator=()
    shift 2
    dir=$(cross_dir "$arch")
    [ "$(cat "$dir/light/.$package" 2>/dev/null)" != "$*" ] || return 0
    archive_source "$TERN_BUILD/cross/sources" "$package"
    say "$package for $arch"
    mapfile -t toolchain < <(cross_toolchain "$arch")
    rm -rf -- "${dir:?}/$package" "$dir/light/.$package"
    mkdir -p "$dir"
    quietly "$dir/$package.log" "configuring $package for $arch" cmake -G Ninja -B "$dir/$package" \
        -S "$TERN_BUILD/cross/sources/$package" "${toolchain[@]}" \
        -DCMAKE_BUILD_TYPE=MinSizeRel -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_C_FLAGS="-ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables" \
        -DCMAKE_INSTALL_PREFIX="$dir/light" -DCMAKE_INSTALL_LIBDIR=lib "$@"
    quietly "$dir/$package.log" "building $package for $arch" \
        cmake --build "$dir/$package" -j "$(cores)" --target install
    printf '%s\n' "$*" >"$dir/light/.$package"
}

cross_light_libraries() { # ARCH
    local lib
    lib=$(cross_dir "$1")/sysroot
    ! cross_is_native "$1" || lib=
    lib=$lib/usr/lib/$(cross_triplet "$1")
    cross_light_library "$1" curl "${CROSS_CURL_OPTIONS[@]}" \
        -DMBEDTLS_LIBRARY="$lib/libmbedtls.a" -DMBEDX509_LIBRARY="$lib/libmbedx509.a" \
        -DMBEDCRYPTO_LIBRARY="$lib/libmbedcrypto.a"
    cross_light_library "$1" cjson -DENABLE_CJSON_TEST=OFF -DENABLE_CJSON_UTILS=OFF \
        -DENABLE_CUSTOM_COMPILER_FLAGS=OFF
}

cross_build() { # ARCH VARIANT TARGET...
    local arch=$1 variant=$2 dir options=()
    shift 2
    dir=$(cross_dir "$arch")
    mapfile -t options < <(cross_toolchain "$arch")
    if [ "$variant" = static ]; then
        options+=(-DTERN_STATIC=ON -DTERN_DBUS=OFF -DTERN_CURL_TLS=mbedtls "-DCURL_DIR=$dir/light/lib/cmake/CURL"
            "-DCMAKE_EXE_LINKER_FLAGS=-L'$dir/light/lib'")
    fi
    say "build ($arch, $variant)"
    mkdir -p "$dir/$variant"
    (use_ccache && quietly "$dir/$variant/configure.log" "configuring for $arch" cmake -G Ninja \
        -B "$dir/$variant" -S "$TERN_ROOT" -DCMAKE_BUILD_TYPE=MinSizeRel "${options[@]}") || exit 1
    cmake --build "$dir/$variant" -j "$(cores)" --target "$@" || fail "the build for $arch failed"
}

# A tool of the architecture's binutils.
cross_tool() { # ARCH NAME
    if cross_is_native "$1"; then
        printf '%s\n' "$2"
    else
        printf '%s-%s\n' "$(cross_triplet "$1")" "$2"
    fi
}

# Leaves the program, stripped, in a file and prints its name.
cross_stripped() { # ARCH PROGRAM
    local stripped
    stripped=$(cross_dir "$1")/stripped
    "$(cross_tool "$1" strip)" -o "$stripped" "$2" || fail "strip failed for $2"
    printf '%s\n' "$stripped"
}

# Prints one row: bytes of the stripped file, and of its instructions and data. The difference is data for the loader
# and gaps up to the next large page.
cross_size_row() { # ARCH PROGRAM WHAT
    local stripped inner
    stripped=$(cross_stripped "$1" "$2") || exit 1
    inner=$("$(cross_tool "$1" size)" -A "$stripped" |
        awk '$1 ~ /^\.(text|rodata|data|data\.rel\.ro)$/ { sum += $2 } END { print sum }')
    printf '  %-26s %10d %14d\n' "$3" "$(stat -c %s "$stripped")" "$inner"
}

# Prints a program's memory before it does any work.
cross_empty_program() { # ARCH OUT
    local flags=()
    cross_is_native "$1" || flags=("--sysroot=$(cross_dir "$1")/sysroot")
    echo 'int main(void) { return 0; }' |
        "$(cross_tool "$1" gcc)" "${flags[@]}" -Os -static -x c - -o "$2" ||
        fail "no static C library for $1 is installed"
}

cross_sizes() { # ARCH VARIANT PROGRAM...
    local arch=$1 variant=$2 dir program
    shift 2
    dir=$(cross_dir "$arch")
    printf '%-28s %10s %14s\n' "$arch, stripped" bytes "code and data"
    for program in "$@"; do
        cross_size_row "$arch" "$dir/$variant/bin/$program" "$program, $variant"
    done
    if [ "$variant" = static ]; then
        cross_empty_program "$arch" "$dir/empty"
        cross_size_row "$arch" "$dir/empty" "an empty static program"
    fi
}

# Largest size, in bytes, of a stripped static tern-client with TLS: the promise for a board's flash.
cross_most_bytes() { # ARCH
    case $ARCHIVE_SUITE:$1 in
    bookworm:armhf) echo 1600000 ;;
    bookworm:amd64) echo 2500000 ;; # PCs, which have disks
    bookworm:*) echo 2300000 ;;
    *:armhf) echo 2000000 ;; # mbedTLS 3.6 and its C library take more
    *) echo 2700000 ;;
    esac
}

cross_hold_size() { # ARCH
    local bytes most stripped
    stripped=$(cross_stripped "$1" "$(cross_dir "$1")/static/bin/tern-client") || exit 1
    bytes=$(stat -c %s "$stripped")
    most=$(cross_most_bytes "$1")
    [ "$bytes" -le "$most" ] || fail "the static tern-client for $1 has $bytes bytes; the limit is $most"
}

# The documents give sizes for the compiler and libraries of Debian 12.
cross_hold_documents() { # ARCH VARIANT
    local program programs=(tern-client)
    [ "$ARCHIVE_SUITE" = bookworm ] || return 0
    [ "$2" = static ] || programs+=(tern-aggregator)
    for program in "${programs[@]}"; do
        "$PYTHON" -B "$TERN_ROOT/tests/cross/check_sizes.py" "$TERN_ROOT" "$1" "$2" \
            "$(cross_dir "$1")/$2/bin/$program" "$(cross_tool "$1" strip)" ||
            fail "a document has an old size of $program for $1, $2: write the size above"
    done
}

cross_package() { # ARCH VARIANT
    local dir
    dir=$(cross_dir "$1")/$2
    say "packages ($1, $2) in $dir/packages"
    package_make "$dir" "$dir/packages"
}

# Left out: scripts, which would test this machine's programs; what needs a gigabyte of data; labelled
# "kernel" what asks the kernel for more than qemu-user passes on, which is run natively; and, where neither
# --long nor an aggregator is wanted for the board, what tests more than the client (label "device").
cross_test() { # ARCH VARIANT prepare|yes|long
    local dir without='^real-input$' kind=compiled
    dir=$(cross_dir "$1")/$2
    cross_is_native "$1" || without+='|^kernel$'
    if [ "$3" != long ]; then
        without+='|^(long|slow)$'
        [ "$2" = dynamic ] || kind=device
    fi
    cross_build "$1" "$2" "tern-$kind-tests"
    [ "$3" != prepare ] || return 0
    say "tests ($1, $2)"
    use_memory
    ctest --test-dir "$dir" -L "^$kind\$" -LE "$without" -j "$(cores)" --output-on-failure \
        --no-tests=error --output-log "$dir/tests.log" || fail "tests for $1 failed; see $dir/tests.log"
    ! grep -qE '\*\*\*(Skipped|Not Run)' "$dir/tests.log" || fail "tests for $1 were skipped"
}

# Prints what runs programs of an architecture here; nothing: they run as they are.
cross_emulator() { # ARCH
    cross_is_native "$1" || case $1 in
    arm64) echo qemu-aarch64-static ;;
    armhf) echo qemu-arm-static ;;
    esac
}

# How the tests in tests/cross name the programs of an architecture.
cross_machine() { # ARCH VARIANT
    local dir emulator
    dir=$(cross_dir "$1")
    emulator=$(cross_emulator "$1")
    [ -z "$emulator" ] || [ "$2" = static ] || emulator+=,-L,$dir/sysroot
    printf '%s=%s%s\n' "$1-$2" "$dir/$2/bin" "${emulator:+,$emulator}"
}

# This machine's programs against, and together with, those of the architectures: one of these beside the other, as each
# waits for one program at a time.
cross_compare() { # VARIANT ARCH...
    local variant=$1 machines arch kind kinds=(codecs federation) logs=$TERN_BUILD/cross failed=() running=()
    shift
    [ "$variant" = dynamic ] || kinds+=(memory)
    machines=("native=$TERN_BUILD/bin")
    for arch in "$@"; do
        machines+=("$(cross_machine "$arch" "$variant")")
    done
    build_variant release tern-aggregator tern-client tern-codec
    for kind in "${kinds[@]}"; do
        TERN_BIN_DIR=$TERN_BUILD/bin timeout 1800 /usr/bin/python3 -B \
            "$TERN_ROOT/tests/cross/test_$kind.py" "${machines[@]}" >"$logs/$kind.log" 2>&1 &
        running+=("$!")
    done
    for kind in "${!kinds[@]}"; do
        wait "${running[kind]}" || failed+=("tests/cross/test_${kinds[kind]}.py")
        say "${kinds[kind]} ($*)"
        cat "$logs/${kinds[kind]}.log"
    done
    [ ${#failed[@]} -eq 0 ] || fail "${failed[*]} failed for $*"
}

# The TLS of a light client, which is mbedTLS under libcurl: how it names a captive portal, and what it keeps between its
# processes. The second test tells handshakes from each other by the kernel's counts, which qemu-user does not pass on: so on
# this machine's own processor.
cross_tls() { # ARCH
    local mixed test tests=(portal)
    mixed=$(cross_dir "$1")/mixed
    ! cross_is_native "$1" || tests+=(tls_sessions)
    say "TLS of the light client ($1)"
    rm -rf -- "$mixed"
    mkdir -p "$mixed"
    ln -s -- "$TERN_BUILD/bin/tern-aggregator" "$mixed"
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$(cross_emulator "$1")" "$(cross_dir "$1")/static/bin/tern-client" \
        >"$mixed/tern-client"
    chmod +x "$mixed/tern-client"
    for test in "${tests[@]}"; do
        TERN_BIN_DIR=$mixed timeout 900 /usr/bin/python3 -B "$TERN_ROOT/tests/client/test_$test.py" ||
            fail "tests/client/test_$test.py failed for $1"
    done
}

verb_cross() {
    local archs=() arch variant=dynamic package=no test=no programs=(tern-client tern-codec)
    while [ $# -gt 0 ]; do
        case $1 in
        amd64 | arm64 | armhf) archs+=("$1") ;;
        --static) variant=static ;;
        --package) package=yes ;;
        --prepare) test=prepare ;;
        --test) test=yes ;;
        --long) test=long ;;
        -*) usage_error "cross: unknown option '$1'; ./tern cross --help" ;;
        *) usage_error "cross: unknown architecture '$1'; use amd64, arm64 or armhf" ;;
        esac
        shift
    done
    [ ${#archs[@]} -gt 0 ] || usage_error "cross: name an architecture: amd64, arm64 or armhf"
    [ "$variant" = static ] || programs+=(tern-aggregator)
    verb_setup build cross
    for arch in "${archs[@]}"; do
        cross_sysroot "$arch"
        [ "$variant" = dynamic ] || cross_light_libraries "$arch"
        cross_build "$arch" "$variant" "${programs[@]}"
        cross_sizes "$arch" "$variant" "${programs[@]}"
        [ "$variant" = dynamic ] || cross_hold_size "$arch"
        [ "$package" = no ] || cross_package "$arch" "$variant"
        [ "$test" = no ] || cross_hold_documents "$arch" "$variant"
        [ "$test" = no ] || cross_test "$arch" "$variant" "$test"
    done
    case $test in no | prepare) return 0 ;; esac
    cross_compare "$variant" "${archs[@]}"
    [ "$variant" = dynamic ] || for arch in "${archs[@]}"; do cross_tls "$arch"; done
}
