# Settings that every target shares, and the two helpers that components use.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")
# Sanitizers are slow enough as it is: without any optimization their tests take several times longer.
if(TERN_SANITIZE)
  set(CMAKE_C_FLAGS_DEBUG "-O1 -g")
else()
  set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")
endif()
# For devices: only inner loops are optimized for speed, and nothing is kept to unwind the stack.
set(CMAKE_C_FLAGS_MINSIZEREL
    "-Os -g -DNDEBUG -fno-asynchronous-unwind-tables -fno-unwind-tables")

# What inner loops are compiled with besides: they are written for the vectoriser.
set(TERN_FAST "$<$<CONFIG:Release>:-O3>" "$<$<CONFIG:MinSizeRel>:-O2>")

# Where off_t has 32 bits (armhf), files beyond 2 GB would be refused.
add_compile_definitions(_FILE_OFFSET_BITS=64)

option(TERN_STATIC "Link tern-client and tern-codec with static libraries only" OFF)

add_compile_options(
  -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wcast-qual
  -Wswitch-enum -Wundef -Wwrite-strings -Wvla -Werror
  -ffp-contract=off -fno-common -ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections)

# address | thread: every target is built with that sanitizer.
set(TERN_SANITIZE "" CACHE STRING "Sanitizer: empty, address (with undefined) or thread")
if(TERN_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(TERN_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT TERN_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TERN_SANITIZE must be empty, address or thread")
endif()

# tern_library(NAME FOLDER...): a static library of every .c file directly in the folders.
function(tern_library name)
  set(sources)
  foreach(folder ${ARGN})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.c)
    list(APPEND sources ${found})
  endforeach()
  add_library(${name} STATIC ${sources})
endfunction()

# tern_device_program(NAME): a program that TERN_STATIC makes independent of what a device has.
function(tern_device_program name)
  if(TERN_STATIC)
    target_link_options(${name} PRIVATE -static)
  endif()
endfunction()

# All programs of tern_test(), which also have the label "compiled".
add_custom_target(tern-compiled-tests)

# tern_test(NAME SOURCE... [LIBS lib...] [LABELS label...] [TIMEOUT s]): a cmocka program under ctest.
# Label "kernel": it needs what user-mode emulation does not pass on, such as TCP_INFO.
function(tern_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "LIBS;LABELS" ${ARGN})
  add_executable(${name} ${T_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${T_LIBS} cmocka)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(tern-compiled-tests ${name})
  add_test(NAME ${name} COMMAND ${name})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(CMAKE_CROSSCOMPILING)
    math(EXPR T_TIMEOUT "10 * ${T_TIMEOUT}") # emulated
  endif()
  list(APPEND T_LABELS compiled)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}"
                       SKIP_RETURN_CODE 77)
endfunction()
