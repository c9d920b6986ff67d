// Reads data specs as tern-client does, for tests that compare programs. Each line of standard input is
// "run FOLDER SPEC" (the reading of `run`: a part is held out) or "predict FOLDER SPEC" (the reading of
// `predict`: every row, in the order of the file); FOLDER has no blank and is where relative names begin. The
// answer is one JSON object a line, with a "why" where the spec is refused.
#include "data/source.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte < ' ' || byte == '"' || byte == '\\') {
            printf("\\u%04x", byte);
        } else {
            putchar(byte);
        }
    }
    putchar('"');
}

static void print_part(const char *name, const struct tern_dataset *part, const char *behind)
{
    printf("\"%s\":{\"rows\":[", name);
    for (uint32_t i = 0; i < part->count; i++) {
        printf("%s[", i > 0 ? "," : "");
        for (uint32_t f = 0; f < part->feature_count; f++) {
            printf("%s%.9g", f > 0 ? "," : "",
                   (double)part->values[(size_t)i * part->feature_count + f]);
        }
        printf("]");
    }
    printf("],\"labels\":[");
    for (uint32_t i = 0; i < part->count; i++) {
        if (part->targets != NULL) {
            const double target = (double)part->targets[i];
            printf("%s%.9g", i > 0 ? "," : "",
                   target * (double)part->target_deviation + (double)part->target_mean);
        } else {
            printf("%s%u", i > 0 ? "," : "", part->labels[i]);
        }
    }
    printf("]}%s", behind);
}

static void answer(const char *mode, const char *spec)
{
    struct tern_data data;
    char why[TERN_DATA_WHY_MAX] = "";
    const struct tern_data_part part = {.test = true, .new_rows = strcmp(mode, "predict") == 0};
    const enum tern_result result = tern_dataset_open_part(spec, NULL, &part, &data, why);
    if (result != TERN_OK) {
        printf("{\"why\":");
        print_text(why);
        printf("}\n");
        return;
    }
    printf("{\"features\":%" PRIu32 ",\"classes\":[", data.train.feature_count);
    for (uint32_t i = 0; i < data.classes.count; i++) {
        printf("%s", i > 0 ? "," : "");
        print_text(data.classes.names[i]);
    }
    printf("],\"class_count\":%" PRIu32 ",", data.train.class_count);
    print_part("train", &data.train, ",");
    print_part("test", &data.test, "}\n");
    tern_data_close(&data);
}

int main(void)
{
    static char line[1024 + TERN_DATA_SPEC_MAX];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *folder = strchr(line, ' ');
        char *spec = folder != NULL ? strchr(folder + 1, ' ') : NULL;
        if (spec == NULL) {
            return EXIT_FAILURE;
        }
        *folder++ = '\0';
        *spec++ = '\0';
        if (chdir(folder) != 0) {
            return EXIT_FAILURE;
        }
        answer(line, spec);
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}
