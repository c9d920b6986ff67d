# 32-bit ARM boards with a floating-point unit, Debian's armhf (ARMv7-A, VFPv3-D16, no NEON needed):
# cmake --toolchain configs/toolchains/arm-linux-gnueabihf.cmake
set(TERN_TRIPLET arm-linux-gnueabihf)
set(TERN_DEBIAN_ARCH armhf)
set(TERN_QEMU qemu-arm-static)
set(CMAKE_SYSTEM_PROCESSOR armv7l)
include(${CMAKE_CURRENT_LIST_DIR}/debian-cross.cmake)
