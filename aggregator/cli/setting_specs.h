// The settings that are spec strings: what checks them while they are read (hosted/settings.h). From the main thread.
#ifndef TERN_CLI_SETTING_SPECS_H
#define TERN_CLI_SETTING_SPECS_H

#include "hosted/settings.h"

extern const struct tern_setting_spec tern_strategy_setting;
extern const struct tern_setting_spec tern_rate_setting;
extern const struct tern_setting_spec tern_steps_setting;
extern const struct tern_setting_spec tern_error_setting;
extern const struct tern_setting_spec
    tern_codec_setting; // for comparing; default and codec_down have rules of their own

#endif
