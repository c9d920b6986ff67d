#include "cli/safetensors.h"
#include "cli/state.h"
#include "cli/verbs.h"

#include "hosted/files.h"
#include "service/merge.h"
#include "util/bytes.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum format { FORMAT_F32, FORMAT_SAFETENSORS };

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

static int take_format(struct tern_cli *cli, enum format *format)
{
    const char *file = cli->arguments[0];
    const char *name = tern_cli_option(cli, "format", NULL);
    if (name == NULL && ends_with(file, ".f32")) {
        name = "f32";
    } else if (name == NULL && ends_with(file, ".safetensors")) {
        name = "safetensors";
    }
    if (name == NULL) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG,
                             "the name '%s' does not tell the format; end it in .f32 or"
                             " .safetensors, or give --format",
                             file);
    }
    if (strcmp(name, "f32") != 0 && strcmp(name, "safetensors") != 0) {
        return tern_cli_fail(cli, TERN_ERR_CONFIG, "--format '%s' is none of f32, safetensors",
                             name);
    }
    *format = name[0] == 'f' ? FORMAT_F32 : FORMAT_SAFETENSORS;
    return TERN_EXIT_OK;
}

// --- Which weights

struct walk {
    struct tern_db *db;
    struct tern_merge *merge;
    uint32_t wanted;
    enum tern_result result;
};

static bool replay_round(void *ctx, const struct tern_db_round *round)
{
    struct walk *walk = ctx;
    struct tern_download_made made;
    struct tern_strategy_report report;
    if (round->state != TERN_ROUND_COMMITTED) {
        return true;
    }
    if (walk->merge->version == walk->wanted) {
        return false;
    }
    walk->result = tern_merge_round(walk->merge, walk->db, round, &made, &report);
    return walk->result == TERN_OK;
}

// Makes version `wanted` from the seed and the stored updates, and compares it with its row.
static enum tern_result replay_to(struct tern_db *db, struct tern_merge *merge, uint64_t seed,
                                  uint32_t wanted, const struct tern_db_version *row)
{
    struct walk walk = {.db = db, .merge = merge, .wanted = wanted, .result = TERN_OK};
    tern_merge_seed(merge, seed);
    TERN_TRY(tern_db_round_each(db, replay_round, &walk));
    TERN_TRY(walk.result);
    bool same = merge->version == wanted &&
                memcmp(merge->model_sha256, row->model_sha256, TERN_SHA256_SIZE) == 0;
    return same ? TERN_OK : TERN_ERR_CORRUPT;
}

static int load_earlier(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge,
                        uint64_t seed)
{
    uint64_t wanted = 0;
    struct tern_db_version row;
    if (tern_cli_number(cli, "at", 0, 0, UINT32_MAX - 1, &wanted) != TERN_OK) {
        return TERN_EXIT_USAGE;
    }
    enum tern_result result = tern_db_version_get(db, (uint32_t)wanted, &row);
    if (result == TERN_ERR_NOT_FOUND) {
        return tern_cli_fail(cli, result, "there is no version %" PRIu64, wanted);
    }
    if (result == TERN_OK) {
        result = replay_to(db, merge, seed, (uint32_t)wanted, &row);
    }
    if (result == TERN_OK) {
        return TERN_EXIT_OK;
    }
    tern_cli_fail(cli, result,
                  "version %" PRIu64 " cannot be made from the stored updates: %s;"
                  " `tern-aggregator verify` says where it fails",
                  wanted,
                  result == TERN_ERR_NOT_FOUND ? "some of them were pruned"
                                               : tern_result_name(result));
    return TERN_EXIT_FAILED;
}

static int load_weights(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge,
                        uint64_t seed)
{
    if (tern_cli_flag(cli, "at")) {
        return load_earlier(cli, db, merge, seed);
    }
    enum tern_result result = tern_merge_load(merge, db);
    if (result == TERN_ERR_NOT_FOUND) { // never served: the seed is all there is
        tern_merge_seed(merge, seed);
        return TERN_EXIT_OK;
    }
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "cannot read the model: %s", tern_db_error(db));
    }
    return TERN_EXIT_OK;
}

// --- Writing

static enum tern_result encode_f32(const float *weights, uint32_t count, uint8_t **data,
                                   size_t *len)
{
    uint8_t *out = malloc((size_t)count * 4);
    if (out == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        tern_put_f32(out + (size_t)i * 4, weights[i]);
    }
    *data = out;
    *len = (size_t)count * 4;
    return TERN_OK;
}

static enum tern_result encode(const struct tern_merge *merge, const char *spec, bool replica,
                               enum format format, uint8_t **data, size_t *len)
{
    const float *weights = replica ? merge->replica : merge->global;
    char version[16];
    char hash[2 * TERN_SHA256_SIZE + 1];
    if (format == FORMAT_F32) {
        return encode_f32(weights, merge->model.count, data, len);
    }
    snprintf(version, sizeof version, "%" PRIu32, merge->version);
    tern_hex_encode(replica ? merge->replica_id : merge->model_sha256, TERN_SHA256_SIZE, hash);
    const struct tern_safetensors_note notes[] = {
        {"model", spec},
        {"version", version},
        {replica ? "replica" : "model_sha256", hash},
        {NULL, NULL},
    };
    return tern_safetensors_encode(&merge->model, weights, notes, data, len);
}

// A file is replaced by renaming, which would put a plain file in the place of a device or a link.
static int check_target(struct tern_cli *cli)
{
    const char *file = cli->arguments[0];
    struct stat there;
    if (strcmp(file, "-") == 0 || lstat(file, &there) != 0 || S_ISREG(there.st_mode)) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(cli, TERN_ERR_IO,
                         "%s is %s, not a regular file; name a new or a regular file, or write"
                         " to standard output with `-`",
                         file,
                         S_ISLNK(there.st_mode)   ? "a symbolic link"
                         : S_ISDIR(there.st_mode) ? "a directory"
                                                  : "a device, pipe or socket");
}

static int write_out(struct tern_cli *cli, const uint8_t *data, size_t len)
{
    const char *file = cli->arguments[0];
    if (strcmp(file, "-") == 0) {
        return fwrite(data, 1, len, stdout) == len
                   ? TERN_EXIT_OK
                   : tern_cli_fail(cli, TERN_ERR_IO, "cannot write: %s", strerror(errno));
    }
    enum tern_result result = tern_file_write(file, data, len, 0644);
    return result == TERN_OK
               ? TERN_EXIT_OK
               : tern_cli_fail(cli, result, "cannot write %s: %s", file, strerror(errno));
}

static int print_written(struct tern_cli *cli, const struct tern_merge *merge, size_t len)
{
    const char *file = cli->arguments[0];
    if (strcmp(file, "-") == 0) {
        return TERN_EXIT_OK;
    }
    if (!cli->json) {
        printf("Wrote version %" PRIu32 " to %s (%zu bytes).\n", merge->version, file, len);
        return TERN_EXIT_OK;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "file", file);
    tern_json_u64(object, "version", merge->version);
    tern_json_u64(object, "bytes", len);
    tern_json_hash(object, "model_sha256", merge->model_sha256);
    return tern_json_print(cli, object);
}

static int export_merged(struct tern_cli *cli, struct tern_db *db, struct tern_merge *merge,
                         const struct tern_db_federation *federation, enum format format)
{
    uint8_t *data = NULL;
    size_t len = 0;
    int code = load_weights(cli, db, merge, federation->seed);
    if (code != TERN_EXIT_OK) {
        return code;
    }
    enum tern_result result =
        encode(merge, federation->model_spec, tern_cli_flag(cli, "replica"), format, &data, &len);
    if (result != TERN_OK) {
        return tern_cli_fail(cli, result, "%s", tern_result_sentence(result));
    }
    code = write_out(cli, data, len);
    free(data);
    return code == TERN_EXIT_OK ? print_written(cli, merge, len) : code;
}

int tern_cli_export(struct tern_cli *cli)
{
    static struct tern_merge merge;
    struct tern_db_federation federation;
    enum format format = FORMAT_F32;
    int code = take_format(cli, &format);
    if (code != TERN_EXIT_OK) {
        return code;
    }
    code = check_target(cli);
    if (code != TERN_EXIT_OK) {
        return code;
    }
    struct tern_db *db = tern_state_open_reading(cli, &code);
    if (db == NULL) {
        return code;
    }
    enum tern_result result = tern_db_federation(db, &federation);
    if (result != TERN_OK) {
        return tern_state_fail(cli, db, result);
    }
    result = tern_merge_init(&merge, &federation);
    if (result != TERN_OK) {
        tern_db_close(db);
        return tern_cli_fail(cli, result, "model '%s': %s", federation.model_spec,
                             tern_result_sentence(result));
    }
    code = export_merged(cli, db, &merge, &federation, format);
    tern_merge_free(&merge);
    tern_db_close(db);
    return code;
}
