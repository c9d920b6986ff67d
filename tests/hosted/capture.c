#include "capture.h"
#include "tests/asserts.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void read_back(FILE *file, char *text, size_t size)
{
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static int run_child(FILE *out, FILE *err, int (*run)(void *ctx), void *ctx)
{
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    int code = run(ctx);
    fflush(stdout);
    fflush(stderr);
    return code;
}

void capture_run(struct capture *capture, int (*run)(void *ctx), void *ctx)
{
    FILE *out = tmpfile();
    FILE *err = tmpfile();
    int status = 0;
    assert_non_null(out);
    assert_non_null(err);
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(run_child(out, err, run, ctx));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    capture->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_back(out, capture->out, sizeof(capture->out));
    read_back(err, capture->err, sizeof(capture->err));
}
