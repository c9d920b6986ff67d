#include "cli/next_steps.h"

#include "cli/state.h"
#include "tensor/model.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TRIAL_MODEL "mlp:256-64-10" // the default, which takes the drawn digits

static void print_word(const char *word)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (; *word != '\0'; word++) {
        printf(*word == '\'' ? "'\\''" : "%c", *word);
    }
    printf("'");
}

// A verb by which the federation goes on, with the options that lead it to the same settings.
static void print_verb(const struct tern_cli *cli, const char *verb)
{
    printf("tern-aggregator %s", verb);
    if (cli->config != NULL) {
        printf(" --config");
        print_word(cli->config);
    }
    if (cli->config == NULL || tern_cli_flag(cli, "state")) {
        printf(" --state");
        print_word(tern_state_settings(cli)->federation_state);
    }
    for (unsigned i = 0; i < cli->set_count; i++) {
        printf(" --set");
        print_word(cli->sets[i]);
    }
}

static void print_certificate(const struct tern_cli *cli)
{
    const struct tern_aggregator_settings *settings = tern_state_settings(cli);
    char certificate[PATH_MAX];
    char key[PATH_MAX];
    tern_state_file(cli, settings->server_certificate, TERN_STATE_CERTIFICATE, certificate);
    tern_state_file(cli, settings->server_private_key, TERN_STATE_PRIVATE_KEY, key);
    printf("  1. A certificate in");
    print_word(certificate);
    printf(" and its key in");
    print_word(key);
    printf(", yours or one for a trial on this machine:\n"
           "     openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365"
           " -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout");
    print_word(key);
    printf(" -out");
    print_word(certificate);
    printf("\n");
}

// One client alone would wait for ever where the settings ask for more.
static void print_serve(const struct tern_cli *cli)
{
    const uint32_t least = tern_state_settings(cli)->round_min_clients;
    const bool trial = cli->config == NULL && cli->set_count == 0 && least > 1;
    printf("  2. The service:\n     ");
    print_verb(cli, "serve");
    if (trial) {
        printf(
            " --set round.min_clients=1 --set round.rounds=10\n"
            "     (a trial of ten rounds with one client; without these settings rounds begin with"
            " %" PRIu32 " clients,\n     and do not end)\n",
            least);
    } else {
        printf("\n     (rounds begin with %" PRIu32 " client%s: round.min_clients. Set it to the "
               "number of devices that are to\n     train together, before they are started%s)\n",
               least, least == 1 ? "" : "s", least == 1 ? "" : "; 1 is for a trial of one device");
    }
}

// How long the first round waits beside that.
static void print_statistics(const struct tern_cli *cli)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    if (strcmp(s->statistics_columns, "none") != 0) {
        const uint32_t least =
            s->statistics_min_clients != 0 ? s->statistics_min_clients : s->round_min_clients;
        printf("     (and with the statistics of %" PRIu32
               " client%s, of which their scaling is made: statistics.min_clients)\n",
               least, least == 1 ? "" : "s");
    }
}

static void print_dashboard(const struct tern_cli *cli)
{
    const struct tern_aggregator_settings *s = tern_state_settings(cli);
    if (s->admin_address[0] != '\0' && strncmp(s->admin_address, "unix:", 5) != 0) {
        const bool six = strchr(s->admin_address, ':') != NULL;
        printf("     Its dashboard: http://%s%s%s:%" PRIu32
               "/, to log in with the token in %s/%s\n",
               six ? "[" : "", s->admin_address, six ? "]" : "", s->admin_port, s->federation_state,
               TERN_STATE_ADMIN_TOKEN);
    }
}

const char *tern_next_steps_port(const struct tern_cli *cli, char text[TERN_NEXT_STEPS_PORT_MAX])
{
    const uint32_t port = tern_state_settings(cli)->server_port;
    snprintf(text, TERN_NEXT_STEPS_PORT_MAX, "%" PRIu32, port);
    return port != 0 ? text : "PORT";
}

// What a client needs beside the address: where nothing better is known, the drawn digits that the model of a trial
// takes, or the form of it.
static const char *data_for(const char *spec)
{
    if (strcmp(spec, TRIAL_MODEL) == 0) {
        return "data.source=digits";
    }
    switch (tern_model_spec_inputs(spec) > 0 ? tern_model_spec_loss(spec) : TERN_LOSS_COUNT) {
    case TERN_LOSS_CROSS_ENTROPY:
        return "data.source=csv:FILE,label=COLUMN";
    case TERN_LOSS_MSE:
    case TERN_LOSS_MAE:
        return "data.source=csv:FILE,target=COLUMN";
    case TERN_LOSS_RECONSTRUCTION:
        return "data.source=csv:FILE,label=none";
    case TERN_LOSS_COUNT:
        break;
    }
    return "client.trainer=command"; // a model that is not built in
}

static void print_client(const struct tern_cli *cli, const char *verb, bool client_ini,
                         const char *certificate, const char *data)
{
    printf("     tern-client %s", verb);
    if (client_ini) {
        printf(" --config client.ini");
        return;
    }
    char port[TERN_NEXT_STEPS_PORT_MAX];
    char ca[PATH_MAX + 16];
    printf(" --set client.server=https://localhost:%s --set", tern_next_steps_port(cli, port));
    snprintf(ca, sizeof ca, "client.ca=%s", certificate);
    print_word(ca);
    if (data != NULL) {
        printf(" --set");
        print_word(data);
    }
}

static void print_devices(const struct tern_cli *cli, bool client_ini, const char *data)
{
    const bool shares = strcmp(tern_state_settings(cli)->statistics_columns, "none") != 0;
    printf("  3. On each device, %s:\n",
           !client_ini ? "with its address of the service and its data (data.source)"
           : shares    ? "with client.ini and its own data"
                       : "with client.ini, scaling.csv and its own data");
    if (tern_state_settings(cli)->server_port == 0) {
        printf("     (PORT is chosen when the service starts: its log names it, and "
               "server.port_file a file for it)\n");
    }
    if (client_ini) {
        return;
    }
    if (strcmp(data, "data.source=digits") == 0) {
        printf("     (digits are drawn by the program, for a trial; a table of yours: "
               "data.source=csv:FILE,label=COLUMN)\n");
    }
    if (strcmp(data, "client.trainer=command") == 0) {
        printf("     (a trainer of your own, and its data: docs/TRAINERS.md)\n");
    } else if (!shares) {
        printf("     (readings that are not scaled alike on all devices: init --data SAMPLE.csv, "
               "or serve with\n"
               "     --set statistics.columns=clients, by which clients agree on a scaling)\n");
    }
}

void tern_next_steps_print(const struct tern_cli *cli, bool client_ini, const char *spec)
{
    char certificate[PATH_MAX];
    const char *data = data_for(spec);
    tern_state_file(cli, tern_state_settings(cli)->server_certificate, TERN_STATE_CERTIFICATE,
                    certificate);
    printf("\nNext:\n");
    print_certificate(cli);
    print_serve(cli);
    print_statistics(cli);
    print_dashboard(cli);
    print_devices(cli, client_ini, data);
    print_client(cli, "check", client_ini, certificate, data);
    printf("\n");
    print_client(cli, "enroll", client_ini, certificate, NULL);
    printf(" \"$(");
    print_verb(cli, "enroll-code");
    printf(")\"\n");
    print_client(cli, "run", client_ini, certificate, data);
    printf("\n  4. How good the model is, and what it cost:\n     ");
    print_verb(cli, "status");
    printf("\n");
    if (!tern_state_settings(cli)->train_evaluate) {
        printf(
            "     (figures need train.evaluate = yes, or a client with client.evaluator = yes)\n");
    } else if (tern_model_spec_inputs(spec) > 0) {
        printf("     On a device, whether its rows alone do as well:\n");
        print_client(cli, "compare", client_ini, certificate, data);
        printf("\n");
    }
}
