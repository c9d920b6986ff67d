# Builds the firmware for the boards of firmware_port/boards.

help_firmware() {
    cat <<'END_HELP'
usage: ./tern firmware [--board an385|an386|all] [--libc newlib|picolibc|all] [--tls ecdsa|psk|all]
                       [--save] [--test]

Builds the client for microcontrollers: shared, client, firmware_port, mbedTLS, lwIP and nanopb, by
arm-none-eabi-gcc -Os, with the linker held to the whole budget of flash and RAM. Prints how much of
both each part takes, against firmware_port/sizes.json. The images are build/firmware/IMAGE/tern.elf.

  --board   mps2-an385 (Cortex-M3) or mps2-an386 (Cortex-M4F), as QEMU has them; default an385
  --libc    the C library that memcpy() and the like come from; default newlib (its nano variant)
  --tls     certificates (ecdsa, default) or pre-shared keys (psk)
  --save    makes the sizes of these images the ones that later changes are measured against
  --test    builds all of them, and the programs, and runs them together in QEMU (tests/firmware)

The sources of mbedTLS, lwIP and nanopb are fetched once, from the Debian archive that this
machine's apt uses, into build/sources.
END_HELP
}

FIRMWARE_SOURCES="mbedtls lwip nanopb"

# One image. Fails when it is over its budget.
build_firmware() { # BOARD LIBC TLS
    local board=$1 libc=$2 tls=$3 name=$1-$2-$3 dir
    dir=$TERN_BUILD/firmware/$name
    say "firmware ($name)"
    mkdir -p "$dir"
    quietly "$dir/configure.log" "configuring the firmware" cmake -G Ninja -B "$dir" \
        -S "$TERN_ROOT/firmware_port" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_TOOLCHAIN_FILE="$TERN_ROOT/configs/toolchains/arm-none-eabi.cmake" \
        -DTERN_BOARD="$board" -DTERN_LIBC="$libc" -DTERN_TLS="$tls" \
        -DTERN_SOURCES="$TERN_BUILD/sources"
    quietly "$dir/build.log" "building the firmware" cmake --build "$dir" -j "$(cores)"
}

# Prints the values that an option stands for.
firmware_choice() { # OPTION VALUE CHOICE...
    local option=$1 value=$2 choice
    shift 2
    if [ "$value" = all ]; then
        printf '%s\n' "$@"
        return 0
    fi
    for choice in "$@"; do
        if [ "$value" = "$choice" ]; then
            printf '%s\n' "$choice"
            return 0
        fi
    done
    usage_error "firmware: $option is one of $*, all; not '$value'"
}

# The proof: images in QEMU against the programs of this machine.
test_firmware() {
    build_variant release tern-aggregator tern-client
    say "tests of the firmware"
    ctest --test-dir "$TERN_BUILD" -L firmware --output-on-failure --no-tests=error ||
        fail "tests of the firmware failed"
}

# Returns 1 when an image is over its budget; one that does not build ends everything.
build_images() { # BOARDS LIBCS KINDS VERB_OF_SIZES
    local board libc tls folders=()
    for board in $1; do
        for libc in $2; do
            for tls in $3; do
                build_firmware "$board" "$libc" "$tls"
                folders+=("$TERN_BUILD/firmware/$board-$libc-$tls")
            done
        done
    done
    say "sizes in bytes, and the change since firmware_port/sizes.json"
    python3 "$TERN_ROOT/cmake/verbs/firmware_sizes.py" "$4" \
        "$TERN_ROOT/firmware_port/sizes.json" "${folders[@]}"
}

verb_firmware() {
    local boards=an385 libcs=newlib kinds=ecdsa tests=no sizes=table name within=yes
    while [ $# -gt 0 ]; do
        case $1 in
        --test) tests=yes boards=all libcs=all kinds=all ;;
        --save) sizes=save ;;
        --board | --libc | --tls) [ $# -gt 1 ] || usage_error "firmware: $1 needs a value" ;;
        *) usage_error "firmware: unknown option '$1'; ./tern firmware --help" ;;
        esac
        case $1 in
        --board) boards=$2 && shift ;;
        --libc) libcs=$2 && shift ;;
        --tls) kinds=$2 && shift ;;
        esac
        shift
    done
    boards=$(firmware_choice --board "$boards" an385 an386) || exit 2
    libcs=$(firmware_choice --libc "$libcs" newlib picolibc) || exit 2
    kinds=$(firmware_choice --tls "$kinds" ecdsa psk) || exit 2
    verb_setup build firmware
    for name in $FIRMWARE_SOURCES; do
        archive_source "$TERN_BUILD/sources" "$name"
    done
    build_images "$boards" "$libcs" "$kinds" "$sizes" || within=no
    [ "$tests" = no ] || test_firmware
    [ "$within" = yes ] || fail "an image is not what it has to be (named under the table)"
}
