#!/bin/sh
# Compiles each source of libtern, that is all of shared/ but cli and hosted, as a board would,
# without a C library, and checks that it needs nothing but nanopb and what nanopb itself needs:
# string.h.
#   test_freestanding.sh CC SHARED_DIR GENERATED_DIR NANOPB_DIR
set -eu
cc=$1
shared=$2
generated=$3
nanopb=$4
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-freestanding.XXXXXX")
trap 'rm -rf "$work"' EXIT

compile() {
    "$cc" -std=gnu11 -O0 -ffreestanding -fno-pic -ffp-contract=off -Wall -Werror \
        -I"$shared" -isystem "$generated" -I"$nanopb" -c "$1" -o "$work/$2.o"
}

find "$shared" \( -path "$shared/cli" -o -path "$shared/hosted" \) -prune -o -name '*.c' ! -path "$shared/secure/secret.c" -print \
    >"$work/sources"
[ -s "$work/sources" ] || { echo "no sources below $shared" >&2; exit 1; }
while read -r source; do
    compile "$source" "$(echo "${source#"$shared"/}" | tr / _)"
done <"$work/sources"
for source in "$generated"/wire/*.pb.c; do
    compile "$source" "generated_$(basename "$source" .pb.c)"
done

# What is still undefined once all objects see each other.
"$cc" -nostdlib -no-pie -r -o "$work/all" "$work"/*.o
fail=0
for symbol in $(nm --undefined-only --format=just-symbols "$work/all"); do
    case $symbol in
    # secure/secret.c calls the crypto library.
    tern_hkdf | tern_hpke_* | tern_keystream_* | tern_secret_erase) ;;
    memcpy | memmove | memset | memcmp | memchr | strlen | strncmp | pb_*) ;;
    *)
        echo "libtern needs $symbol, which a freestanding build does not have" >&2
        fail=1
        ;;
    esac
done
exit $fail
