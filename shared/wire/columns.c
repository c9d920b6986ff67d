// The columns that Statistics and a Scaling carry.
#include "util/bytes.h"
#include "wire/wire.h"

struct tern_column_pair tern_column_get(struct tern_span columns, uint32_t column)
{
    const uint8_t *at = columns.data + (size_t)column * TERN_WIRE_COLUMN_BYTES;
    return (struct tern_column_pair){tern_get_f32(at), tern_get_f32(at + 4)};
}

void tern_column_put(uint8_t *columns, uint32_t column, struct tern_column_pair pair)
{
    uint8_t *at = columns + (size_t)column * TERN_WIRE_COLUMN_BYTES;
    tern_put_f32(at, pair.mean);
    tern_put_f32(at + 4, pair.spread);
}

uint32_t tern_scaling_tag(const uint8_t sha256[TERN_SHA256_SIZE])
{
    const uint32_t tag = tern_get_le32(sha256);
    return tag != 0 ? tag : 1;
}

uint32_t tern_column_names_tag(const char *names, size_t len)
{
    uint8_t sha256[TERN_SHA256_SIZE];
    if (len == 0) {
        return 0;
    }
    tern_sha256(names, len, sha256);
    return tern_scaling_tag(sha256);
}
