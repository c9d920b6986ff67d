# What an operating system for microcontrollers that has TLS of its own builds of Tern; esp_idf/ and
# zephyr/ include this.
#   TERN_NANOPB   folder with nanopb's sources, as ./tern firmware unpacks them
#   TERN_CONFIG   what is built in (shared/build.h); a project's own header for larger models
set(TERN_ROOT ${CMAKE_CURRENT_LIST_DIR}/..)
set(TERN_NANOPB ${TERN_ROOT}/build/sources/nanopb CACHE PATH "Tern: nanopb's sources")
set(TERN_CONFIG ${CMAKE_CURRENT_LIST_DIR}/tern_build.h CACHE FILEPATH "Tern: what is built in")

set(TERN_PORT_SOURCES)
foreach(folder stream http store)
  file(GLOB found ${CMAKE_CURRENT_LIST_DIR}/${folder}/*.c)
  list(APPEND TERN_PORT_SOURCES ${found})
endforeach()
set(TERN_CORE_SOURCES ${TERN_ROOT}/client/data/dataset.c)
foreach(folder shared shared/codec shared/codec/quantizers shared/codec/coders shared/codec/kernels
        shared/tensor shared/error_feedback shared/wire shared/meter shared/util
        client client/phases client/trainer)
  file(GLOB found ${TERN_ROOT}/${folder}/*.c)
  list(APPEND TERN_CORE_SOURCES ${found})
endforeach()
file(GLOB found ${TERN_NANOPB}/pb_*.c)
list(APPEND TERN_CORE_SOURCES ${found})
set(TERN_PORT_INCLUDES ${CMAKE_CURRENT_LIST_DIR} ${TERN_ROOT}/shared ${TERN_ROOT}/client)

# tern_prepare(TARGET PUBLIC|PRIVATE): what the target is built with besides, and the messages in it.
function(tern_prepare target scope)
  if(NOT EXISTS ${TERN_NANOPB}/pb.h)
    message(FATAL_ERROR "there is no ${TERN_NANOPB}/pb.h: ./tern firmware fetches nanopb, or set TERN_NANOPB")
  endif()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/tern)
  list(APPEND CMAKE_MODULE_PATH ${TERN_ROOT}/cmake)
  include(TernWire)
  tern_generate_wire(${generated}/wire ${TERN_CONFIG})
  file(STRINGS ${TERN_ROOT}/CMakeLists.txt project REGEX "^project\\(tern VERSION")
  string(REGEX MATCH "([0-9]+)\\.([0-9]+)\\.([0-9]+)" PROJECT_VERSION "${project}")
  set(PROJECT_VERSION_MAJOR ${CMAKE_MATCH_1})
  set(PROJECT_VERSION_MINOR ${CMAKE_MATCH_2})
  set(PROJECT_VERSION_PATCH ${CMAKE_MATCH_3})
  configure_file(${TERN_ROOT}/shared/version.h.in ${generated}/version.h @ONLY)
  target_sources(${target} PRIVATE ${generated}/wire/tern.pb.c)
  target_include_directories(${target} ${scope} ${generated} ${TERN_NANOPB})
  target_compile_definitions(${target} ${scope} TERN_BUILD_CONFIG="${TERN_CONFIG}")
  # Weights are the same bits on every platform.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  set(TERN_GENERATED ${generated} PARENT_SCOPE)
endfunction()
