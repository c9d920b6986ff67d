#include "cli/next_steps.h"

#include "cli/state.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
        printf("\n     (rounds begin with %" PRIu32 " client%s: round.min_clients)\n", least,
               least == 1 ? "" : "s");
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

static void print_client(const struct tern_cli *cli, const char *verb, bool client_ini,
                         const char *certificate)
{
    printf("     tern-client %s", verb);
    if (client_ini) {
        printf(" --config client.ini");
        return;
    }
    printf(" --set client.server=https://localhost:%" PRIu32 " --set",
           tern_state_settings(cli)->server_port);
    char ca[PATH_MAX + 16];
    snprintf(ca, sizeof ca, "client.ca=%s", certificate);
    print_word(ca);
}

void tern_next_steps_print(const struct tern_cli *cli, bool client_ini)
{
    char certificate[PATH_MAX];
    tern_state_file(cli, tern_state_settings(cli)->server_certificate, TERN_STATE_CERTIFICATE,
                    certificate);
    printf("\nNext:\n");
    print_certificate(cli);
    print_serve(cli);
    print_dashboard(cli);
    printf("  3. On each device, %s:\n",
           client_ini ? "with client.ini, scaling.csv and its own data"
                      : "with its address of the service and its data (data.source)");
    if (!client_ini && strcmp(tern_state_settings(cli)->statistics_columns, "none") == 0) {
        printf(
            "     (readings that are not scaled alike on all devices: init --data SAMPLE.csv, or "
            "serve "
            "with\n     --set statistics.columns=clients, by which clients agree on a scaling)\n");
    }
    print_client(cli, "check", client_ini, certificate);
    printf("\n");
    print_client(cli, "enroll", client_ini, certificate);
    printf(" \"$(");
    print_verb(cli, "enroll-code");
    printf(")\"\n");
    print_client(cli, "run", client_ini, certificate);
    printf("\n");
}
