// tern-bench: measures the speed of the codecs on this machine. ./tern bench codec runs it; it is not installed.
#include "bench.h"

#include <stddef.h>

static const struct tern_cli_option codec_options[] = {
    {"count", "N", "values of the large run (default 64M: 1.3 GB of memory)"},
    {"quick", NULL, "4M values and fewer runs: figures are rough"},
    {"threads", "N", "threads for encoding (1); 0: one per processor"},
    {"kernels", "NAME", "inner loops other than the fastest: portable, ..."},
    {"save", "FILE", "also write the results as JSON"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_verb verbs[] = {
    {
        .name = "codec",
        .summary = "Measure the codecs on this machine, against memcpy",
        .arguments = "",
        .help =
            "Five tables, each figure the best of several runs:\n"
            "  speed   normally distributed values, out of cache and in cache, each codec; GB/s "
            "of\n"
            "          float32, and times memcpy of the values that are out of cache\n"
            "  coders  the ternary coders on independent values of exact density, against the\n"
            "          order-0 entropy\n"
            "  rows    the same on rows of 784 values with log-normal scales, density 0.05\n"
            "  packed  zstd and LZ4 (when built in) on the same ternary values, five in a byte\n"
            "  floats  the same on raw float32, where they lose nothing and save little\n"
            "\n"
            "Examples:\n"
            "  tern-bench codec\n"
            "  tern-bench codec --quick\n"
            "  tern-bench codec --count 4M --save bench.json\n"
            "  tern-bench codec --quick --kernels portable\n",
        .options = codec_options,
        .least_arguments = 0,
        .most_arguments = 0,
        .run = verb_codec,
    },
    {.run = NULL},
};

static const struct tern_cli_program program = {
    .name = "tern-bench",
    .summary = "measures the codecs of Tern on this machine",
    .help = "Figures depend on the machine and its load: compare figures of one run only. For your "
            "own\n"
            "values use 'tern-codec compare'.\n"
            "\n"
            "Examples:\n"
            "  tern-bench codec --quick\n",
    .verbs = verbs,
};

int main(int argc, char **argv)
{
    return tern_cli_main(&program, argc, argv);
}
