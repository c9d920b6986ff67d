// What the reports have beside their rows. Used as view.h.
#ifndef TERN_VIEW_REPORTS_H
#define TERN_VIEW_REPORTS_H

#include "rounds/spread.h"
#include "views/held_out.h"
#include "views/view.h"

// How evenly rounds use the clients that train.
struct tern_fairness_summary {
    uint32_t rounds;
    uint32_t clients;
    struct tern_fairness invited;
    struct tern_fairness reported;
    const struct tern_held_outs *held_outs;
};

// Of rows of tern_view_fairness, until they are closed.
const struct tern_fairness_summary *tern_view_fairness_summary(const struct tern_view_rows *rows);

#endif
