#!/bin/sh
# Makes a library of the simulated blocks: build.sh VERILATOR CXX RTL-FOLDER OUT-FOLDER
set -eu
verilator=$1 cxx=$2 rtl=$3 out=$4
here=$(cd -- "$(dirname -- "$0")" && pwd)
include=$("$verilator" --getenv VERILATOR_ROOT)/include
rm -rf -- "$out"
mkdir -p "$out"

compile() { # NAME SOURCE OPTION...
    name=$1 source=$2
    shift 2
    # shellcheck disable=SC2086
    $cxx -std=c++17 "$@" -w -DVM_TRACE=0 -DVM_COVERAGE=0 -DVM_SC=0 -DVL_TIME_CONTEXT -I "$here" -I "$out" -I "$include" \
        -I "$include/vltstd" -c "$source" -o "$out/$name.o"
}

# Verilator's library without optimization: it compiles in two thirds of the time, and blocks use little of it.
compile verilated "$include/verilated.cpp" -O0 &
library=$!
for block in ternary_encode ternary_decode inceptionn_encode inceptionn_decode; do
    "$verilator" --cc -Wall -Wno-DECLFILENAME -O3 --x-assign fast --x-initial fast --noassert \
        --output-split 0 --Mdir "$out" --prefix "Vtern_$block" --top-module "tern_$block" \
        "$rtl/slice.sv" "$rtl/$block.sv"
done
# One source for all blocks: most of the time goes into Verilator's headers.
for part in "$out"/Vtern_*.cpp "$here/blocks.cc"; do
    echo "#include \"$part\""
done >"$out/blocks.cc"
compile blocks "$out/blocks.cc" -O1
compile threads "$include/verilated_threads.cpp" -O0
wait "$library"
ar rcs "$out/libtern_blocks.a" "$out"/*.o
