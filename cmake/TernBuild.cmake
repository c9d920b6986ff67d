# Settings that every target shares, and the two helpers that components use.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")
# Debian's own Python has the python3-... packages, and starts in a fraction of the time that pyenv's takes.
if(NOT Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Sanitizers are slow enough as it is: without any optimization their tests take several times longer.
# Their reports name lines, for which -g1 is enough; it takes a sixth less to compile than -g.
if(TERN_SANITIZE)
  set(CMAKE_C_FLAGS_DEBUG "-O1 -g1")
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

add_compile_options(
  -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wcast-qual
  -Wswitch-enum -Wundef -Wwrite-strings -Wvla
  -ffp-contract=off -fno-common -ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections)
if(PROJECT_IS_TOP_LEVEL) # in another's project, a later compiler's new warning stops nothing
  add_compile_options(-Werror)
endif()

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
# Nothing of such a build is handed on, so the quickest linker makes it.
if(TERN_SANITIZE)
  find_program(TERN_LLD ld.lld)
  if(TERN_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
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

# tern_position_independent(NAME...): libraries that the shared libraries are made of, too.
function(tern_position_independent)
  if(TERN_POSITION_INDEPENDENT)
    set_target_properties(${ARGN} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    foreach(name ${ARGN})
      # Nobody puts another function in the place of one of Tern's.
      target_compile_options(${name} PRIVATE -fno-semantic-interposition)
    endforeach()
  endif()
endfunction()

# tern_device_program(NAME): a program that TERN_STATIC makes independent of what a device has.
function(tern_device_program name)
  if(TERN_STATIC)
    target_link_options(${name} PRIVATE -static)
  endif()
endfunction()

# The programs of tern_test(): all, and those with a test that is not "long", such a one that is "threaded", or one that is
# "device".
foreach(programs compiled short threaded device)
  add_custom_target(tern-${programs}-tests)
endforeach()

# A program of tests, with what every one of them is built with.
function(tern_test_executable name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE test_joined cmocka)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(tern-compiled-tests ${name})
endfunction()

# tern_test_support(NAME SOURCE... LIBS lib...): what several programs of tests have, compiled once for all of them.
function(tern_test_support name)
  cmake_parse_arguments(S "" "" "LIBS" ${ARGN})
  add_library(${name} STATIC ${S_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PUBLIC ${S_LIBS})
endfunction()

# tern_test_program(PROGRAM [SOURCE...] [LIBS lib...] [LABELS label...])
#
# One program for the tests of a folder: tern_test() behind it adds to it, unless it says ALONE. SOURCE,
# LIBS and LABELS are what all of them have. What belongs to the whole program, such as
# target_compile_definitions(), names PROGRAM. Its tests are still processes of their own for ctest.
function(tern_test_program program)
  cmake_parse_arguments(P "" "" "LIBS;LABELS" ${ARGN})
  tern_test_executable(${program} ${P_UNPARSED_ARGUMENTS})
  target_link_libraries(${program} PRIVATE ${P_LIBS})
  set(TERN_TEST_PROGRAM ${program} PARENT_SCOPE)
  set(TERN_TEST_LABELS ${P_LABELS} PARENT_SCOPE)
endfunction()

# tern_test(NAME SOURCE... [ALONE] [LIBS lib...] [LABELS label...] [TIMEOUT s])
#
# A test under ctest. The first source holds its cases (tests/cases.h), as if it were a program of its
# own; the others may be shared. To add one to a folder: write the file, add this line to the folder's
# CMakeLists.txt, build. Then `ctest --test-dir build -R NAME` runs it, and so does
# `build/tests/PROGRAM NAME`, or `build/tests/NAME` where it is ALONE or there is no
# tern_test_program().
#
# Labels that mean something: "threaded", it has threads, so that the thread sanitizer runs it, too; "threads_long", with
# ./tern test --long only, because other tests have the same threads;
# "long", a sanitizer runs it with ./tern test --long only: it takes a minute there, or it repeats what another test shows;
# "device", it tests what boards run, so that ./tern cross --static runs it in emulation (tests/CMakeLists.txt sets it);
# "sanitized", a script that the address sanitizer runs without --long, too, as it runs every tern_test();
# "waits", it waits for most of its time, so that ./tern test runs it beside those that compute; "kernel",
# it needs what user-mode emulation does not pass on, such as TCP_INFO.
function(tern_test name)
  cmake_parse_arguments(T "ALONE" "TIMEOUT" "LIBS;LABELS" ${ARGN})
  set(sources ${T_UNPARSED_ARGUMENTS})
  list(APPEND T_LABELS ${TERN_TEST_LABELS} ${TERN_TEST_FOLDER_LABELS})
  if(TERN_TEST_PROGRAM AND NOT T_ALONE)
    set(program ${TERN_TEST_PROGRAM})
    list(GET sources 0 first)
    set_source_files_properties(${first} PROPERTIES
      COMPILE_OPTIONS "-Dmain=${name};-include;${CMAKE_SOURCE_DIR}/tests/joined.h")
    get_target_property(known ${program} SOURCES)
    list(REMOVE_ITEM sources ${known})
    target_sources(${program} PRIVATE ${sources})
    add_test(NAME ${name} COMMAND ${program} ${name})
  else()
    set(program ${name})
    tern_test_executable(${program} ${sources})
    add_test(NAME ${name} COMMAND ${program})
  endif()
  target_link_libraries(${program} PRIVATE ${T_LIBS})
  if("device" IN_LIST T_LABELS)
    add_dependencies(tern-device-tests ${program})
  endif()
  if(NOT "long" IN_LIST T_LABELS)
    add_dependencies(tern-short-tests ${program})
    if("threaded" IN_LIST T_LABELS AND NOT "threads_long" IN_LIST T_LABELS)
      add_dependencies(tern-threaded-tests ${program})
    endif()
  endif()
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
