// Makes a scaling of statistics that come on stdin, for test_column_scaling.py. Lines, one for each:
//   CLIENTS COLUMNS, then of each client EXAMPLES MEAN VARIANCE ... (numbers as C writes them)
// It answers with CONSTANT FAR MEAN DEVIATION ...
#include "merge/column_scaling.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool read_part(uint32_t columns, struct tern_column_part *part, uint8_t *bytes)
{
    bool read = scanf("%" SCNu32, &part->num_examples) == 1;
    for (uint32_t c = 0; read && c < columns; c++) {
        struct tern_column_pair pair;
        read = scanf("%f %f", &pair.mean, &pair.spread) == 2;
        tern_column_put(bytes, c, pair);
    }
    part->columns = bytes;
    return read;
}

static bool answer(uint32_t clients, uint32_t columns)
{
    const size_t len = (size_t)columns * TERN_WIRE_COLUMN_BYTES;
    struct tern_column_part *parts = calloc(clients, sizeof *parts);
    uint8_t *bytes = calloc((size_t)clients + 1, len);
    struct tern_column_scaling_report report;
    bool good = parts != NULL && bytes != NULL;
    for (uint32_t i = 0; good && i < clients; i++) {
        good = read_part(columns, &parts[i], bytes + (i + 1) * len);
    }
    good = good && tern_column_scaling_make(parts, clients, columns, bytes, &report) == TERN_OK;
    if (good) {
        printf("%" PRIu32 " %" PRIu32, report.constant, report.far);
        for (uint32_t c = 0; c < columns; c++) {
            const struct tern_column_pair pair = tern_column_get((struct tern_span){bytes, len}, c);
            printf(" %.9g %.9g", (double)pair.mean, (double)pair.spread);
        }
        printf("\n");
        fflush(stdout);
    }
    free(parts);
    free(bytes);
    return good;
}

int main(void)
{
    uint32_t clients;
    uint32_t columns;
    while (scanf("%" SCNu32 " %" SCNu32, &clients, &columns) == 2) {
        if (clients == 0 || columns == 0 || !answer(clients, columns)) {
            return 1;
        }
    }
    return 0;
}
