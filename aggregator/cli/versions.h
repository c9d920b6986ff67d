// Finds versions by number, label or figures, and loads their weights. For `export`, `label`, `rollback` and `reject`. From the main
// thread. A function that returns an exit code has printed the reason, unless it returns TERN_EXIT_OK.
#ifndef TERN_CLI_VERSIONS_H
#define TERN_CLI_VERSIONS_H

#include "cli/state.h"
#include "merge/merge.h"

// Reads the newest version; version 0 with zeros in its row if the federation was never served.
int tern_version_newest(struct tern_cli *cli, struct tern_db *db, struct tern_db_version *newest);

// Parses an option that names a version by its number or its label. Without the option *version stays.
int tern_version_option(struct tern_cli *cli, struct tern_db *db, const char *option,
                        uint32_t *version);
// Parses the number or label of a version, or "best": the version that evaluators rate best, which stderr then has.
int tern_version_parse(struct tern_cli *cli, struct tern_db *db, const char *text,
                       uint32_t *version);

// Loads the newest version with replica, states and averaged model.
int tern_version_load_newest(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge);
// Loads the global model of a version: the weights pinned for a label, or else by a replay. whole: also the replica and
// the averaged model, which only a replay makes. The version must exist, and must not be the newest.
int tern_version_load(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge,
                      uint32_t version, bool whole);

// Loads the global model of any version, the newest one included. Refuses a version that does not exist.
int tern_version_load_any(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge,
                          uint32_t version);

// Builds the federation's model for the loads above. The caller frees the merge after TERN_EXIT_OK.
int tern_version_begin(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge);

// Pins merge->global under a version and a name that a label or an order has (tern_db_pinned_put_some()), 1 MiB a
// transaction. After an interruption the next call continues.
int tern_version_pin(struct tern_cli *cli, struct tern_db *db, const char *name, uint32_t version,
                     const struct tern_merge *merge);
// Deletes pinned weights that nothing needs any more.
int tern_version_unpin(struct tern_cli *cli, struct tern_db *db);

#endif
