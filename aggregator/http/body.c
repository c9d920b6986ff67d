#include "http/body.h"
#include "hosted/system.h"
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
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

// Limits the memory of all bodies of one owner.
struct tern_owner_quota {
    uint64_t owner;
    uint32_t references; // by bodies; guarded by the quota's lock
    _Atomic uint64_t memory_taken;
};

// --- Quotas

struct tern_body_quota *tern_body_quota_new(const char *folder, uint64_t memory, uint64_t disk)
{
    struct tern_body_quota *quota = calloc(1, sizeof *quota);
    if (quota == NULL) {
        return NULL;
    }
    quota->folder = folder != NULL ? strdup(folder) : NULL;
    if (folder != NULL && quota->folder == NULL) {
        free(quota);
        return NULL;
    }
    quota->memory = memory;
    quota->disk = disk;
    quota->references = 1;
    pthread_mutex_init(&quota->lock, NULL);
    return quota;
}

void tern_body_quota_release(struct tern_body_quota *quota)
{
    if (quota != NULL && atomic_fetch_sub(&quota->references, 1) == 1) {
        pthread_mutex_destroy(&quota->lock);
        free(quota->folder);
        free(quota);
    }
}

// Whether a body of `len` bytes goes into a file.
static bool is_long(const struct tern_body_quota *quota, uint64_t len)
{
    return quota != NULL && quota->folder != NULL && len > TERN_BODY_SHORT;
}

// Adds `more` to *taken. False: the sum would exceed `limit`.
static bool reserve(_Atomic uint64_t *taken, uint64_t limit, uint64_t more)
{
    if (atomic_fetch_add(taken, more) + more > limit) {
        atomic_fetch_sub(taken, more);
        return false;
    }
    return true;
}

static uint64_t owner_memory(const struct tern_body_quota *quota)
{
    return quota->folder != NULL ? TERN_BODY_OWNER_MEMORY : quota->memory;
}

static bool reserve_memory(struct tern_body *body, uint64_t size)
{
    struct tern_body_quota *quota = body->quota;
    struct tern_owner_quota *owner_quota = body->owner_quota;
    if (quota == NULL || size <= TERN_BODY_UNCOUNTED) {
        return true;
    }
    const uint64_t more = size - body->memory;
    if (owner_quota != NULL && !reserve(&owner_quota->memory_taken, owner_memory(quota), more)) {
        return false;
    }
    if (!reserve(&quota->memory_taken, quota->memory, more)) {
        if (owner_quota != NULL) {
            atomic_fetch_sub(&owner_quota->memory_taken, more);
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
    if (body->quota != NULL) {
        atomic_fetch_sub(&body->quota->memory_taken, body->memory);
        if (body->owner_quota != NULL) {
            atomic_fetch_sub(&body->owner_quota->memory_taken, body->memory);
        }
        body->memory = 0;
    }
}

// --- Quotas of owners

static int compare_owners(const void *a, const void *b)
{
    const struct tern_owner_quota *x = a;
    const struct tern_owner_quota *y = b;
    return (x->owner > y->owner) - (x->owner < y->owner);
}

// Requires the quota's lock.
static struct tern_owner_quota *find_owner_quota(struct tern_body_quota *quota, uint64_t owner)
{
    const struct tern_owner_quota key = {.owner = owner};
    struct tern_owner_quota *const *at = tfind(&key, &quota->owner_quotas, compare_owners);
    if (at != NULL) {
        return *at;
    }
    struct tern_owner_quota *owner_quota = calloc(1, sizeof *owner_quota);
    if (owner_quota == NULL) {
        return NULL;
    }
    owner_quota->owner = owner;
    if (tsearch(owner_quota, &quota->owner_quotas, compare_owners) == NULL) {
        free(owner_quota);
        return NULL;
    }
    return owner_quota;
}

bool tern_body_set_owner(struct tern_body *body, uint64_t owner)
{
    struct tern_body_quota *quota = body->quota;
    if (quota == NULL || owner == 0) {
        return true;
    }
    pthread_mutex_lock(&quota->lock);
    body->owner_quota = find_owner_quota(quota, owner);
    if (body->owner_quota != NULL) {
        body->owner_quota->references++;
    }
    pthread_mutex_unlock(&quota->lock);
    return body->owner_quota != NULL;
}

static void leave_owner_quota(struct tern_body *body)
{
    struct tern_body_quota *quota = body->quota;
    struct tern_owner_quota *owner_quota = body->owner_quota;
    if (owner_quota == NULL) {
        return;
    }
    pthread_mutex_lock(&quota->lock);
    if (--owner_quota->references == 0) {
        (void)tdelete(owner_quota, &quota->owner_quotas, compare_owners);
        free(owner_quota);
    }
    pthread_mutex_unlock(&quota->lock);
}

// --- One body

void tern_body_init(struct tern_body *body, struct tern_body_quota *quota)
{
    *body = (struct tern_body){.quota = quota, .spool = TERN_SPOOL_CLOSED};
    if (quota != NULL) {
        atomic_fetch_add(&quota->references, 1);
    }
}

// Frees the body, but leaves a named file on disk.
static void detach_body(struct tern_body *body)
{
    free_bytes(body);
    tern_spool_close_and_keep(&body->spool);
    if (body->quota != NULL) {
        atomic_fetch_sub(&body->quota->disk_taken, body->disk);
        leave_owner_quota(body);
        tern_body_quota_release(body->quota);
    }
    *body = (struct tern_body){.spool = TERN_SPOOL_CLOSED};
}

void tern_body_free(struct tern_body *body)
{
    tern_spool_close(&body->spool);
    detach_body(body);
}

// Opens the first `len` bytes of a file that an earlier process left in the folder, as the content of an empty body.
// Counts the body even if the quota is used up. False: the file cannot be opened; the body is unchanged.
static bool open_body(struct tern_body *body, const char *path, size_t len)
{
    if (!tern_spool_reopen(&body->spool, path, len)) {
        return false;
    }
    atomic_fetch_add(&body->quota->disk_taken, len);
    body->disk = len;
    body->len = len;
    return true;
}

bool tern_body_fits(const struct tern_body *body, uint64_t len)
{
    const struct tern_body_quota *quota = body->quota;
    if (quota == NULL || len <= TERN_BODY_UNCOUNTED) {
        return true;
    }
    if (is_long(quota, len)) {
        return quota->disk_taken + (len - body->disk) <= quota->disk;
    }
    const uint64_t more = len - body->memory;
    return quota->memory_taken + more <= quota->memory &&
           (body->owner_quota == NULL ||
            body->owner_quota->memory_taken + more <= owner_memory(quota));
}

// Allocates memory for `need` bytes: doubles the size each time, up to `limit`.
static bool grow(struct tern_body *body, size_t need, size_t limit)
{
    if (need <= body->size) {
        return true;
    }
    size_t size = body->size == 0 ? TERN_BODY_UNCOUNTED : body->size * 2;
    size = size < need ? need : size;
    size = size > limit && limit >= need ? limit : size;
    uint8_t *bytes = reserve_memory(body, size) ? realloc(body->bytes, size) : NULL;
    if (bytes == NULL) {
        return false;
    }
    body->bytes = bytes;
    body->size = size;
    return true;
}

static bool append_to_file(struct tern_body *body, const void *data, size_t len)
{
    if (!reserve(&body->quota->disk_taken, body->quota->disk, len)) {
        return false;
    }
    if (!tern_spool_append(&body->spool, data, len)) {
        atomic_fetch_sub(&body->quota->disk_taken, len);
        return false;
    }
    body->disk += len;
    return true;
}

// Moves the bytes from memory to a file. Later bytes are appended to the file.
static bool move_to_file(struct tern_body *body)
{
    const char *folder = body->quota->folder;
    const bool opened = body->name != NULL ? tern_spool_open_named(&body->spool, folder, body->name)
                                           : tern_spool_open(&body->spool, folder);
    if (!opened) {
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

static bool append_to_memory(struct tern_body *body, const void *data, size_t len, size_t limit)
{
    if (!grow(body, body->len + len, limit)) {
        return false;
    }
    memcpy(body->bytes + body->len, data, len);
    return true;
}

bool tern_body_append(struct tern_body *body, const void *data, size_t len, size_t limit)
{
    const bool in_file = is_long(body->quota, body->len + len);
    if (in_file && body->spool.fd < 0 && !move_to_file(body)) {
        return false;
    }
    if (in_file ? !append_to_file(body, data, len) : !append_to_memory(body, data, len, limit)) {
        return false;
    }
    body->len += len;
    return true;
}

// Whether the whole body is in the file. An append that fails leaves the length of the file as it was.
static bool is_in_file(const struct tern_body *body)
{
    return body->spool.fd >= 0 && body->spool.len == body->len;
}

const uint8_t *tern_body_view(struct tern_body *body)
{
    return body->spool.fd >= 0 ? tern_spool_view(&body->spool) : body->bytes;
}

void tern_body_evict(const struct tern_body *body)
{
    tern_spool_drop_pages(&body->spool, 0, body->len);
}

// --- Files of uploads

// Files of uploads outlive the process. A file's name is "OWNER-TOTAL-PATH-XXXXXX", with '%' for each '/' of the request's
// path, which has no '%' itself (request.c). The file's length is the number of bytes that have arrived, so that no other
// record can contradict it.
struct upload_file {
    char *file; // path on disk
    char *path; // of the requests
    uint64_t owner;
    uint64_t total;   // length of the whole body
    uint64_t size;    // length of the file
    uint64_t time_ms; // last write, in Unix time
};

static void replace(char *text, char from, char to)
{
    for (; *text != '\0'; text++) {
        *text = *text == from ? to : *text;
    }
}

// Writes the file's name without its suffix (tern_spool_open_named()). False: the path is too long.
static bool name_file(uint64_t owner, uint64_t total, const char *path, char name[NAME_MAX + 1])
{
    const int len = snprintf(name, NAME_MAX + 1, "%" PRIu64 "-%" PRIu64 "-%s", owner, total, path);
    replace(name, '/', '%');
    return len > 0 && (size_t)len + TERN_SPOOL_SUFFIX <= NAME_MAX;
}

// Reads a decimal number that is followed by '-'. Returns the text after the '-'; NULL if the text has another form.
static const char *number_at(const char *text, uint64_t *number)
{
    const char *end = text != NULL ? tern_get_decimal(text, number) : NULL;
    return end != NULL && end != text && *end == '-' ? end + 1 : NULL;
}

// False: the name is not that of an upload.
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
    if (lstat(file->file, &status) == 0 && S_ISREG(status.st_mode)) { // otherwise its size stays 0
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

// Lists the uploads of a folder in the order of their last write; skips other files. *files: free it by free_files().
// On an error *files and *count are unchanged.
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

// One lock guards the list of all bodies. Each body has a lock for its bytes, so that a slow disk or a long hash delays no
// other body. Increasing a body's generation ends its writer, whose later bytes are refused. The bytes of a dropped body
// are freed at once, because its writer may send nothing for a long time.

#define HASH_PIECE 16384u

_Static_assert(sizeof((struct tern_http_unfinished *)0)->sha256 == TERN_SHA256_SIZE, "one hash");

TAILQ_HEAD(upload_list, tern_upload);

struct tern_upload {
    // Guarded by the list's lock.
    TAILQ_ENTRY(tern_upload) link;  // in tern_uploads.list, or in a list of dropped uploads
    uint32_t references;            // by the list, by writers and by readers
    bool interrupted;               // the connection broke; the upload has no writer
    uint64_t interrupted_since_ms;  // time of the first sweep after the interruption; 0 = none yet
    uint64_t interrupted_before_ms; // time between the interruption and the start of this process
    _Atomic uint64_t generation;    // of the present writer; any thread can read it

    pthread_mutex_t lock; // guards `body` and `hash`
    struct tern_body body;
    struct tern_sha256 hash; // over the bytes that had arrived at the last tern_uploads_find()

    // Constant.
    uint64_t owner;
    uint64_t total;
    bool found; // an earlier process wrote the first bytes
    char name[NAME_MAX + 1];
    char path[];
};

struct tern_uploads {
    pthread_mutex_t lock;
    struct tern_body_quota *quota;
    uint32_t limit;
    uint32_t interrupted;
    uint64_t continued;
    struct upload_list list; // interrupted uploads are in the order of their interruption
};

struct tern_uploads *tern_uploads_new(struct tern_body_quota *quota, uint32_t limit)
{
    struct tern_uploads *uploads = calloc(1, sizeof *uploads);
    if (uploads != NULL) {
        pthread_mutex_init(&uploads->lock, NULL);
        uploads->quota = quota;
        uploads->limit = limit;
        TAILQ_INIT(&uploads->list);
    }
    return uploads;
}

// The following functions up to interrupt() require tern_uploads.lock, except release() and free_dropped().

static void set_interrupted(struct tern_uploads *uploads, struct tern_upload *upload,
                            bool interrupted)
{
    uploads->interrupted += interrupted && !upload->interrupted ? 1 : 0;
    uploads->interrupted -= !interrupted && upload->interrupted ? 1 : 0;
    upload->interrupted = interrupted;
    upload->interrupted_since_ms = 0;
    upload->interrupted_before_ms = 0;
}

static void free_upload(struct tern_upload *upload)
{
    tern_body_free(&upload->body);
    pthread_mutex_destroy(&upload->lock);
    free(upload);
}

// Drops a reference. The last one frees the upload, after the lock is released.
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
    atomic_fetch_add(&upload->generation, 1);
    set_interrupted(uploads, upload, false);
    TAILQ_REMOVE(&uploads->list, upload, link);
}

// Moves the upload to `dropped`, for free_dropped().
static void drop(struct tern_uploads *uploads, struct tern_upload *upload,
                 struct upload_list *dropped)
{
    remove_upload(uploads, upload);
    TAILQ_INSERT_TAIL(dropped, upload, link);
}

static void free_dropped(struct tern_uploads *uploads, struct upload_list *dropped)
{
    struct tern_upload *upload;
    while ((upload = TAILQ_FIRST(dropped)) != NULL) {
        TAILQ_REMOVE(dropped, upload, link);
        pthread_mutex_lock(&upload->lock);
        tern_body_free(&upload->body);
        pthread_mutex_unlock(&upload->lock);
        release(uploads, upload);
    }
}

static struct tern_upload *find(const struct tern_uploads *uploads, uint64_t owner)
{
    struct tern_upload *upload = TAILQ_FIRST(&uploads->list);
    while (upload != NULL && upload->owner != owner) {
        upload = TAILQ_NEXT(upload, link);
    }
    return upload;
}

// Replaces the owner's upload by `upload`.
static void insert(struct tern_uploads *uploads, struct tern_upload *upload,
                   struct upload_list *dropped)
{
    struct tern_upload *old = find(uploads, upload->owner);
    if (old != NULL) {
        drop(uploads, old, dropped);
    }
    TAILQ_INSERT_TAIL(&uploads->list, upload, link);
}

// Drops the upload whose interruption is the oldest. False: no upload is interrupted.
static bool drop_oldest(struct tern_uploads *uploads, struct upload_list *dropped)
{
    struct tern_upload *upload = TAILQ_FIRST(&uploads->list);
    while (upload != NULL && !upload->interrupted) {
        upload = TAILQ_NEXT(upload, link);
    }
    if (upload != NULL) {
        drop(uploads, upload, dropped);
    }
    return upload != NULL;
}

// Ends the writer but retains the bytes. Drops the oldest interrupted uploads beyond the limit.
static void interrupt(struct tern_uploads *uploads, struct tern_upload *upload,
                      struct upload_list *dropped)
{
    atomic_fetch_add(&upload->generation, 1);
    set_interrupted(uploads, upload, true);
    TAILQ_REMOVE(&uploads->list, upload, link);
    TAILQ_INSERT_TAIL(&uploads->list, upload, link);
    while (uploads->interrupted > uploads->limit && drop_oldest(uploads, dropped)) {
    }
}

void tern_uploads_free(struct tern_uploads *uploads)
{
    if (uploads == NULL) {
        return;
    }
    struct tern_upload *upload;
    while ((upload = TAILQ_FIRST(&uploads->list)) != NULL) {
        remove_upload(uploads, upload);
        detach_body(&upload->body);
        release(uploads, upload);
    }
    pthread_mutex_destroy(&uploads->lock);
    free(uploads);
}

// Returns the bytes on disk of all interrupted uploads.
static uint64_t interrupted_bytes(struct tern_uploads *uploads)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&uploads->lock);
    for (const struct tern_upload *upload = TAILQ_FIRST(&uploads->list); upload != NULL;
         upload = TAILQ_NEXT(upload, link)) {
        bytes += upload->interrupted ? upload->body.disk : 0;
    }
    pthread_mutex_unlock(&uploads->lock);
    return bytes;
}

// Drops the oldest interrupted uploads until `more` bytes fit on disk. Drops no upload if all of them together would
// not be enough.
static void free_disk(struct tern_uploads *uploads, uint64_t more)
{
    struct tern_body_quota *quota = uploads->quota;
    const uint64_t need = atomic_load(&quota->disk_taken) + more;
    const uint64_t disk = atomic_load(&quota->disk);
    bool dropped_one = need > disk && need - disk <= interrupted_bytes(uploads);
    while (dropped_one && atomic_load(&quota->disk_taken) + more > disk) {
        struct upload_list dropped = TAILQ_HEAD_INITIALIZER(dropped);
        pthread_mutex_lock(&uploads->lock);
        dropped_one = drop_oldest(uploads, &dropped);
        pthread_mutex_unlock(&uploads->lock);
        free_dropped(uploads, &dropped);
    }
}

void tern_uploads_sweep(struct tern_uploads *uploads, uint64_t now_ms, uint64_t retain_ms,
                        const struct tern_http_handler *handler)
{
    struct upload_list dropped = TAILQ_HEAD_INITIALIZER(dropped);
    pthread_mutex_lock(&uploads->lock);
    struct tern_upload *upload = TAILQ_FIRST(&uploads->list);
    while (upload != NULL) {
        struct tern_upload *next = TAILQ_NEXT(upload, link);
        if (upload->interrupted) {
            const bool expected =
                handler->expects_upload == NULL ||
                handler->expects_upload(handler->ctx, upload->owner, upload->path);
            upload->interrupted_since_ms =
                upload->interrupted_since_ms != 0 ? upload->interrupted_since_ms : now_ms;
            const uint64_t interrupted_ms =
                now_ms - upload->interrupted_since_ms + upload->interrupted_before_ms;
            if (!expected || interrupted_ms >= retain_ms) {
                drop(uploads, upload, &dropped);
            }
        }
        upload = next;
    }
    pthread_mutex_unlock(&uploads->lock);
    free_dropped(uploads, &dropped);
}

void tern_uploads_count(struct tern_uploads *uploads, struct tern_http_counters *counters)
{
    counters->body_memory = uploads->quota->memory_taken;
    counters->body_disk = uploads->quota->disk_taken;
    pthread_mutex_lock(&uploads->lock);
    counters->bodies_unfinished = uploads->interrupted;
    counters->bodies_continued = uploads->continued;
    pthread_mutex_unlock(&uploads->lock);
}

static struct tern_upload *new_upload(const struct tern_uploads *uploads, uint64_t owner,
                                      const char *path, uint64_t total)
{
    const size_t path_size = strlen(path) + 1;
    struct tern_upload *upload = calloc(1, sizeof *upload + path_size);
    if (upload != NULL) {
        pthread_mutex_init(&upload->lock, NULL);
        tern_body_init(&upload->body, uploads->quota);
        tern_sha256_init(&upload->hash);
        upload->owner = owner;
        upload->total = total;
        upload->references = 1; // by the list
        memcpy(upload->path, path, path_size);
        if (name_file(owner, total, path, upload->name)) {
            upload->body.name = upload->name;
        }
    }
    return upload;
}

// Adds an upload that an earlier process received in part. Deletes the file if it is short or cannot be opened. False:
// memory is short.
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
    struct upload_list dropped = TAILQ_HEAD_INITIALIZER(dropped);
    pthread_mutex_lock(&uploads->lock);
    insert(uploads, upload, &dropped);
    interrupt(uploads, upload, &dropped);
    upload->interrupted_before_ms = now_ms > file->time_ms ? now_ms - file->time_ms : 0;
    upload->found = true;
    pthread_mutex_unlock(&uploads->lock);
    free_dropped(uploads, &dropped);
    free_disk(uploads, 0);
    return true;
}

enum tern_result tern_uploads_load(struct tern_uploads *uploads)
{
    struct upload_file *files;
    size_t count;
    bool added = true;
    if (uploads->quota->folder == NULL) {
        return TERN_OK;
    }
    TERN_TRY(list_files(uploads->quota->folder, &files, &count));
    const uint64_t now_ms = tern_unix_ms();
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
    set_interrupted(uploads, upload, false);
    upload->references++;
    *writer =
        (struct tern_upload_writer){uploads, upload, atomic_fetch_add(&upload->generation, 1) + 1};
}

static enum tern_result begin_upload(struct tern_uploads *uploads,
                                     const struct tern_upload_part *part,
                                     struct tern_upload_writer *writer)
{
    struct upload_list dropped = TAILQ_HEAD_INITIALIZER(dropped);
    struct tern_upload *upload = new_upload(uploads, part->owner, part->path, part->total);
    if (upload == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&uploads->lock);
    insert(uploads, upload, &dropped);
    set_writer(uploads, upload, writer);
    pthread_mutex_unlock(&uploads->lock);
    free_dropped(uploads, &dropped);
    return TERN_OK;
}

// Whether the next byte of the upload is byte `from`. Takes upload->lock, and so waits for the last append of an
// earlier writer.
static bool continues_at(struct tern_upload *upload, uint64_t from)
{
    pthread_mutex_lock(&upload->lock);
    const bool right = upload->body.len == from && (!upload->found || upload->hash.length == from);
    pthread_mutex_unlock(&upload->lock);
    return right;
}

static enum tern_result continue_upload(struct tern_uploads *uploads,
                                        const struct tern_upload_part *part,
                                        struct tern_upload_writer *writer)
{
    pthread_mutex_lock(&uploads->lock);
    struct tern_upload *upload = find(uploads, part->owner);
    const bool same =
        upload != NULL && upload->total == part->total && strcmp(upload->path, part->path) == 0;
    if (same) {
        set_writer(uploads, upload, writer);
    }
    pthread_mutex_unlock(&uploads->lock);
    if (!same) {
        return TERN_ERR_STATE;
    }
    if (!continues_at(upload, part->from)) {
        tern_upload_end(writer);
        return TERN_ERR_STATE;
    }
    return TERN_OK;
}

enum tern_result tern_uploads_begin(struct tern_uploads *uploads,
                                    const struct tern_upload_part *part,
                                    struct tern_upload_writer *writer)
{
    struct tern_body_quota *quota = uploads->quota;
    const uint64_t more = part->total - part->from;
    TERN_TRY(part->from == 0 ? begin_upload(uploads, part, writer)
                             : continue_upload(uploads, part, writer));
    free_disk(uploads, more);
    if (atomic_load(&quota->disk_taken) + more > quota->disk) {
        tern_upload_end(writer);
        return TERN_ERR_BUSY;
    }
    pthread_mutex_lock(&uploads->lock);
    uploads->continued += part->from > 0;
    pthread_mutex_unlock(&uploads->lock);
    return TERN_OK;
}

bool tern_upload_append(struct tern_upload_writer *writer, const void *data, size_t len)
{
    struct tern_upload *upload = writer->upload;
    free_disk(writer->uploads,
              len + TERN_BODY_SHORT); // an append may also move bytes from memory to a file
    pthread_mutex_lock(&upload->lock);
    const bool appended = atomic_load(&upload->generation) == writer->generation &&
                          tern_body_append(&upload->body, data, len, (size_t)upload->total);
    pthread_mutex_unlock(&upload->lock);
    return appended;
}

bool tern_upload_take(struct tern_upload_writer *writer, struct tern_body *body)
{
    struct tern_uploads *uploads = writer->uploads;
    struct tern_upload *upload = writer->upload;
    pthread_mutex_lock(&uploads->lock);
    const bool mine = atomic_load(&upload->generation) == writer->generation;
    if (mine) {
        remove_upload(uploads, upload);
    }
    pthread_mutex_unlock(&uploads->lock);
    if (mine) {
        tern_body_free(body);
        pthread_mutex_lock(&upload->lock); // tern_uploads_find() may still read upload->body
        *body = upload->body;
        upload->body = (struct tern_body){.spool = TERN_SPOOL_CLOSED};
        pthread_mutex_unlock(&upload->lock);
        release(uploads, upload); // one reference of the list, one of the writer
        release(uploads, upload);
        *writer = (struct tern_upload_writer){0};
    }
    return mine;
}

void tern_upload_end(struct tern_upload_writer *writer)
{
    struct tern_uploads *uploads = writer->uploads;
    struct tern_upload *upload = writer->upload;
    struct upload_list dropped = TAILQ_HEAD_INITIALIZER(dropped);
    if (upload == NULL) {
        return;
    }
    pthread_mutex_lock(&uploads->lock);
    if (atomic_load(&upload->generation) ==
        writer->generation) { // so no other thread uses upload->body
        if (is_in_file(&upload->body)) {
            interrupt(uploads, upload, &dropped);
        } else {
            drop(uploads, upload, &dropped);
        }
    }
    pthread_mutex_unlock(&uploads->lock);
    free_dropped(uploads, &dropped);
    release(uploads, upload);
    *writer = (struct tern_upload_writer){0};
}

// Adds the bytes that arrived since the last call to the hash.
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

// Fills the length and hash of the received bytes. False: the body is short, was dropped, or its file cannot be read.
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
    tern_upload_end(&writer);
    return found;
}

// --- All bodies of a server

enum tern_result tern_uploads_open(const char *folder, const struct tern_http_limits *limits,
                                   struct tern_uploads **out, char why[256])
{
    struct tern_body_quota *quota =
        tern_body_quota_new(folder, limits->body_memory, limits->body_disk);
    struct tern_uploads *uploads =
        quota != NULL ? tern_uploads_new(quota, limits->unfinished) : NULL;
    if (uploads == NULL) {
        tern_body_quota_release(quota);
        snprintf(why, 256, "memory is short");
        return TERN_ERR_NO_MEMORY;
    }
    const enum tern_result loaded = tern_uploads_load(uploads);
    if (loaded != TERN_OK) {
        snprintf(why, 256, "cannot read the interrupted uploads in %s: %s", folder,
                 strerror(errno));
        tern_uploads_close(uploads);
        return loaded;
    }
    *out = uploads;
    return TERN_OK;
}

void tern_uploads_set_limits(struct tern_uploads *uploads, const struct tern_http_limits *limits)
{
    atomic_store(&uploads->quota->memory, limits->body_memory);
    atomic_store(&uploads->quota->disk, limits->body_disk);
    pthread_mutex_lock(&uploads->lock);
    uploads->limit = limits->unfinished;
    pthread_mutex_unlock(&uploads->lock);
}

void tern_uploads_close(struct tern_uploads *uploads)
{
    struct tern_body_quota *quota = uploads != NULL ? uploads->quota : NULL;
    tern_uploads_free(uploads);
    tern_body_quota_release(quota);
}

// --- Body of the request that is being read

void tern_arrival_init(struct tern_arrival *arrival, struct tern_body_quota *quota,
                       struct tern_uploads *uploads)
{
    *arrival = (struct tern_arrival){.uploads = uploads};
    tern_body_init(&arrival->body, quota == NULL && uploads != NULL ? uploads->quota : quota);
}

void tern_arrival_free(struct tern_arrival *arrival)
{
    tern_upload_end(&arrival->upload);
    tern_body_free(&arrival->body);
}

static int begin_short(struct tern_arrival *arrival, const struct tern_upload_part *part)
{
    if (part->from != 0) {
        return 416;
    }
    const bool fits = tern_body_set_owner(&arrival->body, part->owner) &&
                      tern_body_fits(&arrival->body, part->total);
    return fits ? 0 : 503;
}

int tern_arrival_begin(struct tern_arrival *arrival, const struct tern_upload_part *part)
{
    if (part->owner == 0 || arrival->uploads == NULL ||
        !is_long(arrival->body.quota, part->total)) {
        return begin_short(arrival, part);
    }
    const enum tern_result begun = tern_uploads_begin(arrival->uploads, part, &arrival->upload);
    return begun == TERN_OK ? 0 : begun == TERN_ERR_STATE ? 416 : 503;
}

bool tern_arrival_append(struct tern_arrival *arrival, const void *data, size_t len, uint64_t total)
{
    return arrival->upload.upload != NULL
               ? tern_upload_append(&arrival->upload, data, len)
               : tern_body_append(&arrival->body, data, len, (size_t)total);
}

const uint8_t *tern_arrival_end(struct tern_arrival *arrival, size_t *len)
{
    const bool ended =
        arrival->upload.upload == NULL || tern_upload_take(&arrival->upload, &arrival->body);
    *len = ended ? arrival->body.len : 1;
    return ended ? tern_body_view(&arrival->body) : NULL;
}
