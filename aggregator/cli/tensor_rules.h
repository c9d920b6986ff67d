// The text of tensors.rules: how each tensor of a model is sent. Rules are separated by "," or ";",
// each is "GLOB: RULE", the first whose glob matches a tensor's name counts:
//   *.bias: fuse, bn*.running_mean: dense, embed*: skip
// A backslash takes the meaning from the character behind it, a separator too: "a\,b*: skip".
// (In an INI file a blank and ";" begin a comment.)
// A tensor that none matches is dense when its name ends in running_mean or running_var (statistics
// of a batch norm), fused when it has fewer than TERN_FUSE_BELOW values, else compressed. Pure;
// reentrant.
#ifndef TERN_TENSOR_RULES_H
#define TERN_TENSOR_RULES_H

#include "result.h"
#include "tensor/model.h"

#define TERN_TENSOR_RULES_WHY_MAX 512

// Sets the rule of every tensor of the model; a layout that was made before is void.
// TERN_ERR_CONFIG  a rule is malformed, its glob matches no tensor, or every tensor is skipped;
//                  why: a sentence. The model's rules are then unspecified.
TERN_MUST_USE enum tern_result tern_tensor_rules_apply(const char *rules, struct tern_model *model,
                                                       char why[TERN_TENSOR_RULES_WHY_MAX]);

// "compress", "fuse", "dense", "skip", "local".
const char *tern_tensor_rule_name(enum tern_rule rule);

#endif
