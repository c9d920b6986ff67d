// tern-codec: encodes, decodes and explains payloads (docs/FORMAT.md), and measures the codecs.
#include "verbs.h"

#include <stddef.h>

static const struct tern_cli_option encode_options[] = {
    {"error-buffer", "FILE",
     "float32 file to add to the input and to replace by what was not sent"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_option count_options[] = {
    {"count", "N", "how many values the payload has; it does not say so itself"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_option bench_options[] = {
    {"count", "N", "values of the large run (default 64M, 1 GB of memory)"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_verb verbs[] = {
    {
        .name = "encode",
        .summary = "Turn float32 values into a payload",
        .arguments = "SPEC IN OUT",
        .help = "Reads IN, little-endian float32 values, and writes one payload to OUT.\n"
                "SPEC names the codec: float32, float16, 3lc, 3lc:s=1.5 (1 <= s < 2; a larger s\n"
                "sends fewer values).\n"
                "\n"
                "With --error-buffer FILE the values of FILE, if it is there, are added first,\n"
                "and what the payload does not carry is left in FILE for the next call: nothing\n"
                "is lost, only late. Both files are replaced whole or not at all. When OUT is -,\n"
                "the payload is out before FILE is replaced: if the exit code is not 0, throw it\n"
                "away.\n"
                "\n"
                "Examples:\n"
                "  tern-codec encode 3lc gradient.f32 gradient.tern\n"
                "  tern-codec encode 3lc:s=1.75 --error-buffer rest.f32 step1.f32 step1.tern\n",
        .options = encode_options,
        .least_arguments = 3,
        .most_arguments = 3,
        .run = verb_encode,
    },
    {
        .name = "decode",
        .summary = "Turn a payload back into float32 values",
        .arguments = "IN OUT",
        .help =
            "Reads the payload IN and writes N little-endian float32 values to OUT. The payload\n"
            "says how it was encoded. When it is damaged nothing is written.\n"
            "\n"
            "Example:\n"
            "  tern-codec decode gradient.tern gradient.f32 --count 101770\n",
        .options = count_options,
        .least_arguments = 2,
        .most_arguments = 2,
        .run = verb_decode,
    },
    {
        .name = "inspect",
        .summary = "Say what is in a payload and how well it is coded",
        .arguments = "FILE",
        .help =
            "Prints mode, scale, density (values that are not zero), zero runs, and the bits per\n"
            "value beside the order-0 entropy: what the best coder that knows only how often\n"
            "each symbol comes up would need.\n"
            "\n"
            "Examples:\n"
            "  tern-codec inspect gradient.tern --count 101770\n"
            "  tern-codec inspect gradient.tern --count 101770 --json\n",
        .options = count_options,
        .least_arguments = 1,
        .most_arguments = 1,
        .run = verb_inspect,
    },
    {
        .name = "bench",
        .summary = "Measure the codecs on this machine, against memcpy",
        .arguments = "",
        .help =
            "Encodes, decodes and accumulates normally distributed values with each codec, out of\n"
            "cache and in cache, and prints GB/s of float32 beside memcpy of the same values,\n"
            "measured in the same run. The best of several runs counts.\n"
            "\n"
            "Examples:\n"
            "  tern-codec bench\n"
            "  tern-codec bench --count 4M --json\n",
        .options = bench_options,
        .least_arguments = 0,
        .most_arguments = 0,
        .run = verb_bench,
    },
    {.run = NULL},
};

static const struct tern_cli_program program = {
    .name = "tern-codec",
    .summary = "turns float32 values into few bytes and back",
    .help = "Files of values are little-endian float32 and nothing else; a payload is what\n"
            "docs/FORMAT.md describes.\n"
            "\n"
            "Examples:\n"
            "  tern-codec encode 3lc:s=1.5 change.f32 change.tern --error-buffer rest.f32\n"
            "  tern-codec inspect change.tern --count 101770\n"
            "  tern-codec decode change.tern sent.f32 --count 101770\n"
            "  tern-codec encode 3lc change.f32 - | gzip > change.tern.gz\n"
            "\n"
            "For a file that is read, - is the standard input; for one that is written, the\n"
            "standard output.\n",
    .verbs = verbs,
};

int main(int argc, char **argv)
{
    return tern_cli_main(&program, argc, argv);
}
