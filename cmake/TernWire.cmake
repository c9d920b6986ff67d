# The messages as C, by nanopb. A build whose tasks have fewer downloads than tern.options allows also defines
# TERN_WIRE_DOWNLOADS_MAX of wire/wire.h (shared/build.h).
find_program(NANOPB_GENERATOR NAMES nanopb_generator nanopb_generator.py REQUIRED)
set(TERN_WIRE_DIR ${CMAKE_CURRENT_LIST_DIR}/../shared/wire)

# tern_generate_wire(FOLDER [CONFIG]): adds the rules for FOLDER/tern.pb.c and .h. CONFIG: header of a small build
# (TERN_BUILD_CONFIG of shared/build.h). Its fields of secure rounds are left out unless it or CMake sets TERN_SECURE.
function(tern_generate_wire folder)
  file(MAKE_DIRECTORY ${folder})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TERN_WIRE_DIR}/tern.options)
  file(READ ${TERN_WIRE_DIR}/tern.options options)
  if(ARGC GREATER 1)
    file(STRINGS ${ARGV1} downloads REGEX "^#define TERN_WIRE_DOWNLOADS_MAX ")
    string(REGEX MATCH "[0-9]+$" downloads "${downloads}")
    file(STRINGS ${ARGV1} secure REGEX "^#define TERN_SECURE 1")
    # Small builds have no metrics (TERN_HELD_OUT), which make the field tables of three messages twice as large.
    string(APPEND options "tern.Evaluation.metrics type:FT_IGNORE\n")
    string(REGEX REPLACE "(Task[.]downloads +max_count:)[0-9]+" "\\1${downloads}" options "${options}")
    if(secure OR TERN_SECURE)
      file(STRINGS ${ARGV1} tensors REGEX "^#define TERN_MODEL_MAX_TENSORS [0-9]+$")
      string(REGEX MATCH "[0-9]*$" tensors "${tensors}")
      if(NOT tensors)
        set(tensors 64) # the default of shared/build.h
      endif()
      math(EXPR scales "4 * ${tensors}")
      string(REGEX REPLACE "(SecureRound[.]scales +max_size:)[0-9]+" "\\1${scales}" options "${options}")
    else()
      string(REGEX REPLACE "tern[.](CheckinRequest[.]ticket|HelperKey|SecureRound)[^\n]*\n" "" options "${options}")
      foreach(field CheckinRequest.secure CheckinRequest.ticket CheckinRequest.ticket_epoch CheckinRequest.unsettled
                    CheckinReply.helper CheckinReply.settled Task.secure Update.masked Update.nonce
                    HelperKey.public_key HelperKey.signature SecureRound.scales SecureRound.log_head
                    SecureRound.log_signature)
        string(APPEND options "tern.${field} type:FT_IGNORE\n")
      endforeach()
    endif()
  endif()
  file(CONFIGURE OUTPUT ${folder}/tern.options CONTENT "${options}" @ONLY)
  add_custom_command(
    OUTPUT ${folder}/tern.pb.c ${folder}/tern.pb.h
    COMMAND ${NANOPB_GENERATOR} -I${TERN_WIRE_DIR} -f ${folder}/tern.options
            --error-on-unmatched --quiet -D${folder} ${TERN_WIRE_DIR}/tern.proto
    DEPENDS ${TERN_WIRE_DIR}/tern.proto ${folder}/tern.options
    WORKING_DIRECTORY ${TERN_WIRE_DIR}
    COMMENT "nanopb: tern.proto")
endfunction()

# tern_generate_helper_wire(FOLDER): adds the rules for FOLDER/helper.pb.c and .h, the messages of tern-helper.
function(tern_generate_helper_wire folder)
  add_custom_command(
    OUTPUT ${folder}/helper.pb.c ${folder}/helper.pb.h
    COMMAND ${NANOPB_GENERATOR} -I${TERN_WIRE_DIR} -f ${TERN_WIRE_DIR}/helper.options
            --error-on-unmatched --quiet -D${folder} ${TERN_WIRE_DIR}/helper.proto
    DEPENDS ${TERN_WIRE_DIR}/helper.proto ${TERN_WIRE_DIR}/helper.options
    WORKING_DIRECTORY ${TERN_WIRE_DIR}
    COMMENT "nanopb: helper.proto")
endfunction()
