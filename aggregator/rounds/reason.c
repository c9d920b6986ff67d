#include "rounds/reason.h"

#include <stddef.h>
#include <string.h>

void tern_reason_text(struct tern_reason *reason, const char *more)
{
    size_t used = strlen(reason->text);
    size_t room = sizeof reason->text - 1 - used;
    size_t len = strlen(more);
    len = len < room ? len : room;
    memcpy(reason->text + used, more, len);
    reason->text[used + len] = '\0';
}

void tern_reason_integer(struct tern_reason *reason, uint64_t value)
{
    char digits[21];
    size_t at = sizeof digits;
    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    tern_reason_text(reason, digits + at);
}

void tern_reason_real(struct tern_reason *reason, double value)
{
    uint64_t hundredths = value < 1e15 ? (uint64_t)(value * 100.0 + 0.5) : (uint64_t)1e17;
    tern_reason_integer(reason, hundredths / 100);
    char decimals[4] = {'.', (char)('0' + hundredths / 10 % 10), (char)('0' + hundredths % 10), 0};
    tern_reason_text(reason, decimals);
}
