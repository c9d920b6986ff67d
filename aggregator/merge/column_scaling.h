// Makes one scaling of the columns from the statistics that clients reported (wire/tern.proto, Statistics): a mean and a
// deviation for each column, as docs/PROTOCOL.md, "Statistics of columns", defines. Pure but for the memory that it
// allocates. The same statistics in the same order, which the caller sorts, give the same bits.
#ifndef TERN_COLUMN_SCALING_H
#define TERN_COLUMN_SCALING_H

#include "wire/wire.h"

// With at least this many clients, statistics that are far from most others are moved towards them.
#define TERN_COLUMN_SCALING_ROBUST_FROM 3
#define TERN_COLUMN_SCALING_FAR 16.0 // times the median, of a spread and of a number of examples

struct tern_column_part {
    uint32_t num_examples;  // at least 1
    const uint8_t *columns; // checked, TERN_WIRE_COLUMN_BYTES each
};

struct tern_column_scaling_report {
    uint32_t constant; // columns that have one value everywhere: they become 0
    uint32_t far;      // statistics, of one client and column each, that were moved
};

// parts: of `count` clients, at least 1, in the order of their ids. scaling: `columns` pairs of mean and
// deviation. TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_column_scaling_make(const struct tern_column_part *parts,
                                                        uint32_t count, uint32_t columns,
                                                        uint8_t *scaling,
                                                        struct tern_column_scaling_report *report);

#endif
