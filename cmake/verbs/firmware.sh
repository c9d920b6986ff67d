# Builds the firmware for the boards of firmware_port/boards.

help_firmware() {
    cat <<'END_HELP'
usage: ./tern firmware [--board an385|an386|all] [--libc newlib|picolibc|all] [--tls ecdsa|psk|all]
                       [--test]

Builds the client for microcontrollers: shared, client, firmware_port, mbedTLS, lwIP and nanopb, by
arm-none-eabi-gcc -Os, with the linker held to the whole budget of flash and RAM. Prints how much of
both each part takes, against firmware_port/sizes.json. The images are build/firmware/IMAGE/tern.elf.

  --board   mps2-an385 (Cortex-M3) or mps2-an386 (Cortex-M4F), as QEMU has them; default an385
  --libc    the C library that memcpy() and the like come from; default newlib (its nano variant)
  --tls     certificates (ecdsa, default) or pre-shared keys (psk)
  --test    builds all of them and runs the tests in tests/firmware, in QEMU

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

verb_firmware() {
    local boards=an385 libcs=newlib kinds=ecdsa run_tests=no board libc tls name
    while [ $# -gt 0 ]; do
        case $1 in
        --test)
            run_tests=yes
            boards=all libcs=all kinds=all
            shift
            continue
            ;;
        --board | --libc | --tls) [ $# -gt 1 ] || usage_error "firmware: $1 needs a value" ;;
        *) usage_error "firmware: unknown option '$1'; ./tern firmware --help" ;;
        esac
        case $1 in
        --board) boards=$2 ;;
        --libc) libcs=$2 ;;
        --tls) kinds=$2 ;;
        esac
        shift 2
    done
    boards=$(firmware_choice --board "$boards" an385 an386) || exit 2
    libcs=$(firmware_choice --libc "$libcs" newlib picolibc) || exit 2
    kinds=$(firmware_choice --tls "$kinds" ecdsa psk) || exit 2
    verb_setup build firmware
    for name in $FIRMWARE_SOURCES; do
        archive_source "$TERN_BUILD/sources" "$name"
    done
    for board in $boards; do
        for libc in $libcs; do
            for tls in $kinds; do
                build_firmware "$board" "$libc" "$tls"
            done
        done
    done
}
