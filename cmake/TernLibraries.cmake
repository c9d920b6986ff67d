# The libraries as other programs use them (docs/EMBEDDING.md), made of the objects of the tree's own,
# and the headers that go with them. Targets are named as find_package(tern) names them:
#   tern::tern            libtern.a: codecs, models, messages, meter
#   tern::client_static   libtern-client.a: the client, the built-in trainer, the ports for Linux
#   tern::client          libtern-client.so, all of it in one; without TERN_SHARED tern::client_static
include(TernHeaders)

# What programs are compiled against may change with this number alone: it is the shared library's name.
set(TERN_ABI 0)

set(TERN_INCLUDE ${PROJECT_BINARY_DIR}/include)
set(TERN_CORE_HEADERS
    build.h result.h codec/codec.h codec/list.h
    secure/gaussian.h secure/masked.h secure/round.h secure/secret.h codec/container.h tensor/model.h
    tensor/manifest.h error_feedback/error_buffer.h error_feedback/error_storage.h wire/wire.h
    meter/meter.h util/arena.h util/bytes.h util/crc32c.h util/prng.h util/sha256.h util/spec.h)
set(TERN_CLIENT_HEADERS
    client.h ports.h trainer/trainer.h trainer/network.h trainer/tern_trainer_abi.h data/dataset.h)
set(TERN_POSIX_HEADERS
    posix/transport.h posix/file_store.h posix/partial_file.h posix/system.h)
if(TERN_POSIX)
  list(APPEND TERN_CLIENT_HEADERS ${TERN_POSIX_HEADERS})
endif()
tern_public_headers(${TERN_INCLUDE} ${PROJECT_SOURCE_DIR}/shared ${TERN_CORE_HEADERS})
tern_public_headers(${TERN_INCLUDE} ${PROJECT_SOURCE_DIR}/client ${TERN_CLIENT_HEADERS})
set(generated ${PROJECT_BINARY_DIR}/shared/generated)
configure_file(${generated}/version.h ${TERN_INCLUDE}/tern/version.h COPYONLY)
add_custom_command(OUTPUT ${TERN_INCLUDE}/tern/wire/tern.pb.h
                   COMMAND ${CMAKE_COMMAND} -E copy ${generated}/wire/tern.pb.h
                           ${TERN_INCLUDE}/tern/wire/tern.pb.h
                   DEPENDS ${generated}/wire/tern.pb.h)
add_custom_target(tern_public_headers DEPENDS ${TERN_INCLUDE}/tern/wire/tern.pb.h)
add_dependencies(tern_public_headers tern_proto)

set(client_parts tern_client_core tern_builtin)
if(TERN_POSIX)
  list(APPEND client_parts tern_client_ports tern_system)
endif()
set(client_objects)
foreach(part ${client_parts})
  list(APPEND client_objects $<TARGET_OBJECTS:${part}>)
endforeach()
set(core_objects $<TARGET_OBJECTS:tern> $<TARGET_OBJECTS:tern_proto>)
set(crypto)
if(TERN_SECURE)
  list(APPEND client_objects $<TARGET_OBJECTS:tern_secure>)
  set(crypto mbedcrypto)
endif()

# tern_foreign_library(TARGET ALIAS OUTPUT_NAME): what all of them have in common.
function(tern_foreign_library target alias output_name)
  add_library(tern::${alias} ALIAS ${target})
  add_dependencies(${target} tern_public_headers)
  target_include_directories(${target} SYSTEM INTERFACE ${TERN_INCLUDE} ${NANOPB_INCLUDE_DIR})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output_name} LINKER_LANGUAGE C
                        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()

add_library(tern_archive STATIC ${core_objects})
target_link_libraries(tern_archive INTERFACE protobuf-nanopb)
tern_foreign_library(tern_archive tern tern)

add_library(tern_client_archive STATIC ${client_objects})
target_link_libraries(tern_client_archive INTERFACE tern_archive m $<TARGET_NAME_IF_EXISTS:tern_client_needs> ${crypto})
tern_foreign_library(tern_client_archive client_static tern-client)

if(NOT TERN_SHARED)
  add_library(tern::client ALIAS tern_client_archive)
  return()
endif()

# Exports what libtern-client.map lists: the functions of client.h and of what is needed to call them.
set(map ${PROJECT_SOURCE_DIR}/cmake/libtern-client.map)
add_library(tern_client_shared SHARED ${core_objects} ${client_objects})
target_link_libraries(tern_client_shared PRIVATE protobuf-nanopb m $<TARGET_NAME_IF_EXISTS:tern_client_needs> ${crypto})
target_link_options(tern_client_shared PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined
                    -Wl,--as-needed -Wl,-Bsymbolic-functions)
set_target_properties(tern_client_shared PROPERTIES SOVERSION ${TERN_ABI} LINK_DEPENDS ${map})
tern_foreign_library(tern_client_shared client tern-client)
