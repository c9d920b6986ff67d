# libdbus-1 as the imported target DBus::DBus. By find_path and find_library rather than pkg-config,
# so that a cross build finds its own root's library or none.
find_library(DBUS_LIBRARY dbus-1)
get_filename_component(dbus_folder "${DBUS_LIBRARY}" DIRECTORY)
find_path(DBUS_INCLUDE_DIR dbus/dbus.h PATH_SUFFIXES dbus-1.0)
# This header depends on the platform and stands with the library.
find_path(DBUS_ARCH_INCLUDE_DIR dbus/dbus-arch-deps.h HINTS "${dbus_folder}/dbus-1.0/include"
          PATH_SUFFIXES dbus-1.0/include)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DBus REQUIRED_VARS DBUS_LIBRARY DBUS_INCLUDE_DIR
                                  DBUS_ARCH_INCLUDE_DIR)
mark_as_advanced(DBUS_LIBRARY DBUS_INCLUDE_DIR DBUS_ARCH_INCLUDE_DIR)

if(DBus_FOUND AND NOT TARGET DBus::DBus)
  add_library(DBus::DBus UNKNOWN IMPORTED GLOBAL)
  set_target_properties(DBus::DBus PROPERTIES
    IMPORTED_LOCATION "${DBUS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${DBUS_INCLUDE_DIR};${DBUS_ARCH_INCLUDE_DIR}")
endif()
