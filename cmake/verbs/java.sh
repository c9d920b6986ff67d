# Builds the Java client: tern.jar and libternjni.

help_java() {
    cat <<'END_HELP'
usage: ./tern java [test]

Builds the client for Java, build/java/tern.jar and build/java/libternjni.so, and prints how large they are.
docs/MOBILE.md has the way from there to an app.

  test      runs its tests on this machine's JDK against tern-aggregator; with TERN_LONG_TESTS=yes more of each
END_HELP
}

java_sizes() {
    local library=$TERN_BUILD/java/libternjni.so
    strip -o "$library.stripped" "$library"
    printf '%-28s %10s\n' "$(dpkg --print-architecture), stripped" bytes \
        tern.jar "$(stat -c %s "$TERN_BUILD/java/tern.jar")" libternjni.so "$(stat -c %s "$library.stripped")"
    rm -f -- "$library.stripped"
}

verb_java() {
    local test=no
    while [ $# -gt 0 ]; do
        case $1 in
        test) test=yes ;;
        *) usage_error "java: unknown argument '$1'; ./tern java --help" ;;
        esac
        shift
    done
    verb_setup build java
    build_variant release ternjni tern-jar
    java_sizes
    [ "$test" = yes ] || return 0
    build_variant release all
    ctest --test-dir "$TERN_BUILD" -L '^java$' -j "$(cores)" --output-on-failure --no-tests=error ||
        fail "tests of the Java client failed"
}
