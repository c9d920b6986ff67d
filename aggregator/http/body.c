#include "http/body.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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
    room->memory = memory;
    room->disk = disk;
    room->references = 1;
    return room;
}

void tern_body_room_release(struct tern_body_room *room)
{
    if (room != NULL && atomic_fetch_sub(&room->references, 1) == 1) {
        free(room->folder);
        free(room);
    }
}

// Whether a body of `len` bytes is one for a file.
static bool is_long(const struct tern_body_room *room, uint64_t len)
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

static bool count_memory(struct tern_body *body, uint64_t size)
{
    struct tern_body_room *room = body->room;
    if (room == NULL || size <= TERN_BODY_UNCOUNTED) {
        return true;
    }
    if (!take(&room->memory_taken, room->memory, size - body->memory)) {
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
        body->memory = 0;
    }
}

// --- One body

void tern_body_init(struct tern_body *body, struct tern_body_room *room)
{
    *body = (struct tern_body){.room = room, .spool = TERN_SPOOL_CLOSED};
    if (room != NULL) {
        atomic_fetch_add(&room->references, 1);
    }
}

void tern_body_free(struct tern_body *body)
{
    free_bytes(body);
    tern_spool_close(&body->spool);
    if (body->room != NULL) {
        atomic_fetch_sub(&body->room->disk_taken, body->disk);
        tern_body_room_release(body->room);
    }
    *body = (struct tern_body){.spool = TERN_SPOOL_CLOSED};
}

bool tern_body_fits(const struct tern_body *body, uint64_t len)
{
    const struct tern_body_room *room = body->room;
    if (room == NULL || len <= TERN_BODY_UNCOUNTED) {
        return true;
    }
    return is_long(room, len) ? room->disk_taken + (len - body->disk) <= room->disk
                              : room->memory_taken + (len - body->memory) <= room->memory;
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
    body->disk += len;
    return tern_spool_append(&body->spool, data, len);
}

// From here on it is in a file, with what it has so far.
static bool move_to_file(struct tern_body *body)
{
    if (!tern_spool_open(&body->spool, body->room->folder) ||
        !append_to_file(body, body->bytes, body->len)) {
        return false;
    }
    free_bytes(body);
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
    const bool in_file = is_long(body->room, body->len + len);
    if (in_file && body->spool.fd < 0 && !move_to_file(body)) {
        return false;
    }
    if (in_file ? !append_to_file(body, data, len) : !append_to_memory(body, data, len, most)) {
        return false;
    }
    body->len += len;
    return true;
}

const uint8_t *tern_body_view(struct tern_body *body)
{
    return body->spool.fd >= 0 ? tern_spool_view(&body->spool) : body->bytes;
}

void tern_body_rest(const struct tern_body *body)
{
    tern_spool_rest(&body->spool, 0, body->len);
}
