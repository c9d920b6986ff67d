// The verbs of tern-aggregator. main.c lists them in a table; hosted/cli.h parses the options and loads the settings (struct
// tern_aggregator_settings, at cli->program->values). A verb writes results to stdout and errors to stderr, and returns an
// exit code (enum tern_exit). Called once per process, from the main thread.
//
// All verbs but serve and relay work on the database directly, also while a service runs, which notices the changes.
#ifndef TERN_AGGREGATOR_VERBS_H
#define TERN_AGGREGATOR_VERBS_H

#include "hosted/cli.h"

int tern_cli_init(struct tern_cli *cli);     // makes a state directory
int tern_cli_serve(struct tern_cli *cli);    // runs the service until a signal ends it
int tern_cli_join(struct tern_cli *cli);     // makes a gateway of another aggregator
int tern_cli_relay(struct tern_cli *cli);    // runs a gateway
int tern_cli_status(struct tern_cli *cli);   // summarizes the federation
int tern_cli_doctor(struct tern_cli *cli);   // reports problems and what to do
int tern_cli_clients(struct tern_cli *cli);  // lists the clients
int tern_cli_rounds(struct tern_cli *cli);   // lists the rounds
int tern_cli_report(struct tern_cli *cli);   // reports bytes on the wire, and shares of rounds
int tern_cli_schedule(struct tern_cli *cli); // lists how much each client trains, and why
int tern_cli_replicas(struct tern_cli *cli); // lists the weights that clients hold
int tern_cli_ledger(struct tern_cli *cli);   // lists error buffers, their anomalies and directives
int tern_cli_enroll_code(struct tern_cli *cli); // makes a join code and prints it once
int tern_cli_codes(struct tern_cli *cli);       // lists and cancels join codes
int tern_cli_provision(struct tern_cli *cli);   // makes clients without a join code
int tern_cli_revoke(struct tern_cli *cli);      // shuts a client out
int tern_cli_tag(struct tern_cli *cli);         // sets a client's tags
int tern_cli_close_round(struct tern_cli *cli); // ends the open round before its deadline
int tern_cli_export(struct tern_cli *cli);      // writes the model as .f32 or .safetensors
int tern_cli_verify(struct tern_cli *cli);      // replays every round and compares the bits
int tern_cli_backup(struct tern_cli *cli);      // copies the database to a file
int tern_cli_restore(struct tern_cli *cli);     // replaces the database with such a copy
int tern_cli_copy(struct tern_cli *cli);        // copies the federation to another database
int tern_cli_prune(struct tern_cli *cli);       // drops the bodies of old updates
int tern_cli_compact(struct tern_cli *cli);     // returns free space of the file to the file system

#endif
