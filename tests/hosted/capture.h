// Runs a function in a child process and keeps what it wrote. For tests of programs.
#ifndef TEST_CAPTURE_H
#define TEST_CAPTURE_H

#include <stddef.h>

struct capture {
    int code; // exit code; 128 + signal when killed
    char out[16384];
    char err[16384];
};

// Runs run(ctx) in a child with stdout and stderr captured; its return value is the exit code.
void capture_run(struct capture *capture, int (*run)(void *ctx), void *ctx);

#endif
