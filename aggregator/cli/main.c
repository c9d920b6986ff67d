// tern-aggregator: the table of its verbs.
#include "cli/listing.h"
#include "cli/settings.h"
#include "cli/verbs.h"

// clang-format off
static const struct tern_cli_option init_options[] = {
    TERN_OPTION_STATE,
    {"model", "SPEC|FILE", "model of the federation, or a .safetensors file (federation.model)"},
    {"rules", "RULES", "how its tensors are sent (tensors.rules)"},
    {"data", "FILE", "propose model, classes and scaling for a sample of the data, a CSV file"},
    {"label", "COLUMN", "of the sample: the class's or target's, by name or number (the last); or none"},
    {"task", "TASK", "classification, regression or anomaly (by the label's values)"},
    {"group", "COLUMN", "of the sample: says whose row it is, no feature"},
    {"drop", "A|B", "columns of the sample to leave out (A,B works, too)"},
    {"classes", "A|B", "labels of the sample that are classes (all that it has); a last * is every other"},
    {"header", "yes|no", "whether the sample's first line names the columns (detected)"},
    {"seed", "N", "seed of initial weights, cohorts and batches (federation.seed)"},
    {0}};
static const struct tern_cli_option state_options[] = {TERN_OPTION_STATE, {0}};
static const struct tern_cli_option status_options[] = {
    TERN_OPTION_STATE,
    {"watch", NULL, "go on showing it, every two seconds, until Ctrl-C"},
    {0}};
static const struct tern_cli_option listing_options[] = {TERN_OPTIONS_LISTING, {0}};
static const struct tern_cli_option serve_options[] = {
    TERN_OPTION_STATE,
    {"check", NULL, "only check the settings, those of init included"},
    {0}};
static const struct tern_cli_option rounds_options[] = {
    TERN_OPTIONS_LISTING,
    {"tensorboard", "DIR", "write losses, accuracy and bytes there, for TensorBoard"},
    {0}};
static const struct tern_cli_option replicas_options[] = {
    TERN_OPTIONS_LISTING,
    {"clients", NULL, "a row for each client instead: the replica that it holds"},
    {0}};
static const struct tern_cli_option report_options[] = {
    TERN_OPTIONS_LISTING,
    {"by", "WHAT", "bytes: one row per purpose (default), client or round"},
    {0}};
static const struct tern_cli_option code_options[] = {
    TERN_OPTION_STATE,
    {"uses", "N", "how many clients may enrol with it (1)"},
    {"expires", "TIME", "how long it is valid: 30m, 24h, 7d (24h)"},
    {"label", "TEXT", "note for yourself"},
    {"tag", "KEY=VALUE,...", "tags of the clients that enrol with it (see tag)"},
    {"evaluator", NULL, "clients with client.evaluator = yes may enrol with it"},
    {0}};
static const struct tern_cli_option codes_options[] = {
    TERN_OPTIONS_LISTING,
    {"cancel", "ID", "let nobody enrol with that one any more"},
    {0}};
static const struct tern_cli_option revoke_options[] = {
    TERN_OPTION_STATE,
    {"code", "ID", "all that enrolled with that join code"},
    {0}};
static const struct tern_cli_option provision_options[] = {
    TERN_OPTION_STATE,
    {"name", "TEXT", "shown by `tern-aggregator clients`; numbered with --count"},
    {"psk", NULL, "with a pre-shared key, for a device that verifies no certificates (tls.psk)"},
    {"count", "N", "make so many, and print a list (1)"},
    {"evaluator", NULL, "one that evaluates every version and never trains"},
    {"tag", "KEY=VALUE,...", "its tags (see tag)"},
    {0}};
static const struct tern_cli_option tag_options[] = {
    TERN_OPTION_STATE,
    {"clear", NULL, "leave it no tag"},
    {0}};
static const struct tern_cli_option export_options[] = {
    TERN_OPTION_STATE,
    {"format", "NAME", "f32 or safetensors (from the name of FILE)"},
    {"version", "N", "an earlier version, replayed from the stored updates"},
    {"best", NULL, "the version of the highest accuracy, or of the lowest loss"},
    {"dtype", "TYPE", "of a safetensors file: F32 (default), F16 or BF16"},
    {"global", NULL, "the global model, also where evaluators found the replica better"},
    {"replica", NULL, "the weights that clients hold, not the global model"},
    {"averaged", NULL, "the averaged model (average_versions of round.strategy) up to that version"},
    {0}};
static const struct tern_cli_option restore_options[] = {
    TERN_OPTION_STATE,
    {"force", NULL, "also in the place of another federation's database"},
    {0}};
static const struct tern_cli_option copy_options[] = {
    TERN_OPTION_STATE,
    {"forget", NULL, "go on with a database that was copied"},
    {0}};
static const struct tern_cli_option prune_options[] = {
    TERN_OPTION_STATE,
    {"keep", "ROUNDS", "keep the updates of the newest ROUNDS rounds"},
    {0}};
// clang-format on

static const char init_help[] =
    "Makes the state directory with an empty federation (tern.db) and the token of the admin\n"
    "listener (admin.token). A federation that is there already is never touched. Model and seed\n"
    "come from the settings or the options, and cannot be changed later.\n"
    "\n"
    "  tern-aggregator init --data pumps.csv --label state\n"
    "  tern-aggregator init --data pumps.csv --label flow --task regression\n"
    "  tern-aggregator init --state /var/lib/tern --model mlp:784-128-10 --seed 7\n"
    "  tern-aggregator init --config aggregator.ini\n"
    "  tern-aggregator init --model resnet.safetensors --rules 'conv1.*: skip, *.bias: dense'\n"
    "\n"
    "With --data the model follows from a sample of what clients will train on, and three files "
    "are\n"
    "written into the current folder: aggregator.ini (unless settings come from a file), "
    "client.ini, and\n"
    "scaling.csv, by which all clients scale their columns. Columns that cannot be learnt from "
    "(texts,\n"
    "constants, row numbers and times) are left out and named. Labels that are numbers of more "
    "than "
    "20\n"
    "different values are to be told as numbers (regression), others are classes, unless --task "
    "says "
    "else;\n"
    "--task anomaly makes an autoencoder, and of labels 'normal' or the most frequent one is what "
    "is normal.\n"
    "\n"
    "Models: softmax:FEATURES-CLASSES, mlp:FEATURES-HIDDEN-...-CLASSES, cnn:HxWxC-F1-F2-CLASSES;\n"
    "for a number mlp:FEATURES-HIDDEN-...-1 or linear:FEATURES-1 with ,loss=mse or ,loss=mae; for\n"
    "anomalies mlp:FEATURES-HIDDEN-...-FEATURES,loss=reconstruction;\n"
    "or a safetensors file (F32, F16, BF16), whose values are version 0 and whose tensors of "
    "other\n"
    "types are kept for export, untouched. Clients fetch what describes it when they enrol.\n";

static const char serve_help[] =
    "Serves clients until SIGINT or SIGTERM. It may be killed at any instant: what was\n"
    "acknowledged is on disk, and the next start goes on from there.\n"
    "\n"
    "  tern-aggregator serve --config aggregator.ini\n"
    "  tern-aggregator serve --state /var/lib/tern --set server.port=8443 --set round.rounds=100\n"
    "  tern-aggregator serve --check --config aggregator.ini   # looks at no state, starts "
    "nothing\n";

static const char join_help[] =
    "Makes a gateway of another aggregator: enrols there with a join code, and makes the state\n"
    "directory with a federation of the same model for devices of this site. They train against "
    "the\n"
    "gateway on the local network; it sends one compressed update for all of them over the link\n"
    "above, where it is one client. What it is asked for there it asks its devices for.\n"
    "\n"
    "  tern-aggregator enroll-code --state tern-state           # on the aggregator above\n"
    "  tern-aggregator join CODE --state /var/lib/gateway --set relay.server=https://above:8443\n"
    "  tern-aggregator relay --config gateway.ini               # relay.server stands in the file\n"
    "\n"
    "Models with tensors of the rules skip and local do not go through gateways.\n";

static const char relay_help[] =
    "Runs a gateway that join made, until SIGINT or SIGTERM: serves its devices, and is one client "
    "of\n"
    "the aggregator above. It may be killed at any instant; what devices were told is taken, is "
    "on\n"
    "disk, and reaches the aggregator above once. While that cannot be reached the gateway tries "
    "again, and\n"
    "status, doctor and the log (upstream-unreachable) say since when and why; devices are told to "
    "come back.\n"
    "\n"
    "  tern-aggregator relay --config gateway.ini\n"
    "  tern-aggregator relay --state /var/lib/gateway --set relay.server=https://above:8443\n"
    "  tern-aggregator status --config gateway.ini    # bytes on both sides\n"
    "\n"
    "Rounds, local steps and learning rate come from above; [round] of the gateway's settings "
    "says\n"
    "how many devices a round wants, and how long it waits for them.\n";

static const char status_help[] =
    "How good the model is, what a round costs on the wire, and what goes on. The accuracy is that "
    "of\n"
    "the global model (export --global) where evaluators measured it, or else of a replica: what\n"
    "clients hold of it by compressed downloads.\n"
    "\n"
    "  tern-aggregator status --state /var/lib/tern\n"
    "  tern-aggregator status --state /var/lib/tern --json | jq .accuracy\n"
    "  tern-aggregator status --state /var/lib/tern --watch\n"
    "\n"
    "With --watch a terminal is drawn anew every two seconds; a file or a pipe gets a line "
    "whenever "
    "a\n"
    "round, an update, an accuracy or a client came, with --json an object.\n";

static const char doctor_help[] =
    "Looks at settings, state directory, disk, certificate, clock, limits and database, whether "
    "the\n"
    "service runs and whom its round waits for, and says of each what is wrong and what to do.\n"
    "Changes nothing, and may be run beside the service, as its user.\n"
    "\n"
    "  tern-aggregator doctor --config aggregator.ini\n"
    "  tern-aggregator doctor --json | jq '.[] | select(.health != \"good\")'\n"
    "\n"
    "Exit code 1: there is a problem; warnings alone are 0.\n";

static const char clients_help[] =
    "A row for each client. SCALED counts updates that norm_bound or examples_bound scaled down;\n"
    "ANOMALY is the anomaly of its error buffer (see ledger). With CLIENT, and in --csv and "
    "--json,\n"
    "all columns; --columns help explains each.\n"
    "\n"
    "  tern-aggregator clients --state /var/lib/tern\n"
    "  tern-aggregator clients --where tag=site=oslo --sort -last_seen_ms\n"
    "  tern-aggregator clients --columns id,name,wire_up,wire_down --sort wire_up --last 10\n"
    "  tern-aggregator clients 7 --state /var/lib/tern\n";

static const char rounds_help[] =
    "A row for each round: updates, training loss of the clients' own weights, and the score of "
    "the\n"
    "version that it made: accuracy, R2 or AUC. OF is the model that evaluators measured, replica "
    "or\n"
    "global; or clients, on rows that they hold out. WIRE UP and WIRE DOWN are bytes of the "
    "clients\n"
    "that train, divided by the updates. \"-\" is not known. --csv and --json have all columns;\n"
    "--columns help explains each. With CLIENT: a row for each round that selected the client.\n"
    "\n"
    "  tern-aggregator rounds --state /var/lib/tern --last 10\n"
    "  tern-aggregator rounds --state /var/lib/tern --csv > rounds.csv\n"
    "  tern-aggregator rounds --columns 'round,mean_loss,held_out_*'\n"
    "  tern-aggregator rounds 7 --where state=replaced\n"
    "  tern-aggregator rounds --state /var/lib/tern --tensorboard runs/pumps\n"
    "  tensorboard --logdir runs\n";

static const char report_help[] =
    "bytes   What crossed the link, by layer and direction: payload (compressed tensors), http,\n"
    "        tls, and wire (with IP and TCP headers and retransmissions). up is to the "
    "aggregator.\n"
    "        Per client and round, here and in status: all bytes of the clients that train,\n"
    "        enrolment, handshakes and idle check-ins included, divided by the updates that were\n"
    "        accepted, as tern-fleet has it. Round 0 is what was outside of rounds.\n"
    "fairness  Rounds that each client was invited to and reported in, and how even that is.\n"
    "\n"
    "  tern-aggregator report bytes --state /var/lib/tern\n"
    "  tern-aggregator report bytes --by client --sort wire_up --last 10\n"
    "  tern-aggregator report bytes --by client --csv > bytes.csv\n"
    "  tern-aggregator report fairness --json\n";

static const char replicas_help[] =
    "A row for each replica: the weights that clients hold, bit for bit. OF VERSION marks replicas "
    "of\n"
    "versions, which all clients may share; others belong to clients that missed the same rounds.\n"
    "KEPT AS is what makes the weights again; DOWNLOADS and BYTES are added to what is kept "
    "whole;\n"
    "RESIDUAL is the distance from the global model of the version. With CLIENT, the replica of "
    "that\n"
    "client; with --clients, a row for each client.\n"
    "\n"
    "  tern-aggregator replicas --state /var/lib/tern\n"
    "  tern-aggregator replicas 7 --state /var/lib/tern\n"
    "  tern-aggregator replicas --clients --where known=no\n";

static const char schedule_help[] =
    "How much each client trains in a round (local steps), how it encodes its update when that is\n"
    "not as the round has it, and why: train.schedule with the values it used.\n"
    "Speeds are measured from the clients' reports, bytes from the meter. With CLIENT, and in "
    "--csv\n"
    "and --json, all columns; --columns help explains each.\n"
    "\n"
    "  tern-aggregator schedule --state /var/lib/tern\n"
    "  tern-aggregator schedule 7 --state /var/lib/tern\n"
    "  tern-aggregator schedule --sort local_steps --columns client,local_steps,reason\n"
    "\n"
    "Exit code 4: that client has not had a task yet.\n";

static const char ledger_help[] =
    "What compression has not sent yet, per client: the norm of the error buffer as the client\n"
    "last reported it, the round of its last update, its age in rounds closed since then, that\n"
    "update's bytes.\n"
    "A client without an accepted update has no round and no age: \"-\", in JSON null.\n"
    "ORDER is the last order for the buffer, and its reason (codec.error_feedback):\n"
    "\"decayed 0.7: 12 rounds missed\". With CLIENT, and in --csv and --json, all columns;\n"
    "--columns help explains each.\n"
    "\n"
    "ANOMALY is what the reports of the client show about its buffer:\n"
    "lost      A new buffer that nobody ordered: the device was installed anew, or its record was\n"
    "          damaged. Nothing is to be done, unless it happens again.\n"
    "restored  The device is back at an earlier state, such as from a backup. It gets the order "
    "to\n"
    "          reset its buffer, because part of it was applied before.\n"
    "cloned    Two devices use one identity. Revoke it, and enrol each by itself.\n"
    "\n"
    "  tern-aggregator ledger --state /var/lib/tern\n"
    "  tern-aggregator ledger 7 --state /var/lib/tern\n"
    "  tern-aggregator ledger --where anomaly=cloned\n"
    "\n"
    "Exit code 4: that client has not reported an error buffer yet.\n";

static const char code_help[] =
    "Makes a join code and prints it, this once: only its hash is kept. The service takes it at\n"
    "once. A client with client.evaluator = yes, whose figures decide accuracy and export --best,\n"
    "enrols only with a code that was made with --evaluator; other clients may use it as well.\n"
    "\n"
    "  tern-aggregator enroll-code --state /var/lib/tern\n"
    "  tern-aggregator enroll-code --uses 50 --expires 7d --label 'spring batch'\n"
    "  tern-aggregator enroll-code --evaluator --label 'test set'\n";

static const char codes_help[] =
    "One line per join code: the id that stands for it (the code itself is not kept), uses that "
    "are\n"
    "left, and how many clients enrolled with it; `clients --where code=ID` lists them.\n"
    "\n"
    "  tern-aggregator codes --state /var/lib/tern\n"
    "  tern-aggregator codes --cancel 3f9a01c2 --state /var/lib/tern\n"
    "\n"
    "Exit code 4: the code was not valid any more.\n";

static const char provision_help[] =
    "Makes a client without a join code and prints what a factory writes into the device: its id\n"
    "and token, and the model with seed and hash. This once: the token is kept as a hash. With\n"
    "--psk also the key of its TLS handshakes, SHA-256(\"tern psk v1\" || token), which the "
    "database\n"
    "keeps as it is (docs/SECURITY.md). While a service runs it ends when the service knows the\n"
    "client, a second or so later.\n"
    "\n"
    "  tern-aggregator provision --state /var/lib/tern --name 'valve 17' --psk --json > "
    "valve.json\n"
    "  tern-aggregator provision --count 500 --name spring --psk --json > batch.json\n"
    "  tern-aggregator provision --json | ssh gateway tern-client enroll --provisioned -\n";

static const char revoke_help[] =
    "Shuts a client out for good, from its next request on, also while the service runs. Its past\n"
    "updates stay in the model. A device comes back by enrolling again, as a new client.\n"
    "\n"
    "  tern-aggregator revoke 7 --state /var/lib/tern\n"
    "  tern-aggregator revoke --code 3f9a01c2 --state /var/lib/tern   # see codes\n"
    "\n"
    "Exit code 4: it was revoked before, or no client is left that enrolled with the code.\n";

static const char tag_help[] =
    "Sets the tags of a client, all of them: what it had before is gone. Without tags it prints "
    "them.\n"
    "round.selection = tags:... draws by them from the next draw on, also in a service that "
    "runs.\n"
    "\n"
    "  tern-aggregator tag 7 site=oslo,line=3 --state /var/lib/tern\n"
    "  tern-aggregator tag 7 --clear\n"
    "  tern-aggregator enroll-code --tag site=oslo --uses 20    # all that enrol with it\n"
    "\n"
    "Keys and values are letters, digits, dots, underscores and hyphens.\n";

static const char close_round_help[] =
    "Ends the open round before its deadline, say because a member keeps it that will not come: "
    "it\n"
    "is merged with the updates that it has, from one on (round.quorum does not count), and the "
    "next\n"
    "one opens. No update is lost: those that come later are given back to their clients, as "
    "after\n"
    "any deadline. A round without an update goes on with other clients. A running service takes\n"
    "this up within a second or so, one that does not run at its next start.\n"
    "\n"
    "  tern-aggregator status --state /var/lib/tern         # whom the round waits for\n"
    "  tern-aggregator close-round --state /var/lib/tern\n"
    "  tern-aggregator revoke 7 --state /var/lib/tern       # or: never wait for that one again\n"
    "\n"
    "Exit code 4: no round is open.\n";

static const char export_help[] =
    "Writes the newest global model; its replica, the weights that clients hold, if evaluators\n"
    "measured both and the replica is better by more than .002 of accuracy or 1 % of the loss.\n"
    ".f32: all weights as little-endian float32 in layout order; .safetensors: with names, shapes\n"
    "and metadata, in which \"weights\" is global or replica. FILE - is standard output and needs\n"
    "--format. An earlier version is had as long as the updates of all rounds up to it are kept\n"
    "(limits.history_bytes, prune). --best takes the version and model to which evaluators gave\n"
    "the highest accuracy; with --global or --replica, by figures of that model where they\n"
    "evaluated that of each version. Without evaluators it takes the best figure on the rows that\n"
    "clients hold out (train.evaluate); without these, the version that the round of the lowest\n"
    "training loss began with.\n"
    "\n"
    "  tern-aggregator export model.safetensors --state /var/lib/tern\n"
    "  tern-aggregator export v10.f32 --version 10\n"
    "  tern-aggregator export best.safetensors --best\n"
    "  tern-aggregator export - --format f32 --replica | sha256sum\n"
    "\n"
    "Exit code 4: --averaged, and there is no averaged model.\n";

static const char verify_help[] =
    "Checks the database, replays every committed round from the seed and the stored updates, and\n"
    "compares each version's model and replica with the recorded ones, bit for bit. Once updates "
    "of\n"
    "old rounds were dropped (limits.history_bytes, prune) there is no replay: those of the "
    "rounds\n"
    "since are compared with what was received, and the stored weights with the newest version.\n"
    "\n"
    "  tern-aggregator verify --state /var/lib/tern\n"
    "\n"
    "Exit code 1: something differs or is damaged; the first version that differs is named.\n";

static const char backup_help[] =
    "Writes a consistent copy of the database, also while the service runs; restore puts it back.\n"
    "\n"
    "  tern-aggregator backup /backup/tern-2026-01-31.db --state /var/lib/tern\n";

static const char restore_help[] =
    "Puts a copy that backup wrote in the place of the database. The service must be stopped. All "
    "of "
    "the\n"
    "copy is checked first; one of another federation is refused, unless --force is given. What "
    "was\n"
    "there is kept as tern.db.before-restore-DATE, and may be restored in turn. A kill at any "
    "point\n"
    "leaves the old database or the new one.\n"
    "\n"
    "It says what is lost: a backup has forgotten what happened after it was made, revocations, "
    "too.\n"
    "\n"
    "  tern-aggregator restore /backup/tern-2026-01-31.db --state /var/lib/tern\n";

static const char copy_help[] =
    "Copies the whole federation into another database: from the file in the state directory into\n"
    "PostgreSQL, or back. All services on it must be stopped. The target must be new: a file that "
    "is\n"
    "not there yet, or a database of PostgreSQL, or a schema of it, without tables.\n"
    "\n"
    "All rows are read again and compared, and the copy is verified, before it appears at once: a "
    "kill\n"
    "at any point leaves no copy. Clients, codes, the open round and its updates go on from the "
    "copy,\n"
    "once the settings lead there; it prints which. What was copied stays as it is, but for a note "
    "where\n"
    "it went: serve and copy refuse it from then on, until `copy --forget` takes that back.\n"
    "\n"
    "  tern-aggregator copy 'postgresql:///tern?host=/run/postgresql' --state /var/lib/tern\n"
    "  tern-aggregator copy /var/lib/tern/tern.db --set store.url=postgresql:///tern\n";

static const char prune_help[] =
    "Drops the stored bytes of updates of old rounds, which make up most of the database. Model,\n"
    "rounds and byte counts stay; those rounds can no longer be replayed by verify or export "
    "--version. The service does so by itself for rounds beyond limits.history_bytes. The space "
    "is\n"
    "used again for what comes; `tern-aggregator compact` gives it back to the file system. Where\n"
    "less than a 16th of the disk is free and no service runs, it drops old downloads, too.\n"
    "\n"
    "  tern-aggregator prune --keep 100 --state /var/lib/tern\n";

static const char compact_help[] =
    "Gives space that is free in the database's file back to the file system, in steps, also "
    "while\n"
    "the service runs. The service uses such space again by itself: this is for after a prune.\n"
    "\n"
    "  tern-aggregator compact --state /var/lib/tern\n";

static const struct tern_cli_verb verbs[] = {
    {"init", "Make a state directory with a new federation", "", init_help, init_options, 0, 0,
     tern_cli_init},
    {"serve", "Serve clients", "", serve_help, serve_options, 0, 0, tern_cli_serve},
    {"join", "Make a gateway of another aggregator", "CODE", join_help, state_options, 1, 1,
     tern_cli_join},
    {"relay", "Run a gateway", "", relay_help, state_options, 0, 0, tern_cli_relay},
    {"status", "Show accuracy, bytes per round and what goes on", "", status_help, status_options,
     0, 0, tern_cli_status},
    {"doctor", "Say what is wrong and what to do", "", doctor_help, state_options, 0, 0,
     tern_cli_doctor},
    {"clients", "List the clients", "[CLIENT]", clients_help, listing_options, 0, 1,
     tern_cli_clients},
    {"rounds", "List the rounds, or those of a client", "[CLIENT]", rounds_help, rounds_options, 0,
     1, tern_cli_rounds},
    {"report", "Report bytes, or shares of rounds", "bytes|fairness", report_help, report_options,
     1, 1, tern_cli_report},
    {"replicas", "Show which weights clients hold", "[CLIENT]", replicas_help, replicas_options, 0,
     1, tern_cli_replicas},
    {"schedule", "Show how much clients train, and why", "[CLIENT]", schedule_help, listing_options,
     0, 1, tern_cli_schedule},
    {"ledger", "Show error buffers, their anomalies, and the orders for them", "[CLIENT]",
     ledger_help, listing_options, 0, 1, tern_cli_ledger},
    {"enroll-code", "Make a join code", "", code_help, code_options, 0, 0, tern_cli_enroll_code},
    {"codes", "List and cancel join codes", "", codes_help, codes_options, 0, 0, tern_cli_codes},
    {"provision", "Make clients without a join code, for a factory", "", provision_help,
     provision_options, 0, 0, tern_cli_provision},
    {"revoke", "Shut clients out", "[CLIENT]", revoke_help, revoke_options, 0, 1, tern_cli_revoke},
    {"tag", "Say of a client where or what it is", "CLIENT [KEY=VALUE,...]", tag_help, tag_options,
     1, 2, tern_cli_tag},
    {"close-round", "End the open round before its deadline", "", close_round_help, state_options,
     0, 0, tern_cli_close_round},
    {"export", "Write the model to a file", "FILE", export_help, export_options, 1, 1,
     tern_cli_export},
    {"verify", "Replay all rounds and compare the bits", "", verify_help, state_options, 0, 0,
     tern_cli_verify},
    {"backup", "Copy the database", "FILE", backup_help, state_options, 1, 1, tern_cli_backup},
    {"restore", "Put a backup in the place of the database", "FILE", restore_help, restore_options,
     1, 1, tern_cli_restore},
    {"copy", "Take everything into another database", "FILE|URL", copy_help, copy_options, 0, 1,
     tern_cli_copy},
    {"prune", "Drop the stored updates of old rounds", "", prune_help, prune_options, 0, 0,
     tern_cli_prune},
    {"compact", "Give back the space that a prune freed", "", compact_help, state_options, 0, 0,
     tern_cli_compact},
    {0},
};

static const char help[] =
    "A new federation:\n"
    "  tern-aggregator init                     # a trial, with the data that tern-client draws\n"
    "  tern-aggregator init --data pumps.csv    # for data of your own\n"
    "\n"
    "It prints the commands that follow: certificate, serve, enroll-code, and those of a device. "
    "Then\n"
    "  tern-aggregator status                   # how it goes, and what it waits for\n"
    "  tern-aggregator --settings               # every setting, documented\n"
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
    };
    return tern_cli_main(&program, argc, argv);
}
