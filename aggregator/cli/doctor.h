// What `doctor` looks at, and what it has found. From the main thread.
#ifndef TERN_CLI_DOCTOR_H
#define TERN_CLI_DOCTOR_H

#include "cli/state.h"
#include "cli/waiting.h"
#include "hosted/findings.h"

struct tern_doctor {
    const struct tern_cli *cli;
    const struct tern_aggregator_settings *settings;
    uint64_t now_ms;
    struct tern_status status;   // of the store; zeros where the store cannot be read
    struct tern_waiting waiting; // of the store; zeros where the store cannot be read
    bool has_settings;           // the settings are consistent with one another
    bool disk_is_full;           // too full to open the database for writing
    struct tern_findings findings;
};

// Prints how many there are of each, or all of them as JSON. Returns the exit code.
int tern_doctor_conclude(struct tern_doctor *doctor);

#endif
