// Included before every test of a program that has several (tern_test_program() in
// cmake/TernBuild.cmake): there `main` is defined as the name of the test, and the program chooses.
#ifndef TERN_TEST_JOINED_H
#define TERN_TEST_JOINED_H

// A test, and how the program finds it.
struct joined_test {
    const char *name;
    int (*run)(void);
    struct joined_test *next;
};

// `test` is kept in the list of the program.
void joined_add(struct joined_test *test);

#ifdef main
#define JOINED_TEXT(name) #name
#define JOINED_NAME(name) JOINED_TEXT(name)

int main(void);

__attribute__((constructor)) static void joined_at_start(void)
{
    static struct joined_test test = {.name = JOINED_NAME(main), .run = main};
    joined_add(&test);
}
#endif

#endif
