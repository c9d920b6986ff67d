# Debian packages of the release build.

help_package() {
    cat <<'END'
usage: ./tern package [--output FOLDER]

Builds tern-client, tern-aggregator, tern-helper, the shared library libtern-client0 and tern-dev as .deb files for
this machine's architecture, and python3-tern, into build/packages or FOLDER. Install them with:
  apt install ./build/packages/tern-client_*.deb
For boards: ./tern cross ARCH --package

Environment: DEBFULLNAME and DEBEMAIL name the maintainer, as for Debian's own tools.
END
}

# Makes the packages of a build folder, whatever its architecture.
package_make() { # BUILD OUTPUT
    local build=$1 output=$2
    cmake --build "$build" -j "$(cores)" --target package_files || fail "the build failed"
    rm -rf -- "$build/packing"
    quietly "$build/cpack.log" "packing" \
        cpack --config "$build/CPackConfig.cmake" -G DEB -B "$build/packing"
    mkdir -p "$output"
    rm -f "$output"/tern-{client,aggregator,dev}_*.deb "$output"/libtern-client*_*.deb "$output"/python3-tern_*.deb
    mv "$build/packing"/*.deb "$output"
    rm -rf -- "$build/packing"
    package_table "$output"/*.deb
}

package_table() { # DEB...
    local deb
    printf '%-44s %8s %10s\n' package KiB installed
    for deb in "$@"; do
        printf '%-44s %8d %10d\n' "${deb##*/}" "$(($(stat -c %s "$deb") / 1024))" \
            "$(dpkg-deb --field "$deb" Installed-Size)"
    done
}

verb_package() {
    local output=$TERN_BUILD/packages
    while [ $# -gt 0 ]; do
        case $1 in
        --output)
            [ $# -gt 1 ] || usage_error "package: --output needs a folder"
            output=$2
            shift
            ;;
        *) usage_error "package: unknown option '$1'; ./tern package --help" ;;
        esac
        shift
    done
    verb_setup build package
    build_variant release package_files
    say "packages in $output"
    package_make "$(build_dir release)" "$output"
}
