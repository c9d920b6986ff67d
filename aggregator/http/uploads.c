// One list under one lock says which bodies there are; a lock for each body guards its bytes, so that
// a writer's disk and a hash over many bytes keep nobody else waiting. A place in the list is taken
// from a writer by counting the body's turn on: what the writer appends under its old turn is refused.
// The bytes of what is dropped are freed at once: its writer may stay silent for long before it
// notices.
#include "http/uploads.h"
#include "http/upload_files.h"
#include "util/sha256.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HASH_PIECE 16384u

_Static_assert(sizeof((struct tern_http_unfinished *)0)->sha256 == TERN_SHA256_SIZE, "one hash");

struct tern_upload {
    // Under the list's lock.
    struct tern_upload *next;  // in the list, or of what has been dropped
    struct tern_upload **link; // the pointer that points here
    uint32_t references;       // the list's, and those of whoever writes or reads it
    bool kept;                 // nobody writes it
    uint64_t kept_since_ms;    // 0: since the last sweep
    uint64_t kept_before_ms;   // it had been kept for so long when it was found again

    _Atomic uint64_t turn; // counted on under the list's lock

    pthread_mutex_t lock; // guards what follows
    struct tern_body body;
    struct tern_sha256 hash; // of the bytes that were asked for so far

    uint64_t owner;
    uint64_t total;
    bool found; // an earlier process wrote the beginning
    char name[NAME_MAX + 1];
    char path[];
};

struct tern_uploads {
    pthread_mutex_t lock;
    struct tern_body_room *room;
    uint32_t most;
    uint32_t kept;
    uint64_t continued;
    struct tern_upload *first; // those that are kept in the order in which they were left
    struct tern_upload **end;
};

struct tern_uploads *tern_uploads_new(struct tern_body_room *room, uint32_t most)
{
    struct tern_uploads *uploads = calloc(1, sizeof *uploads);
    if (uploads != NULL) {
        pthread_mutex_init(&uploads->lock, NULL);
        uploads->room = room;
        uploads->most = most;
        uploads->end = &uploads->first;
    }
    return uploads;
}

void tern_uploads_limit(struct tern_uploads *uploads, uint32_t most)
{
    pthread_mutex_lock(&uploads->lock);
    uploads->most = most;
    pthread_mutex_unlock(&uploads->lock);
}

// --- The list. Its lock is held, but by release() and free_dropped().

static void append(struct tern_uploads *uploads, struct tern_upload *upload)
{
    upload->next = NULL;
    upload->link = uploads->end;
    *uploads->end = upload;
    uploads->end = &upload->next;
}

static void unlink_upload(struct tern_uploads *uploads, struct tern_upload *upload)
{
    *upload->link = upload->next;
    if (upload->next != NULL) {
        upload->next->link = upload->link;
    } else {
        uploads->end = upload->link;
    }
}

static void set_kept(struct tern_uploads *uploads, struct tern_upload *upload, bool kept)
{
    uploads->kept += kept && !upload->kept ? 1 : 0;
    uploads->kept -= !kept && upload->kept ? 1 : 0;
    upload->kept = kept;
    upload->kept_since_ms = 0;
    upload->kept_before_ms = 0;
}

static void free_upload(struct tern_upload *upload)
{
    tern_body_free(&upload->body);
    pthread_mutex_destroy(&upload->lock);
    free(upload);
}

// One reference less; the last one's holder frees it, under no lock.
static void release(struct tern_uploads *uploads, struct tern_upload *upload)
{
    pthread_mutex_lock(&uploads->lock);
    const bool last = --upload->references == 0;
    pthread_mutex_unlock(&uploads->lock);
    if (last) {
        free_upload(upload);
    }
}

// Off the list, whose reference is the caller's now; whoever writes it gets no further.
static void take_off(struct tern_uploads *uploads, struct tern_upload *upload)
{
    atomic_fetch_add(&upload->turn, 1);
    set_kept(uploads, upload, false);
    unlink_upload(uploads, upload);
}

// Off the list and to those that free_dropped() is to free.
static void drop(struct tern_uploads *uploads, struct tern_upload *upload,
                 struct tern_upload **dropped)
{
    take_off(uploads, upload);
    upload->next = *dropped;
    *dropped = upload;
}

static void free_dropped(struct tern_uploads *uploads, struct tern_upload *dropped)
{
    while (dropped != NULL) {
        struct tern_upload *next = dropped->next;
        pthread_mutex_lock(&dropped->lock);
        tern_body_free(&dropped->body);
        pthread_mutex_unlock(&dropped->lock);
        release(uploads, dropped);
        dropped = next;
    }
}

static struct tern_upload *find(const struct tern_uploads *uploads, uint64_t owner)
{
    struct tern_upload *upload = uploads->first;
    while (upload != NULL && upload->owner != owner) {
        upload = upload->next;
    }
    return upload;
}

// Drops the one that has been kept longest. False: none is.
static bool drop_oldest(struct tern_uploads *uploads, struct tern_upload **dropped)
{
    struct tern_upload *upload = uploads->first;
    while (upload != NULL && !upload->kept) {
        upload = upload->next;
    }
    if (upload != NULL) {
        drop(uploads, upload, dropped);
    }
    return upload != NULL;
}

// Nobody writes it from now on.
static void keep(struct tern_uploads *uploads, struct tern_upload *upload,
                 struct tern_upload **dropped)
{
    atomic_fetch_add(&upload->turn, 1);
    set_kept(uploads, upload, true);
    unlink_upload(uploads, upload);
    append(uploads, upload);
    while (uploads->kept > uploads->most && drop_oldest(uploads, dropped)) {
    }
}

// --- All of them

void tern_uploads_free(struct tern_uploads *uploads)
{
    if (uploads == NULL) {
        return;
    }
    while (uploads->first != NULL) {
        struct tern_upload *upload = uploads->first;
        take_off(uploads, upload);
        tern_body_leave(&upload->body);
        release(uploads, upload);
    }
    pthread_mutex_destroy(&uploads->lock);
    free(uploads);
}

// Bytes in files of the bodies that could be dropped.
static uint64_t kept_bytes(struct tern_uploads *uploads)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&uploads->lock);
    for (const struct tern_upload *upload = uploads->first; upload != NULL; upload = upload->next) {
        bytes += upload->kept ? upload->body.disk : 0;
    }
    pthread_mutex_unlock(&uploads->lock);
    return bytes;
}

// Makes room, as far as kept bodies take it, for `more` bytes of a body in a file. Where all of them
// are not enough, none is dropped.
static void yield(struct tern_uploads *uploads, uint64_t more)
{
    struct tern_body_room *room = uploads->room;
    const uint64_t need = atomic_load(&room->disk_taken) + more;
    const uint64_t disk = atomic_load(&room->disk);
    bool dropped_one = need > disk && need - disk <= kept_bytes(uploads);
    while (dropped_one && atomic_load(&room->disk_taken) + more > disk) {
        struct tern_upload *dropped = NULL;
        pthread_mutex_lock(&uploads->lock);
        dropped_one = drop_oldest(uploads, &dropped);
        pthread_mutex_unlock(&uploads->lock);
        free_dropped(uploads, dropped);
    }
}

void tern_uploads_sweep(struct tern_uploads *uploads, uint64_t now_ms, uint64_t keep_ms,
                        const struct tern_http_handler *handler)
{
    struct tern_upload *dropped = NULL;
    pthread_mutex_lock(&uploads->lock);
    struct tern_upload *upload = uploads->first;
    while (upload != NULL) {
        struct tern_upload *next = upload->next;
        if (upload->kept) {
            const bool awaited = handler->awaits == NULL ||
                                 handler->awaits(handler->ctx, upload->owner, upload->path);
            upload->kept_since_ms = upload->kept_since_ms != 0 ? upload->kept_since_ms : now_ms;
            const uint64_t kept_ms = now_ms - upload->kept_since_ms + upload->kept_before_ms;
            if (!awaited || kept_ms >= keep_ms) {
                drop(uploads, upload, &dropped);
            }
        }
        upload = next;
    }
    pthread_mutex_unlock(&uploads->lock);
    free_dropped(uploads, dropped);
}

uint64_t tern_uploads_kept(struct tern_uploads *uploads)
{
    pthread_mutex_lock(&uploads->lock);
    const uint64_t kept = uploads->kept;
    pthread_mutex_unlock(&uploads->lock);
    return kept;
}

uint64_t tern_uploads_continued(struct tern_uploads *uploads)
{
    pthread_mutex_lock(&uploads->lock);
    const uint64_t continued = uploads->continued;
    pthread_mutex_unlock(&uploads->lock);
    return continued;
}

static uint64_t unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// --- One of them

static struct tern_upload *new_upload(const struct tern_uploads *uploads, uint64_t owner,
                                      const char *path, uint64_t total)
{
    const size_t path_size = strlen(path) + 1;
    struct tern_upload *upload = calloc(1, sizeof *upload + path_size);
    if (upload != NULL) {
        pthread_mutex_init(&upload->lock, NULL);
        tern_body_init(&upload->body, uploads->room);
        tern_sha256_init(&upload->hash);
        upload->owner = owner;
        upload->total = total;
        upload->references = 1; // the list's
        memcpy(upload->path, path, path_size);
        if (tern_upload_file_name(owner, total, path, upload->name)) {
            upload->body.name = upload->name;
        }
    }
    return upload;
}

// What is not long, or cannot be opened, goes. False: memory is short.
static bool add_found(struct tern_uploads *uploads, const struct tern_upload_file *file,
                      uint64_t now_ms)
{
    struct tern_upload *upload = new_upload(uploads, file->owner, file->path, file->total);
    if (upload == NULL) {
        return false;
    }
    const uint64_t len = file->size < file->total ? file->size : file->total - 1;
    if (file->total == 0 || len <= TERN_BODY_SHORT || len > UINT32_MAX ||
        !tern_body_find(&upload->body, file->file, (size_t)len)) {
        unlink(file->file);
        free_upload(upload);
        return true;
    }
    struct tern_upload *dropped = NULL;
    pthread_mutex_lock(&uploads->lock);
    struct tern_upload *old = find(uploads, file->owner);
    if (old != NULL) {
        drop(uploads, old, &dropped);
    }
    append(uploads, upload);
    keep(uploads, upload, &dropped);
    upload->kept_before_ms = now_ms > file->time_ms ? now_ms - file->time_ms : 0;
    upload->found = true;
    pthread_mutex_unlock(&uploads->lock);
    free_dropped(uploads, dropped);
    yield(uploads, 0);
    return true;
}

enum tern_result tern_uploads_find_again(struct tern_uploads *uploads)
{
    struct tern_upload_file *files;
    size_t count;
    bool added = true;
    if (uploads->room->folder == NULL) {
        return TERN_OK;
    }
    TERN_TRY(tern_upload_files_list(uploads->room->folder, &files, &count));
    const uint64_t now_ms = unix_ms();
    for (size_t i = 0; i < count && added; i++) {
        added = add_found(uploads, &files[i], now_ms);
    }
    tern_upload_files_free(files, count);
    return added ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// Puts a writer in the place of whoever writes it now.
static void give_turn(struct tern_uploads *uploads, struct tern_upload *upload,
                      struct tern_upload_writer *writer)
{
    set_kept(uploads, upload, false);
    upload->references++;
    *writer = (struct tern_upload_writer){uploads, upload, atomic_fetch_add(&upload->turn, 1) + 1};
}

static enum tern_result begin_anew(struct tern_uploads *uploads,
                                   const struct tern_upload_rest *rest,
                                   struct tern_upload_writer *writer)
{
    struct tern_upload *dropped = NULL;
    struct tern_upload *fresh = new_upload(uploads, rest->owner, rest->path, rest->total);
    if (fresh == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&uploads->lock);
    struct tern_upload *old = find(uploads, rest->owner);
    if (old != NULL) {
        drop(uploads, old, &dropped);
    }
    append(uploads, fresh);
    give_turn(uploads, fresh, writer);
    pthread_mutex_unlock(&uploads->lock);
    free_dropped(uploads, dropped);
    return TERN_OK;
}

// Whoever wrote it before is through with its last piece when the lock is had.
static bool goes_on_at(struct tern_upload *upload, uint64_t from)
{
    pthread_mutex_lock(&upload->lock);
    const bool right = upload->body.len == from && (!upload->found || upload->hash.length == from);
    pthread_mutex_unlock(&upload->lock);
    return right;
}

static enum tern_result go_on(struct tern_uploads *uploads, const struct tern_upload_rest *rest,
                              struct tern_upload_writer *writer)
{
    pthread_mutex_lock(&uploads->lock);
    struct tern_upload *upload = find(uploads, rest->owner);
    const bool same =
        upload != NULL && upload->total == rest->total && strcmp(upload->path, rest->path) == 0;
    if (same) {
        give_turn(uploads, upload, writer);
    }
    pthread_mutex_unlock(&uploads->lock);
    if (!same) {
        return TERN_ERR_STATE;
    }
    if (!goes_on_at(upload, rest->from)) {
        tern_upload_leave(writer);
        return TERN_ERR_STATE;
    }
    return TERN_OK;
}

enum tern_result tern_uploads_begin(struct tern_uploads *uploads,
                                    const struct tern_upload_rest *rest,
                                    struct tern_upload_writer *writer)
{
    struct tern_body_room *room = uploads->room;
    const uint64_t more = rest->total - rest->from;
    TERN_TRY(rest->from == 0 ? begin_anew(uploads, rest, writer) : go_on(uploads, rest, writer));
    yield(uploads, more);
    if (atomic_load(&room->disk_taken) + more > room->disk) {
        tern_upload_leave(writer);
        return TERN_ERR_BUSY;
    }
    pthread_mutex_lock(&uploads->lock);
    uploads->continued += rest->from > 0;
    pthread_mutex_unlock(&uploads->lock);
    return TERN_OK;
}

bool tern_upload_append(struct tern_upload_writer *writer, const void *data, size_t len)
{
    struct tern_upload *upload = writer->upload;
    yield(writer->uploads, len + TERN_BODY_SHORT); // in case it moves to a file now
    pthread_mutex_lock(&upload->lock);
    const bool appended = atomic_load(&upload->turn) == writer->turn &&
                          tern_body_append(&upload->body, data, len, (size_t)upload->total);
    pthread_mutex_unlock(&upload->lock);
    return appended;
}

bool tern_upload_take(struct tern_upload_writer *writer, struct tern_body *body)
{
    struct tern_uploads *uploads = writer->uploads;
    struct tern_upload *upload = writer->upload;
    pthread_mutex_lock(&uploads->lock);
    const bool mine = atomic_load(&upload->turn) == writer->turn;
    if (mine) {
        take_off(uploads, upload);
    }
    pthread_mutex_unlock(&uploads->lock);
    if (mine) {
        tern_body_free(body);
        pthread_mutex_lock(&upload->lock); // who was asked about it before may still be reading it
        *body = upload->body;
        upload->body = (struct tern_body){.spool = TERN_SPOOL_CLOSED};
        pthread_mutex_unlock(&upload->lock);
        release(uploads, upload); // the list's reference, and the writer's
        release(uploads, upload);
        *writer = (struct tern_upload_writer){0};
    }
    return mine;
}

void tern_upload_leave(struct tern_upload_writer *writer)
{
    struct tern_uploads *uploads = writer->uploads;
    struct tern_upload *upload = writer->upload;
    struct tern_upload *dropped = NULL;
    if (upload == NULL) {
        return;
    }
    pthread_mutex_lock(&uploads->lock);
    if (atomic_load(&upload->turn) == writer->turn) { // so nobody else looks at the body
        if (tern_body_is_in_file(&upload->body)) {
            keep(uploads, upload, &dropped);
        } else {
            drop(uploads, upload, &dropped);
        }
    }
    pthread_mutex_unlock(&uploads->lock);
    free_dropped(uploads, dropped);
    release(uploads, upload);
    *writer = (struct tern_upload_writer){0};
}

// Each byte is hashed once, however often it is asked for.
static bool hash_all(struct tern_upload *upload)
{
    uint8_t piece[HASH_PIECE];
    while (upload->hash.length < upload->body.len) {
        const size_t left = upload->body.len - (size_t)upload->hash.length;
        const size_t n = left < sizeof piece ? left : sizeof piece;
        if (!tern_spool_read(&upload->body.spool, (size_t)upload->hash.length, piece, n)) {
            return false;
        }
        tern_sha256_update(&upload->hash, piece, n);
    }
    return true;
}

// False: it is too short, was dropped meanwhile, or its file cannot be read.
static bool describe(struct tern_upload *upload, struct tern_http_unfinished *unfinished)
{
    pthread_mutex_lock(&upload->lock);
    const bool whole = upload->body.len > TERN_BODY_SHORT && hash_all(upload);
    struct tern_sha256 hash = upload->hash;
    unfinished->len = (uint32_t)upload->body.len;
    pthread_mutex_unlock(&upload->lock);
    tern_sha256_final(&hash, unfinished->sha256);
    return whole;
}

bool tern_uploads_find(struct tern_uploads *uploads, uint64_t owner, const char *path,
                       struct tern_http_unfinished *unfinished)
{
    struct tern_upload_writer writer = {0};
    pthread_mutex_lock(&uploads->lock);
    struct tern_upload *upload = find(uploads, owner);
    if (upload != NULL && strcmp(upload->path, path) == 0) {
        give_turn(uploads, upload, &writer);
    }
    pthread_mutex_unlock(&uploads->lock);
    if (writer.upload == NULL) {
        return false;
    }
    const bool found = describe(upload, unfinished);
    tern_upload_leave(&writer);
    return found;
}
