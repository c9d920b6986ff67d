// tern-codec: encodes, decodes and explains payloads (docs/FORMAT.md).
#include "verbs.h"

#include <stddef.h>

static const struct tern_cli_option encode_options[] = {
    {"error-buffer", "FILE",
     "float32 file: is added to the input, then replaced by the unsent rest"},
    {"tensor", "NAME", "encode only this tensor of a safetensors file"},
    {"seed", "N", "seed of codecs that draw random numbers (default 0)"},
    {"round", "N", "round, from 1, for random numbers and dgc's warm-up (default 1)"},
    {"client", "N", "client number for random numbers (default 0)"},
    {"threads", "N", "threads that encode (default 1; 0: one per processor)"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_option payload_options[] = {
    {"count", "N", "number of values, which the payload does not contain"},
    {"like", "FILE", "instead of --count: the encoded file, for tensor names and sizes"},
    {"tensor", "NAME", "the encoded tensor of --like, if it was only one"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_option compare_options[] = {
    {"codecs", "'SPEC SPEC...'", "compare only these codecs, separated by spaces or semicolons"},
    {"tensor", "NAME", "compare on this tensor of a safetensors file only"},
    {"per-tensor", NULL, "also print a row for each tensor"},
    {"threads", "N", "threads that encode (default 1; 0: one per processor)"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_verb verbs[] = {
    {
        .name = "codecs",
        .summary = "List the codecs and their keys",
        .arguments = "",
        .help = "Prints for each codec: what it does, the paper it comes from, how it keeps values "
                "that\n"
                "it does not send (feedback), whether it can encode uploads and downloads, and its "
                "keys\n"
                "with their ranges.\n"
                "\n"
                "Examples:\n"
                "  tern-codec codecs\n"
                "  tern-codec codecs --json\n",
        .options = NULL,
        .least_arguments = 0,
        .most_arguments = 0,
        .run = tern_verb_codecs,
    },
    {
        .name = "encode",
        .summary = "Turn float32 values into a payload",
        .arguments = "SPEC IN OUT",
        .help =
            "Reads IN and writes one payload to OUT. SPEC names the codec and its keys, such as\n"
            "NAME or NAME:KEY=VALUE,KEY=VALUE; 'tern-codec codecs' lists them all.\n"
            "\n"
            "--error-buffer FILE adds the values of FILE, if it exists, to those of IN, and "
            "stores\n"
            "the difference between these sums and the payload in FILE for the next call. Both\n"
            "files are replaced completely or not at all. If OUT is -, a pipe or a device, the\n"
            "payload is written before FILE: discard it if the exit code is not 0.\n"
            "\n"
            "If IN is a safetensors file, all its tensors are encoded into one container, in the\n"
            "order of the file; with --tensor, one tensor is encoded into a payload. Tensors that\n"
            "are not F32, F16 or BF16 are skipped, with a message.\n"
            "\n"
            "Examples:\n"
            "  tern-codec encode 3lc gradient.f32 gradient.tern\n"
            "  tern-codec encode 3lc:s=1.75 --error-buffer rest.f32 step1.f32 step1.tern\n"
            "  tern-codec encode 3lc:coder=range update.safetensors update.tern\n",
        .options = encode_options,
        .least_arguments = 3,
        .most_arguments = 3,
        .run = tern_verb_encode,
    },
    {
        .name = "decode",
        .summary = "Turn a payload back into float32 values",
        .arguments = "IN OUT",
        .help =
            "Reads the payload IN and writes its values to OUT. A payload names its codec, but "
            "not\n"
            "its number of values: give --count, or --like with the encoded file. A damaged "
            "payload\n"
            "is an error, and nothing is written. OUT is raw little-endian float32; if its name\n"
            "ends in .safetensors, it is a safetensors file with the tensor names of --like.\n"
            "\n"
            "Examples:\n"
            "  tern-codec decode gradient.tern gradient.f32 --count 101770\n"
            "  tern-codec decode update.tern sent.safetensors --like update.safetensors\n",
        .options = payload_options,
        .least_arguments = 2,
        .most_arguments = 2,
        .run = tern_verb_decode,
    },
    {
        .name = "inspect",
        .summary = "Describe a payload or a safetensors file",
        .arguments = "FILE",
        .help =
            "For a payload, prints mode, scale, density (fraction of nonzero values), lengths of\n"
            "zero runs, and bits per value next to the order-0 entropy: the bits per value of the\n"
            "best coder that uses only the frequency of each value.\n"
            "\n"
            "For a container (with --like), prints a line for each tensor. For a safetensors file\n"
            "(without --count and --like), lists its tensors.\n"
            "\n"
            "Examples:\n"
            "  tern-codec inspect gradient.tern --count 101770\n"
            "  tern-codec inspect update.tern --like update.safetensors --json\n"
            "  tern-codec inspect update.safetensors\n",
        .options = payload_options,
        .least_arguments = 1,
        .most_arguments = 1,
        .run = tern_verb_inspect,
    },
    {
        .name = "compare",
        .summary = "Compare codecs on your own values",
        .arguments = "IN",
        .help =
            "Encodes and decodes IN with each codec, with an empty error buffer, and prints bits\n"
            "per value, the ratio to float32, the error and the speed. Without --codecs: all\n"
            "codecs, with each coder and some values of the main key. With error feedback, an "
            "error\n"
            "is sent later instead of lost, so a codec with a large error may still train well.\n"
            "\n"
            "The tensors of a safetensors file are encoded one by one, and their results added.\n"
            "\n"
            "Examples:\n"
            "  tern-codec compare gradient.f32\n"
            "  tern-codec compare update.safetensors --codecs '3lc:s=1 3lc:s=1,coder=range'\n"
            "  tern-codec compare update.safetensors --tensor fc1.weight --json\n",
        .options = compare_options,
        .least_arguments = 1,
        .most_arguments = 1,
        .run = tern_verb_compare,
    },
    {.run = NULL},
};

static const struct tern_cli_program program = {
    .name = "tern-codec",
    .summary = "turns float32 values into few bytes and back",
    .help = "Files of values are raw little-endian float32, or safetensors (F32, F16, BF16) as\n"
            "PyTorch writes them. docs/FORMAT.md describes payloads.\n"
            "\n"
            "Examples:\n"
            "  tern-codec encode 3lc:s=1.5 change.f32 change.tern --error-buffer rest.f32\n"
            "  tern-codec codecs\n"
            "  tern-codec compare change.f32\n"
            "  tern-codec inspect change.tern --count 101770\n"
            "  tern-codec decode change.tern sent.f32 --count 101770\n"
            "  tern-codec encode 3lc change.f32 - | gzip > change.tern.gz\n"
            "\n"
            "The file name - is the standard input or output. Symbolic links are followed; pipes\n"
            "and devices can be read and written. A command may not write a file that it names\n"
            "twice.\n",
    .verbs = verbs,
};

int main(int argc, char **argv)
{
    return tern_cli_main(&program, argc, argv);
}
