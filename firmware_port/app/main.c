#include "board.h"

int main(void)
{
    board_start();
    board_log("tern: the board is up");
    board_stop(false, "tern: nothing to do yet");
}
