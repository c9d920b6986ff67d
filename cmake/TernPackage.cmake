# Debian packages by CPack: tern-client, tern-aggregator, tern-helper, the shared library, tern-dev and, where nothing is cross-built,
# python3-tern, which is of all architectures; one install component each.
# ./tern package builds them. Included by the root CMakeLists.txt behind TernInstall.
#
# A cross build tells by these variables what it makes packages of:
#   TERN_DEBIAN_ARCH         Debian's name of the architecture (the toolchain files set it); in a
#                            native build the machine's own
#   TERN_PACKAGE_DEBS        folder of the .deb files that its libraries were unpacked from (archives
#                            beside the sysroot). What a program needs of them becomes its Depends;
#                            one that needs nothing, being static, needs no folder
#   TERN_STATIC              only the client is packed, with the copyrights of what it holds
set(TERN_PACKAGE_DEBS ${TERN_SYSROOT}/../archives CACHE PATH "Packages: the .debs of the sysroot")
set(TERN_PACKAGE_MAINTAINER "" CACHE STRING "Packages: NAME <ADDRESS>")

set(TERN_PACKAGE ${CMAKE_BINARY_DIR}/package) # the files that only packages have
set(TERN_PACKAGE_SOURCE ${CMAKE_SOURCE_DIR}/cmake/package)
set(TERN_PACKAGE_REVISION 1)
file(MAKE_DIRECTORY ${TERN_PACKAGE}/lib)

# --- Architecture, maintainer, date

set(TERN_PACKAGE_ARCH "${TERN_DEBIAN_ARCH}")
if(NOT TERN_PACKAGE_ARCH AND NOT CMAKE_CROSSCOMPILING)
  find_program(TERN_DPKG dpkg)
  if(TERN_DPKG)
    execute_process(COMMAND ${TERN_DPKG} --print-architecture OUTPUT_VARIABLE TERN_PACKAGE_ARCH
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
endif()
if(NOT TERN_PACKAGE_ARCH OR NOT CMAKE_LIBRARY_ARCHITECTURE)
  message(STATUS "Not a Debian system or toolchain: no packages can be made")
  return()
endif()

if(NOT TERN_PACKAGE_MAINTAINER)
  set(TERN_PACKAGE_MAINTAINER "Tern developers <tern@tern.invalid>") # .invalid: nobody reads mail there
  if(DEFINED ENV{DEBEMAIL} AND DEFINED ENV{DEBFULLNAME})
    set(TERN_PACKAGE_MAINTAINER "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
  endif()
endif()

# The time of the last commit stands in the packages, so that the same source makes the same files.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND git -c safe.directory=* log -1 --format=%ct
                  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE commit_time
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(commit_time)
    set(ENV{SOURCE_DATE_EPOCH} ${commit_time})
  endif()
endif()
string(TIMESTAMP TERN_PACKAGE_EPOCH "%s" UTC)
string(TIMESTAMP TERN_PACKAGE_DAY "%Y-%m-%d" UTC)
string(TIMESTAMP TERN_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
unset(ENV{SOURCE_DATE_EPOCH})

# Debian 12's packages still have their units below /lib, which is a link.
cmake_host_system_information(RESULT release QUERY DISTRIB_VERSION_ID)
set(TERN_PACKAGE_UNITS lib/systemd/system)
if(release EQUAL 12)
  set(TERN_PACKAGE_UNITS /lib/systemd/system)
endif()

# --- Files that are made for the packages

# tern_package_file(COMPONENT NAME COMMAND... [DEPENDS ...]): build/package/NAME, made by a command.
function(tern_package_file component name)
  add_custom_command(OUTPUT ${TERN_PACKAGE}/${name} COMMAND ${ARGN} VERBATIM
                     COMMENT "package: ${name}")
  set_property(GLOBAL APPEND PROPERTY tern_package_${component} ${TERN_PACKAGE}/${name})
endfunction()

# tern_package_manual(COMPONENT NAME SECTION COMMAND... [DEPENDS ...]): a man page, made by a command.
function(tern_package_manual component name section)
  tern_package_file(${component} ${name}.${section} ${ARGN})
  tern_package_file(${component} ${name}.${section}.gz
    gzip -9nkf ${TERN_PACKAGE}/${name}.${section} DEPENDS ${TERN_PACKAGE}/${name}.${section})
  set_property(GLOBAL APPEND PROPERTY tern_manuals ${TERN_PACKAGE}/${name}.${section})
  install(FILES ${TERN_PACKAGE}/${name}.${section}.gz DESTINATION share/man/man${section}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# A program without its debugging symbols, and its man page, in a component. Behind the target, where it
# has settings: the usual place of its INI file, which has a man page, too.
function(tern_package_program component target)
  set(program ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${target}>)
  tern_package_file(${component} ${target}
    ${CMAKE_STRIP} --remove-section=.comment --remove-section=.note $<TARGET_FILE:${target}>
    -o ${TERN_PACKAGE}/${target} DEPENDS ${target})
  tern_package_manual(${component} ${target} 1
    ${Python3_EXECUTABLE} ${TERN_PACKAGE_SOURCE}/man_page.py ${TERN_PACKAGE}/${target}.1 ${TERN_PACKAGE_DAY} ${program}
    DEPENDS ${target} ${TERN_PACKAGE_SOURCE}/man_page.py)
  foreach(settings ${ARGN})
    tern_package_manual(${component} ${target}.ini 5
      ${Python3_EXECUTABLE} ${TERN_PACKAGE_SOURCE}/settings_page.py ${TERN_PACKAGE}/${target}.ini.5 ${TERN_PACKAGE_DAY}
      ${settings} ${program}
      DEPENDS ${target} ${TERN_PACKAGE_SOURCE}/settings_page.py ${TERN_PACKAGE_SOURCE}/man_page.py)
  endforeach()
  install(PROGRAMS ${TERN_PACKAGE}/${target} DESTINATION bin
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

function(tern_package_archive target file)
  tern_package_file(dev lib/${file}
    ${CMAKE_STRIP} --strip-debug --enable-deterministic-archives --remove-section=.comment
    --remove-section=.note $<TARGET_FILE:${target}> -o ${TERN_PACKAGE}/lib/${file} DEPENDS ${target})
endfunction()

function(tern_package_shared component target file)
  tern_package_file(${component} ${file}
    ${CMAKE_STRIP} --strip-unneeded --remove-section=.comment --remove-section=.note
    $<TARGET_FILE:${target}> -o ${TERN_PACKAGE}/${file} DEPENDS ${target})
  install(FILES ${TERN_PACKAGE}/${file} DESTINATION lib/${CMAKE_LIBRARY_ARCHITECTURE}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# Reads a file of cmake/package, and adds the text that the static client needs.
function(tern_package_text output component file)
  file(READ ${TERN_PACKAGE_SOURCE}/${file} text)
  if(TERN_STATIC AND component STREQUAL "client")
    foreach(more ${ARGN})
      file(READ ${more} added)
      string(APPEND text "${added}")
    endforeach()
  endif()
  file(WRITE ${output} "${text}")
endfunction()

# What every package has in /usr/share/doc, and the explained exceptions for lintian.
function(tern_package_documents component package)
  set(doc share/doc/${package})
  set(copyright ${TERN_PACKAGE}/${package}.copyright)
  set(overrides ${TERN_PACKAGE}/${package}.overrides)
  set(linked_in)
  # Their names end differently from one release of Debian to the next.
  foreach(package libc6 libcjson1 libcurl4 libinih1 libmbedcrypto libnanopb-dev zlib1g)
    file(GLOB found ${CMAKE_SYSROOT}/usr/share/doc/${package}/copyright
         ${CMAKE_SYSROOT}/usr/share/doc/${package}[0-9t]*/copyright)
    list(GET found 0 first)
    list(APPEND linked_in ${first})
  endforeach()
  tern_package_text(${copyright} ${component} copyright
                    ${TERN_PACKAGE_SOURCE}/copyright.static ${linked_in})
  tern_package_text(${overrides} ${component} lintian-overrides
                    ${TERN_PACKAGE_SOURCE}/lintian-overrides.static)
  install(FILES ${copyright} DESTINATION ${doc} RENAME copyright
          COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${overrides} DESTINATION share/lintian/overrides RENAME ${package}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${TERN_PACKAGE}/changelog.gz ${TERN_PACKAGE}/changelog.Debian.gz ${ARGN}
          DESTINATION ${doc} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# The service of a component: settings, units, user, state directory, maintainer scripts. The
# variables UNITS, ENABLED_UNITS and STATE_IS are for the scripts; MORE_CONFFILES are those beside the
# settings.
function(tern_package_service component settings state_key)
  set(NAME tern-${component})
  set(control ${TERN_PACKAGE}/control/${component})
  tern_package_file(${component} ${settings}.ini
    ${TERN_PACKAGE_SOURCE}/settings_file.sh ${TERN_PACKAGE}/${settings}.ini ${state_key}
    /var/lib/${NAME} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${NAME}>
    DEPENDS ${NAME} ${TERN_PACKAGE_SOURCE}/settings_file.sh)
  install(FILES ${TERN_PACKAGE}/${settings}.ini DESTINATION /etc/tern
          COMPONENT ${component} EXCLUDE_FROM_ALL)

  set(systemd ${CMAKE_SOURCE_DIR}/configs/systemd)
  foreach(unit ${UNITS})
    install(FILES ${systemd}/${unit} DESTINATION ${TERN_PACKAGE_UNITS}
            COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
  foreach(kind sysusers tmpfiles)
    install(FILES ${systemd}/${NAME}.${kind} DESTINATION lib/${kind}.d RENAME ${NAME}.conf
            COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
  install(FILES ${TERN_PACKAGE_SOURCE}/${NAME}.README.Debian RENAME README.Debian
          DESTINATION share/doc/${NAME} COMPONENT ${component} EXCLUDE_FROM_ALL)

  list(JOIN UNITS " " UNITS)
  list(JOIN ENABLED_UNITS " " ENABLED_UNITS)
  foreach(script postinst prerm postrm)
    configure_file(${TERN_PACKAGE_SOURCE}/${script}.in ${control}/${script} @ONLY)
  endforeach()
  file(WRITE ${control}/conffiles "/etc/tern/${settings}.ini\n")
  foreach(file ${MORE_CONFFILES})
    file(APPEND ${control}/conffiles "${file}\n")
  endforeach()
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA
      ${control}/postinst ${control}/prerm ${control}/postrm ${control}/conffiles PARENT_SCOPE)
endfunction()

# --- The packages

set(CPACK_COMPONENTS_ALL client)
if(TERN_SHARED)
  list(APPEND CPACK_COMPONENTS_ALL library dev)
endif()
if(TARGET tern-aggregator AND NOT TERN_STATIC)
  list(APPEND CPACK_COMPONENTS_ALL aggregator)
  if(TARGET tern-helper)
    list(APPEND CPACK_COMPONENTS_ALL helper)
  endif()
  if(NOT CMAKE_CROSSCOMPILING)
    list(APPEND CPACK_COMPONENTS_ALL python)
  endif()
endif()

# systemd, or its programs without systemd.
set(TERN_PACKAGE_SYSTEMD "systemd | systemd-standalone-sysusers | systemd-sysusers, \
systemd | systemd-standalone-tmpfiles | systemd-tmpfiles")

set(UNITS tern-client.service tern-client-once.service tern-client.timer)
set(ENABLED_UNITS tern-client.service tern-client.timer)
set(EXAMPLE_UNITS "'tern-client@*.service'")
set(MORE_CONFFILES)
set(STATE_IS "the client's identity and what it learnt and has not sent")
tern_package_program(client tern-client /etc/tern/client.ini)
tern_package_service(client client state_dir)
tern_package_documents(client tern-client docs/DATA.md docs/OPERATIONS.md docs/PRIVACY.md docs/SECURITY.md docs/TRAINERS.md)
set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME tern-client)
set(CPACK_DEBIAN_CLIENT_PACKAGE_SECTION net)
set(CPACK_DEBIAN_CLIENT_PACKAGE_DEPENDS "${TERN_PACKAGE_SYSTEMD}")
set(CPACK_DEBIAN_CLIENT_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_CLIENT_DESCRIPTION "client of a federation that trains on the device's own data
Tern is federated learning for devices that pay by the byte. The client trains
a model on data that never leaves the device, compresses the change and sends
it over metered HTTPS, within byte budgets. It may be killed at any instant.
.
It runs as a service that stays, or once an hour from a timer.")

if("aggregator" IN_LIST CPACK_COMPONENTS_ALL)
  set(UNITS tern-aggregator.service)
  set(ENABLED_UNITS ${UNITS})
  set(EXAMPLE_UNITS "'tern-aggregator@*.service' tern-gateway.service")
  set(STATE_IS "the whole federation: models, updates, clients")
  set(MORE_CONFFILES /etc/fail2ban/filter.d/tern-aggregator.conf)
  tern_package_program(aggregator tern-aggregator /etc/tern/aggregator.ini)
  install(FILES configs/fail2ban/tern-aggregator.conf DESTINATION /etc/fail2ban/filter.d
          COMPONENT aggregator EXCLUDE_FROM_ALL)
  foreach(file fail2ban/tern-aggregator.jail proxies/nginx.conf proxies/nginx-cache.conf proxies/haproxy.cfg
          proxies/haproxy-several.cfg proxies/apache-sso.conf proxies/haproxy-varnish.cfg proxies/varnish.vcl systemd/tern-aggregator@.service
          systemd/tern-gateway.service
          prometheus/prometheus.yml prometheus/tern-alerts.yml grafana/tern-aggregator.json)
    get_filename_component(folder ${file} DIRECTORY)
    install(FILES configs/${file} DESTINATION share/doc/tern-aggregator/examples/${folder}
            COMPONENT aggregator EXCLUDE_FROM_ALL)
  endforeach()
  tern_package_service(aggregator aggregator state)
  tern_package_documents(aggregator tern-aggregator docs/DATA.md docs/GUIDE.md docs/OPERATIONS.md docs/PRIVACY.md docs/SECURITY.md)
  set(CPACK_DEBIAN_AGGREGATOR_PACKAGE_NAME tern-aggregator)
  set(CPACK_DEBIAN_AGGREGATOR_PACKAGE_SECTION net)
  set(CPACK_DEBIAN_AGGREGATOR_PACKAGE_DEPENDS "${TERN_PACKAGE_SYSTEMD}")
  set(CPACK_DEBIAN_AGGREGATOR_PACKAGE_SUGGESTS "openssl, tern-dev")
  set(CPACK_DEBIAN_AGGREGATOR_DESCRIPTION "service that owns the rounds of a federation
Tern is federated learning for devices that pay by the byte. The aggregator
keeps the model's versions, an error ledger for every client, the compressed
downloads that clients share and the schedule of local steps, all in one
SQLite file. Every version can be replayed bit for bit.")
endif()

if("helper" IN_LIST CPACK_COMPONENTS_ALL)
  set(UNITS tern-helper.service)
  set(ENABLED_UNITS ${UNITS})
  set(EXAMPLE_UNITS "'tern-helper@*.service'")
  set(STATE_IS "the helper's keys and the log of what it answered")
  set(MORE_CONFFILES)
  tern_package_program(helper tern-helper /etc/tern/helper.ini)
  tern_package_service(helper helper state_dir)
  tern_package_documents(helper tern-helper docs/OPERATIONS.md docs/PRIVACY.md docs/SECURITY.md)
  set(CPACK_DEBIAN_HELPER_PACKAGE_NAME tern-helper)
  set(CPACK_DEBIAN_HELPER_PACKAGE_SECTION net)
  set(CPACK_DEBIAN_HELPER_PACKAGE_DEPENDS "${TERN_PACKAGE_SYSTEMD}")
  set(CPACK_DEBIAN_HELPER_PACKAGE_SUGGESTS "openssl")
  set(CPACK_DEBIAN_HELPER_DESCRIPTION "second party of federated learning with masked updates
Tern is federated learning for devices that pay by the byte. In secure rounds
devices mask their updates. The helper, of another operator than the
aggregator's, returns the sum of the masks of many devices and refuses lists
that could reveal one of them. It never receives an update.")
endif()

if("library" IN_LIST CPACK_COMPONENTS_ALL)
  set(library libtern-client${TERN_ABI})
  set(soname libtern-client.so.${TERN_ABI})
  tern_package_shared(library tern_client_shared ${soname})
  tern_package_documents(library ${library})
  file(APPEND ${TERN_PACKAGE}/${library}.overrides "
# CPack adds the calls to every package with a library; the trigger is there, too.
maintscript-calls-ldconfig [postinst]
maintscript-calls-ldconfig [postrm]
")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
  # Which package a program needs that is linked with the library, and whose index of libraries is old.
  set(control ${TERN_PACKAGE}/control/library)
  file(WRITE ${control}/shlibs "libtern-client ${TERN_ABI} ${library} (>= ${PROJECT_VERSION})\n")
  file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${control}/shlibs ${control}/triggers)
  set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "client of federated learning as a library
Tern is federated learning for devices that pay by the byte. A program that is
linked with this library takes part in a federation by itself, on data of its
own; tern-dev has what such programs are built with.")
endif()

if("dev" IN_LIST CPACK_COMPONENTS_ALL)
  tern_package_archive(tern_archive libtern.a)
  tern_package_archive(tern_client_archive libtern-client.a)
  file(CREATE_LINK ${soname} ${TERN_PACKAGE}/lib/libtern-client.so SYMBOLIC)
  if(TARGET tern-codec)
    tern_package_program(dev tern-codec)
  endif()
  if(TARGET tern-fleet)
    tern_package_program(dev tern-fleet fleet.ini)
  endif()
  if(TARGET tern-ring)
    tern_package_program(dev tern-ring /etc/tern/ring.ini)
  endif()
  set(triplet ${CMAKE_LIBRARY_ARCHITECTURE})
  install(DIRECTORY ${TERN_PACKAGE}/lib/ DESTINATION lib/${triplet} COMPONENT dev EXCLUDE_FROM_ALL)
  tern_install_finders(lib/${triplet} include ${TERN_PACKAGE} COMPONENT dev EXCLUDE_FROM_ALL)
  install(DIRECTORY ${TERN_INCLUDE}/tern DESTINATION include COMPONENT dev EXCLUDE_FROM_ALL)
  install(FILES docs/examples/embedding/join.c DESTINATION share/doc/tern-dev/examples
          COMPONENT dev EXCLUDE_FROM_ALL)
  tern_package_documents(dev tern-dev docs/DESIGN.md docs/EMBEDDING.md docs/FORMAT.md
                         docs/PROTOCOL.md docs/RING.md)
  set(CPACK_DEBIAN_DEV_PACKAGE_NAME tern-dev)
  set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
      "libnanopb-dev, ${library} (= ${PROJECT_VERSION}-${TERN_PACKAGE_REVISION})")
  set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libcurl4-openssl-dev")
  set(CPACK_DEBIAN_DEV_DESCRIPTION "library, headers and tools of Tern
Tern is federated learning for devices that pay by the byte. This package has
headers and archives of the libraries (codecs, wire format, meter, the
embeddable client), what pkg-config and CMake read of them, tern-codec, which
shows what each codec makes of your own tensors, tern-fleet, many clients in
one process for experiments, and tern-ring, peers that train without an
aggregator.")
endif()

if("python" IN_LIST CPACK_COMPONENTS_ALL)
  set(modules lib/python3/dist-packages)
  set(control ${TERN_PACKAGE}/control/python)
  file(GLOB sources CONFIGURE_DEPENDS python/tern/*.py)
  install(FILES ${sources} python/tern/py.typed DESTINATION ${modules}/tern COMPONENT python EXCLUDE_FROM_ALL)
  # By which pip and importlib.metadata know that it is there.
  set(metadata ${TERN_PACKAGE}/tern-${PROJECT_VERSION}.egg-info)
  file(CONFIGURE OUTPUT ${metadata} @ONLY CONTENT
"Metadata-Version: 2.1
Name: tern
Version: @PROJECT_VERSION@
Summary: @PROJECT_DESCRIPTION@
Requires-Dist: numpy
")
  install(FILES ${metadata} DESTINATION ${modules} COMPONENT python EXCLUDE_FROM_ALL)
  install(FILES docs/examples/python/softmax.py DESTINATION share/doc/python3-tern/examples
          COMPONENT python EXCLUDE_FROM_ALL)
  tern_package_documents(python python3-tern docs/PYTHON.md docs/TRAINERS.md)
  foreach(script postinst prerm)
    configure_file(${TERN_PACKAGE_SOURCE}/python3-tern.${script} ${control}/${script} COPYONLY)
  endforeach()
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${control}/postinst ${control}/prerm)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-tern)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.11), python3-numpy")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "openssl, tern-aggregator, tern-client")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-pandas, python3-torch")
  set(CPACK_DEBIAN_PYTHON_DESCRIPTION "trainers, models and simulations of Tern in Python
Tern is federated learning for devices that pay by the byte. With this package
a Python function becomes a trainer of tern-client, models of numpy and PyTorch
become safetensors files, and an aggregator's API a few methods. It simulates
federations on one machine, runs clients that were written for Flower, and logs
rounds to MLflow.")
endif()

# --- Change logs

set(debian_changelog ${TERN_PACKAGE}/changelog.Debian)
file(CONFIGURE OUTPUT ${debian_changelog} @ONLY CONTENT
"tern (@PROJECT_VERSION@-@TERN_PACKAGE_REVISION@) unstable; urgency=medium

  * Packages of Tern @PROJECT_VERSION@; what is new in it stands in changelog.gz.

 -- @TERN_PACKAGE_MAINTAINER@  @TERN_PACKAGE_DATE@
")
tern_package_file(common changelog.Debian.gz gzip -9nkf ${debian_changelog} DEPENDS ${debian_changelog})
tern_package_file(common changelog.gz sh -c "gzip -9nc \"$1\" >\"$2\"" sh ${CMAKE_SOURCE_DIR}/CHANGELOG.md
                  ${TERN_PACKAGE}/changelog.gz DEPENDS CHANGELOG.md)

# Packages of other builds than the release are made on demand only.
set(in_all)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT TERN_SANITIZE)
  set(in_all ALL)
endif()
set(package_files)
foreach(component common ${CPACK_COMPONENTS_ALL})
  get_property(files GLOBAL PROPERTY tern_package_${component})
  list(APPEND package_files ${files})
endforeach()
add_custom_target(package_files ${in_all} DEPENDS ${package_files})
get_property(manuals GLOBAL PROPERTY tern_manuals)
add_custom_target(manuals DEPENDS ${manuals}) # of ./tern docs

# --- CPack

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tern)
set(CPACK_PACKAGE_CONTACT "${TERN_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${TERN_PACKAGE_ARCH})
set(CPACK_DEBIAN_PACKAGE_RELEASE ${TERN_PACKAGE_REVISION})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# dpkg-shlibdeps knows this machine's libraries only; cpack.cmake sees to the others.
if(NOT CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_PROJECT_CONFIG_FILE ${TERN_PACKAGE}/cpack.cmake)
configure_file(${TERN_PACKAGE_SOURCE}/cpack.cmake.in ${TERN_PACKAGE}/cpack.cmake @ONLY)
include(CPack)
