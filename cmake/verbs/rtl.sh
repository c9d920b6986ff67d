# The codecs in hardware: simulated, synthesized.

help_rtl() {
    cat <<'END'
usage: ./tern rtl [--values N]
       ./tern rtl --synth

Simulates the blocks of firmware_port/rtl, INCEPTIONN's and 3LC's encoders and decoders in
SystemVerilog, and compares all that comes out with libtern, bit by bit: the vectors of the reference encoder,
N random values (10000000) under pauses on both sides, damaged payloads, whole models. Says how many
values a cycle each block takes. Installs Debian's verilator.

  --values   random values to try; ./tern test tries 200,000
  --synth    synthesizes them for iCE40 and ECP5 instead (yosys), and places on an iCE40 HX8K what
             fits, and on an ECP5 where there is nextpnr-ecp5 (Debian 13), for the clock: the tables of docs/HARDWARE.md. Takes minutes; the
             logs are in build/rtl
END
}

verb_rtl() {
    local values=10000000 synth=no
    while [ $# -gt 0 ]; do
        case $1 in
        --synth) synth=yes ;;
        --values)
            [[ ${2:-} =~ ^[1-9][0-9]{0,9}$ ]] || usage_error "rtl: --values needs a number"
            values=$2
            shift
            ;;
        *) usage_error "rtl: unknown option '$1'; ./tern rtl --help" ;;
        esac
        shift
    done
    if [ "$synth" = yes ]; then
        verb_setup synth
        say "synthesis"
        "$PYTHON" -B "$TERN_ROOT/cmake/verbs/rtl_synth.py" "$TERN_ROOT/firmware_port/rtl" "$TERN_BUILD/rtl" ||
            fail "yosys could not synthesize the blocks"
        return 0
    fi
    verb_setup build rtl
    build_variant release rtl_blocks
    say "simulation"
    TERN_RTL_VALUES=$values TERN_VECTORS=$TERN_BUILD/tests/vectors "$TERN_BUILD/tests/rtl_blocks" ||
        fail "the output of a block differs from libtern's"
}
