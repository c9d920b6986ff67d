// Any bytes as a payload of the modes that name the values they hold, or quantize them to levels.
#include "codec/modes.h"
#include "payload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t modes[] = {
        TERN_MODE_SPARSE_BITMAP, TERN_MODE_SPARSE_GAPS, TERN_MODE_SPARSE_INDICES,
        TERN_MODE_SPARSE_SHARED, TERN_MODE_QSGD_DENSE,  TERN_MODE_QSGD_ELIAS,
    };
    check_payload(modes, sizeof modes, data, size);
    return 0;
}
