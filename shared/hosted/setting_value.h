// One value of a setting, from its text form. Internal to shared/hosted; pure; reentrant.
#ifndef TERN_SETTING_VALUE_H
#define TERN_SETTING_VALUE_H

#include "hosted/settings.h"

// Parses `text` into the field at `field`. On error it is unchanged and `problem` says what is
// wrong, e.g. "is over the limit". TERN_ERR_CONFIG
TERN_MUST_USE enum tern_result tern_setting_parse(const struct tern_setting *setting,
                                                  const char *text, void *field, char problem[96]);

// Writes what is allowed, e.g. "a duration from 1s to 1d".
void tern_setting_allowed(const struct tern_setting *setting, char allowed[160]);

#endif
