#include "http/body.h"

#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

// False: others were faster.
static bool take(_Atomic uint64_t *taken, uint64_t most, uint64_t more)
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
    if (share != NULL && !take(&share->memory_taken, owner_memory(room), more)) {
        return false;
    }
    if (!take(&room->memory_taken, room->memory, more)) {
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

// The room's lock is held.
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

void tern_body_leave(struct tern_body *body)
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
    tern_body_leave(body);
}

bool tern_body_find(struct tern_body *body, const char *path, size_t len)
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

// Makes room for `need` bytes in memory: twice as many each time, but not more than `most`.
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
    if (!take(&body->room->disk_taken, body->room->disk, len)) {
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

// From here on it is in a file, with what it has so far.
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

bool tern_body_is_in_file(const struct tern_body *body)
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
