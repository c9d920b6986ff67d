// Checks the shape of an untrusted message before nanopb copies it into a struct: what nanopb would
// let pass silently is refused here. Internal to shared/wire; pure; reentrant.
#ifndef TERN_WIRE_SCAN_H
#define TERN_WIRE_SCAN_H

#include "wire/wire.h"

// Walks the message src[0..src_len) and those inside it. Fields that `fields` does not name are
// skipped. `message` is the struct they describe; its values are neither read nor written.
// container: set to the one field that the struct does not hold, borrowed from src; NULL data when
// it is absent. May be NULL for messages without one.
// TERN_ERR_CORRUPT  not protobuf, a field that may stand once stands twice, or text that is not
//                   UTF-8 or holds a control character (NUL included)
TERN_MUST_USE enum tern_result tern_wire_scan(const uint8_t *src, size_t src_len,
                                              const pb_msgdesc_t *fields, void *message,
                                              struct tern_span *container);

#endif
