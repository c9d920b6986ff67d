// Any bytes as ternary digits, five to a byte, with and without runs.
#include "codec/modes.h"
#include "payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t modes[] = {TERN_MODE_TERNARY_ZERO_RUN, TERN_MODE_TERNARY_PACKED};
    check_payload(modes, sizeof modes, data, size);
    return 0;
}
