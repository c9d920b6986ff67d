#!/bin/sh
# Builds the kernels and CRC-32C with their tests for AArch64 and runs them in an emulator. Skipped
# where Debian's cross compiler or emulator is not installed.
#   test_kernels_neon.sh SOURCE_DIR
set -eu
source=$1
cc=aarch64-linux-gnu-gcc
emulator=qemu-aarch64-static
for tool in "$cc" "$emulator"; do
    if ! command -v "$tool" >/dev/null; then
        echo "no $tool" >&2
        exit 77
    fi
done
work=$(mktemp -d "${TMPDIR:-/tmp}/tern-neon.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Sections, because kernels that the test does not call need more of libtern.
run_test() { # NAME SOURCE...
    name=$1
    shift
    "$cc" -std=gnu11 -O2 -static -ffp-contract=off -ffunction-sections -Wl,--gc-sections \
        -Wall -Wextra -Werror -DTERN_EMULATED -I"$source" -I"$source/shared" "$source/tests/shared/$name.c" "$@" -o "$work/$name"
    "$emulator" "$work/$name"
}

run_test test_kernels "$source"/shared/codec/kernels/*.c
run_test test_crc32c "$source/shared/util/crc32c.c" "$source/shared/util/crc32c_instruction.c"
