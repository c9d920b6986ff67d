# What `cmake --install` puts down beside the programs, which install themselves: the libraries of
# TernLibraries.cmake with their headers, what pkg-config and find_package() read, the documents and the
# example settings. Included by the root CMakeLists.txt behind the folders that make the targets.

# What pkg-config and find_package() read, for libraries in `libdir`; `made` is where the files are made.
# The options of install() follow. They find the prefix from where they stand themselves, so it may move:
# to_prefix leads there from libdir, which is relative.
function(tern_install_finders libdir includedir made)
  set(nanopb_cflags)
  if(NOT NANOPB_INCLUDE_DIR IN_LIST CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES)
    string(REPLACE "${CMAKE_SYSROOT}/usr" " -I/usr" nanopb_cflags ${NANOPB_INCLUDE_DIR})
  endif()
  set(private_libs)
  if(TERN_POSIX)
    set(private_libs "-lcurl -lpthread -ldl ")
    if(TERN_CURL_TLS STREQUAL "mbedtls")
      string(APPEND private_libs "-lmbedtls -lmbedx509 -lmbedcrypto ")
    endif()
  endif()
  if(TERN_SECURE AND NOT private_libs MATCHES "mbedcrypto")
    string(APPEND private_libs "-lmbedcrypto ")
  endif()
  string(REGEX REPLACE "[^/]+" ".." to_prefix ${libdir})
  foreach(name tern tern-client)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${made}/${name}.pc @ONLY)
    install(FILES ${made}/${name}.pc DESTINATION ${libdir}/pkgconfig ${ARGN})
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/tern-config.cmake.in ${made}/tern-config.cmake @ONLY)
  write_basic_package_version_file(${made}/tern-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${made}/tern-config.cmake ${made}/tern-config-version.cmake
          DESTINATION ${libdir}/cmake/tern ${ARGN})
endfunction()

function(tern_install_documents)
  install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
  install(DIRECTORY docs/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
          FILES_MATCHING PATTERN "*.py" PATTERN "*.c" PATTERN "__pycache__" EXCLUDE)
  install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
          FILES_MATCHING PATTERN "*.ini" PATTERN "*.service" PATTERN "*.timer" PATTERN "*.conf"
          PATTERN "*.cfg" PATTERN "*.jail" PATTERN "*.yml" PATTERN "*.json" PATTERN "toolchains" EXCLUDE PATTERN "openwrt" EXCLUDE)
endfunction()

include(CMakePackageConfigHelpers)
install(TARGETS tern_archive tern_client_archive ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TERN_SHARED)
  install(TARGETS tern_client_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
tern_install_finders(${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_INCLUDEDIR} ${PROJECT_BINARY_DIR})
install(DIRECTORY ${TERN_INCLUDE}/tern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
tern_install_documents()
