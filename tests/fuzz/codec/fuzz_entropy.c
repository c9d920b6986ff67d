// Any bytes as entropy-coded symbols.
#include "codec/modes.h"
#include "payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t modes[] = {
        TERN_MODE_TERNARY_GAPS,
        TERN_MODE_TERNARY_RANGE,
        TERN_MODE_UNIFORM,
    };
    check_payload(modes, sizeof modes, data, size);
    return 0;
}
