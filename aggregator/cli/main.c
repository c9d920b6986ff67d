// Options, help texts and verbs of tern-aggregator.
#include "cli/listing.h"
#include "cli/settings.h"
#include "cli/verbs.h"

// clang-format off
static const struct tern_cli_option init_options[] = {
    TERN_OPTION_STATE,
    {"model", "SPEC|FILE", "model of the federation, or a .safetensors file (federation.model)"},
    {"rules", "RULES", "how the model's tensors are sent (tensors.rules)"},
    {"data", "FILE", "propose model, classes and scaling for this sample of the data, a CSV file"},
    {"label", "COLUMN", "the sample's column with the class or target, by name or number (the last); or none"},
    {"task", "TASK", "classification, regression or anomaly (default: by the labels)"},
    {"group", "COLUMN", "the sample's column that names the owner of a row; not a feature"},
    {"drop", "A|B", "columns of the sample to leave out (A,B works, too)"},
    {"classes", "A|B", "labels that are classes (default: all); a last * stands for all others"},
    {"header", "yes|no", "whether the sample's first line names the columns (default: detected)"},
    {"seed", "N", "seed of initial weights, cohorts and batches (federation.seed)"},
    {"if-missing", NULL, "do nothing where there is a federation already, for containers"},
    {0}};
static const struct tern_cli_option plan_options[] = {
    TERN_OPTION_STATE,
    {"clients", "N", "enrolled clients (default: those of the federation, or 1000)"},
    {"cohort", "N", "clients of a round (round.cohort)"},
    {"interval", "TIME", "time from round to round: 1h, 1d (round.min_interval)"},
    {"values", "N", "values of the model (default: the federation's model, or federation.model)"},
    {"measure", NULL, "measure this machine, and scale processor times by the result"},
    {"device-price", "USD", "price of a gigabyte that a device sends or receives (1)"},
    {"out-price", "USD", "price of a gigabyte that the aggregator sends (0.05)"},
    {0}};
static const struct tern_cli_option no_options[] = {{0}};
static const struct tern_cli_option state_options[] = {TERN_OPTION_STATE, {0}};
static const struct tern_cli_option status_options[] = {
    TERN_OPTION_STATE,
    {"watch", NULL, "update the status every two seconds, until Ctrl-C"},
    {0}};
static const struct tern_cli_option listing_options[] = {TERN_OPTIONS_LISTING, {0}};
static const struct tern_cli_option probe_options[] = {
    TERN_OPTION_STATE,
    {"standby", NULL, "closed ports are healthy, too, if a standby's heartbeat is fresh"},
    {0}};
static const struct tern_cli_option serve_options[] = {
    TERN_OPTION_STATE,
    {"check", NULL, "check the settings, including those of init, and do not serve"},
    {0}};
static const struct tern_cli_option rounds_options[] = {
    TERN_OPTIONS_LISTING,
    {"tensorboard", "DIR", "write losses, accuracy and bytes to this folder, for TensorBoard"},
    {0}};
static const struct tern_cli_option replicas_options[] = {
    TERN_OPTIONS_LISTING,
    {"clients", NULL, "list clients instead, with the replica that each holds"},
    {0}};
static const struct tern_cli_option report_options[] = {
    TERN_OPTIONS_LISTING,
    {"by", "WHAT", "bytes: one row per purpose (default), client or round"},
    {0}};
static const struct tern_cli_option code_options[] = {
    TERN_OPTION_STATE,
    {"uses", "N", "how many clients can enrol with the code (1)"},
    {"expires", "TIME", "how long the code is valid: 30m, 24h, 7d (24h)"},
    {"label", "TEXT", "a note that `codes` shows beside the code"},
    {"tag", "KEY=VALUE,...", "tags of the clients that enrol with the code (see tag)"},
    {"evaluator", NULL, "clients with client.evaluator = yes can enrol with the code"},
    {0}};
static const struct tern_cli_option codes_options[] = {
    TERN_OPTIONS_LISTING,
    {"cancel", "ID", "cancel the code ID: no client can enrol with the code any more"},
    {0}};
static const struct tern_cli_option revoke_options[] = {
    TERN_OPTION_STATE,
    {"code", "ID", "revoke all clients that enrolled with this join code"},
    {0}};
static const struct tern_cli_option provision_options[] = {
    TERN_OPTION_STATE,
    {"name", "TEXT", "name that `tern-aggregator clients` shows; --count adds a number"},
    {"psk", NULL, "make a pre-shared key, for devices that cannot verify certificates (tls.psk)"},
    {"count", "N", "make N clients, and print a list of them (1)"},
    {"evaluator", NULL, "make an evaluator, which evaluates every version and never trains"},
    {"tag", "KEY=VALUE,...", "tags of the client (see tag)"},
    {0}};
static const struct tern_cli_option tag_options[] = {
    TERN_OPTION_STATE,
    {"clear", NULL, "remove all tags"},
    {0}};
static const struct tern_cli_option export_options[] = {
    TERN_OPTION_STATE,
    {"format", "NAME", "f32 or safetensors (default: by the name of FILE)"},
    {"version", "N|LABEL|best", "write an earlier version: a labelled one, or replayed from the stored updates"},
    {"best", NULL, "write the version with the highest accuracy, or the lowest loss"},
    {"dtype", "TYPE", "number type in a safetensors file: F32 (default), F16 or BF16"},
    {"global", NULL, "write the global model, even if evaluators found the replica better"},
    {"replica", NULL, "write the replica, which clients hold, not the global model"},
    {"averaged", NULL, "write the average of the last versions (average_versions of round.strategy)"},
    {0}};
static const struct tern_cli_option token_options[] = {
    TERN_OPTIONS_LISTING,
    {"role", "ROLE", "of the new token: viewer, operator or admin"},
    {"expires", "TIME", "how long the new token is valid: 24h, 30d (90d)"},
    {0}};
static const struct tern_cli_option audit_options[] = {
    TERN_OPTIONS_LISTING,
    {"verify", NULL, "check that no row was changed, inserted or removed"},
    {0}};
static const struct tern_cli_option label_options[] = {
    TERN_OPTION_STATE,
    {"remove", "NAME", "remove this label, and the weights that are kept for it alone"},
    {0}};
static const struct tern_cli_option rollback_options[] = {
    TERN_OPTION_STATE,
    {"version", "N|LABEL|best", "the version whose weights become the next version"},
    {"why", "TEXT", "the reason, which the round's row keeps"},
    {"abandon-round", NULL, "give up the open round, whose updates then do not count"},
    {"cancel", NULL, "drop the order that waits, of rollback or reject"},
    {"dry-run", NULL, "show what would change, or what waits, and change nothing"},
    {0}};
static const struct tern_cli_option reject_options[] = {
    TERN_OPTION_STATE,
    {"client", "ID", "the client whose updates are left out"},
    {"rounds", "A..B", "the rounds for which it sent them, or one round"},
    {"why", "TEXT", "the reason, which the round's row keeps"},
    {"abandon-round", NULL, "give up the open round, whose updates then do not count"},
    {"cancel", NULL, "drop the order that waits, of rollback or reject"},
    {"dry-run", NULL, "show what would change, or what waits, and change nothing"},
    {0}};
static const struct tern_cli_option restore_options[] = {
    TERN_OPTION_STATE,
    {"force", NULL, "also replace the database of another federation"},
    {0}};
static const struct tern_cli_option copy_options[] = {
    TERN_OPTION_STATE,
    {"forget", NULL, "allow serve to use a database again that was copied"},
    {0}};
static const struct tern_cli_option prune_options[] = {
    TERN_OPTION_STATE,
    {"keep", "ROUNDS", "keep the updates of the newest ROUNDS rounds, and drop older ones"},
    {0}};
// clang-format on

static const char init_help[] =
    "Makes the state directory with a new federation (tern.db) and the token of the admin\n"
    "listener (admin.token). Never changes a federation that already exists. Model and seed come\n"
    "from the settings or the options, and cannot be changed later.\n"
    "\n"
    "  tern-aggregator init --data pumps.csv --label state\n"
    "  tern-aggregator init --data pumps.csv --label flow --task regression\n"
    "  tern-aggregator init --state /var/lib/tern --model mlp:784-128-10 --seed 7\n"
    "  tern-aggregator init --config aggregator.ini\n"
    "  tern-aggregator init --model resnet.safetensors --rules 'conv1.*: skip, *.bias: dense'\n"
    "\n"
    "With --data, the model follows from a sample of the clients' data, and init writes three\n"
    "files into the current folder: aggregator.ini (unless --config is given), client.ini, and\n"
    "scaling.csv, by which all clients scale their columns. It leaves out columns that no model\n"
    "can learn from (texts, constants, row numbers, times) and names them. Labels that are\n"
    "numbers with more than 20 different values become the target of a regression, others\n"
    "become classes; --task overrides this. --task anomaly makes an autoencoder; normal rows\n"
    "have the label 'normal', or else the most frequent label.\n"
    "\n"
    "Models: softmax:FEATURES-CLASSES, mlp:FEATURES-HIDDEN-...-CLASSES,\n"
    "cnn:HxWxC-F1-F2-CLASSES; for regression mlp:FEATURES-HIDDEN-...-1 or linear:FEATURES-1,\n"
    "with ,loss=mse or ,loss=mae; for anomalies\n"
    "mlp:FEATURES-HIDDEN-...-FEATURES,loss=reconstruction; or a safetensors file, whose F32,\n"
    "F16 and BF16 tensors become version 0. Tensors of other types are kept for export,\n"
    "unchanged. Clients fetch the description of the model when they enrol.\n";

static const char plan_help[] =
    "Prints what a federation would need and cost: processor time, memory and disk of the\n"
    "aggregator, bytes of aggregator and devices, and their prices. All figures are estimates\n"
    "from the settings and from measured constants (docs/SCALE.md). A federation in the state\n"
    "directory gives the model and the number of clients.\n"
    "\n"
    "  tern-aggregator plan --clients 500 --interval 1d\n"
    "  tern-aggregator plan --clients 1000000 --cohort 10000 --interval 1h --values 100000\n"
    "  tern-aggregator plan --measure --device-price 4 --set codec.codec=float32\n";

static const char serve_help[] =
    "Serves clients until SIGINT or SIGTERM. The process may be killed at any time: acknowledged\n"
    "updates are on disk, and the next start continues from there.\n"
    "\n"
    "  tern-aggregator serve --config aggregator.ini\n"
    "  tern-aggregator serve --state /var/lib/tern --set server.port=8443 --set round.rounds=100\n"
    "  tern-aggregator serve --check --config aggregator.ini   # reads no state, starts nothing\n";

static const char join_help[] =
    "Makes a gateway of another aggregator, which is upstream: enrols there with a join code,\n"
    "and makes a state directory with a federation of the same model for the devices of this\n"
    "site. The devices train with the gateway on the local network. The gateway is one client\n"
    "upstream: it gives the tasks from there to its devices, and sends one compressed update\n"
    "for all of them.\n"
    "\n"
    "  tern-aggregator enroll-code --state tern-state           # on the upstream aggregator\n"
    "  tern-aggregator join CODE --state /var/lib/gateway --set "
    "relay.server=https://upstream:8443\n"
    "  tern-aggregator relay --config gateway.ini               # with relay.server in the file\n"
    "\n"
    "Models with tensors that have the rules skip or local cannot be used with gateways.\n";

static const char relay_help[] =
    "Runs a gateway that join has made, until SIGINT or SIGTERM: serves its devices, and is one\n"
    "client of the upstream aggregator. The process may be killed at any time: acknowledged\n"
    "updates are on disk, and reach the upstream aggregator exactly once. While the upstream\n"
    "aggregator cannot be reached, the gateway retries; status, doctor and the log\n"
    "(upstream-unreachable) show since when and why, and devices are told to come back later.\n"
    "\n"
    "  tern-aggregator relay --config gateway.ini\n"
    "  tern-aggregator relay --state /var/lib/gateway --set relay.server=https://upstream:8443\n"
    "  tern-aggregator status --config gateway.ini    # bytes on both sides\n"
    "\n"
    "Rounds, local steps and learning rate come from upstream. [round] of the gateway's\n"
    "settings sets how many devices a round needs, and how long it waits for them.\n";

static const char status_help[] =
    "Shows how good the model is, what a round costs on the wire, and what the federation waits\n"
    "for. The accuracy is that of the global model (export --global) if evaluators measured it,\n"
    "or else of a replica, the weights that clients hold after compressed downloads.\n"
    "\n"
    "  tern-aggregator status --state /var/lib/tern\n"
    "  tern-aggregator status --state /var/lib/tern --json | jq .accuracy\n"
    "  tern-aggregator status --state /var/lib/tern --watch\n"
    "\n"
    "With --watch, a terminal is redrawn every two seconds; a file or a pipe gets a line (with\n"
    "--json an object) for each change of rounds, updates, accuracy or clients.\n";

static const char probe_help[] =
    "Asks the service on this machine for its health, by the listener of admin.address, and exits\n"
    "with 0 or, after the reason, with 1. It opens no database and takes milliseconds: for the\n"
    "health checks of containers, whose images have no other program. People use doctor.\n"
    "\n"
    "alive   Answers within 3 s; if not, restart it.\n"
    "ready   Can also store updates; a restart does not help where it cannot.\n"
    "\n"
    "  tern-aggregator probe ready --config aggregator.ini\n"
    "  podman run --health-cmd '[\"/usr/bin/tern-aggregator\", \"probe\", \"ready\"]' ...\n"
    "  tern-aggregator probe alive --standby   # also healthy while another aggregator leads\n"
    "\n"
    "A standby without a heartbeat for a minute hangs, or no longer watches its leader.\n";

static const char list_help[] =
    "Lists the federations of this machine: one row for each settings file aggregator.ini or\n"
    "aggregator-NAME.ini in FOLDER (/etc/tern), as the units tern-aggregator and\n"
    "tern-aggregator@NAME read them. BYTES is the sum of both directions on the wire. SERVICE is\n"
    "\n"
    "ready      It serves clients.\n"
    "not-ready  Nothing can be stored; see status.\n"
    "silent     Its admin listener does not answer.\n"
    "running    It has no listener: it stands by, or is starting.\n"
    "stopped    No service runs on its state directory.\n"
    "\n"
    "  tern-aggregator list\n"
    "  tern-aggregator list ~/federations --json\n"
    "\n"
    "Exit code 1: a federation cannot be read; its row has the reason.\n";

static const char doctor_help[] =
    "Checks settings, state directory, disk, certificate, clock, limits, database, the running\n"
    "service and the clients that its round waits for, and reports each problem with what to\n"
    "do. Changes nothing. Run it as the user of the service; the service may be running.\n"
    "\n"
    "  tern-aggregator doctor --config aggregator.ini\n"
    "  tern-aggregator doctor --json | jq '.[] | select(.health != \"good\")'\n"
    "\n"
    "Exit code 1: there is a problem. Warnings alone: 0.\n";

static const char clients_help[] =
    "Lists the clients. SCALED counts updates that norm_bound or examples_bound scaled down;\n"
    "ANOMALY is an anomaly of the error buffer (see ledger). With CLIENT, and in --csv and\n"
    "--json, all columns are shown; --columns help explains them.\n"
    "\n"
    "  tern-aggregator clients --state /var/lib/tern\n"
    "  tern-aggregator clients --where tag=site=oslo --sort -last_seen_ms\n"
    "  tern-aggregator clients --columns id,name,wire_up,wire_down --sort wire_up --last 10\n"
    "  tern-aggregator clients 7 --state /var/lib/tern\n";

static const char rounds_help[] =
    "Lists the rounds: updates, training loss of the clients' own weights, and the score\n"
    "(accuracy, R2 or AUC) of the version that the round made. OF is the evaluated model,\n"
    "replica or global; or clients, if clients evaluated it on held-out rows. WIRE UP and WIRE\n"
    "DOWN are the bytes of the clients that train, divided by the updates. \"-\": unknown. --csv\n"
    "and --json have all columns; --columns help explains them. With CLIENT: the rounds that\n"
    "selected this client.\n"
    "\n"
    "  tern-aggregator rounds --state /var/lib/tern --last 10\n"
    "  tern-aggregator rounds --state /var/lib/tern --csv > rounds.csv\n"
    "  tern-aggregator rounds --columns 'round,mean_loss,held_out_*'\n"
    "  tern-aggregator rounds 7 --where state=replaced\n"
    "  tern-aggregator rounds --state /var/lib/tern --tensorboard runs/pumps\n"
    "  tensorboard --logdir runs\n";

static const char report_help[] =
    "bytes     Bytes by layer and direction: payload (compressed tensors), http, tls, and wire\n"
    "          (with IP and TCP headers and retransmissions). up: to the aggregator. \"Per client\n"
    "          and round\", here and in status: all bytes of the clients that train, including\n"
    "          enrolment, handshakes and idle check-ins, divided by the accepted updates.\n"
    "          Round 0: bytes outside of rounds.\n"
    "fairness  Rounds that each client was invited to and reported in, and how even that is.\n"
    "\n"
    "  tern-aggregator report bytes --state /var/lib/tern\n"
    "  tern-aggregator report bytes --by client --sort wire_up --last 10\n"
    "  tern-aggregator report bytes --by client --csv > bytes.csv\n"
    "  tern-aggregator report fairness --json\n";

static const char privacy_help[] =
    "Prints the differential privacy of the federation: epsilon and delta of the client whose\n"
    "updates the released sums depend on most, now and after the planned rounds, and what this\n"
    "assumes. It counts what the rounds recorded; settings decide the rounds to come alone.\n"
    "If no epsilon is true, prints why and which setting would make one true, and exits with 4.\n"
    "`clients --sort -privacy_loss` lists all clients.\n"
    "\n"
    "  tern-aggregator privacy\n";

static const char replicas_help[] =
    "Lists the replicas: the exact weights that clients hold. OF VERSION marks replicas that\n"
    "all clients of a version may share; others belong to clients that missed the same rounds.\n"
    "KEPT AS is how the database stores the weights: whole, or as DOWNLOADS of BYTES on top of\n"
    "a whole replica. RESIDUAL is the distance to the global model of the version. With CLIENT:\n"
    "the replica of this client; with --clients: one row per client.\n"
    "\n"
    "  tern-aggregator replicas --state /var/lib/tern\n"
    "  tern-aggregator replicas 7 --state /var/lib/tern\n"
    "  tern-aggregator replicas --clients --where known=no\n";

static const char schedule_help[] =
    "Shows how much each client trains in a round (local steps), its codec if that differs from\n"
    "the round's, and the reason: train.schedule with the values that it used. Speeds come from\n"
    "the clients' reports, bytes from the meter. With CLIENT, and in --csv and --json, all\n"
    "columns are shown; --columns help explains them.\n"
    "\n"
    "  tern-aggregator schedule --state /var/lib/tern\n"
    "  tern-aggregator schedule 7 --state /var/lib/tern\n"
    "  tern-aggregator schedule --sort local_steps --columns client,local_steps,reason\n"
    "\n"
    "Exit code 4: the client has not had a task yet.\n";

static const char ledger_help[] =
    "Shows the error buffer of each client, the residual error that compression has not sent\n"
    "yet: its norm at the client's last report, the round of the last update, the rounds closed\n"
    "since then (age), and the bytes of that update. \"-\" (in JSON null): the client has no\n"
    "accepted update. ORDER is the last order for the buffer, and its reason\n"
    "(codec.error_feedback), e.g. \"decayed 0.7: 12 rounds missed\". With CLIENT, and in --csv\n"
    "and --json, all columns are shown; --columns help explains them.\n"
    "\n"
    "ANOMALY is what the reports of the client show about its buffer:\n"
    "lost      A new buffer without an order: the device was reinstalled, or its record was\n"
    "          damaged. Nothing to do, unless it happens again.\n"
    "restored  The device is in an earlier state, e.g. from a backup. It gets the order to reset\n"
    "          its buffer, because a part of the buffer is already in the model.\n"
    "cloned    Two devices use one identity. Revoke it, and enrol each device by itself.\n"
    "\n"
    "  tern-aggregator ledger --state /var/lib/tern\n"
    "  tern-aggregator ledger 7 --state /var/lib/tern\n"
    "  tern-aggregator ledger --where anomaly=cloned\n"
    "\n"
    "Exit code 4: the client has not reported an error buffer yet.\n";

static const char enroll_code_help[] =
    "Makes a join code and prints it once: only its hash is stored. A running service accepts\n"
    "it at once. A client with client.evaluator = yes, whose metrics decide accuracy and export\n"
    "--best, can enrol only with a code that was made with --evaluator; other clients can use\n"
    "such a code, too.\n"
    "\n"
    "  tern-aggregator enroll-code --state /var/lib/tern\n"
    "  tern-aggregator enroll-code --uses 50 --expires 7d --label 'spring batch'\n"
    "  tern-aggregator enroll-code --evaluator --label 'test set'\n";

static const char codes_help[] =
    "Lists the join codes: an id (the code itself is not stored), remaining uses, and the\n"
    "number of clients that enrolled with it; `clients --where code=ID` lists these.\n"
    "\n"
    "  tern-aggregator codes --state /var/lib/tern\n"
    "  tern-aggregator codes --cancel 3f9a01c2 --state /var/lib/tern\n"
    "\n"
    "Exit code 4: the code was no longer valid.\n";

static const char provision_help[] =
    "Makes a client without a join code, and prints what a factory writes into the device: id,\n"
    "token, and the model with seed and hash. They are printed once: only a hash of the token\n"
    "is stored. With --psk also the key of its TLS handshakes, SHA-256(\"tern psk v1\" || token),\n"
    "which the database stores as it is (docs/SECURITY.md). If a service runs, provision waits\n"
    "until it has read the new client, about a second.\n"
    "\n"
    "  tern-aggregator provision --state /var/lib/tern --name 'valve 17' --psk --json > "
    "valve.json\n"
    "  tern-aggregator provision --count 500 --name spring --psk --json > batch.json\n"
    "  tern-aggregator provision --json | ssh gateway tern-client enroll --provisioned -\n";

static const char revoke_help[] =
    "Refuses a client for good, from its next request on, also in a running service. Its past\n"
    "updates stay in the model. The device can enrol again as a new client.\n"
    "\n"
    "  tern-aggregator revoke 7 --state /var/lib/tern\n"
    "  tern-aggregator revoke --code 3f9a01c2 --state /var/lib/tern   # see codes\n"
    "\n"
    "Exit code 4: the client was already revoked, or the code has no client that is not revoked.\n";

static const char tag_help[] =
    "Replaces all tags of a client by the given ones. Without tags, prints the client's tags.\n"
    "round.selection = tags:... uses the new tags from the next selection on, also in a running\n"
    "service.\n"
    "\n"
    "  tern-aggregator tag 7 site=oslo,line=3 --state /var/lib/tern\n"
    "  tern-aggregator tag 7 --clear\n"
    "  tern-aggregator enroll-code --tag site=oslo --uses 20   # tags all that enrol\n"
    "\n"
    "Keys and values consist of letters, digits, dots, underscores and hyphens.\n";

static const char close_round_help[] =
    "Ends the open round before its deadline, for example because a selected client will not\n"
    "report: merges the updates that the round has, if there is at least one (round.quorum does\n"
    "not count), and opens the next round. No update is lost: clients get late updates back, as\n"
    "after any deadline. A round without an update continues with other clients. A running\n"
    "service does this within about a second, otherwise the next start does.\n"
    "\n"
    "  tern-aggregator status --state /var/lib/tern         # which clients the round waits for\n"
    "  tern-aggregator close-round --state /var/lib/tern\n"
    "  tern-aggregator revoke 7 --state /var/lib/tern       # or: never wait for client 7 again\n"
    "\n"
    "Exit code 4: no round is open.\n";

static const char label_help[] =
    "Gives a version a name, which --version of export and rollback takes in place of the\n"
    "number. The version's global weights stay in the database, 4 bytes a value, however many\n"
    "updates are pruned. Without arguments, lists the labels. Works while a service runs.\n"
    "\n"
    "  tern-aggregator label 120 release-3 --state /var/lib/tern\n"
    "  tern-aggregator export model.safetensors --version release-3\n"
    "  tern-aggregator label --remove release-3\n"
    "\n"
    "A label begins with a letter; letters, digits, dots, underscores and hyphens follow. An\n"
    "interrupted label is completed when it is given again. The service gives the label best to\n"
    "the version that evaluators rate best.\n";

static const char rollback_help[] =
    "Makes the weights of an earlier version the next version. History stays: version numbers\n"
    "grow, `verify` replays all versions, and clients, standbys and gateways reach the new one\n"
    "like any other. Momentum and other states of the strategy, and the averaged model, begin\n"
    "anew. Clients with an error buffer reset it with their next task, because it holds changes\n"
    "of the undone versions. A federation that ended because it diverged continues.\n"
    "\n"
    "  tern-aggregator rollback --version 110 --dry-run --state /var/lib/tern\n"
    "  tern-aggregator rollback --version release-3 --why 'bad sensor firmware' --abandon-round\n"
    "\n"
    "A running service executes it at once, otherwise the next start does. An open round is\n"
    "ended first (close-round), or given up with --abandon-round. Until then the order waits:\n"
    "`status` shows it, and --cancel drops it. best is the version that evaluators rate best.\n"
    "\n"
    "Exit code 4: nothing would change, or no order waits.\n";

static const char reject_help[] =
    "Replays the rounds from the stored updates without those that a client sent for some rounds,\n"
    "prints how far the result is from the newest version, and makes the result the next version,\n"
    "as rollback does. Earlier rejects and rollbacks stay. Other clients trained from models that\n"
    "had these updates; that stays. Refused when updates were pruned, and for secure rounds,\n"
    "whose updates are masked.\n"
    "\n"
    "  tern-aggregator reject --client 7 --rounds 3..9 --dry-run --state /var/lib/tern\n"
    "  tern-aggregator reject --client 7 --rounds 3..9 --why 'wrong labels' --abandon-round\n"
    "  tern-aggregator revoke 7       # also keeps the client out\n"
    "\n"
    "A result that a round has overtaken is dropped (log: order-outdated): run it again.\n";

static const char export_help[] =
    "Writes the newest global model; or its replica, the weights that clients hold, if\n"
    "evaluators measured both and the replica is better by more than .002 of accuracy or 1 % of\n"
    "the loss. .f32: all weights as little-endian float32 in layout order. .safetensors: with\n"
    "names, shapes and metadata, in which \"weights\" is global or replica. FILE - is stdout, and\n"
    "needs --format. An earlier version can be exported while the updates of all rounds up to\n"
    "it are stored (limits.history_bytes, prune), or if it has a label (label). --best chooses "
    "version and model with the\n"
    "highest accuracy of evaluators; with --global or --replica, by the metrics of this model\n"
    "if evaluators measured it in each version. Without evaluators, it uses the metrics on the\n"
    "held-out rows of clients (train.evaluate), and without these the lowest training loss of a\n"
    "round, for the version that the round began with.\n"
    "\n"
    "  tern-aggregator export model.safetensors --state /var/lib/tern\n"
    "  tern-aggregator export v10.f32 --version 10\n"
    "  tern-aggregator export best.safetensors --best\n"
    "  tern-aggregator export - --format f32 --replica | sha256sum\n"
    "\n"
    "Exit code 4: --averaged, and there is no averaged model.\n";

static const char token_help[] =
    "Makes a token for the admin listener, and prints it once: only its hash is stored. A running\n"
    "service uses new tokens and revocations within about a second.\n"
    "\n"
    "viewer    reads everything but tokens\n"
    "operator  also makes and cancels join codes, revokes clients, closes rounds, exports models\n"
    "admin     also reads the list of tokens\n"
    "\n"
    "The token in the file admin.token is an admin by the name of admin.token. To replace it, "
    "delete\n"
    "the file and restart the service.\n"
    "\n"
    "  tern-aggregator token add grafana --role viewer --expires 365d\n"
    "  tern-aggregator token list --json\n"
    "  tern-aggregator token revoke grafana\n"
    "\n"
    "Exit code 4: the token was already revoked.\n";

static const char audit_help[] =
    "Lists who changed what, oldest first: requests to the admin listener by the name of their\n"
    "token, verbs of the command line as unix:USER. Nothing deletes rows, and each row has the "
    "hash\n"
    "of the previous one. --verify checks these hashes and prints the last one: keep it elsewhere "
    "to\n"
    "find rows that are removed at the end.\n"
    "\n"
    "  tern-aggregator audit --last 20\n"
    "  tern-aggregator audit --where who=unix:root --json\n"
    "  tern-aggregator audit --verify\n"
    "\n"
    "Exit code 1: --verify has found a row that is missing or was changed.\n";

static const char verify_help[] =
    "Checks the database, replays every committed round from the seed and the stored updates,\n"
    "and compares each version's model and replica with the recorded ones, bit for bit. It also\n"
    "replays each `reject` again. After updates of old rounds were dropped\n"
    "(limits.history_bytes, prune), nothing can be replayed:\n"
    "verify then compares the updates of later rounds with their hashes, and the stored weights\n"
    "with the newest version, and prints how many rejections their hashes alone confirm.\n"
    "\n"
    "  tern-aggregator verify --state /var/lib/tern\n"
    "\n"
    "Exit code 1: something differs or is damaged; the first version that differs is named.\n";

static const char backup_help[] =
    "Writes a consistent copy of the database, also while the service runs; restore uses it.\n"
    "\n"
    "  tern-aggregator backup /backup/tern-2026-01-31.db --state /var/lib/tern\n";

static const char restore_help[] =
    "Replaces the database with a copy that backup wrote. Stop the service before. The copy is\n"
    "completely checked first; that of another federation is refused without --force. The old\n"
    "database is kept as tern.db.before-restore-DATE, and can be restored in turn. A kill at\n"
    "any point leaves the old database or the new one.\n"
    "\n"
    "restore reports what is lost: a backup lacks everything that happened later, including\n"
    "revocations.\n"
    "\n"
    "  tern-aggregator restore /backup/tern-2026-01-31.db --state /var/lib/tern\n";

static const char copy_help[] =
    "Copies the whole federation to another database: from the file in the state directory to\n"
    "PostgreSQL, or back. Stop all services on it before. The target must be a file that does\n"
    "not exist, or a PostgreSQL database or schema without tables.\n"
    "\n"
    "All rows are read again and compared, and the copy is verified, before it appears as a\n"
    "whole: a kill at any point leaves no copy. Clients, codes, the open round and its updates\n"
    "continue in the copy once the settings name it; copy prints which settings. The source\n"
    "only gets a note of the copy: serve and copy then refuse it, until `copy --forget` removes\n"
    "the note.\n"
    "\n"
    "  tern-aggregator copy 'postgresql:///tern?host=/run/postgresql' --state /var/lib/tern\n"
    "  tern-aggregator copy /var/lib/tern/tern.db --set store.url=postgresql:///tern\n";

static const char prune_help[] =
    "Drops the stored updates of old rounds, which take most of the "
    "database. Model, rounds and byte\n"
    "counts stay; verify and export can then replay no version but "
    "the newest, labelled ones, and the\n"
    "one that evaluators rate best. The service prunes by itself beyond "
    "limits.history_bytes. New rows reuse\n"
    "the space; `tern-aggregator compact` returns it to the file "
    "system. If less than a 16th of the\n"
    "disk is free and no service runs, prune also drops old "
    "downloads.\n"
    "\n"
    "  tern-aggregator prune --keep 100 --state /var/lib/tern\n";

static const char compact_help[] =
    "Returns free space in the database file to the file system, in steps, also while the\n"
    "service runs. The service reuses free space by itself; compact is for after a prune.\n"
    "\n"
    "  tern-aggregator compact --state /var/lib/tern\n";

#define VERB(name, function, options, least, most, arguments, summary)                             \
    {name, summary, arguments, function##_help, options, least, most, tern_cli_##function},
static const struct tern_cli_verb verbs[] = {
#include "cli/verbs.def"
    {0},
};
#undef VERB

static const char help[] =
    "A new federation:\n"
    "  tern-aggregator init                     # a trial, with data that tern-client generates\n"
    "  tern-aggregator init --data pumps.csv    # for your own data\n"
    "\n"
    "init prints the next commands: certificate, serve, enroll-code, and those of a device. Then\n"
    "  tern-aggregator status                   # shows progress, and what it waits for\n"
    "  tern-aggregator --settings               # documents every setting\n"
    "\n"
    "Every verb but serve and relay works on the database directly, also while the service runs.\n";

int main(int argc, char **argv)
{
    static struct tern_aggregator_settings settings;
    const struct tern_cli_program program = {
        .name = "tern-aggregator",
        .summary = "The service of a Tern federation, and the tools to run it",
        .help = help,
        .verbs = verbs,
        .settings = &tern_aggregator_settings_table,
        .values = &settings,
        .default_config = "/etc/tern/aggregator.ini",
        .verb_of_files = "list",
    };
    return tern_cli_main(&program, argc, argv);
}
