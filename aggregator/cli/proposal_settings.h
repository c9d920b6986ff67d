// Writes the aggregator.ini of init --data: the proposal for the sample, overridden by every --set and by init's
// options. From the main thread.
#ifndef TERN_CLI_PROPOSAL_SETTINGS_H
#define TERN_CLI_PROPOSAL_SETTINGS_H

#include "cli/proposal.h"

// Fills proposal->settings: number of rounds, training, and the reporting of figures.
void tern_proposal_settings_choose(const struct tern_cli *cli, struct tern_proposal *proposal);

// Returns the model that init makes: of --model, else of --set federation.model, else the proposed one.
const char *tern_proposal_model(const struct tern_cli *cli, const struct tern_proposal *proposal);

// Returns the rounds in which one client passes over its `rows` rows often enough, `rows_a_round` in each round; within
// bounds, at most `most`. One more round costs every client about 1 KB.
uint32_t tern_proposal_rounds(uint64_t rows, uint64_t rows_a_round, uint32_t most);

// Applies the proposal to the settings, overridden by --set and init's options, writes the file and reads the
// file back. The file then holds every setting that the command line changed: later verbs need no --set. Refuses
// a value that no line of such a file can hold. Returns an exit code.
int tern_proposal_settings_write(struct tern_cli *cli, const struct tern_proposal *proposal,
                                 const char *path);

// Prints the proposed [round] and [train] as lines for the user's own configuration file.
void tern_proposal_settings_print(const struct tern_proposal *proposal);

#endif
