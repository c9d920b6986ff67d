// The verbs of tern-client; each returns an exit code. Called by main.c from the main thread.
#ifndef TERN_CLIENT_VERBS_H
#define TERN_CLIENT_VERBS_H

#include "cli/client_settings.h"
#include "hosted/cli.h"

int tern_verb_enroll(struct tern_cli *cli);
int tern_verb_run(struct tern_cli *cli);
int tern_verb_once(struct tern_cli *cli);
int tern_verb_status(struct tern_cli *cli);
int tern_verb_meter(struct tern_cli *cli);
int tern_verb_conditions(struct tern_cli *cli);
int tern_verb_check(struct tern_cli *cli);
int tern_verb_export(struct tern_cli *cli);
int tern_verb_predict(struct tern_cli *cli);
int tern_verb_compare_alone(struct tern_cli *cli);
int tern_verb_train_check(struct tern_cli *cli);

#endif
