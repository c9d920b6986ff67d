// What clients' own models are worth to them, where some of their tensors are local. After a run; one thread.
#ifndef TERN_FLEET_PERSONAL_H
#define TERN_FLEET_PERSONAL_H

#include "fleet/member.h"
#include "fleet/shares.h"

// accuracy[0..count): of each member, what it holds on data like its own (scores.h); NaN where it has not
// trained. TERN_ERR_NO_MEMORY; errors of the trainer
TERN_MUST_USE enum tern_result tern_personal_measure(const struct tern_member *members,
                                                     uint32_t count,
                                                     const struct tern_shares *shares,
                                                     const struct tern_model *model,
                                                     double *accuracy);

#endif
