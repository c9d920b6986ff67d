// The program is killed at random moments between request and answer. A round never has two different sums: what was answered
// stays answered, with the same bytes, and tickets that were acknowledged stay admitted.
#include "helper/party.h"
#include "http/fixture.h"
#include "tests/cases.h"
#include "util/bytes.h"
#include "util/prng.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIALS 30
#define DEVICES 8

struct program {
    char folder[64];
    char port_file[96];
    pid_t process;
    struct party party;
};

// Runs a verb and returns the first line of its output.
static void run_verb(const struct program *program, const char *verb, char *line, int size)
{
    char command[400];
    snprintf(command, sizeof command,
             "cd %s && '" TERN_BIN_DIR "/tern-helper' %s --set helper.state_dir=. 2>errors",
             program->folder, verb);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_non_null(fgets(line, size, out));
    while (fgetc(out) != EOF) {
    }
    assert_int_equal(pclose(out), 0);
    line[strcspn(line, "\n")] = '\0';
}

static void exec_serve(const struct program *program)
{
    char port_file[128];
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that fails leaves no program behind
    if (chdir(program->folder) != 0 || freopen("log", "a", stderr) == NULL) {
        _exit(1);
    }
    snprintf(port_file, sizeof port_file, "helper.port_file=%s", program->port_file);
    execl(TERN_BIN_DIR "/tern-helper", "tern-helper", "serve", "--set", "helper.state_dir=.",
          "--set", "helper.min_clients=3", "--set", "helper.address=127.0.0.1", "--set",
          "helper.port=0", "--set", "helper.certificate=server.pem", "--set", port_file,
          (char *)NULL);
    _exit(1);
}

// Starts the program and waits until it listens.
static void start(struct program *program)
{
    unsigned port = 0;
    unlink(program->port_file);
    program->process = fork();
    assert_true(program->process >= 0);
    if (program->process == 0) {
        exec_serve(program);
    }
    while (port == 0) { // ctest ends a test that waits for ever
        FILE *file = fopen(program->port_file, "r");
        if (file != NULL && fscanf(file, "%u", &port) != 1) {
            port = 0;
        }
        if (file != NULL) {
            fclose(file);
        }
        assert_int_equal(waitpid(program->process, NULL, WNOHANG), 0);
        usleep(1000);
    }
    program->party.port = (uint16_t)port;
}

static void reap(struct program *program)
{
    int status = 0;
    assert_int_equal(waitpid(program->process, &status, 0), program->process);
}

// Kills the program after some time, from another process, while this one asks.
static pid_t kill_after(const struct program *program, unsigned us)
{
    const pid_t killer = fork();
    assert_true(killer >= 0);
    if (killer == 0) {
        usleep(us);
        kill(program->process, SIGKILL);
        _exit(0);
    }
    return killer;
}

static void prepare(struct program *program)
{
    char text[200];
    snprintf(program->folder, sizeof program->folder, "/tmp/tern-kills-XXXXXX");
    assert_non_null(mkdtemp(program->folder));
    snprintf(program->port_file, sizeof program->port_file, "%s/port", program->folder);
    snprintf(program->party.root, sizeof program->party.root, "%s/ca.pem", program->folder);
    memset(program->party.federation, 9, TERN_SHA256_SIZE);
    fixture_certificate(program->folder);
    run_verb(program, "init --json", text, sizeof text);
    const char *key = strstr(text, "public_key\":\"") + strlen("public_key\":\"");
    assert_int_equal(tern_base64url_decode(key, TERN_BASE64URL_LENGTH(TERN_P256_PUBLIC_SIZE),
                                           program->party.public_key, TERN_P256_PUBLIC_SIZE),
                     TERN_OK);
    run_verb(program, "federation add north", program->party.token, TOKEN_MAX);
}

// Admits all devices; the helper is killed while each ticket is on its way.
static void admit_under_kills(struct program *program, struct tern_prng *rng)
{
    char code[32];
    char name[32];
    run_verb(program, "code north --uses 8", code, sizeof code);
    start(program);
    assert_int_equal(party_epoch(&program->party), 200);
    for (uint32_t i = 0; i < DEVICES; i++) {
        const pid_t killer = kill_after(program, tern_prng_below(rng, 60000));
        const int status = party_admit(&program->party, i, i + 1, code, name);
        assert_true(status == 0 || status == 200);
        waitpid(killer, NULL, 0);
        reap(program);
        start(program);
        assert_int_equal(party_send_ticket(&program->party, i, i + 1, name), 200);
    }
}

// How far the killed requests came.
struct counts {
    unsigned stored; // decided, but not answered
    unsigned answered;
};

// Asks for the round's sum with one list while the helper is killed, then with both lists.
static void close_under_kills(struct program *program, uint32_t number, struct tern_prng *rng,
                              struct counts *counts)
{
    struct test_round few;
    struct test_round all;
    party_round(&program->party, number, DEVICES - 1, &few);
    party_round(&program->party, number, DEVICES, &all);
    const pid_t killer = kill_after(program, tern_prng_below(rng, 60000));
    struct answer killed = party_ask_sum(&program->party, &few);
    waitpid(killer, NULL, 0);
    reap(program);
    start(program);
    struct answer other = party_ask_sum(&program->party, &all);
    struct answer again = party_ask_sum(&program->party, &few);
    assert_true(killed.status == 0 || killed.status == 200);
    assert_true((other.status == 200) != (again.status == 200));
    if (killed.status == 200) {
        assert_int_equal(again.status, 200);
        assert_int_equal(answer_sum(&again).len, answer_sum(&killed).len);
        assert_memory_equal(answer_sum(&again).data, answer_sum(&killed).data,
                            answer_sum(&killed).len);
    }
    counts->answered += killed.status == 200;
    counts->stored += killed.status != 200 && again.status == 200;
    const struct answer *released = other.status == 200 ? &other : &again;
    const struct answer *refused = other.status == 200 ? &again : &other;
    party_check_sum(&program->party, other.status == 200 ? &all : &few, answer_sum(released));
    assert_string_equal(refused->name, "answered-round");
    answer_free(&killed);
    answer_free(&other);
    answer_free(&again);
}

// The same with noise: what was decided but not answered is gone.
static void close_noisy_under_kills(struct program *program, uint32_t number, struct tern_prng *rng)
{
    struct test_round few;
    struct test_round all;
    party_round(&program->party, number, DEVICES - 1, &few);
    party_round(&program->party, number, DEVICES, &all);
    party_add_noise(&few, 50, 1000);
    party_add_noise(&all, 50, 1000);
    const pid_t killer = kill_after(program, tern_prng_below(rng, 60000));
    struct answer killed = party_ask_sum(&program->party, &few);
    waitpid(killer, NULL, 0);
    reap(program);
    start(program);
    struct answer other = party_ask_sum(&program->party, &all);
    struct answer again = party_ask_sum(&program->party, &few);
    assert_true(killed.status == 0 || killed.status == 200);
    assert_int_not_equal(again.status, 200);
    if (strcmp(again.name, "noise-not-kept") == 0) { // the killed helper had decided
        assert_string_equal(other.name, "answered-round");
    } else {
        assert_string_equal(again.name, "answered-round");
        assert_int_equal(killed.status, 0);
        assert_int_equal(other.status, 200);
    }
    answer_free(&killed);
    answer_free(&other);
    answer_free(&again);
}

CASE(a_round_has_one_sum_whenever_the_helper_is_killed)
{
    static struct program program;
    struct tern_prng rng;
    char text[400];
    struct counts counts = {0, 0};
    tern_prng_init(&rng, 35, TERN_PRNG_TEST, 0, 0);
    assert_int_equal(tern_secret_start(), TERN_OK);
    signal(SIGPIPE, SIG_IGN);
    prepare(&program);
    admit_under_kills(&program, &rng);
    for (uint32_t number = 1; number <= TRIALS; number++) {
        if (number % 3 == 0) {
            close_noisy_under_kills(&program, number, &rng);
        } else {
            close_under_kills(&program, number, &rng, &counts);
        }
    }
    kill(program.process, SIGTERM);
    reap(&program);
    run_verb(&program, "log", text, sizeof text); // fails if the chain is broken
    run_verb(&program, "status --json", text, sizeof text);
    assert_non_null(strstr(text, "\"rounds\":30,"));
    printf("of %d killed requests %u were stored and %u answered\n", TRIALS, counts.stored,
           counts.answered);
    snprintf(text, sizeof text, "rm -r %s", program.folder);
    assert_int_equal(system(text), 0);
}
