// tern-client: one client of a federation on Linux.
#include "cli/verbs.h"

static const struct tern_cli_option enroll_options[] = {
    {"force", NULL, "replace the existing identity, and lose its error buffer"},
    {"provisioned", NULL, "CODE is a file with the output of tern-aggregator provision --json"},
    {0},
};

static const struct tern_cli_option check_options[] = {
    {"model", "SPEC", "built-in model that the data must fit (the federation's, once enrolled)"},
    {"offline", NULL, "do not contact the aggregator"},
    {"data", "FILE", "check this CSV file alone, column by column (data.source)"},
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
    {"dtype", "TYPE", "type in a safetensors file: F32 (default), F16 or BF16"},
    {0},
};

static const struct tern_cli_verb verbs[] = {
    {"enroll", "join a federation", "CODE",
     "Exchanges a code of `tern-aggregator enroll-code` for this client's identity, which is "
     "stored\n"
     "in client.state_dir. Run it once. CODE - reads the code from the standard input, so that no\n"
     "list of processes shows it.\n"
     "\n"
     "With --provisioned it sends nothing: the file (or -) holds the output of `tern-aggregator\n"
     "provision --json` for this device.\n"
     "\n"
     "--force replaces an existing identity. Its error buffer and any unanswered update are lost.\n"
     "The meter keeps its counts.\n"
     "\n"
     "  tern-client enroll --config client.ini X7K2-...\n"
     "  echo X7K2-... | tern-client enroll --config client.ini -\n"
     "  tern-client enroll --config client.ini --provisioned valve.json\n",
     enroll_options, 1, 1, tern_verb_enroll},
    {"check", "check data, model, server, budget and clock before anything is sent", "",
     "Prints one line for each requirement, and advice where it is not met: PROBLEM will not "
     "work,\n"
     "WARNING is probably a mistake. Reads every line of a CSV file: missing values, values that "
     "are\n"
     "not finite or marks such as 1e30, constant and unscaled columns, classes. Needs no "
     "enrolment\n"
     "and changes nothing. Sends one request over its own connection, some 3 KB that the meter "
     "does\n"
     "not count; with --offline it sends nothing. Exit code 1 means that a line reports a "
     "PROBLEM.\n"
     "\n"
     "  tern-client check --config client.ini\n"
     "  tern-client check --config client.ini --offline --model mlp:24-32-4\n"
     "  tern-client check --data pumps.csv\n"
     "  tern-client check --offline --set data.source=csv:pumps.csv,header=yes   # with options of "
     "the table\n",
     check_options, 0, 0, tern_verb_check},
    {"run", "take part until a signal or the end", "",
     "Checks in, trains and uploads, round after round, until the federation is finished (exit\n"
     "code 0) or a SIGTERM, SIGINT or SIGHUP arrives (5). It may be killed at any instant: the "
     "next\n"
     "start sends what is missing.\n"
     "\n"
     "  tern-client run --config client.ini\n",
     NULL, 0, 0, tern_verb_run},
    {"once", "take part in one round, for cron", "",
     "Does one round. Exit codes: 0 when the aggregator answered the update, 4 when there was\n"
     "nothing to do or a byte budget or client.when forbids it (the reason is on stderr), 3 when "
     "the\n"
     "aggregator refuses this client or its update, 1 when the aggregator could not be reached.\n"
     "What fails is tried again for two minutes (or client.retry_max, if that is less), so that a\n"
     "restart of the aggregator costs no visit; a certificate that is not the aggregator's ends "
     "it.\n"
     "When a condition is lost during training, it waits. It takes the next round's task only "
     "when\n"
     "it runs again, so no round waits for a device between two runs.\n"
     "\n"
     "With --json it prints the event that ended it (uploaded, waiting, paused, failure, ...), "
     "for\n"
     "an upload the answer and the bytes, for a failure result and HTTP status (0: no answer), "
     "and\n"
     "wait_ms, the time after which to run it again.\n"
     "\n"
     "  tern-client once --config client.ini --set client.wait=0\n",
     NULL, 0, 0, tern_verb_once},
    {"status", "show this client's identity, model and failures", "",
     "Reads the state directory, even while the client runs.\n"
     "\n"
     "  tern-client status --config client.ini --json\n",
     NULL, 0, 0, tern_verb_status},
    {"meter", "show how many bytes crossed the link", "",
     "Prints bytes by purpose, direction and layer since the enrolment, and the rest of the "
     "budgets.\n"
     "payload: compressed tensors; http: with request lines and headers; tls: the TCP stream;\n"
     "wire: with retransmissions and IP/TCP headers.\n"
     "\n"
     "  tern-client meter --config client.ini --json\n",
     NULL, 0, 0, tern_verb_meter},
    {"export", "write the model that this device holds to a file", "FILE",
     "Writes raw little-endian float32 (.f32) or safetensors, like tern-aggregator export. Prints "
     "the\n"
     "kind of the model: a replica, which compressed downloads keep near the global model, or the\n"
     "global model itself, which a finished federation sends according to downloads.final_model.\n"
     "FILE - is the standard output. Needs no aggregator, and works while the client runs.\n"
     "\n"
     "  tern-client export model.safetensors --config client.ini\n",
     export_options, 1, 1, tern_verb_export},
    {"predict", "run the model that this device holds on data", "[FILE]",
     "Prints the class that the model predicts for each row of FILE, its score (the probability, "
     "0\n"
     "to 1) and, where there are labels, the accuracy. A model of numbers prints the value in the\n"
     "target's units, and r2, mae and mse; an anomaly model prints a row's error, and whether it "
     "is\n"
     "above the threshold (client.anomaly_quantile). FILE is read with the options of data.source\n"
     "(label=, classes=, drop=, scale=FILE), or is a source of its own such as\n"
     "csv:new.csv,label=state. Predicts every row in its order; in a folder of IDX files those "
     "named\n"
     "t10k. Without FILE it predicts the rows of data.source that are held out of training.\n"
     "\n"
     "  tern-client predict new.csv --config client.ini\n"
     "  tern-client predict --config client.ini --json | jq .accuracy\n",
     NULL, 0, 1, tern_verb_predict},
    {"compare", "compare the federation's model with one trained on this device's rows alone", "",
     "Trains the federation's model from fresh weights on the training rows of data.source alone, "
     "and\n"
     "evaluates it and the model that this device holds on the same held-out rows. It stops after\n"
     "150 passes over the rows or --seconds. Sends nothing and changes nothing.\n"
     "\n"
     "  tern-client compare --config client.ini\n",
     compare_options, 0, 0, tern_verb_compare_alone},
    {"conditions", "show whether the machine's state allows work", "",
     "Reads every condition that client.when can name, and shows its value, its source, and "
     "whether\n"
     "it holds. Exit code 0 means that the client may work now, 4 that it may not. Needs no\n"
     "aggregator. The load includes a running client's own, which that client subtracts.\n"
     "\n"
     "  tern-client conditions --config client.ini\n"
     "  tern-client conditions --set client.when='unmetered, charging, temperature<70' --json\n",
     NULL, 0, 0, tern_verb_conditions},
    {"train-check", "test a trainer of your own before it takes part", "MODEL",
     "Runs the trainer that client.trainer names as the client would: a few local steps from a "
     "fresh\n"
     "model, then an evaluation. Reports errors of its answers and of the trainer itself. MODEL "
     "is\n"
     "the spec of a built-in model, e.g. mlp:784-64-10, or a .safetensors file of your own. Needs "
     "no\n"
     "aggregator and no enrolment, and changes nothing. Exit code 1 means that training failed, "
     "or,\n"
     "for a client.evaluator, the evaluation.\n"
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
        .help = "Trains on data that stays on this machine and uploads compressed updates over "
                "metered\n"
                "HTTPS.\n"
                "\n"
                "  tern-client --settings > client.ini      every setting, documented\n"
                "  tern-client enroll --config client.ini CODE\n"
                "  tern-client check --config client.ini    checks data, server and budget\n"
                "  tern-client run --config client.ini\n",
        .verbs = verbs,
        .settings = &tern_client_settings_table,
        .values = &tern_client_settings,
        .default_config = "/etc/tern/client.ini",
    };
    return tern_cli_main(&program, argc, argv);
}
