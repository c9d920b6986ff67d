#include "http/body.h"
#include "hosted/spool.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct tern_body_share {
    uint64_t owner;
    uint32_t references; // bodies; under the room's lock
    _Atomic uint64_t memory_taken;
};

// --- Room

struct tern_body_room *tern_body_room_new(const char *folder, uint64_t memory, uint64_t disk)
{
    struct tern_body_room *room = calloc(1, sizeof *room);
    if (room == NULL) {
        return NULL;
    }
    room->folder = folder != NULL ? strdup(folder) : NULL;
    if (folder != NULL && room->folder == NULL) {
        free(room);
        return NULL;
    }
    tern_body_room_limit(room, memory, disk);
    room->references = 1;
    pthread_mutex_init(&room->lock, NULL);
    return room;
}

void tern_body_room_limit(struct tern_body_room *room, uint64_t memory, uint64_t disk)
{
    atomic_store(&room->memory, memory);
    atomic_store(&room->disk, disk);
}

void tern_body_room_release(struct tern_body_room *room)
{
    if (room != NULL && atomic_fetch_sub(&room->references, 1) == 1) {
        pthread_mutex_destroy(&room->lock);
        free(room->folder);
        free(room);
    }
}

bool tern_body_is_long(const struct tern_body_room *room, uint64_t len)
{
    return room != NULL && room->folder != NULL && len > TERN_BODY_SHORT;
}

// False: other threads have taken the rest.
static bool count_up(_Atomic uint64_t *taken, uint64_t most, uint64_t more)
{
    if (atomic_fetch_add(taken, more) + more > most) {
        atomic_fetch_sub(taken, more);
        return false;
    }
    return true;
}

static uint64_t owner_memory(const struct tern_body_room *room)
{
    return room->folder != NULL ? TERN_BODY_OWNER_MEMORY : room->memory;
}

static bool count_memory(struct tern_body *body, uint64_t size)
{
    struct tern_body_room *room = body->room;
    struct tern_body_share *share = body->share;
    if (room == NULL || size <= TERN_BODY_UNCOUNTED) {
        return true;
    }
    const uint64_t more = size - body->memory;
    if (share != NULL && !count_up(&share->memory_taken, owner_memory(room), more)) {
        return false;
    }
    if (!count_up(&room->memory_taken, room->memory, more)) {
        if (share != NULL) {
            atomic_fetch_sub(&share->memory_taken, more);
        }
        return false;
    }
    body->memory = size;
    return true;
}

static void free_bytes(struct tern_body *body)
{
    free(body->bytes);
    body->bytes = NULL;
    body->size = 0;
    if (body->room != NULL) {
        atomic_fetch_sub(&body->room->memory_taken, body->memory);
        if (body->share != NULL) {
            atomic_fetch_sub(&body->share->memory_taken, body->memory);
        }
        body->memory = 0;
    }
}

// --- Shares

static int compare_owners(const void *a, const void *b)
{
    const struct tern_body_share *x = a;
    const struct tern_body_share *y = b;
    return (x->owner > y->owner) - (x->owner < y->owner);
}

// Requires the room's lock.
static struct tern_body_share *find_share(struct tern_body_room *room, uint64_t owner)
{
    const struct tern_body_share like = {.owner = owner};
    struct tern_body_share *const *at = tfind(&like, &room->shares, compare_owners);
    if (at != NULL) {
        return *at;
    }
    struct tern_body_share *share = calloc(1, sizeof *share);
    if (share == NULL) {
        return NULL;
    }
    share->owner = owner;
    if (tsearch(share, &room->shares, compare_owners) == NULL) {
        free(share);
        return NULL;
    }
    return share;
}

bool tern_body_own(struct tern_body *body, uint64_t owner)
{
    struct tern_body_room *room = body->room;
    if (room == NULL || owner == 0) {
        return true;
    }
    pthread_mutex_lock(&room->lock);
    body->share = find_share(room, owner);
    if (body->share != NULL) {
        body->share->references++;
    }
    pthread_mutex_unlock(&room->lock);
    return body->share != NULL;
}

static void leave_share(struct tern_body *body)
{
    struct tern_body_room *room = body->room;
    struct tern_body_share *share = body->share;
    if (share == NULL) {
        return;
    }
    pthread_mutex_lock(&room->lock);
    if (--share->references == 0) {
        (void)tdelete(share, &room->shares, compare_owners);
        free(share);
    }
    pthread_mutex_unlock(&room->lock);
}

// --- One body

void tern_body_init(struct tern_body *body, struct tern_body_room *room)
{
    *body = (struct tern_body){.room = room, .spool = TERN_SPOOL_CLOSED};
    if (room != NULL) {
        atomic_fetch_add(&room->references, 1);
    }
}

// Frees the body, but leaves a file with a name on disk.
static void leave_body(struct tern_body *body)
{
    free_bytes(body);
    tern_spool_leave(&body->spool);
    if (body->room != NULL) {
        atomic_fetch_sub(&body->room->disk_taken, body->disk);
        leave_share(body);
        tern_body_room_release(body->room);
    }
    *body = (struct tern_body){.spool = TERN_SPOOL_CLOSED};
}

void tern_body_free(struct tern_body *body)
{
    tern_spool_close(&body->spool);
    leave_body(body);
}

// Makes an empty body of the first `len` bytes of a file with a name, which an earlier process left in the room's
// folder. The body is counted even where the room is full. False: the file cannot be opened, and the body is unchanged.
static bool open_body(struct tern_body *body, const char *path, size_t len)
{
    if (!tern_spool_open_again(&body->spool, path, len)) {
        return false;
    }
    atomic_fetch_add(&body->room->disk_taken, len);
    body->disk = len;
    body->len = len;
    return true;
}

bool tern_body_fits(const struct tern_body *body, uint64_t len)
{
    const struct tern_body_room *room = body->room;
    if (room == NULL || len <= TERN_BODY_UNCOUNTED) {
        return true;
    }
    if (tern_body_is_long(room, len)) {
        return room->disk_taken + (len - body->disk) <= room->disk;
    }
    const uint64_t more = len - body->memory;
    return room->memory_taken + more <= room->memory &&
           (body->share == NULL || body->share->memory_taken + more <= owner_memory(room));
}

// Makes room for `need` bytes in memory: doubles the size each time, up to `most`.
static bool grow(struct tern_body *body, size_t need, size_t most)
{
    if (need <= body->size) {
        return true;
    }
    size_t size = body->size == 0 ? TERN_BODY_UNCOUNTED : body->size * 2;
    size = size < need ? need : size;
    size = size > most && most >= need ? most : size;
    uint8_t *bytes = count_memory(body, size) ? realloc(body->bytes, size) : NULL;
    if (bytes == NULL) {
        return false;
    }
    body->bytes = bytes;
    body->size = size;
    return true;
}

static bool append_to_file(struct tern_body *body, const void *data, size_t len)
{
    if (!count_up(&body->room->disk_taken, body->room->disk, len)) {
        return false;
    }
    if (!tern_spool_append(&body->spool, data, len)) {
        atomic_fetch_sub(&body->room->disk_taken, len);
        return false;
    }
    body->disk += len;
    return true;
}

static bool open_file(struct tern_body *body)
{
    const char *folder = body->room->folder;
    return body->name != NULL ? tern_spool_open_named(&body->spool, folder, body->name)
                              : tern_spool_open(&body->spool, folder);
}

// Moves the bytes to a file, which takes all later ones.
static bool move_to_file(struct tern_body *body)
{
    if (!open_file(body)) {
        return false;
    }
    if (!append_to_file(body, body->bytes, body->len)) {
        tern_spool_close(&body->spool);
        return false;
    }
    free_bytes(body);
    body->name = NULL;
    return true;
}

static bool append_to_memory(struct tern_body *body, const void *data, size_t len, size_t most)
{
    if (!grow(body, body->len + len, most)) {
        return false;
    }
    memcpy(body->bytes + body->len, data, len);
    return true;
}

bool tern_body_append(struct tern_body *body, const void *data, size_t len, size_t most)
{
    const bool in_file = tern_body_is_long(body->room, body->len + len);
    if (in_file && body->spool.fd < 0 && !move_to_file(body)) {
        return false;
    }
    if (in_file ? !append_to_file(body, data, len) : !append_to_memory(body, data, len, most)) {
        return false;
    }
    body->len += len;
    return true;
}

// Whether the file has all bytes of the body, also after an append that failed.
static bool is_in_file(const struct tern_body *body)
{
    return body->spool.fd >= 0 && body->spool.len == body->len;
}

const uint8_t *tern_body_view(struct tern_body *body)
{
    return body->spool.fd >= 0 ? tern_spool_view(&body->spool) : body->bytes;
}

void tern_body_rest(const struct tern_body *body)
{
    tern_spool_rest(&body->spool, 0, body->len);
}

// --- Files of uploads

// Files of uploads outlive the process. A file's name has the owner, the whole length and the path; the file's length
// tells how much has arrived, so that there is no record that could contradict it. The name is
// "OWNER-TOTAL-PATH-XXXXXX", with '%' for each '/' of the path: no path that is served has a '%' (request.c).
struct upload_file {
    char *file;       // its path on disk
    char *path;       // of the requests
    uint64_t owner;   // whose body it is
    uint64_t total;   // bytes of the whole
    uint64_t size;    // bytes of the file
    uint64_t time_ms; // of the last write, in Unix time
};

static void replace(char *text, char from, char to)
{
    for (; *text != '\0'; text++) {
        *text = *text == from ? to : *text;
    }
}

// Writes the beginning of the file's name (tern_spool_open_named()). False: the path is too long for one.
static bool name_file(uint64_t owner, uint64_t total, const char *path, char name[NAME_MAX + 1])
{
    const int len = snprintf(name, NAME_MAX + 1, "%" PRIu64 "-%" PRIu64 "-%s", owner, total, path);
    replace(name, '/', '%');
    return len > 0 && (size_t)len + TERN_SPOOL_SUFFIX <= NAME_MAX;
}

// Reads a number that ends with '-'. Returns the text behind it; NULL where there is none.
static const char *number_at(const char *text, uint64_t *number)
{
    const char *end = text != NULL ? tern_get_decimal(text, number) : NULL;
    return end != NULL && end != text && *end == '-' ? end + 1 : NULL;
}

// False: the file is no upload.
static bool parse_name(const char *name, struct upload_file *file, const char **path,
                       size_t *path_len)
{
    *path = number_at(number_at(name, &file->owner), &file->total);
    const char *suffix = *path != NULL ? strrchr(*path, '-') : NULL;
    if (suffix == NULL || strlen(suffix) != TERN_SPOOL_SUFFIX || **path != '%') {
        return false;
    }
    *path_len = (size_t)(suffix - *path);
    return true;
}

static int is_upload(const struct dirent *entry)
{
    struct upload_file file;
    const char *path;
    size_t path_len;
    return parse_name(entry->d_name, &file, &path, &path_len);
}

static bool read_file(const char *folder, const char *name, struct upload_file *file)
{
    struct stat status;
    const char *path;
    size_t path_len;
    const size_t size = strlen(folder) + strlen(name) + 2;
    file->file = malloc(size);
    if (file->file == NULL || !parse_name(name, file, &path, &path_len)) {
        return false;
    }
    snprintf(file->file, size, "%s/%s", folder, name);
    file->path = strndup(path, path_len);
    if (file->path == NULL) {
        return false;
    }
    replace(file->path, '%', '/');
    if (lstat(file->file, &status) == 0 && S_ISREG(status.st_mode)) { // else its size stays 0
        file->size = (uint64_t)status.st_size;
        file->time_ms =
            (uint64_t)status.st_mtim.tv_sec * 1000 + (uint64_t)status.st_mtim.tv_nsec / 1000000;
    }
    return true;
}

static int compare_times(const void *a, const void *b)
{
    const struct upload_file *x = a;
    const struct upload_file *y = b;
    return (x->time_ms > y->time_ms) - (x->time_ms < y->time_ms);
}

static void free_names(struct dirent **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

static void free_files(struct upload_file *files, size_t count)
{
    for (size_t i = 0; files != NULL && i < count; i++) {
        free(files[i].file);
        free(files[i].path);
    }
    free(files);
}

// Lists the uploads of a folder, in the order of their last write; skips other files. *files: for free_files(); both
// unchanged on error.
static enum tern_result list_files(const char *folder, struct upload_file **files, size_t *count)
{
    struct dirent **names;
    const int found = scandir(folder, &names, is_upload, NULL);
    if (found < 0) {
        return errno == ENOMEM ? TERN_ERR_NO_MEMORY : TERN_ERR_IO;
    }
    const size_t n = (size_t)found;
    struct upload_file *list = calloc(n + 1, sizeof *list);
    bool filled = list != NULL;
    for (size_t i = 0; i < n && filled; i++) {
        filled = read_file(folder, names[i]->d_name, &list[i]);
    }
    free_names(names, n);
    if (!filled) {
        free_files(list, n);
        return TERN_ERR_NO_MEMORY;
    }
    qsort(list, n, sizeof *list, compare_times);
    *files = list;
    *count = n;
    return TERN_OK;
}

// --- Uploads

// One lock guards the list of all bodies; a lock for each body guards its bytes, so that a slow disk and a hash over
// many bytes delay no other body. Increasing a body's turn ends its writer: bytes that are appended under an old turn
// are refused. The bytes of a dropped body are freed at once, because its writer may be silent for a long time.

#define HASH_PIECE 16384u

_Static_assert(sizeof((struct tern_http_unfinished *)0)->sha256 == TERN_SHA256_SIZE, "one hash");

struct tern_upload {
    // Under the list's lock.
    struct tern_upload *next;  // in the list, or among the dropped ones
    struct tern_upload **link; // the pointer that points here
    uint32_t references;       // by the list, by writers and by readers
    bool kept;                 // it has no writer
    uint64_t kept_since_ms;    // 0: since the last sweep
    uint64_t kept_before_ms;   // how long an earlier process had kept it

    _Atomic uint64_t turn; // increased under the list's lock

    pthread_mutex_t lock; // guards what follows
    struct tern_body body;
    struct tern_sha256 hash; // over the first bytes, up to the last tern_uploads_find()

    uint64_t owner;
    uint64_t total;
    bool found; // an earlier process wrote the first bytes
    char name[NAME_MAX + 1];
    char path[];
};

struct tern_uploads {
    pthread_mutex_t lock;
    struct tern_body_room *room;
    uint32_t most;
    uint32_t kept;
    uint64_t continued;
    struct tern_upload *first; // the kept ones in the order in which their writers left
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

// These functions require the list's lock, except release() and free_dropped().

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

// Drops a reference; frees the upload, without a lock, when it was the last.
static void release(struct tern_uploads *uploads, struct tern_upload *upload)
{
    pthread_mutex_lock(&uploads->lock);
    const bool last = --upload->references == 0;
    pthread_mutex_unlock(&uploads->lock);
    if (last) {
        free_upload(upload);
    }
}

// Removes the upload from the list and ends its writer; the caller takes over the list's reference.
static void remove_upload(struct tern_uploads *uploads, struct tern_upload *upload)
{
    atomic_fetch_add(&upload->turn, 1);
    set_kept(uploads, upload, false);
    unlink_upload(uploads, upload);
}

// Moves the upload from the list to those that free_dropped() frees.
static void drop(struct tern_uploads *uploads, struct tern_upload *upload,
                 struct tern_upload **dropped)
{
    remove_upload(uploads, upload);
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

// Drops the upload that has been kept longest. False: none is kept.
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

// Ends the writer and keeps the bytes.
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

void tern_uploads_free(struct tern_uploads *uploads)
{
    if (uploads == NULL) {
        return;
    }
    while (uploads->first != NULL) {
        struct tern_upload *upload = uploads->first;
        remove_upload(uploads, upload);
        leave_body(&upload->body);
        release(uploads, upload);
    }
    pthread_mutex_destroy(&uploads->lock);
    free(uploads);
}

// Returns how many bytes of files could be freed by dropping all kept bodies.
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

// Drops the oldest kept bodies until `more` bytes of another body fit on disk. Drops none where all of them would not
// make enough room.
static void make_room(struct tern_uploads *uploads, uint64_t more)
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
        if (name_file(owner, total, path, upload->name)) {
            upload->body.name = upload->name;
        }
    }
    return upload;
}

// Adds a body of an earlier process to the list; removes a file that is short or cannot be opened. False: memory is
// short.
static bool add_found(struct tern_uploads *uploads, const struct upload_file *file, uint64_t now_ms)
{
    struct tern_upload *upload = new_upload(uploads, file->owner, file->path, file->total);
    if (upload == NULL) {
        return false;
    }
    const uint64_t len = file->size < file->total ? file->size : file->total - 1;
    if (file->total == 0 || len <= TERN_BODY_SHORT || len > UINT32_MAX ||
        !open_body(&upload->body, file->file, (size_t)len)) {
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
    make_room(uploads, 0);
    return true;
}

enum tern_result tern_uploads_load(struct tern_uploads *uploads)
{
    struct upload_file *files;
    size_t count;
    bool added = true;
    if (uploads->room->folder == NULL) {
        return TERN_OK;
    }
    TERN_TRY(list_files(uploads->room->folder, &files, &count));
    const uint64_t now_ms = unix_ms();
    for (size_t i = 0; i < count && added; i++) {
        added = add_found(uploads, &files[i], now_ms);
    }
    free_files(files, count);
    return added ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// Replaces the upload's writer.
static void set_writer(struct tern_uploads *uploads, struct tern_upload *upload,
                       struct tern_upload_writer *writer)
{
    set_kept(uploads, upload, false);
    upload->references++;
    *writer = (struct tern_upload_writer){uploads, upload, atomic_fetch_add(&upload->turn, 1) + 1};
}

static enum tern_result begin_upload(struct tern_uploads *uploads,
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
    set_writer(uploads, fresh, writer);
    pthread_mutex_unlock(&uploads->lock);
    free_dropped(uploads, dropped);
    return TERN_OK;
}

// Waits for the lock, and so for the last append of an earlier writer.
static bool continues_at(struct tern_upload *upload, uint64_t from)
{
    pthread_mutex_lock(&upload->lock);
    const bool right = upload->body.len == from && (!upload->found || upload->hash.length == from);
    pthread_mutex_unlock(&upload->lock);
    return right;
}

static enum tern_result continue_upload(struct tern_uploads *uploads,
                                        const struct tern_upload_rest *rest,
                                        struct tern_upload_writer *writer)
{
    pthread_mutex_lock(&uploads->lock);
    struct tern_upload *upload = find(uploads, rest->owner);
    const bool same =
        upload != NULL && upload->total == rest->total && strcmp(upload->path, rest->path) == 0;
    if (same) {
        set_writer(uploads, upload, writer);
    }
    pthread_mutex_unlock(&uploads->lock);
    if (!same) {
        return TERN_ERR_STATE;
    }
    if (!continues_at(upload, rest->from)) {
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
    TERN_TRY(rest->from == 0 ? begin_upload(uploads, rest, writer)
                             : continue_upload(uploads, rest, writer));
    make_room(uploads, more);
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
    make_room(writer->uploads, len + TERN_BODY_SHORT); // the body may move to a file now
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
        remove_upload(uploads, upload);
    }
    pthread_mutex_unlock(&uploads->lock);
    if (mine) {
        tern_body_free(body);
        pthread_mutex_lock(&upload->lock); // tern_uploads_find() may still read it
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
    if (atomic_load(&upload->turn) == writer->turn) { // no other thread uses the body
        if (is_in_file(&upload->body)) {
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

// Hashes the bytes that are not hashed yet.
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

// False: the body is short, has been dropped, or its file cannot be read.
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
        set_writer(uploads, upload, &writer);
    }
    pthread_mutex_unlock(&uploads->lock);
    if (writer.upload == NULL) {
        return false;
    }
    const bool found = describe(upload, unfinished);
    tern_upload_leave(&writer);
    return found;
}
