// Combines the worst classes that clients or evaluators report, each its own, into one for status. From the main
// thread.
#ifndef TERN_CLI_WORST_CLASS_H
#define TERN_CLI_WORST_CLASS_H

#include "federation/accuracy.h"
#include "store/store.h"

// The class that most clients report as their worst; of several with as many clients, the one with the lowest
// recall. Each client has one vote.
struct tern_worst_class {
    uint32_t class_number; // from 0
    double recall;         // mean over the clients that report this class
    uint32_t clients;      // that report this class; 0: no client reports any
    uint32_t of_clients;   // that report any class
};

// Finds the worst class by the reports of the clients that train on that version.
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_worst_class_of_clients(struct tern_db *db, uint32_t version,
                                                           struct tern_worst_class *worst);

// Finds the worst class by the evaluators whose figures `newest` holds (tern_accuracy_newest()).
// TERN_ERR_NO_MEMORY, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_worst_class_of_evaluators(struct tern_db *db,
                                                              const struct tern_accuracy *newest,
                                                              struct tern_worst_class *worst);

#endif
