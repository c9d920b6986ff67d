# What `cmake --install` puts down beside the programs, which install themselves: libtern, the
# embeddable client, their headers, the pkg-config file, the documents and the example settings.
# Included by the root CMakeLists.txt behind the folders that make the targets.
#
# Headers keep their folders under <include>/tern, so that #include "codec/codec.h" reads the same
# inside and outside of the tree.

# The archive of the client core is installed under the name that -ltern_client finds.
set_target_properties(tern_client_core PROPERTIES OUTPUT_NAME tern_client)

# The pkg-config file for a prefix, with the options of install() that follow. Paths are relative to
# the prefix; output is where the file is made.
function(tern_install_pkgconfig prefix libdir includedir output)
  set(nanopb_cflags)
  if(NOT NANOPB_INCLUDE_DIR IN_LIST CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES)
    string(REPLACE "${CMAKE_SYSROOT}/usr" " -I/usr" nanopb_cflags ${NANOPB_INCLUDE_DIR})
  endif()
  configure_file(${CMAKE_SOURCE_DIR}/cmake/tern.pc.in ${output} @ONLY)
  install(FILES ${output} DESTINATION ${libdir}/pkgconfig ${ARGN})
endfunction()

# The public headers, with the options of install() that follow; the others are known inside of one
# component only.
function(tern_install_headers include)
  install(FILES shared/build.h shared/result.h client/client.h client/ports.h
          DESTINATION ${include} ${ARGN})
  install(FILES client/trainer/tern_trainer_abi.h DESTINATION ${include}/trainer ${ARGN})
  foreach(header codec/codec codec/list codec/container codec/signs tensor/model
          error_feedback/error_buffer
          error_feedback/error_storage wire/wire
          meter/meter util/bytes util/crc32c util/prng util/sha256)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES shared/${header}.h DESTINATION ${include}/${folder} ${ARGN})
  endforeach()
  set(generated ${CMAKE_BINARY_DIR}/shared/generated)
  install(FILES ${generated}/version.h DESTINATION ${include} ${ARGN})
  install(FILES ${generated}/wire/tern.pb.h DESTINATION ${include}/wire ${ARGN})
endfunction()

function(tern_install_documents)
  install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
  install(DIRECTORY docs/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
          FILES_MATCHING PATTERN "*.py" PATTERN "*.c" PATTERN "__pycache__" EXCLUDE)
  install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
          FILES_MATCHING PATTERN "*.ini" PATTERN "*.service" PATTERN "*.timer")
endfunction()

install(TARGETS tern tern_client_core ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
tern_install_pkgconfig(${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_INCLUDEDIR}
                       ${CMAKE_BINARY_DIR}/tern.pc)
tern_install_headers(${CMAKE_INSTALL_INCLUDEDIR}/tern)
tern_install_documents()

# An outside program is built against what was installed.
if(TERN_TESTS)
  add_test(NAME install
           COMMAND ${CMAKE_SOURCE_DIR}/tests/install/test_install.sh ${CMAKE_BINARY_DIR}
                   ${CMAKE_C_COMPILER})
  set_tests_properties(install PROPERTIES LABELS install SKIP_RETURN_CODE 77 TIMEOUT 120)
endif()
