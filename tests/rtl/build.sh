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
    $cxx -std=c++17 -O1 -w -DVM_TRACE=0 -DVM_COVERAGE=0 -DVM_SC=0 -DVL_TIME_CONTEXT -I "$out" -I "$include" \
        -I "$include/vltstd" -c "$2" -o "$out/$1.o"
}

# One source for all that Verilator makes of a block: most of the time goes into its headers.
for block in ternary_encode ternary_decode inceptionn_encode inceptionn_decode; do
    "$verilator" --cc -Wall -Wno-DECLFILENAME -O3 --x-assign fast --x-initial fast --noassert \
        --output-split 0 --Mdir "$out" --prefix "Vtern_$block" --top-module "tern_$block" \
        "$rtl/slice.sv" "$rtl/$block.sv"
    for part in "$out/Vtern_$block"*.cpp; do
        echo "#include \"$part\""
    done >"$out/$block.cc"
done
for source in "$out"/*.cc "$include/verilated.cpp" "$include/verilated_threads.cpp" "$here/blocks.cc"; do
    name=$(basename -- "${source%.*}")
    compile "$name" "$source"
done
ar rcs "$out/libtern_blocks.a" "$out"/*.o
