// Settings of several aggregators on one database, which have to be alike: each puts what it goes by into the database,
// and compares. What a machine has of its own (addresses, threads, memory, files) is left out. From the main thread.
#ifndef TERN_CLI_SHARED_SETTINGS_H
#define TERN_CLI_SHARED_SETTINGS_H

#include "cli/state.h"
#include "store/nodes.h"

struct tern_setting_difference {
    const char *key; // "round.cohort"
    bool decides;    // it changes what rounds come to, beside who is let in and how much is kept
    char here[TERN_SETTING_TEXT_MAX];
    char there[TERN_SETTING_TEXT_MAX];
};

// What these settings are to others, malloc'ed, the caller's; NULL: there is no memory.
char *tern_shared_settings_text(const struct tern_aggregator_settings *settings);

// Of two such texts, each setting that both have, and that differs, in the order of the first one.
void tern_shared_settings_compare(const char *here, const char *there,
                                  void (*found)(void *ctx,
                                                const struct tern_setting_difference *difference),
                                  void *ctx);

// Of aggregators on one database, the first of which leads, the texts that they have put there, malloc'ed, the caller's;
// NULL: it has put none. Freed by tern_shared_settings_free().
TERN_MUST_USE enum tern_result tern_shared_settings_load(struct tern_db *db,
                                                         const struct tern_db_node *nodes,
                                                         size_t count, char **texts);
void tern_shared_settings_free(char **texts, size_t count);

// Puts this aggregator's settings into the database, and logs how they differ from those of the others there.
void tern_shared_settings_tell(const struct tern_cli *cli, uint32_t node);

// Refuses to follow one that leads by settings which would make other rounds. The exit code
int tern_shared_settings_check(const struct tern_cli *cli, struct tern_db *db);

#endif
