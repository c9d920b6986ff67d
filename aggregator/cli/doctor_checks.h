// What `doctor` looks at. Nothing is changed, so that a service may run beside it. From the main thread.
#ifndef TERN_CLI_DOCTOR_CHECKS_H
#define TERN_CLI_DOCTOR_CHECKS_H

#include "cli/doctor.h"

// The state directory and its disk (doctor_state.c). False: there is no federation that could be looked at,
// or looking at it as this user would do harm.
bool tern_doctor_state(struct tern_doctor *doctor);
void tern_doctor_certificate(struct tern_doctor *doctor);
// Checks the database, and what the round waits for (doctor_database.c). Fills doctor->status and
// doctor->waiting.
void tern_doctor_database(struct tern_doctor *doctor);
// Checks whether a required service runs, and the system's limits for it (doctor_service.c). Call after the
// check of the database.
void tern_doctor_service(struct tern_doctor *doctor);

#endif
