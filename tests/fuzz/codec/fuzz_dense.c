// Any bytes as a payload of the modes that hold every value.
#include "codec/modes.h"
#include "payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t modes[] = {
        TERN_MODE_ZERO,
        TERN_MODE_FLOAT32,
        TERN_MODE_FLOAT16,
        TERN_MODE_BFLOAT16,
        TERN_MODE_INT8,
        TERN_MODE_ONEBIT,
        TERN_MODE_INCEPTIONN_BOUNDED,
        TERN_MODE_INCEPTIONN_LITERAL,
    };
    check_payload(modes, sizeof modes, data, size);
    return 0;
}
