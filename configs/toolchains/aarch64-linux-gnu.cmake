# 64-bit ARM boards, Debian's arm64: cmake --toolchain configs/toolchains/aarch64-linux-gnu.cmake
set(TERN_TRIPLET aarch64-linux-gnu)
set(TERN_DEBIAN_ARCH arm64)
set(TERN_QEMU qemu-aarch64-static)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/debian-cross.cmake)
