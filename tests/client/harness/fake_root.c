#define _GNU_SOURCE
#include "client/harness/fake_root.h"
#include "tests/asserts.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char root[FAKE_ROOT_MAX];

const char *fake_root_make(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(root, sizeof root, "%.80s/tern-root-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(root));
    return root;
}

void fake_root_put(const char *path, const char *text)
{
    char whole[512];
    const int len = snprintf(whole, sizeof whole, "%s/%s", root, path);
    assert_true(len < (int)sizeof whole);
    for (char *at = whole + sizeof "/tmp" - 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            mkdir(whole, 0700);
            *at = '/';
        }
    }
    FILE *out = fopen(whole, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static int drop(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

void fake_root_drop(const char *path)
{
    char whole[512];
    assert_true(snprintf(whole, sizeof whole, "%s/%s", root, path) < (int)sizeof whole);
    nftw(whole, drop, 8, FTW_DEPTH | FTW_PHYS);
}

void fake_root_remove(void)
{
    fake_root_drop("");
}
