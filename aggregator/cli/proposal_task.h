// What the model of a proposal is to learn, and which model that takes. For proposal.c.
#ifndef TERN_CLI_PROPOSAL_TASK_H
#define TERN_CLI_PROPOSAL_TASK_H

#include "cli/proposal.h"
#include "cli/state.h"
#include "tensor/model.h"

// Reads --task, before the sample is read. Returns an exit code.
int tern_proposal_read_task(const struct tern_cli *cli, struct tern_proposal *proposal);

// Decides by the sample where --task does not: numbers of more than 20 different values are a target. Lists the
// classes. Returns an exit code.
int tern_proposal_choose_task(const struct tern_cli *cli, struct tern_proposal *proposal);

// A model for the features: one small hidden layer, or two and a narrow one between.
void tern_proposal_choose_model(struct tern_proposal *proposal);

// Whether a built-in model that takes the features learns the task.
bool tern_proposal_suits(const struct tern_proposal *proposal, const struct tern_model *model);

// "3 classes", "a number in column 'flow'", "anomalies in column 'state' (normal: 'good')".
const char *tern_proposal_told(const struct tern_proposal *proposal, char text[TERN_TEXT]);

// "classification", "regression", "anomaly".
const char *tern_proposal_task_name(enum tern_proposal_task task);

// A line for people that says how the task was decided, "" where that needs no words.
const char *tern_proposal_task_why(const struct tern_proposal *proposal);

#endif
