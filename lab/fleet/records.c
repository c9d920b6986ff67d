#include "fleet/records.h"
#include <stdlib.h>
#include <string.h>

// Makes room for another item. NULL: out of memory.
static void *grow(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room) {
        return items;
    }
    const size_t more = *room > 0 ? 2 * *room : 64;
    void *grown = realloc(items, more * size);
    *room = grown != NULL ? more : *room;
    return grown;
}

enum tern_result tern_records_add(struct tern_records *records,
                                  const struct tern_participation *participation)
{
    struct tern_participation *grown = grow(records->participations, records->participation_count,
                                            &records->participation_room, sizeof *participation);
    if (grown == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    records->participations = grown;
    grown[records->participation_count++] = *participation;
    return TERN_OK;
}

enum tern_result tern_records_add_arrival(struct tern_records *records,
                                          const struct tern_arrival *arrival)
{
    struct tern_arrival *grown =
        grow(records->arrivals, records->arrival_count, &records->arrival_room, sizeof *arrival);
    if (grown == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    records->arrivals = grown;
    grown[records->arrival_count++] = *arrival;
    return TERN_OK;
}

static int order(uint32_t version_a, uint32_t client_a, uint32_t version_b, uint32_t client_b)
{
    if (version_a != version_b) {
        return version_a < version_b ? -1 : 1;
    }
    return (client_a > client_b) - (client_a < client_b);
}

static int compare_participations(const void *a, const void *b)
{
    const struct tern_participation *x = a;
    const struct tern_participation *y = b;
    return order(x->version, x->client, y->version, y->client);
}

static int compare_arrivals(const void *a, const void *b)
{
    const struct tern_arrival *x = a;
    const struct tern_arrival *y = b;
    return order(x->version, x->client, y->version, y->client);
}

void tern_records_sort(struct tern_records *records)
{
    if (records->participation_count > 0) {
        qsort(records->participations, records->participation_count,
              sizeof *records->participations, compare_participations);
    }
    if (records->arrival_count > 0) {
        qsort(records->arrivals, records->arrival_count, sizeof *records->arrivals,
              compare_arrivals);
    }
}

void tern_records_clear(struct tern_records *records)
{
    free(records->participations);
    free(records->arrivals);
    memset(records, 0, sizeof *records);
}
