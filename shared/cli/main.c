// tern-codec: encodes, decodes and explains payloads (docs/FORMAT.md).
#include "verbs.h"

#include <stddef.h>

static const struct tern_cli_option encode_options[] = {
    {"error-buffer", "FILE",
     "float32 file to add to the input and to replace by what was not sent"},
    {"tensor", "NAME", "one tensor of a safetensors file; else all, in a container"},
    {"seed", "N", "of codecs that draw random numbers (0)"},
    {"round", "N", "of the random numbers and of a warm-up, from 1 (1)"},
    {"client", "N", "of the random numbers (0)"},
    {"threads", "N", "of encoding (1); 0: as many as there are processors"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_option payload_options[] = {
    {"count", "N", "how many values the payload has; it does not say so itself"},
    {"like", "FILE", "instead: what was encoded, for the names and sizes of its tensors"},
    {"tensor", "NAME", "the one tensor of --like that was encoded"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_option compare_options[] = {
    {"codecs", "'SPEC SPEC...'", "these codecs only, with spaces or semicolons between"},
    {"tensor", "NAME", "one tensor of a safetensors file; else all"},
    {"per-tensor", NULL, "a row for each tensor, too"},
    {"threads", "N", "of encoding (1); 0: as many as there are processors"},
    {NULL, NULL, NULL},
};

static const struct tern_cli_verb verbs[] = {
    {
        .name = "codecs",
        .summary = "List the codecs and their keys",
        .arguments = "",
        .help =
            "Prints each codec with what it does and where it comes from, what becomes of what it\n"
            "does not send (feedback), whether it may encode uploads and downloads, and its keys\n"
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
            "With --error-buffer FILE the values of FILE, if it is there, are added first, and\n"
            "what the payload does not carry is left in FILE for the next call: nothing is lost,\n"
            "only late. Both files are replaced whole or not at all. When OUT is -, a pipe or a\n"
            "device, the payload is out before FILE is replaced: if the exit code is not 0, throw\n"
            "it away.\n"
            "\n"
            "Of a safetensors file all tensors are encoded into one container, in the order of\n"
            "the file, or the one that --tensor names into a payload. Tensors that are not F32,\n"
            "F16 or BF16 are left out, which is said; their file decodes them with --like.\n"
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
            "Reads the payload IN and writes its values to OUT. The payload says how it was\n"
            "encoded, but not how many values it has: that is --count, or what --like has. When\n"
            "it is damaged nothing is written. OUT is raw little-endian float32, or safetensors\n"
            "when its name ends so, which takes the names of --like.\n"
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
        .summary = "Say what is in a payload and how well it is coded, or in a safetensors file",
        .arguments = "FILE",
        .help =
            "Of a payload: mode, scale, density (values that are not zero), the bits per value\n"
            "beside the order-0 entropy, which is what the best coder that knows only how often\n"
            "each value comes up would need, and how long the runs of zeros are.\n"
            "\n"
            "Of a container, with --like: the same of each tensor, in short. Of a safetensors\n"
            "file, without --count and --like: its tensors.\n"
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
        .summary = "Try codecs on your own values",
        .arguments = "IN",
        .help =
            "Encodes and decodes IN with each codec, from an empty error buffer, and prints bits\n"
            "per value, the ratio to float32, the error and the speed. Without --codecs: every\n"
            "codec there is, with each coder and a few strengths. With error feedback an error is\n"
            "not lost but sent later, so a codec with a large one may still train well.\n"
            "\n"
            "Of a safetensors file all tensors are encoded one by one, and added up.\n"
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
    .help = "Files of values are raw little-endian float32, or safetensors (F32, F16, BF16), as\n"
            "PyTorch users have them; a payload is what docs/FORMAT.md describes.\n"
            "\n"
            "Examples:\n"
            "  tern-codec encode 3lc:s=1.5 change.f32 change.tern --error-buffer rest.f32\n"
            "  tern-codec codecs\n"
            "  tern-codec compare change.f32\n"
            "  tern-codec inspect change.tern --count 101770\n"
            "  tern-codec decode change.tern sent.f32 --count 101770\n"
            "  tern-codec encode 3lc change.f32 - | gzip > change.tern.gz\n"
            "\n"
            "For a file that is read, - is the standard input; for one that is written, the\n"
            "standard output. Links are followed, pipes and devices are written to as they are. A\n"
            "file that is written must not be another one of the same command, too.\n",
    .verbs = verbs,
};

int main(int argc, char **argv)
{
    return tern_cli_main(&program, argc, argv);
}
