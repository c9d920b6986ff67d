# Builds the firmware for the boards of firmware_port/boards.

help_firmware() {
    cat <<'END_HELP'
usage: ./tern firmware [--board an385|an386|all] [--libc newlib|picolibc|all] [--tls ecdsa|psk|both|all]
                       [--error-buffer float32|int8] [--secure] [--save] [--all] [--prepare|--test]

Builds the client for microcontrollers: shared, client, firmware_port, mbedTLS, lwIP and nanopb, by
arm-none-eabi-gcc -Os, with the linker held to the whole budget of flash and RAM. Prints how much of
both each part takes, against firmware_port/sizes.json. The images are build/firmware/IMAGE/tern.elf.

  --board   mps2-an385 (Cortex-M3) or mps2-an386 (Cortex-M4F), as QEMU has them; default an385
  --libc    the C library that memcpy() and the like come from; default newlib (its nano variant)
  --tls     certificates (ecdsa, default), pre-shared keys (psk), or both in one image, where the
            device's settings decide; all: one image of the first and one of the second kind
  --error-buffer
            float32 (default), or int8, which takes a quarter of the RAM and makes another model
  --secure  the client of secure rounds, with float32 error buffers
  --save    makes the sizes of these images the ones that later changes are measured against
  --test    builds two images that have each board, C library and kind of TLS once, one more of secure
            rounds, and the programs,
            runs them together in QEMU (tests/firmware), and prints what codecs cost, against
            lab/bench/firmware/codec_cost.json
  --prepare builds the images of --test, for later
  --all     every image: all boards, libraries and kinds of TLS, one more for both kinds, one for
            int8, one of secure rounds, and, for their sizes alone, one without a log (silent), one with DHCP (dhcp) and
            one without the codec uniform (lean). With --test all tests, too: those of networks that fail, and of power cuts

The sources of mbedTLS, lwIP and nanopb are those of Debian 12, whatever this machine runs: devices
keep mbedTLS 2.28. They are fetched once, from the Debian archive that this machine's apt uses, into
build/sources.
END_HELP
}

FIRMWARE_SOURCES="mbedtls lwip nanopb"

# KIND: float32 or int8, the storage of the error buffer; or secure, the client of secure rounds; or silent, dhcp or lean.
image_name() { # BOARD LIBC TLS KIND
    local name=$1-$2-$3
    [ "$4" = float32 ] || name=$name-$4
    printf '%s\n' "$name"
}

# Builds one image. Fails if it exceeds its budget.
build_firmware() { # BOARD LIBC TLS KIND
    local board=$1 libc=$2 tls=$3 kind=$4 storage=float32 secure=OFF log=ON flags='' name dir
    name=$(image_name "$@")
    dir=$TERN_BUILD/firmware/$name
    case $kind in
    secure) secure=ON ;;
    silent) log=OFF ;;
    dhcp) flags=-DTERN_DHCP ;;
    lean) flags=-DTERN_WITHOUT_UNIFORM ;;
    *) storage=$kind ;;
    esac
    say "firmware ($name)"
    mkdir -p "$dir"
    quietly "$dir/configure.log" "configuring the firmware" cmake -G Ninja -B "$dir" \
        -S "$TERN_ROOT/firmware_port" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_TOOLCHAIN_FILE="$TERN_ROOT/configs/toolchains/arm-none-eabi.cmake" \
        -DTERN_BOARD="$board" -DTERN_LIBC="$libc" -DTERN_TLS="$tls" \
        -DTERN_ERROR_STORAGE="$storage" -DTERN_SECURE="$secure" -DTERN_LOG="$log" -DCMAKE_C_FLAGS="$flags" \
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
    usage_error "firmware: unknown value '$value' of $option; ./tern firmware --help lists the values"
}

# Tests images in QEMU against the programs of this machine.
test_firmware() { # LABEL-LEFT-OUT IMAGE...
    local without=$1 image names=()
    shift
    for image in "$@"; do
        # shellcheck disable=SC2086
        names+=("$(image_name $image)")
    done
    build_variant release tern-aggregator tern-client
    say "tests of the firmware"
    use_memory
    TERN_FIRMWARE_IMAGES=${names[*]} ctest --test-dir "$TERN_BUILD" -L firmware -LE "$without" \
        --output-on-failure --no-tests=error || fail "tests of the firmware failed"
}

# Returns 1 when an image is over its budget; one that does not build ends everything.
build_images() { # VERB_OF_SIZES, then for each image "BOARD LIBC TLS KIND"
    local verb=$1 words image folders=()
    shift
    for image in "$@"; do
        read -ra words <<<"$image"
        build_firmware "${words[@]}"
        folders+=("$TERN_BUILD/firmware/$(image_name "${words[@]}")")
    done
    say "sizes in bytes, and the change since firmware_port/sizes.json"
    "$PYTHON" "$TERN_ROOT/cmake/verbs/firmware_sizes.py" "$verb" \
        "$TERN_ROOT/firmware_port/sizes.json" "${folders[@]}"
}

# Instructions for each value that a codec encodes or decodes. Returns 1 when one got much dearer.
codec_cost() { # VERB
    say "instructions for each value, and the change since lab/bench/firmware/codec_cost.json"
    "$PYTHON" "$TERN_ROOT/lab/bench/firmware/codec_cost.py" "$1"
}

# Every image of these kinds, as build_images() takes them.
all_images() { # BOARDS LIBCS KINDS KIND
    local board libc tls
    for board in $1; do
        for libc in $2; do
            for tls in $3; do
                echo "$board $libc $tls $4"
            done
        done
    done
}

verb_firmware() {
    local ARCHIVE_SUITE=bookworm
    local boards=an385 libcs=newlib kinds=ecdsa tests=no all=no sizes=table name within=yes images measured=()
    local storage=float32 without=long
    while [ $# -gt 0 ]; do
        case $1 in
        --test) tests=yes ;;
        --prepare) tests=prepare ;;
        --all) all=yes boards=all libcs=all kinds=all without=none ;;
        --save) sizes=save ;;
        --secure) storage=secure ;;
        --board | --libc | --tls | --error-buffer) [ $# -gt 1 ] || usage_error "firmware: $1 needs a value" ;;
        *) usage_error "firmware: unknown option '$1'; ./tern firmware --help" ;;
        esac
        case $1 in
        --board) boards=$2 && shift ;;
        --libc) libcs=$2 && shift ;;
        --tls) kinds=$2 && shift ;;
        --error-buffer) storage=$2 && shift ;;
        esac
        shift
    done
    boards=$(firmware_choice --board "$boards" an385 an386) || exit 2
    libcs=$(firmware_choice --libc "$libcs" newlib picolibc) || exit 2
    [ "$kinds" = both ] || kinds=$(firmware_choice --tls "$kinds" ecdsa psk) || exit 2
    case $storage in
    float32 | int8 | secure) ;;
    *) usage_error "firmware: --error-buffer '$storage': use float32 or int8" ;;
    esac
    mapfile -t images < <(all_images "$boards" "$libcs" "$kinds" "$storage")
    case $all,$tests in
    yes,*)
        images+=("an385 newlib both float32" "an385 newlib ecdsa int8" "an385 newlib psk secure")
        measured=("an385 newlib ecdsa silent" "an385 newlib ecdsa dhcp" "an385 newlib ecdsa lean")
        ;;
    no,yes | no,prepare) images=("an385 newlib ecdsa float32" "an386 picolibc psk float32" "an385 newlib psk secure") ;;
    esac
    verb_setup build test firmware
    for name in $FIRMWARE_SOURCES; do
        archive_source "$TERN_BUILD/sources" "$name"
    done
    build_images "$sizes" "${images[@]}" "${measured[@]}" || within=no
    if [ "$tests" = yes ]; then
        codec_cost "$sizes" || within=no
        test_firmware "$without" "${images[@]}"
    fi
    [ "$within" = yes ] || fail "an image or a codec exceeds its limit, which the line under its table names"
}
