#include "federation/federation.h"

#include "hosted/system.h"
#include "util/bytes.h"
#include <string.h>

enum tern_result tern_join_code_make(struct tern_db_code *code, char text[TERN_JOIN_CODE_TEXT])
{
    uint8_t secret[TERN_JOIN_CODE_BYTES];
    TERN_TRY(tern_random_fill(secret, sizeof secret));
    tern_join_code_write(secret, text);
    tern_join_code_hash(text, code->hash);
    return TERN_OK;
}

void tern_join_code_id(const uint8_t hash[TERN_SHA256_SIZE], char id[TERN_JOIN_CODE_ID])
{
    tern_hex_encode(hash, (TERN_JOIN_CODE_ID - 1) / 2, id);
}
