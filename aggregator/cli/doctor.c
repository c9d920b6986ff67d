#include "cli/doctor.h"

#include <stdio.h>

int tern_doctor_conclude(struct tern_doctor *doctor)
{
    const uint32_t problems = doctor->findings.count[TERN_HEALTH_PROBLEM];
    const uint32_t warnings = doctor->findings.count[TERN_HEALTH_WARNING];
    const int code = problems > 0 ? TERN_EXIT_FAILED : TERN_EXIT_OK;
    if (doctor->findings.list == NULL) {
        printf("%u problem%s, %u warning%s.\n", problems, problems == 1 ? "" : "s", warnings,
               warnings == 1 ? "" : "s");
        return code;
    }
    const int printed = tern_json_print(doctor->cli, doctor->findings.list);
    return printed != TERN_EXIT_OK ? printed : code;
}
