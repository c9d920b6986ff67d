// The verbs of tern-aggregator. main.c finds the verb in one table and calls its function; each
// function reads its own arguments, writes results to stdout and errors to stderr, and returns the
// exit code of the program. argv[0] is the verb's name, argv[argc] is NULL. Called once per
// process, from the main thread.
//
// Exit codes: 0 ok; 1 failed; 2 usage or configuration error; 3 refused; 4 nothing to do; 5
// interrupted.
#ifndef TERN_AGGREGATOR_VERBS_H
#define TERN_AGGREGATOR_VERBS_H

int tern_cli_init(int argc, char **argv);        // makes a state directory
int tern_cli_serve(int argc, char **argv);       // runs the service until it is told to stop
int tern_cli_status(int argc, char **argv);      // the federation in a dozen lines
int tern_cli_clients(int argc, char **argv);     // one line per client
int tern_cli_rounds(int argc, char **argv);      // one line per round
int tern_cli_report(int argc, char **argv);      // bytes on the wire, the error ledger
int tern_cli_enroll_code(int argc, char **argv); // makes a join code and prints it once
int tern_cli_revoke(int argc, char **argv);      // shuts a client out
int tern_cli_export(int argc, char **argv);      // the model as .f32 or .safetensors
int tern_cli_verify(int argc, char **argv);      // replays every round and compares the bits
int tern_cli_backup(int argc, char **argv);      // a consistent copy of the database

#endif
