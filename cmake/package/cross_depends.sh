#!/bin/bash
# Prints the Depends of programs of another architecture: for each library that they load, what the
# package that holds it says in its shlibs file. Prints nothing for static programs.
# Usage: cross_depends.sh READELF FOLDER-OF-DEBS PROGRAM...
set -euo pipefail
readelf=$1 debs=$2
shift 2

# The names of the libraries that the programs load, one per line.
needed() { # PROGRAM...
    local program
    for program in "$@"; do
        "$readelf" -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'
    done | sort -u
}

# "libm.so.6" is "libm 6" in a shlibs file, "libfoo-1.2.so" is "libfoo 1.2".
shlibs_name() { # SONAME
    case $1 in
    *.so.*) printf '%s %s\n' "${1%%.so.*}" "${1#*.so.}" ;;
    *-*.so) printf '%s %s\n' "${1%-*}" "$(basename "${1##*-}" .so)" ;;
    *) printf '%s\n' "$1" ;;
    esac
}

libraries=$(needed "$@")
[ -n "$libraries" ] || exit 0
if [ ! -d "$debs" ]; then
    echo "$0: the programs need shared libraries ($(tr '\n' ' ' <<<"$libraries")), and" \
        "TERN_PACKAGE_DEBS names no folder of the packages that hold them" >&2
    exit 1
fi
shlibs=$(for deb in "$debs"/*.deb; do
    dpkg-deb --info "$deb" shlibs 2>/dev/null || true
done)
while read -r library; do
    read -r name version <<<"$(shlibs_name "$library")"
    depends=$(awk -v name="$name" -v version="$version" \
        '$1 == name && $2 == version { $1 = $2 = ""; sub(/^ +/, ""); print; exit }' <<<"$shlibs")
    [ -n "$depends" ] || {
        echo "$0: no package in $debs provides $library" >&2
        exit 1
    }
    printf '%s\n' "$depends"
done <<<"$libraries" | sort -u | paste -sd, | sed 's/,/, /g'
