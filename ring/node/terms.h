// The settings that all peers of a ring must share, as a text that each peer sends once on every connection
// (docs/RING.md, "The bytes"): lines of a setting's name, a space and its value. The hash of a hello decides whether
// peers agree; this text lets a peer report which setting differs. Pure; reentrant.
#ifndef TERN_RING_TERMS_H
#define TERN_RING_TERMS_H

#include "mesh/frame.h"
#include <stddef.h>

#define TERN_RING_TERMS_WHY_MAX 360

// Adds a line to text[0..len). Returns the new len; a line that does not fit is left out.
size_t tern_ring_terms_add(char text[TERN_RING_TERMS_MAX + 1], size_t len, const char *name,
                           const char *value);

// Writes the different settings: "ring.codec is int8 there and float32 here; ...", as many as fit; "" if no setting that
// both texts have differs. theirs: another peer's text, untrusted, up to its NUL.
void tern_ring_terms_compare(const char *mine, const char *theirs,
                             char why[TERN_RING_TERMS_WHY_MAX]);

#endif
