// tern-client: one client of a federation on Linux.
#include "cli/verbs.h"

static const struct tern_cli_option enroll_options[] = {
    {"force", NULL, "replace the identity that is there, and lose its error buffer"},
    {"provisioned", NULL, "CODE is a file with what tern-aggregator provision --json printed"},
    {0},
};

static const struct tern_cli_option check_options[] = {
    {"model", "SPEC", "built-in model that the data must fit (the federation's, once enrolled)"},
    {"offline", NULL, "do not ask the aggregator"},
    {"data", "FILE", "look at this CSV file alone, column by column (data.source)"},
    {0},
};

static const struct tern_cli_option compare_options[] = {
    {"seconds", "N", "longest time to train (60)"},
    {0},
};

static const struct tern_cli_option train_check_options[] = {
    {"steps", "N", "local steps of the trial (5)"},
    {"batch", "N", "examples in a batch (32)"},
    {"learning-rate", "R", "learning rate (0.05)"},
    {0},
};

static const struct tern_cli_option export_options[] = {
    {"format", "NAME", "f32 or safetensors (from the name of FILE)"},
    {"dtype", "TYPE", "of a safetensors file: F32 (default), F16 or BF16"},
    {0},
};

static const struct tern_cli_verb verbs[] = {
    {"enroll", "join a federation", "CODE",
     "Exchanges a code of `tern-aggregator enroll-code` for this client's identity, which is kept\n"
     "in client.state_dir. Done once. CODE - reads it from the standard input, so that it stands\n"
     "in no list of processes.\n"
     "\n"
     "With --provisioned nothing is sent: the file (or -) is what `tern-aggregator provision "
     "--json`\n"
     "printed for this device.\n"
     "\n"
     "With --force an identity that is there is replaced. Its error buffer and any update that "
     "was\n"
     "not answered belong to it and are not used again: what they hold is lost. The meter goes "
     "on.\n"
     "\n"
     "  tern-client enroll --config client.ini X7K2-...\n"
     "  echo X7K2-... | tern-client enroll --config client.ini -\n"
     "  tern-client enroll --config client.ini --provisioned valve.json\n",
     enroll_options, 1, 1, tern_verb_enroll},
    {"check", "look at data, model, server, budget and clock before anything is sent", "",
     "One line for each thing that taking part needs, and what to do where it is wrong: PROBLEM "
     "is\n"
     "what will not work, WARNING what most likely is not meant. Every line of a CSV file is "
     "looked "
     "at:\n"
     "values that are missing, no finite numbers or marks such as 1e30, constant and unscaled "
     "columns,\n"
     "classes. Needs no enrolment and changes nothing. The aggregator is asked whether it is "
     "ready, "
     "or\n"
     "by an enrolled client how it scales columns, over a connection of its own: some 3 KB, which\n"
     "the meter does not count; with --offline nothing is sent. Ends with 1 when a line says "
     "PROBLEM.\n"
     "\n"
     "  tern-client check --config client.ini\n"
     "  tern-client check --config client.ini --offline --model mlp:24-32-4\n",
     check_options, 0, 0, tern_verb_check},
    {"run", "take part until told to stop", "",
     "Checks in, trains and uploads, round after round, until the federation is finished (exit\n"
     "code 0) or a SIGTERM, SIGINT or SIGHUP comes (5). May be killed at any instant: what it\n"
     "did not send is sent at the next start.\n"
     "\n"
     "  tern-client run --config client.ini\n",
     NULL, 0, 0, tern_verb_run},
    {"once", "take part in one round, for cron", "",
     "Does one round and ends: 0 when the update was answered, 4 when there was nothing to do or\n"
     "a byte budget or client.when forbids it (the reason is on stderr), 3 when the aggregator\n"
     "refuses this client or its update, 1 when the aggregator could not be reached. Conditions\n"
     "that are lost while it trains are waited for.\n"
     "\n"
     "With --json it prints what ended it (uploaded, waiting, paused, ...) and for an upload the\n"
     "answer and the bytes.\n"
     "\n"
     "  tern-client once --config client.ini --set client.wait=0\n",
     NULL, 0, 0, tern_verb_once},
    {"status", "show who this client is and what it holds", "",
     "Reads the state directory, also while the client runs.\n"
     "\n"
     "  tern-client status --config client.ini --json\n",
     NULL, 0, 0, tern_verb_status},
    {"meter", "show how many bytes crossed the link", "",
     "Bytes by purpose, direction and layer since the client enrolled, and what is left of the\n"
     "budgets. payload: compressed tensors; http: with request lines and headers; tls: the TCP\n"
     "stream; wire: with retransmissions and IP/TCP headers.\n"
     "\n"
     "  tern-client meter --config client.ini --json\n",
     NULL, 0, 0, tern_verb_meter},
    {"export", "write the model that this device holds to a file", "FILE",
     "Raw little-endian float32 (.f32) or safetensors, as tern-aggregator export writes the "
     "global\n"
     "model. It says which it is: a device holds a replica, by compressed downloads near the "
     "global\n"
     "model, or the global model itself, which a finished federation sends to those that\n"
     "downloads.final_model of its settings names. FILE may be - for the standard output. Needs "
     "no\n"
     "aggregator, and may be run while the client runs.\n"
     "\n"
     "  tern-client export model.safetensors --config client.ini\n",
     export_options, 1, 1, tern_verb_export},
    {"predict", "ask the model that this device holds about data", "[FILE]",
     "Prints the class that the model gives each row of FILE, its score (the probability that the\n"
     "model gives it, 0 to 1) and, where labels are there, the accuracy. A model that tells a "
     "number\n"
     "prints that, in the target's units, and r2, mae and mse; one that finds anomalies a row's "
     "error,\n"
     "and whether it is above the threshold (client.anomaly_quantile). FILE is read as "
     "data.source\n"
     "is, with the same label=, classes=, drop= and scale=FILE; or it is a source of its own, "
     "such\n"
     "as csv:new.csv,label=state. Every row is asked about, in its order; of a folder of IDX "
     "files\n"
     "those named t10k. Without FILE it is the rows of data.source that are held out of training.\n"
     "\n"
     "  tern-client predict new.csv --config client.ini\n"
     "  tern-client predict --config client.ini --json | jq .accuracy\n",
     NULL, 0, 1, tern_verb_predict},
    {"compare", "compare the federation's model with one of this device's rows alone", "",
     "Trains the federation's model from fresh weights on the training rows of data.source alone, "
     "and\n"
     "evaluates it and the model that this device holds on the same held-out rows. It stops after\n"
     "150 passes over the rows or --seconds. Sends nothing and changes nothing.\n"
     "\n"
     "  tern-client compare --config client.ini\n",
     compare_options, 0, 0, tern_verb_compare_alone},
    {"conditions", "show whether the machine's state allows work", "",
     "Reads what client.when may ask for, and says of each what was found, where, and whether it\n"
     "holds. Ends with 0 when the client may work now and with 4 when it may not. Needs no\n"
     "aggregator. The load shown includes that of a client that runs, which that client itself\n"
     "leaves out.\n"
     "\n"
     "  tern-client conditions --config client.ini\n"
     "  tern-client conditions --set client.when='unmetered, charging, temperature<70' --json\n",
     NULL, 0, 0, tern_verb_conditions},
    {"train-check", "try a trainer of your own, before it takes part", "MODEL",
     "Runs what client.trainer names as the client would: a few local steps from a fresh model,\n"
     "then an evaluation, and says what is wrong with the answer, or with the trainer. MODEL is\n"
     "the spec of a built-in model, e.g. mlp:784-64-10, or a .safetensors file of your own.\n"
     "Needs no aggregator and no enrolment, and changes nothing. Ends with 1 when training "
     "failed,\n"
     "or, for a client.evaluator, the evaluation.\n"
     "\n"
     "  tern-client train-check mlp:784-64-10 --set client.trainer=command \\\n"
     "      --set client.trainer_command='python3 train.py --data digits.csv'\n",
     train_check_options, 1, 1, tern_verb_train_check},
    {0},
};

int main(int argc, char **argv)
{
    static const struct tern_cli_program program = {
        .name = "tern-client",
        .summary = "one client of a Tern federation",
        .help =
            "Trains on data that stays on this machine and uploads what it learnt, compressed,\n"
            "over metered HTTPS.\n"
            "\n"
            "  tern-client --settings > client.ini      every setting, documented\n"
            "  tern-client enroll --config client.ini CODE\n"
            "  tern-client check --config client.ini    looks at data, server and budget\n"
            "  tern-client run --config client.ini\n",
        .verbs = verbs,
        .settings = &tern_client_settings_table,
        .values = &tern_client_settings,
        .default_config = "/etc/tern/client.ini",
    };
    return tern_cli_main(&program, argc, argv);
}
