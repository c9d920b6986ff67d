// The verbs of tern-aggregator, found by main.c in one table; hosted/cli.h parses options and loads
// the settings (struct tern_aggregator_settings, at cli->program->values). Each writes results to
// stdout and errors to stderr and returns an exit code (enum tern_exit). Called once per process,
// from the main thread.
//
// All but serve and relay work on the SQLite file directly, also while a service runs: it notices.
#ifndef TERN_AGGREGATOR_VERBS_H
#define TERN_AGGREGATOR_VERBS_H

#include "hosted/cli.h"

int tern_cli_init(struct tern_cli *cli);        // makes a state directory
int tern_cli_serve(struct tern_cli *cli);       // runs the service until it is told to stop
int tern_cli_join(struct tern_cli *cli);        // makes a gateway of another aggregator
int tern_cli_relay(struct tern_cli *cli);       // runs it, as serve
int tern_cli_status(struct tern_cli *cli);      // the federation in a dozen lines
int tern_cli_doctor(struct tern_cli *cli);      // what is wrong and what to do
int tern_cli_clients(struct tern_cli *cli);     // one line per client
int tern_cli_rounds(struct tern_cli *cli);      // one line per round
int tern_cli_report(struct tern_cli *cli);      // bytes on the wire, shares of rounds
int tern_cli_schedule(struct tern_cli *cli);    // how much each client trains, and why
int tern_cli_replicas(struct tern_cli *cli);    // which weights clients hold
int tern_cli_ledger(struct tern_cli *cli);      // error buffers: anomalies and directives
int tern_cli_enroll_code(struct tern_cli *cli); // makes a join code and prints it once
int tern_cli_codes(struct tern_cli *cli);       // lists and cancels join codes
int tern_cli_provision(struct tern_cli *cli);   // makes clients without a code, for a factory
int tern_cli_revoke(struct tern_cli *cli);      // shuts a client out
int tern_cli_tag(struct tern_cli *cli);         // sets a client's tags
int tern_cli_close_round(struct tern_cli *cli); // ends the open round before its deadline
int tern_cli_export(struct tern_cli *cli);      // the model as .f32 or .safetensors
int tern_cli_verify(struct tern_cli *cli);      // replays every round and compares the bits
int tern_cli_backup(struct tern_cli *cli);      // a consistent copy of the database
int tern_cli_restore(struct tern_cli *cli);     // puts such a copy in the database's place
int tern_cli_copy(struct tern_cli *cli);        // the whole state in another database
int tern_cli_prune(struct tern_cli *cli);       // drops the bodies of old updates
int tern_cli_compact(struct tern_cli *cli);     // gives free space of the file back

#endif
