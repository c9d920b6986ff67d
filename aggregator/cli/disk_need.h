// Estimates the disk space that a federation needs, from its model, clients, codecs and limits, and the space that it
// has. `serve` and `doctor` warn with the result. From the main thread.
#ifndef TERN_CLI_DISK_NEED_H
#define TERN_CLI_DISK_NEED_H

#include "cli/settings.h"
#include "federation/federation.h"
#include "store/store.h"
#include "tensor/model.h"

#define TERN_DISK_NEED_MAX 200 // bytes of a sentence
#define TERN_DISK_NEED_ADVICE                                                                      \
    "give it a larger disk, or lower limits.history_bytes, limits.keep_versions and "              \
    "limits.disk; until then fewer rounds are kept for replays, and fewer downloads for "          \
    "late clients"

struct tern_disk_need {
    uint64_t need; // estimate in bytes
    uint64_t has;  // bytes of the database file and of free space; UINT64_MAX: unknown
};

// The estimate alone, for so many enrolled clients.
uint64_t tern_disk_need_bytes(const struct tern_aggregator_settings *s,
                              const struct tern_federation_config *config,
                              const struct tern_model *model, uint64_t enrolled);

// config: the result of tern_cli_fill_service() and tern_cli_fill_for_model() for the settings.
TERN_MUST_USE enum tern_result tern_disk_need_of(const struct tern_aggregator_settings *s,
                                                 const struct tern_federation_config *config,
                                                 const struct tern_model *model, struct tern_db *db,
                                                 struct tern_disk_need *need);

// True: the federation needs more than the disk has; `text` is a sentence with both figures.
bool tern_disk_need_is_short(const struct tern_disk_need *need, char text[TERN_DISK_NEED_MAX]);

#endif
