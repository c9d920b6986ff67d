// What the device was given before it was shipped, which here is the command line of the test that
// starts it. Called by tern_board_start() alone.
#ifndef TERN_BOARD_SETTINGS_H
#define TERN_BOARD_SETTINGS_H

// Reads the settings; stops the board on one that makes no sense.
void tern_board_settings_read(void);

#endif
