# Builds the Java client: tern.jar, and libternjni for this machine or for others.

help_java() {
    cat <<'END_HELP'
usage: ./tern java [test] [amd64|arm64...]

Builds the client for Java, build/java/tern.jar and build/java/libternjni.so, and prints how large they are.
docs/MOBILE.md has the way from there to an app.

  test          runs its tests on this machine's JDK against tern-aggregator; with TERN_LONG_TESTS=yes more of each
  amd64, arm64  builds libternjni for these architectures of Debian, optimized for size, with a libcurl and mbedTLS of
                its own, so that it needs the C library alone, and holds it to 1.2 MB with the jar; it is in
                build/cross/ARCH/java/java. With test: holds docs/MOBILE.md to its size
END_HELP
}

# Largest size in bytes of tern.jar and a stripped libternjni together.
JAVA_MOST_BYTES=1200000

java_sizes() { # ARCH LIBRARY
    local jar library
    jar=$(stat -c %s "$TERN_BUILD/java/tern.jar")
    "$(cross_tool "$1" strip)" -o "$2.stripped" "$2" || fail "strip failed for $2"
    library=$(stat -c %s "$2.stripped")
    rm -f -- "$2.stripped"
    printf '%-28s %10s\n' "$1, stripped" bytes tern.jar "$jar" libternjni.so "$library"
    [ $((jar + library)) -le "$JAVA_MOST_BYTES" ] ||
        fail "tern.jar and libternjni for $1 have $((jar + library)) bytes; the limit is $JAVA_MOST_BYTES"
}

# The document gives the size for the compiler and libraries of Debian 12.
java_hold_document() { # ARCH LIBRARY
    [ "$ARCHIVE_SUITE" != bookworm ] ||
        "$PYTHON" -B "$TERN_ROOT/tests/cross/check_sizes.py" "$TERN_ROOT" "$1" java-static "$2" "$(cross_tool "$1" strip)" ||
        fail "docs/MOBILE.md has an old size of libternjni.so for $1: write the size above"
}

# A phone has no other library of Debian.
java_needs() { # ARCH LIBRARY
    local needs
    needs=$("$(cross_tool "$1" readelf)" -d "$2" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        sed -E '/^(libc|ld-linux)[-.]/d' | xargs)
    [ -z "$needs" ] || fail "libternjni.so for $1 needs more than the C library: $needs"
}

# Needs the types of jni.h alone, which are those of this machine's JDK.
java_cross() { # ARCH
    local arch=$1 dir options archives name
    dir=$(cross_dir "$arch")
    cross_sysroot "$arch"
    cross_light_libraries "$arch"
    say "libternjni ($arch)"
    # The linker looks here first, and finds archives alone.
    archives=$dir/sysroot/usr/lib/$(cross_triplet "$arch")
    ! cross_is_native "$arch" || archives=/usr/lib/$(cross_triplet "$arch")
    for name in mbedtls mbedx509 mbedcrypto; do
        ln -sf -- "$archives/lib$name.a" "$dir/light/lib/"
    done
    mapfile -t options < <(cross_toolchain "$arch")
    mkdir -p "$dir/java"
    (use_ccache && quietly "$dir/java/configure.log" "configuring for $arch" cmake -G Ninja -B "$dir/java" \
        -S "$TERN_ROOT" -DCMAKE_BUILD_TYPE=MinSizeRel -DTERN_PROGRAMS=OFF -DTERN_AGGREGATOR=OFF -DTERN_TESTS=OFF \
        -DTERN_CURL_TLS=mbedtls "-DCURL_DIR=$dir/light/lib/cmake/CURL" \
        "-DCMAKE_SHARED_LINKER_FLAGS=-L'$dir/light/lib'" "${options[@]}") || exit 1
    cmake --build "$dir/java" -j "$(cores)" --target ternjni || fail "libternjni for $arch cannot be built"
    java_needs "$arch" "$dir/java/java/libternjni.so"
    java_sizes "$arch" "$dir/java/java/libternjni.so"
}

verb_java() {
    local test=no archs=() arch
    while [ $# -gt 0 ]; do
        case $1 in
        test) test=yes ;;
        amd64 | arm64) archs+=("$1") ;;
        *) usage_error "java: unknown argument '$1'; ./tern java --help" ;;
        esac
        shift
    done
    verb_setup build java
    build_variant release ternjni tern-jar
    java_sizes "$(dpkg --print-architecture)" "$TERN_BUILD/java/libternjni.so"
    [ ${#archs[@]} -eq 0 ] || verb_setup cross
    for arch in "${archs[@]}"; do
        java_cross "$arch"
    done
    [ "$test" = yes ] || return 0
    for arch in "${archs[@]}"; do
        java_hold_document "$arch" "$(cross_dir "$arch")/java/java/libternjni.so"
    done
    build_variant release all
    ctest --test-dir "$TERN_BUILD" -L '^java$' -j "$(cores)" --output-on-failure --no-tests=error ||
        fail "tests of the Java client failed"
}
