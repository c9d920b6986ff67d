# The options that the compiler needs for your core, e.g. -mcpu=cortex-m4 -mfpu=fpv4-sp-d16
# -mfloat-abi=hard, and a name that `tern-aggregator clients` shows.
message(FATAL_ERROR "fill in BOARD_CORE and BOARD_NAME here, then take this line away")
set(BOARD_CORE -mcpu=cortex-m3)
set(BOARD_NAME my-board)
