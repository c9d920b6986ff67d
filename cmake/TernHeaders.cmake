# Tern's public headers as they are installed: below one folder tern/, for #include <tern/client.h>.
# Each finds the others by a path from where it stands itself, so that no folder of Tern's has to be
# among those that a program's own "result.h" or "version.h" is looked for in.

# What the libraries have was chosen when they were built, and sizes of structs with it: a program that
# defines one of these would have another idea of them.
function(tern_fixed_build source output)
  file(READ ${source} text)
  string(REGEX MATCHALL "#ifndef TERN_[A-Z_]+" names "${text}")
  list(TRANSFORM names REPLACE "#ifndef " "")
  list(REMOVE_ITEM names TERN_BUILD_H)
  list(APPEND names TERN_BUILD_CONFIG TERN_ERROR_STORAGE TERN_WIRE_MESSAGE_MAX
       TERN_WIRE_DOWNLOADS_MAX)
  list(TRANSFORM names PREPEND "defined ")
  list(JOIN names " || \\\n    " condition)
  string(REPLACE "#ifdef TERN_BUILD_CONFIG\n#include TERN_BUILD_CONFIG\n#endif\n"
"#if ${condition}
#error \"libtern is built; to choose what is in it, build it from its sources\"
#endif
" fixed "${text}")
  if(fixed STREQUAL text)
    message(FATAL_ERROR "${source} does not include TERN_BUILD_CONFIG any more")
  endif()
  file(CONFIGURE OUTPUT ${output} CONTENT "${fixed}" @ONLY)
endfunction()

# tern_public_headers(OUTPUT FOLDER HEADER...): headers of FOLDER, named by their paths there, to
# OUTPUT/tern.
function(tern_public_headers output folder)
  foreach(header ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${header})
    if(header STREQUAL "build.h")
      tern_fixed_build(${folder}/${header} ${output}/tern/${header})
      continue()
    endif()
    file(READ ${folder}/${header} text)
    get_filename_component(own ${header} DIRECTORY)
    if(own)
      string(REPLACE "#include \"" "#include \"../" text "${text}")
      string(REPLACE "#include \"../${own}/" "#include \"" text "${text}")
    endif()
    file(CONFIGURE OUTPUT ${output}/tern/${header} CONTENT "${text}" @ONLY)
  endforeach()
endfunction()
