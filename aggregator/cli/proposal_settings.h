// The aggregator.ini that init --data writes: what it proposes for the sample, and every setting of --set and of init's
// options, which stand over the proposal. From the main thread.
#ifndef TERN_CLI_PROPOSAL_SETTINGS_H
#define TERN_CLI_PROPOSAL_SETTINGS_H

#include "cli/proposal.h"

// Fills proposal->settings: how many rounds, how clients train, and that they report figures.
void tern_proposal_settings_choose(const struct tern_cli *cli, struct tern_proposal *proposal);

// Rounds that train enough, `most` at the most: `epochs` passes of one client over `rows` rows, in steps of so many rows a round, within
// bounds. A federation of one more round costs every client about 1 KB.
uint32_t tern_proposal_rounds(uint64_t rows, uint64_t rows_a_round, uint32_t most);

// Takes the proposal into the settings, under those of --set and of init's options, writes the file and reads it
// again: it then holds every setting that the command line changed, so that no --set
// is left over for later verbs. Refuses a value that no line of such a file can hold. Returns an exit code.
int tern_proposal_settings_write(struct tern_cli *cli, const struct tern_proposal *proposal,
                                 const char *path);

// Prints the proposed [round] and [train] as lines of such a file, for a file of the user's own.
void tern_proposal_settings_print(const struct tern_proposal *proposal);

#endif
