// Scalars as TensorBoard reads them: records of TFRecord, each an Event of TensorFlow's event.proto with one
// value of a series at a step. Used from the main thread only.
#ifndef TERN_AGGREGATOR_EVENT_FILE_H
#define TERN_AGGREGATOR_EVENT_FILE_H

#include "result.h"
#include <stdint.h>
#include <stdio.h>

struct tern_event_file {
    FILE *stream; // into bytes
    char *bytes;
    size_t len;
    enum tern_result result; // the first failure of all calls
};

// Begins a file at the time wall_ms (Unix time in milliseconds).
void tern_event_file_begin(struct tern_event_file *file, uint64_t wall_ms);

// Adds a value of the series `tag`, e.g. "loss/train".
void tern_event_file_add(struct tern_event_file *file, uint64_t wall_ms, uint32_t step,
                         const char *tag, double value);

// Writes it at `path`, replacing what is there; nothing is added afterwards.
// TERN_ERR_NO_MEMORY, and what tern_file_write() returns
TERN_MUST_USE enum tern_result tern_event_file_write(struct tern_event_file *file,
                                                     const char *path);

// Frees what it holds, written or not.
void tern_event_file_drop(struct tern_event_file *file);

#endif
