// Snapshots of all weights in float32, made piece by piece where the weights lie: into a file, where they
// are many.
#include "catchup/internal.h"

#include <string.h>

typedef enum tern_result (*maker)(const struct tern_merge *merge,
                                  const struct tern_download_sink *sink,
                                  struct tern_download_made *made);

static enum tern_result make_trunk(const struct tern_merge *merge,
                                   const struct tern_download_sink *sink,
                                   struct tern_download_made *made)
{
    return tern_whole_snapshot(&merge->model, merge->replica, merge->replica_id, merge->version,
                               sink, made);
}

static enum tern_result make_global(const struct tern_merge *merge,
                                    const struct tern_download_sink *sink,
                                    struct tern_download_made *made)
{
    return tern_whole_opening(&merge->model, merge->global, merge->version, sink, made);
}

static enum tern_result write_into(const struct tern_merge *merge, maker make,
                                   struct tern_new_blob *fresh, struct tern_db_download *row,
                                   struct tern_blob **blob)
{
    const struct tern_download_sink sink = tern_new_blob_sink(fresh);
    struct tern_download_made made;
    TERN_TRY(make(merge, &sink, &made));
    *row = (struct tern_db_download){.snapshot = true,
                                     .to_version = merge->version,
                                     .size = (uint32_t)made.len,
                                     .payload = (uint32_t)made.payload};
    tern_codec_format(&made.codec, row->codec);
    memcpy(row->sha256, made.sha256, TERN_SHA256_SIZE);
    memcpy(row->to_replica, made.replica, TERN_SHA256_SIZE);
    return tern_new_blob_end(fresh, blob);
}

static enum tern_result write_whole(const struct tern_catchup *catchup, maker make,
                                    struct tern_db_download *row, struct tern_blob **blob)
{
    struct tern_new_blob fresh;
    TERN_TRY(tern_new_blob_begin_anyhow(&fresh, catchup->config.spool_folder,
                                        tern_whole_bound(&catchup->merge->model)));
    const enum tern_result result = write_into(catchup->merge, make, &fresh, row, blob);
    tern_new_blob_drop(&fresh);
    return result;
}

enum tern_result tern_snapshot_of_trunk(const struct tern_catchup *catchup,
                                        struct tern_db_download *row, struct tern_blob **blob)
{
    return write_whole(catchup, make_trunk, row, blob);
}

enum tern_result tern_snapshot_of_global(const struct tern_catchup *catchup,
                                         struct tern_db_download *row, struct tern_blob **blob)
{
    return write_whole(catchup, make_global, row, blob);
}
