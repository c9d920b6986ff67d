#include "fleet/results.h"
#include <math.h>
#include <string.h>

const char *tern_fleet_format_bytes(double bytes, char text[16])
{
    if (bytes < 999.5) {
        snprintf(text, 16, "%.0f B", bytes);
    } else if (bytes < 999950) {
        snprintf(text, 16, "%.1f KB", bytes / 1e3);
    } else if (bytes < 999950e3) {
        snprintf(text, 16, "%.1f MB", bytes / 1e6);
    } else {
        snprintf(text, 16, "%.1f GB", bytes / 1e9);
    }
    return text;
}

// Means per client and round at each network layer, in an array for loops.
struct row {
    const char *name;
    const char *what;
    double up;
    double down;
};

#define ROWS 4

static double mean(uint64_t bytes, const struct tern_fleet_results *run)
{
    return run->participations > 0 ? (double)bytes / (double)run->participations : 0;
}

static void rows_of(const struct tern_fleet_results *run, struct row rows[ROWS])
{
    rows[0] = (struct row){"payload", "compressed tensors", mean(run->up.payload, run),
                           mean(run->down.payload, run)};
    rows[1] = (struct row){"HTTP", "+ requests, replies, headers", mean(run->up.http, run),
                           mean(run->down.http, run)};
    rows[2] = (struct row){"TLS", "+ records and handshakes", mean(run->up.tls, run),
                           mean(run->down.tls, run)};
    rows[3] = (struct row){"wire", "+ IP and TCP headers, resends", mean(run->up.wire, run),
                           mean(run->down.wire, run)};
}

static void print_footnote(const struct tern_fleet_results *run, FILE *out)
{
    fprintf(out,
            "Bytes are means per client and round: all bytes of the %u clients that train,\n"
            "enrolment, handshakes and idle check-ins included, divided by the %llu updates that\n"
            "were applied. Each row includes the one above it. 1 KB = 1000 bytes.\n",
            run->clients, (unsigned long long)run->participations);
}

// Formats metrics as "r2 0.9312, mae 2.11, mse 7.3, loss 0.0688 (replica)".
static void list_figures(const struct tern_evaluate_result *found, char *text, size_t size)
{
    size_t used = 0;
    for (uint32_t i = 0; i < found->metric_count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s %.4g, ", found->metrics[i].name,
                                 (double)found->metrics[i].value);
    }
    if (used < size) {
        snprintf(text + used, size - used, "loss %.4f (replica)", (double)found->loss);
    }
}

void tern_fleet_print_table(const struct tern_fleet_results *run, FILE *out)
{
    struct row rows[ROWS];
    char up[16];
    char down[16];
    rows_of(run, rows);
    char accuracy[96] = "no accuracy";
    const struct tern_evaluate_result *found = tern_fleet_final_figures(run);
    if (found != NULL) {
        list_figures(found, accuracy, sizeof accuracy);
    } else if (run->rounds > 0) {
        snprintf(accuracy, sizeof accuracy, "accuracy %.4f (replica)",
                 tern_fleet_final_accuracy(run));
    }
    fprintf(out, "\n%s, %s: %s after %u rounds, %.1f s\n\n", run->model,
            run->codec[0] != '\0' ? run->codec : "no task", accuracy, run->rounds, run->seconds);
    fprintf(out, "%-9s %10s %10s\n", "", "up", "down");
    for (int i = 0; i < ROWS; i++) {
        fprintf(out, "%-9s %10s %10s   %s\n", rows[i].name, tern_fleet_format_bytes(rows[i].up, up),
                tern_fleet_format_bytes(rows[i].down, down), rows[i].what);
    }
    tern_fleet_format_bytes((double)run->float32_payload, up);
    fprintf(out, "%-9s %10s %10s   payload of one model, uncompressed\n\n", "float32", up, up);
    print_footnote(run, out);
    fprintf(out, "model hash %s\n", run->model_hash);
}

// Formats a ratio as "10.0x fewer", or "2.5x more" if the run has more bytes than the baseline.
static void print_ratio(double baseline, double value, FILE *out)
{
    char text[32] = "-";
    if (value > 0 && baseline > 0) {
        const double times = baseline / value;
        const bool more = times < 0.95;
        snprintf(text, sizeof text, "%.1fx %s", more ? 1 / times : times, more ? "more" : "fewer");
    }
    fprintf(out, " %12s", text);
}

static void print_compared_row(const struct row *row, const struct row *base, FILE *out)
{
    char text[4][16];
    fprintf(out, "%-9s %10s %10s %12s %10s", row->name, tern_fleet_format_bytes(row->up, text[0]),
            tern_fleet_format_bytes(row->down, text[1]), tern_fleet_format_bytes(base->up, text[2]),
            tern_fleet_format_bytes(base->down, text[3]));
    print_ratio(base->up, row->up, out);
    print_ratio(base->down, row->down, out);
    fprintf(out, "   %s\n", row->what);
}

#define NAME_WIDTH 21

static const char *after_folder(const char *name)
{
    const char *last = strrchr(name, '/');
    return last != NULL ? last + 1 : name;
}

// Returns the length of a file's name without ".json".
static size_t length_of_title(const char *name)
{
    static const char ending[] = ".json";
    const size_t len = strlen(name);
    const size_t rest = len - (sizeof ending - 1);
    return len > sizeof ending - 1 && strcmp(name + rest, ending) == 0 ? rest : len;
}

// Prints a column's heading: the file name without ".json", and without its folder unless both files have the same
// name. A long name loses its beginning.
static void print_title(const char *name, const char *other, int width, FILE *out)
{
    const char *text =
        strcmp(after_folder(name), after_folder(other)) != 0 ? after_folder(name) : name;
    size_t len = length_of_title(text);
    if (len > NAME_WIDTH) {
        text += len - NAME_WIDTH;
        len = NAME_WIDTH;
    }
    fprintf(out, " %*.*s", width, (int)len, text);
}

// Formats two numbers as "5 and 7", or "5" if they are equal.
static void print_counts(uint32_t one, uint32_t other, const char *what, FILE *out)
{
    fprintf(out, ", %u", one);
    if (other != one) {
        fprintf(out, " and %u", other);
    }
    fprintf(out, " %s", what);
}

static void print_what_they_are(const struct tern_fleet_results *run,
                                const struct tern_fleet_results *baseline, FILE *out)
{
    fprintf(out, "\n%s", run->model);
    if (strcmp(baseline->model, run->model) != 0) {
        fprintf(out, " and %s", baseline->model);
    }
    print_counts(run->clients, baseline->clients, "clients", out);
    print_counts(run->rounds, baseline->rounds, "rounds", out);
    fputs("\n\n", out);
}

static void print_figure(const char *name, double value, double base, FILE *out)
{
    fprintf(out, "%-9s %21.4g %23.4g %+18.4g (replica)\n", name, value, base, value - base + 0.0);
}

// Prints the figures of two runs whose model is not a classifier, such as r2, and their differences.
static void print_compared_figures(const struct tern_evaluate_result *found,
                                   const struct tern_evaluate_result *base, FILE *out)
{
    for (uint32_t i = 0; i < found->metric_count; i++) {
        for (uint32_t j = 0; j < base->metric_count; j++) {
            if (strcmp(found->metrics[i].name, base->metrics[j].name) == 0) {
                print_figure(found->metrics[i].name, (double)found->metrics[i].value,
                             (double)base->metrics[j].value, out);
            }
        }
    }
    print_figure("loss", (double)found->loss, (double)base->loss, out);
}

// Returns a difference of accuracy in percent with two decimals; a rounded 0 has no sign.
static double rounded_points(double difference)
{
    return round(1e4 * difference) / 100 + 0.0;
}

void tern_fleet_print_comparison(const struct tern_fleet_results *run, const char *name,
                                 const struct tern_fleet_results *baseline,
                                 const char *baseline_name, FILE *out)
{
    struct row rows[ROWS];
    struct row base[ROWS];
    rows_of(run, rows);
    rows_of(baseline, base);
    double accuracy = tern_fleet_final_accuracy(run);
    double base_accuracy = tern_fleet_final_accuracy(baseline);
    const struct tern_evaluate_result *found = tern_fleet_final_figures(run);
    const struct tern_evaluate_result *base_found = tern_fleet_final_figures(baseline);
    print_what_they_are(run, baseline, out);
    fprintf(out, "%-9s", "");
    print_title(name, baseline_name, 21, out);
    print_title(baseline_name, name, 23, out);
    fprintf(out, " %25s\n", "first run's bytes");
    fprintf(out, "%-9s %21s %23s\n", "codec", run->codec, baseline->codec);
    if (fabs(run->local_steps - baseline->local_steps) >= 0.05) {
        fprintf(out, "%-9s %21.1f %23.1f   local steps, mean of an update\n", "steps",
                run->local_steps, baseline->local_steps);
    }
    if (!isnan(accuracy) && !isnan(base_accuracy)) { // both runs trained classifiers
        fprintf(out, "%-9s %21.4f %23.4f %+18.2f points (replica)\n", "accuracy", accuracy,
                base_accuracy, rounded_points(accuracy - base_accuracy));
    } else if (found != NULL && base_found != NULL) {
        print_compared_figures(found, base_found, out);
    }
    fprintf(out, "%-9s %10s %10s %12s %10s %12s %12s\n", "", "up", "down", "up", "down", "up",
            "down");
    for (int i = 0; i < ROWS; i++) {
        print_compared_row(&rows[i], &base[i], out);
    }
    fputc('\n', out);
    print_footnote(run, out);
}
