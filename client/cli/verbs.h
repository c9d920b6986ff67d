// The verbs of tern-client; each returns an exit code.
#ifndef TERN_CLIENT_VERBS_H
#define TERN_CLIENT_VERBS_H

#include "cli/client_settings.h"
#include "hosted/cli.h"

extern struct tern_client_settings tern_client_settings;

int verb_enroll(struct tern_cli *cli);
int verb_run(struct tern_cli *cli);
int verb_once(struct tern_cli *cli);
int verb_status(struct tern_cli *cli);
int verb_meter(struct tern_cli *cli);
int verb_conditions(struct tern_cli *cli);
int verb_train_check(struct tern_cli *cli);

#endif
