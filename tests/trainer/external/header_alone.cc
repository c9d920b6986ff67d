// The interface of library trainers is C++, too.
#include "trainer/tern_trainer_abi.h"

int tern_header_alone()
{
    tern_trainer_library library = {};
    return library.size == 0 ? TERN_TRAINER_DONE : TERN_TRAINER_FAILED;
}
