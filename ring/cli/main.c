// tern-ring: one peer of a ring that trains without an aggregator.
#include "cli/ring.h"

struct tern_ring_settings tern_ring_settings;

#define TERN_SETTINGS_STRUCT struct tern_ring_settings
#include "hosted/setting_rows.h"

static const struct tern_setting setting_rows[] = {
#include "cli/ring_settings.def"
};

static const struct tern_settings settings_table =
    TERN_SETTINGS("tern-ring", setting_rows, tern_settings_sections);

static const struct tern_cli_option export_options[] = {
    {"format", "NAME", "f32 or safetensors (from the name of FILE)"},
    {"dtype", "TYPE", "number type in a safetensors file: F32 (default), F16 or BF16"},
    {0},
};

static const struct tern_cli_verb verbs[] = {
    {"run", "train with the other peers until ring.rounds is reached", "",
     "Waits for the other peers, then trains and exchanges gradients with them in each round. "
     "Exit\n"
     "code 0: ring.rounds is reached; 5: stopped by SIGTERM, SIGINT or SIGHUP. You may kill it at "
     "any\n"
     "time: the other peers continue while more than half of all are running, and this one joins\n"
     "again when you restart it. At the end it prints the bytes exchanged with each peer: payload\n"
     "(blocks and models), whole frames, with TLS, and on the wire with TCP and IP headers.\n"
     "\n"
     "  tern-ring run --config anna.ini\n",
     NULL, 0, 0, ring_verb_run},
    {"status", "show this peer's saved state", "",
     "Prints the model's version and hash, the hash of the settings that all peers must share, "
     "and\n"
     "the last round of each peer. Reads the state directory only.\n"
     "\n"
     "  tern-ring status --config anna.ini --json\n",
     NULL, 0, 0, ring_verb_status},
    {"export", "write this peer's model to a file", "FILE",
     "Writes raw little-endian float32 (.f32) or safetensors, as tern-aggregator export does. "
     "FILE\n"
     "may be - for the standard output.\n"
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
        .help = "Trains on data that stays on this machine. The peers form a ring and exchange "
                "compressed\n"
                "gradients over mutual TLS. docs/RING.md is a walkthrough.\n"
                "\n"
                "  tern-ring --settings > anna.ini          every setting, documented\n"
                "  tern-ring run --config anna.ini\n",
        .verbs = verbs,
        .settings = &settings_table,
        .values = &tern_ring_settings,
        .default_config = "/etc/tern/ring.ini",
    };
    return tern_cli_main(&program, argc, argv);
}
