// One value of a setting, from its text form. Internal to shared/hosted; pure; reentrant.
#ifndef TERN_SETTING_VALUE_H
#define TERN_SETTING_VALUE_H

#include "hosted/settings.h"

// Parses `text` into the field at `field`. On error it is unchanged and `problem` says what is
// wrong, e.g. "is over the limit"; of a spec string it begins with a colon and says what is allowed, too.
// TERN_ERR_CONFIG
#define TERN_SETTING_PROBLEM_MAX (TERN_SPEC_SENTENCE_MAX + 2)
TERN_MUST_USE enum tern_result tern_setting_parse(const struct tern_setting *setting,
                                                  const char *text, void *field,
                                                  char problem[TERN_SETTING_PROBLEM_MAX]);

// Writes what is allowed, e.g. "a duration from 1s to 1d".
#define TERN_SETTING_ALLOWED_MAX 512
void tern_setting_allowed(const struct tern_setting *setting,
                          char allowed[TERN_SETTING_ALLOWED_MAX]);

#endif
