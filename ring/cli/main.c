// tern-ring: one peer of a ring that trains without an aggregator.
#include "cli/ring_settings.h"
#include "cli/ring_verbs.h"

static const struct tern_cli_option export_options[] = {
    {"format", "NAME", "f32 or safetensors (from the name of FILE)"},
    {"dtype", "TYPE", "of a safetensors file: F32 (default), F16 or BF16"},
    {0},
};

static const struct tern_cli_verb verbs[] = {
    {"run", "train with the others until the ring is done", "",
     "Waits for the others, then trains and exchanges with them, round after round, until "
     "ring.rounds\n"
     "is reached (exit code 0) or a SIGTERM, SIGINT or SIGHUP comes (5). May be killed at any "
     "instant:\n"
     "the others go on while more than half of all are there, and it comes in again when it is\n"
     "started anew. At the end, the bytes that passed between it and each other peer: payload of\n"
     "blocks and models, whole frames, TLS, and the wire with headers of TCP and IP.\n"
     "\n"
     "  tern-ring run --config anna.ini\n",
     NULL, 0, 0, ring_verb_run},
    {"status", "show what this peer holds", "",
     "The version of the model and its hash, the hash of what all peers must have alike, and when "
     "each\n"
     "last took part. Reads files alone.\n"
     "\n"
     "  tern-ring status --config anna.ini --json\n",
     NULL, 0, 0, ring_verb_status},
    {"export", "write the model that this peer holds to a file", "FILE",
     "Raw little-endian float32 (.f32) or safetensors, as tern-aggregator export writes it. FILE "
     "may be -\n"
     "for the standard output.\n"
     "\n"
     "  tern-ring export model.safetensors --config anna.ini\n",
     export_options, 1, 1, ring_verb_export},
    {0},
};

int main(int argc, char **argv)
{
    static const struct tern_cli_program program = {
        .name = "tern-ring",
        .summary = "one peer of a ring that trains without an aggregator",
        .help = "Trains on data that stays on this machine, and adds up what all peers have learnt "
                "by passing\n"
                "compressed blocks round a ring, over mutual TLS. docs/RING.md walks through it.\n"
                "\n"
                "  tern-ring --settings > anna.ini          every setting, documented\n"
                "  tern-ring run --config anna.ini\n",
        .verbs = verbs,
        .settings = &tern_ring_settings_table,
        .values = &tern_ring_settings,
        .default_config = "/etc/tern/ring.ini",
    };
    return tern_cli_main(&program, argc, argv);
}
