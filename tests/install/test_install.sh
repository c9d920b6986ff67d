#!/bin/sh
# Installs the build into a scratch folder and builds a program outside of the tree against it, as an
# embedded engineer would: by pkg-config alone.
# Usage: test_install.sh BUILD_DIR COMPILER
set -eu
build=$1
compiler=$2
here=$(dirname "$0")
command -v pkg-config >/dev/null || {
    echo "skipped: pkg-config is not installed"
    exit 77
}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tern-install-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/usr" >"$scratch/log"
pc=$(dirname "$(find "$scratch/usr" -name tern.pc)")
export PKG_CONFIG_PATH="$pc"
# --define-variable: the file names the prefix of the build, not that of the scratch folder.
flags=$(pkg-config --define-variable=prefix="$scratch/usr" --cflags --libs tern)
# The sanitizer of the build, if any, is needed to link its archives.
sanitize=$(sed -n 's/^TERN_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
case $sanitize in
address) flags="$flags -fsanitize=address,undefined" ;;
thread) flags="$flags -fsanitize=thread" ;;
esac
# $flags is a list of words.
# shellcheck disable=SC2086
"$compiler" -std=c11 -Wall -Wextra -Werror "$here/outside.c" -o "$scratch/outside" $flags -lm
version=$(pkg-config --modversion tern)
got=$("$scratch/outside")
[ "$got" = "$version 3lc:s=1.5 late" ] || {
    echo "the outside program printed '$got', not '$version 3lc:s=1.5 late'" >&2
    exit 1
}

# No header may be left out that another one needs.
cd "$scratch/usr/include/tern"
for header in $(find . -name '*.h'); do
    # shellcheck disable=SC2086
    printf '#include "%s"\n' "$header" |
        "$compiler" -std=c11 -fsyntax-only -I. $(pkg-config --cflags tern) -x c - ||
        { echo "$header does not stand on its own" >&2; exit 1; }
done
