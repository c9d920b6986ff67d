// What a gateway says of the aggregator above while that does not answer: `status`, `doctor`, /readyz and the
// sentence of what is waited for. Reentrant.
#ifndef TERN_ADMIN_ABOVE_H
#define TERN_ADMIN_ABOVE_H

#include "admin/waiting.h"
#include "service/service.h"

#define TERN_ABOVE_MAX 320

// "the aggregator above has not been reached for 3 m 20 s (Connection refused)". Returns text.
const char *tern_above_sentence(const struct tern_service_above *above, uint64_t now_ms,
                                char text[TERN_ABOVE_MAX]);

// What becomes of devices' updates meanwhile, and what to do. Static string.
const char *tern_above_advice(const struct tern_service_above *above);

// Puts both before what is waited for; nothing, while it answers.
void tern_above_put_before(const struct tern_service_above *above, uint64_t now_ms,
                           struct tern_waiting *waiting);

#endif
