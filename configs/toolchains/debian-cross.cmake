# What the toolchain files of Debian's cross compilers have in common. They set TERN_TRIPLET (as the
# compiler is called), TERN_DEBIAN_ARCH, TERN_QEMU and CMAKE_SYSTEM_PROCESSOR.
#
# Libraries come from the private sysroot that ./tern cross makes; -DTERN_SYSROOT=FOLDER names
# another. Programs, the nanopb generator among them, are those of the machine that builds.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER ${TERN_TRIPLET}-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE ${TERN_TRIPLET})

if(NOT TERN_SYSROOT)
  get_filename_component(TERN_SYSROOT
    ${CMAKE_CURRENT_LIST_DIR}/../../build/cross/${TERN_DEBIAN_ARCH}/sysroot ABSOLUTE)
endif()
if(NOT EXISTS ${TERN_SYSROOT}/usr/include)
  message(FATAL_ERROR "There is no sysroot in ${TERN_SYSROOT}. ./tern cross ${TERN_DEBIAN_ARCH} "
                      "makes it; -DTERN_SYSROOT=FOLDER names another one.")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TERN_SYSROOT)
set(CMAKE_SYSROOT ${TERN_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${TERN_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
    ${TERN_SYSROOT}/usr/lib/${TERN_TRIPLET}/pkgconfig:${TERN_SYSROOT}/usr/share/pkgconfig)

# Tests run under emulation where that is installed.
find_program(TERN_EMULATOR ${TERN_QEMU})
if(TERN_EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${TERN_EMULATOR} -L ${TERN_SYSROOT})
endif()
