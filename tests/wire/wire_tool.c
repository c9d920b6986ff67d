// The messages on the command line, for the tests in Python:
//   wire_tool list           name and protobuf type of each example
//   wire_tool example NAME   the example's bytes
//   wire_tool decode NAME    decodes stdin; writes what the encoder makes of it, or exits with 1
//                            and the name of the error on stderr
#include "wire/examples.h"
#include <stdio.h>
#include <string.h>

static const struct example *find(const char *name)
{
    for (size_t i = 0; i < example_count; i++) {
        if (strcmp(examples[i].name, name) == 0) {
            return &examples[i];
        }
    }
    return NULL;
}

static int list(void)
{
    for (size_t i = 0; i < example_count; i++) {
        printf("%s %s\n", examples[i].name, examples[i].message);
    }
    return 0;
}

static int finish(enum tern_result result, const uint8_t *bytes, size_t len)
{
    if (result != TERN_OK) {
        fprintf(stderr, "%s\n", tern_result_name(result));
        return 1;
    }
    fwrite(bytes, 1, len, stdout);
    return 0;
}

static int decode(const struct example *example)
{
    static uint8_t in[EXAMPLE_BYTES_MAX];
    static uint8_t out[2 * EXAMPLE_BYTES_MAX];
    union example_message message;
    struct tern_span container = {NULL, 0};
    size_t in_len = fread(in, 1, sizeof(in), stdin);
    size_t out_len = 0;
    enum tern_result result = example->decode(in, in_len, &message, &container);
    if (result == TERN_OK) {
        result = example->encode_again(&message, container, out, sizeof(out), &out_len);
    }
    return finish(result, out, out_len);
}

int main(int argc, char **argv)
{
    const struct example *example = argc == 3 ? find(argv[2]) : NULL;
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        return list();
    }
    if (example != NULL && strcmp(argv[1], "decode") == 0) {
        return decode(example);
    }
    if (example != NULL && strcmp(argv[1], "example") == 0) {
        uint8_t bytes[EXAMPLE_BYTES_MAX];
        size_t len = 0;
        enum tern_result result = example->encode(bytes, sizeof(bytes), &len);
        return finish(result, bytes, len);
    }
    fprintf(stderr, "usage: wire_tool list | example NAME | decode NAME\n");
    return 2;
}
