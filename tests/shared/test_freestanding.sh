#!/bin/sh
# Compiles each source of libtern as a board would, without a C library, and checks that it needs
# nothing but nanopb and what nanopb itself needs: string.h.
#   test_freestanding.sh CC SHARED_DIR GENERATED_DIR
set -eu
cc=$1
shared=$2
generated=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-freestanding.XXXXXX")
trap 'rm -rf "$work"' EXIT

compile() {
    "$cc" -std=gnu11 -O2 -ffreestanding -fno-pic -ffp-contract=off -Wall -Werror \
        -I"$shared" -isystem "$generated" -c "$1" -o "$work/$2.o"
}

for folder in . codec codec/quantizers codec/coders codec/kernels tensor error_feedback meter util wire; do
    for source in "$shared/$folder"/*.c; do
        [ -e "$source" ] || continue
        compile "$source" "$(echo "$folder/$(basename "$source")" | tr / _)"
    done
done
compile "$generated/wire/tern.pb.c" generated

# What is still undefined once all objects see each other.
"$cc" -nostdlib -no-pie -r -o "$work/all" "$work"/*.o
fail=0
for symbol in $(nm --undefined-only --format=just-symbols "$work/all"); do
    case $symbol in
    memcpy | memmove | memset | memcmp | memchr | strlen | strncmp | pb_*) ;;
    *)
        echo "libtern needs $symbol, which a freestanding build does not have" >&2
        fail=1
        ;;
    esac
done
exit $fail
