// The trainer port over a command: a good answer is taken, every bad one is named, and whatever the
// command does, it and what it started are gone afterwards, and so is its folder.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "external/command_trainer.h"
#include "hosted/system.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#define VALUES_MAX 64

static bool persistent; // of the commands that are opened
static char scratch[64];
static char folder[96];
static struct tern_model model;
static struct tern_command_trainer trainer;
static struct tern_trainer port;
static float base[VALUES_MAX];
static float *weights;
static struct tern_train_result result;
static char why[TERN_EXTERNAL_WHY_MAX];

static struct tern_train_task task;

static const struct tern_train_task plain_task = {
    .round = 3,
    .local_steps = 4,
    .batch_size = 8,
    .learning_rate = 0.05f,
    .momentum = 0.9f,
    .weight_decay = 1e-4f,
    .prox_mu = 0.25f,
    .seed = 12345678901234567u,
    .client = 9,
};

static int set_up(void **state)
{
    (void)state;
    strcpy(scratch, "/tmp/tern-command-XXXXXX");
    assert_non_null(mkdtemp(scratch));
    snprintf(folder, sizeof folder, "%s/trainer", scratch);
    assert_int_equal(tern_model_from_spec(&model, "softmax:5-3"), TERN_OK);
    assert_true(model.count <= VALUES_MAX);
    tern_model_init_weights(&model, 1, base);
    task = plain_task;
    weights = NULL;
    persistent = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tern_command_trainer_close(&trainer);
    tern_work_folder_remove(scratch);
    return access(scratch, F_OK) == 0;
}

static void open_command(const char *command, uint64_t time_ms)
{
    const struct tern_command_config config = {.command = command,
                                               .folder = folder,
                                               .model = &model,
                                               .time_ms = time_ms,
                                               .grace_ms = 200,
                                               .persistent = persistent};
    tern_command_trainer_close(&trainer);
    assert_int_equal(tern_command_trainer_open(&trainer, &config, why), TERN_OK);
    port = tern_command_trainer_port(&trainer);
}

static void open_fake(const char *arguments, uint64_t time_ms)
{
    char command[TERN_COMMAND_TEXT_MAX];
    snprintf(command, sizeof command, "/usr/bin/python3 " FAKE_TRAINER " %s", arguments);
    open_command(command, time_ms);
}

static enum tern_result begin(void)
{
    return port.begin(port.ctx, &task, base, model.count);
}

static enum tern_result step(void)
{
    return port.step(port.ctx, &weights, &result);
}

static enum tern_result finish(void)
{
    enum tern_result done = TERN_AGAIN;
    while (done == TERN_AGAIN) {
        done = step();
    }
    return done;
}

static enum tern_result evaluate(struct tern_evaluate_result *found)
{
    enum tern_result done = TERN_AGAIN;
    while (done == TERN_AGAIN) {
        done = port.evaluate(port.ctx, base, model.count, found);
    }
    return done;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void expect_cleared(void)
{
    assert_int_not_equal(access(folder, F_OK), 0);
    assert_int_equal(trainer.child.pid, 0);
}

static void expect_good(void)
{
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(finish(), TERN_OK);
    assert_non_null(weights);
    for (uint32_t i = 0; i < model.count; i++) {
        assert_true(weights[i] >= base[i] + 1 && weights[i] <= base[i] + 1);
    }
    assert_int_equal(result.num_examples, 7);
    assert_int_equal(result.local_steps, 4);
    assert_true(result.loss >= 0.5f && result.loss <= 0.5f);
    assert_string_equal(trainer.why, "");
    expect_cleared();
}

static void expect_why(const char *part)
{
    const char *said = trainer.why;
    if (strstr(said, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", said, part);
    }
}

static void expect_failure(const char *arguments, const char *part)
{
    open_fake(arguments, 20000);
    weights = NULL;
    result = (struct tern_train_result){.num_examples = 123};
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(finish(), TERN_ERR_TRAINER);
    expect_why(part);
    assert_null(weights); // what the core holds is not touched
    assert_int_equal(result.num_examples, 123);
    expect_cleared();
    assert_int_equal(step(), TERN_ERR_STATE);
}

// --- What is right

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(a_good_answer_is_taken)
{
    open_fake("good", 20000);
    expect_good();
    expect_good(); // and again
    open_fake("own_files", 20000);
    expect_good();
    open_fake("quiet", 20000);
    expect_good();
    open_fake("environment", 20000);
    expect_good();
}

TEST(the_task_is_told_exactly)
{
    open_fake("facts", 20000);
    expect_good();
    assert_string_equal(strstr(trainer.metrics, "round"), trainer.metrics);
    char expected[TERN_TRAINER_METRICS_MAX];
    const char *seed = strstr(trainer.metrics, "seed=");
    snprintf(expected, sizeof expected,
             "round=3 learning_rate=0.05 momentum=0.9 weight_decay=0.0001 prox_mu=0.25 "
             "batch_size=8 local_steps=4 %s",
             seed);
    assert_string_equal(trainer.metrics, expected);
    char first[64];
    snprintf(first, sizeof first, "%s", seed);
    expect_good();
    assert_string_equal(strstr(trainer.metrics, "seed="), first);
    task.client++;
    expect_good();
    assert_string_not_equal(strstr(trainer.metrics, "seed="), first);
}

TEST(names_that_a_terminal_obeys_are_masked)
{
    open_fake("colours", 20000);
    expect_good();
    assert_string_equal(trainer.metrics, "?[31mred=1 gr\303\274n=2");
}

TEST(half_floats_are_read)
{
    for (uint32_t i = 0; i < model.count; i++) {
        base[i] = (float)i / 8;
    }
    open_fake("halved", 20000);
    expect_good();
}

TEST(fewer_steps_may_be_done)
{
    open_fake("result '{\"num_examples\": 7, \"loss\": 0.5, \"local_steps\": 3}'", 20000);
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(finish(), TERN_OK);
    assert_int_equal(result.local_steps, 3);
}

static void ahead_by_one(void *ctx, float *start)
{
    (void)ctx;
    for (uint32_t i = 0; i < model.count; i++) {
        start[i] += 1;
    }
}

TEST(a_start_ahead_is_the_model_and_the_base_is_apart)
{
    for (uint32_t i = 0; i < model.count; i++) {
        base[i] = 2;
    }
    task.ahead = ahead_by_one;
    open_fake("base_apart", 20000);
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(finish(), TERN_OK);
    assert_string_equal(trainer.metrics, "base=2 start=3");
    assert_true(weights[0] >= 4 && weights[0] <= 4);
}

TEST(an_evaluation_is_taken)
{
    struct tern_evaluate_result found = {0};
    open_fake("good", 20000);
    assert_int_equal(evaluate(&found), TERN_OK);
    assert_int_equal(found.num_examples, 7);
    assert_true(found.accuracy >= 0.25f && found.accuracy <= 0.25f);
    expect_cleared();
    open_fake("result '{\"num_examples\": 7, \"loss\": 0.5, \"accuracy\": 1.5}'", 20000);
    assert_int_equal(evaluate(&found), TERN_ERR_TRAINER);
    expect_why("accuracy is 1.5");
    open_fake("result '{\"num_examples\": 7, \"loss\": 0.5, \"accuracy\": \"good\"}'", 20000);
    assert_int_equal(evaluate(&found), TERN_ERR_TRAINER);
    expect_why("no number \"accuracy\"");
    expect_cleared();
}

// As of a model that tells no classes. What names a message does not hold stays in the log.
TEST(metrics_of_an_evaluation_are_taken_without_an_accuracy)
{
    struct tern_evaluate_result found = {0};
    open_fake(
        "result '{\"num_examples\": 7, \"loss\": 0.5, \"metrics\": {\"mae\": 2.5, \"loss\": 9,"
        " \"a_name_of_sixteen\": 1, \"big\": 1e300, \"r2\": 0.75}}'",
        20000);
    assert_int_equal(evaluate(&found), TERN_OK);
    assert_true(found.no_accuracy);
    assert_true(found.accuracy == 0);
    assert_int_equal(found.metric_count, 2);
    assert_string_equal(found.metrics[0].name, "mae");
    assert_true(found.metrics[0].value == 2.5f);
    assert_string_equal(found.metrics[1].name, "r2");
    assert_non_null(strstr(trainer.metrics, "a_name_of_sixteen=1"));
    expect_cleared();
}

// --- What is wrong

TEST(every_bad_answer_is_named)
{
    static const struct {
        const char *arguments;
        const char *part;
    } table[] = {
        {"raises", "exit code 1; its last line was: ValueError: my own mistake"},
        {"segfault", "signal 11"},
        {"no_output", "the trainer wrote no trained.safetensors"},
        {"no_result", "the trainer wrote no result.json"},
        {"garbage", "not safetensors"},
        {"cut", "not safetensors"},
        {"huge", "trained.safetensors has 8589934592 bytes"},
        {"fifo", "not a regular file"},
        {"link", "trained.safetensors cannot be opened: it is a symbolic link"},
        {"renamed", "'other' is not one of the model's"},
        {"left_out", "its file lacks the model's tensor"},
        {"reshaped", "'fc1.weight' has the shape [5,3]; the model's is [3,5]"},
        {"doubled", "is F64"},
        {"not_a_number", "NaN or infinity"},
        {"endless", "NaN or infinity"},
        {"result ''", "not a JSON object"},
        {"result '[]'", "not a JSON object"},
        {"result '{\"num_examples\": 7, \"loss\": 0.5'", "not a JSON object"},
        {"result '{\"num_examples\": 7, \"loss\": NaN}'", "JSON has no NaN"},
        {"result '{\"num_examples\": 7, \"loss\": 0.5} {}'", "text after its JSON object"},
        {"result '{\"num_examples\": 7, \"loss\": 0.5}}'", "text after its JSON object"},
        {"result '{\"num_examples\": 7, \"loss\": 1, \"metrics\": {\"\\u001b[1m\": []}}'",
         "its metric \"?[1m\" is no"},
        {"result '{\"loss\": 0.5}'", "no number \"num_examples\""},
        {"result '{\"num_examples\": \"7\", \"loss\": 0.5}'", "no number \"num_examples\""},
        {"result '{\"num_examples\": 7}'", "no number \"loss\""},
        {"result '{\"num_examples\": 0, \"loss\": 0.5}'", "num_examples is 0"},
        {"result '{\"num_examples\": -1, \"loss\": 0.5}'", "num_examples is -1"},
        {"result '{\"num_examples\": 1.5, \"loss\": 0.5}'", "num_examples is 1.5"},
        {"result '{\"num_examples\": 4000000000, \"loss\": 0.5}'", "num_examples is 4000000000"},
        {"result '{\"num_examples\": 1e300, \"loss\": 0.5}'", "num_examples is 1e+300"},
        {"result '{\"num_examples\": 7, \"loss\": 1e300}'", "loss is NaN or infinite"},
        {"result '{\"num_examples\": 7, \"loss\": 1, \"local_steps\": 5}'", "local_steps is 5"},
        {"result '{\"num_examples\": 7, \"loss\": 1, \"local_steps\": 0}'", "local_steps is 0"},
        {"result '{\"num_examples\": 7, \"loss\": 1, \"metrics\": 3}'", "metrics are not"},
        {"result '{\"num_examples\": 7, \"loss\": 1, \"metrics\": {\"a\": []}}'", "\"a\" is no"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        expect_failure(table[i].arguments, table[i].part);
    }
}

TEST(a_command_that_is_not_there_is_named)
{
    open_command("/nonexistent/train --data x", 1000);
    assert_int_equal(begin(), TERN_ERR_TRAINER);
    expect_why("/nonexistent/train cannot be run: No such file");
    expect_cleared();
    open_command(scratch, 1000); // a folder
    assert_int_equal(begin(), TERN_ERR_TRAINER);
    expect_why("cannot be run");
    expect_cleared();
}

TEST(a_flood_is_bounded_and_its_end_kept)
{
    expect_failure("flood", "exit code 3; its last line was: the last line");
    assert_true(strlen(tern_child_tail(&trainer.child)) <= TERN_CHILD_TAIL_MAX);
}

// Ten times as long as Python takes here to start and answer.
static uint64_t hangs_ms(void)
{
    const uint64_t start = now_ms();
    open_fake("good", 60000);
    expect_good();
    return 1000 + 10 * (now_ms() - start);
}

TEST(one_that_hangs_is_ended)
{
    char longer[80];
    const uint64_t time_ms = hangs_ms();
    open_fake("hang", time_ms);
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(step(), TERN_AGAIN); // no call waits for the end
    assert_int_equal(finish(), TERN_ERR_TRAINER);
    snprintf(longer, sizeof longer,
             "longer than %" PRIu64 " ms and was stopped; its last line was: I hang", time_ms);
    expect_why(longer);
    expect_cleared();
    open_fake("stubborn", time_ms);
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(finish(), TERN_ERR_TRAINER);
    snprintf(longer, sizeof longer, "longer than %" PRIu64 " ms", time_ms);
    expect_why(longer);
    expect_cleared();
}

static bool runs(pid_t pid)
{
    char path[64];
    char text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    const bool read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    return read && strstr(text, ") Z ") == NULL;
}

TEST(what_it_left_behind_ends_with_it)
{
    char arguments[160];
    char path[96];
    int pid = 0;
    snprintf(path, sizeof path, "%s/pid", scratch);
    snprintf(arguments, sizeof arguments, "grandchild %s", path);
    open_fake(arguments, 20000);
    expect_good();
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    for (int i = 0; i < 1000 && runs(pid); i++) {
        usleep(20000);
    }
    assert_false(runs(pid));
}

// One that escaped its end, as what a wrapper started does when the client is killed.
TEST(a_former_trainer_does_not_answer_a_later_task)
{
    char arguments[160];
    snprintf(arguments, sizeof arguments, "outlives %s", scratch);
    open_fake(arguments, 20000);
    expect_good();
    snprintf(arguments, sizeof arguments, "lets_go %s", scratch);
    expect_failure(arguments, "the trainer wrote no result.json");
}

TEST(closing_ends_it)
{
    open_fake("stubborn", 0);
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(step(), TERN_AGAIN);
    const pid_t pid = trainer.child.pid;
    assert_true(runs(pid));
    tern_command_trainer_close(&trainer);
    assert_false(runs(pid));
    assert_int_not_equal(access(folder, F_OK), 0);
}

TEST(another_task_ends_the_one_before)
{
    open_fake("hang", 0);
    assert_int_equal(begin(), TERN_OK);
    const pid_t pid = trainer.child.pid;
    assert_int_equal(begin(), TERN_OK);
    assert_false(runs(pid));
    assert_true(runs(trainer.child.pid));
}

static char state_of(pid_t pid)
{
    char path[64];
    char state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
    fclose(file);
    return state;
}

// A pause stops the command, its time stands still, and then it goes on to a good end.
TEST(a_pause_stops_its_time_too)
{
    open_fake("quiet", 60000);
    assert_int_equal(begin(), TERN_OK);
    tern_child_pause(&trainer.child, true);
    for (int i = 0; i < 1000 && state_of(trainer.child.pid) != 'T'; i++) {
        usleep(1000);
    }
    assert_int_equal(state_of(trainer.child.pid), 'T');
    assert_int_equal(step(), TERN_AGAIN);
    const uint64_t ran = trainer.child.ran_ms;
    const uint64_t paused_ms = tern_monotonic_ms();
    while (tern_monotonic_ms() - paused_ms < 50) {
        assert_int_equal(step(), TERN_AGAIN);
    }
    assert_int_equal(trainer.child.ran_ms, ran);
    tern_child_pause(&trainer.child, false);
    assert_int_equal(finish(), TERN_OK);
    open_fake("hang", 0);
    assert_int_equal(begin(), TERN_OK);
    tern_child_pause(&trainer.child, true);
    tern_command_trainer_close(&trainer); // also one that is stopped
}

TEST(what_a_crash_left_is_removed)
{
    char path[128];
    char outside[128];
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(path, sizeof path, "%s/cache", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(outside, sizeof outside, "%s/outside", scratch);
    assert_int_equal(mkdir(outside, 0700), 0);
    snprintf(path, sizeof path, "%s/cache/link", folder);
    assert_int_equal(symlink(outside, path), 0);
    open_fake("good", 20000);
    assert_int_not_equal(access(folder, F_OK), 0);
    assert_int_equal(access(outside, F_OK), 0); // the link went, not what it leads to
    assert_int_equal(symlink(outside, folder), 0);
    expect_good();
    assert_int_equal(access(outside, F_OK), 0);
}

#define DEEP 3000

// Deeper than a path can be long, and than files can be open.
TEST(folders_of_any_depth_are_removed)
{
    char name[101] = "";
    memset(name, 'd', sizeof name - 1);
    const int here = open(".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chdir(folder), 0);
    for (int i = 0; i < DEEP; i++) {
        assert_int_equal(mkdir(name, 0700), 0);
        assert_int_equal(mkdir("0", 0700), 0); // what else is there may have any name
        assert_int_equal(mkdir("0/1", 0700), 0);
        fclose(fopen("2", "w"));
        assert_int_equal(chdir(name), 0);
    }
    assert_int_equal(fchdir(here), 0);
    close(here);
    open_fake("good", 20000);
    expect_cleared();
    expect_good();
}

// What cannot be removed, too, is in nobody's way.
TEST(a_folder_that_stays_blocks_nothing)
{
    char path[128];
    snprintf(path, sizeof path, "%s/mount", folder);
    if (getuid() != 0 || unshare(CLONE_NEWNS) != 0) {
        skip();
    }
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", path, "tmpfs", 0, NULL) != 0) {
        skip();
    }
    open_fake("good", 20000);
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(finish(), TERN_OK);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(umount(path), 0);
}

#define NOBODY 65534

static void make_locked(const char *name, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/deep", folder, name);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/deep/file", folder, name);
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        _exit(3);
    }
    fclose(file);
    snprintf(path, sizeof path, "%s/%s/deep", folder, name);
    (void)chmod(path, mode);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)chmod(path, mode);
}

// Root may remove anything, so this is done by somebody else.
TEST(folders_without_rights_are_removed)
{
    assert_int_equal(chmod(scratch, 0777), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        if (getuid() == 0 && setuid(NOBODY) != 0) {
            _exit(2);
        }
        (void)mkdir(folder, 0700);
        make_locked("to read", 0500);
        make_locked("closed", 0);
        tern_work_folder_remove(folder);
        _exit(access(folder, F_OK) == 0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

// --- A persistent command

static void expect_good_again(pid_t pid, const char *count)
{
    weights = NULL;
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(finish(), TERN_OK);
    assert_string_equal(trainer.metrics, count);
    for (uint32_t i = 0; i < model.count; i++) {
        assert_true(weights[i] >= base[i] + 1 && weights[i] <= base[i] + 1);
    }
    assert_true(pid == 0 || trainer.child.pid == pid);
    assert_int_not_equal(access(folder, F_OK), 0);
}

TEST(a_persistent_command_is_started_once)
{
    struct tern_evaluate_result found = {0};
    persistent = true;
    open_fake("good,good,good,slow", 20000);
    expect_good_again(0, "task=1");
    const pid_t pid = trainer.child.pid;
    assert_true(runs(pid));
    expect_good_again(pid, "task=2");
    assert_int_equal(evaluate(&found), TERN_OK);
    assert_int_equal(found.num_examples, 7);
    assert_int_equal(trainer.child.pid, pid);
    expect_good_again(pid, "task=4"); // whose answer comes in two pieces
    tern_command_trainer_close(&trainer);
    assert_false(runs(pid));
}

// What goes wrong in the second task is named, ends the command, and the third starts another.
static void expect_restart(const char *modes, uint64_t time_ms, const char *part)
{
    open_fake(modes, 20000);
    expect_good_again(0, "task=1");
    const pid_t pid = trainer.child.pid;
    weights = NULL;
    trainer.child.limits.time_ms = time_ms;
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(finish(), TERN_ERR_TRAINER);
    expect_why(part);
    assert_null(weights);
    expect_cleared();
    assert_false(runs(pid));
    expect_good_again(0, "task=1");
    assert_int_not_equal(trainer.child.pid, pid);
}

TEST(a_persistent_command_is_started_again_after_a_failure)
{
    persistent = true;
    expect_restart("good,refuses", 0, "the command failed: no data today");
    expect_restart("good,babbles", 0, "answered 'well done'; it must answer done or failed");
    expect_restart("good,endless_answer", 0, "the command answered 'xxxx");
    expect_restart("good,raises", 0, "ValueError: my own mistake");
    expect_restart("good,segfault", 0, "signal 11");
    expect_restart("good,hang", 300, "longer than");
    expect_restart("good,closes", 300, "longer than");
    expect_restart("good,garbage", 0, "safetensors");
}

TEST(one_that_ended_between_tasks_is_started_again)
{
    persistent = true;
    open_fake("good_and_out", 20000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(begin(), TERN_OK);
        assert_int_equal(finish(), TERN_OK);
    }
    open_fake("leaves", 20000); // it never answers
    assert_int_equal(begin(), TERN_OK);
    assert_int_equal(finish(), TERN_ERR_TRAINER);
    expect_why("the command ended with exit code 0");
    open_fake("good", 20000);
    expect_good_again(0, "task=1");
    const pid_t pid = trainer.child.pid;
    kill(pid, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    expect_good_again(0, "task=1");
    assert_int_not_equal(trainer.child.pid, pid);
}

// Idle, it may be as long as it likes; a task may not.
TEST(time_between_tasks_does_not_count)
{
    persistent = true;
    open_fake("good,good,hang", 20000);
    expect_good_again(0, "task=1");
    trainer.child.last_ms -= 30000;
    expect_good_again(trainer.child.pid, "task=2");
    assert_int_equal(begin(), TERN_OK);
    trainer.child.last_ms -= 30000;
    assert_int_equal(finish(), TERN_ERR_TRAINER);
    expect_why("longer than 20000 ms");
}

TEST(another_task_ends_a_persistent_one_that_trains)
{
    persistent = true;
    open_fake("hang", 0);
    assert_int_equal(begin(), TERN_OK);
    const pid_t pid = trainer.child.pid;
    assert_int_equal(begin(), TERN_OK);
    assert_false(runs(pid));
    assert_true(runs(trainer.child.pid));
}

TEST(wrong_arguments_start_nothing)
{
    struct tern_evaluate_result found;
    open_fake("good", 20000);
    assert_int_equal(port.begin(port.ctx, &task, base, model.count + 1), TERN_ERR_MODEL_MISMATCH);
    assert_int_equal(port.evaluate(port.ctx, base, model.count + 1, &found),
                     TERN_ERR_MODEL_MISMATCH);
    task.local_steps = 0;
    assert_int_equal(begin(), TERN_ERR_ARGUMENT);
    task = plain_task;
    task.learning_rate = -1;
    assert_int_equal(begin(), TERN_ERR_ARGUMENT);
    assert_int_equal(step(), TERN_ERR_STATE);
    expect_cleared();
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return test_cases_run(&cases_of_this_file, __FILE__);
}
