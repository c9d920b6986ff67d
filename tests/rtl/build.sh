#!/bin/sh
# Makes a library of the simulated blocks: build.sh VERILATOR CXX RTL-FOLDER OUT-FOLDER
set -eu
verilator=$1 cxx=$2 rtl=$3 out=$4
here=$(dirname -- "$0")
include=$("$verilator" --getenv VERILATOR_ROOT)/include
rm -rf -- "$out"
mkdir -p "$out"

compile() { # NAME SOURCE
    # shellcheck disable=SC2086
    $cxx -std=c++17 -O2 -w -DVM_TRACE=0 -DVM_COVERAGE=0 -DVM_SC=0 -DVL_TIME_CONTEXT -I "$out" -I "$include" \
        -I "$include/vltstd" -c "$2" -o "$out/$1.o"
}

for block in ternary_encode ternary_decode inceptionn_encode inceptionn_decode; do
    "$verilator" --cc -Wall -Wno-DECLFILENAME -O3 --x-assign fast --x-initial fast --noassert \
        --output-split 0 --Mdir "$out" --prefix "Vtern_$block" --top-module "tern_$block" \
        "$rtl/slice.sv" "$rtl/$block.sv"
done
for source in "$out"/V*.cpp "$include/verilated.cpp" "$include/verilated_threads.cpp" "$here/blocks.cc"; do
    name=$(basename -- "${source%.*}")
    compile "$name" "$source"
done
ar rcs "$out/libtern_blocks.a" "$out"/*.o
