// Statistics of the columns of clients' tables. Each client sends its statistics once, one scaling is computed from all
// of them before the first round opens, and every client receives the scaling before its first task. The other files of
// federation/ call these functions on the thread that owns the store, inside its transaction.
#ifndef TERN_FEDERATION_STATISTICS_H
#define TERN_FEDERATION_STATISTICS_H

#include "federation/clients.h"

TERN_MUST_USE enum tern_result tern_statistics_load(struct tern_federation *federation);
// Shifts the times of statistics, in memory and in the store, after the clock was stepped.
TERN_MUST_USE enum tern_result tern_statistics_set_clock(struct tern_federation *federation,
                                                         int64_t step);
// Computes and stores the scaling once there are enough statistics. *settled: the scaling is stored or not needed, so
// rounds can open.
TERN_MUST_USE enum tern_result tern_statistics_make_scaling(struct tern_federation *federation,
                                                            uint64_t now, bool *settled);
// Whether the first round still waits for a scaling.
bool tern_statistics_are_awaited(const struct tern_federation *federation);
// Requests the client's statistics or sends the client the scaling, if either is missing. Returns true if so: the reply
// then contains nothing else.
bool tern_statistics_answer_checkin(struct tern_federation *federation, struct client *client,
                                    struct tern_checkin_answer *next);
// Finds the scaling by its SHA-256. The caller releases *blob. TERN_ERR_NOT_FOUND; TERN_ERR_NO_MEMORY
TERN_MUST_USE enum tern_result tern_statistics_find_blob(const struct tern_federation *federation,
                                                         const uint8_t sha256[TERN_SHA256_SIZE],
                                                         struct tern_blob **blob);

#endif
