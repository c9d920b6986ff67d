// The main() of a program that holds several tests. usage: PROGRAM TEST
#include "tests/joined.h"

#include <stdio.h>
#include <string.h>

static struct joined_test *first;

void joined_add(struct joined_test *test)
{
    test->next = first;
    first = test;
}

int main(int argc, char **argv)
{
    for (const struct joined_test *test = first; argc == 2 && test != NULL; test = test->next) {
        if (strcmp(test->name, argv[1]) == 0) {
            return test->run();
        }
    }
    fprintf(stderr, "usage: %s TEST, one of these:\n", argv[0]);
    for (const struct joined_test *test = first; test != NULL; test = test->next) {
        fprintf(stderr, "  %s\n", test->name);
    }
    return 2;
}
