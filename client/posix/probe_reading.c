// Fills readings for the probes of conditions.c and probe_metered.c.
#include "posix/conditions.h"

#include <stdarg.h>
#include <stdio.h>

void tern_reading_known(struct tern_reading *reading, double value, const char *format, ...)
{
    va_list arguments;
    reading->known = true;
    reading->value = value;
    va_start(arguments, format);
    vsnprintf(reading->text, sizeof reading->text, format, arguments);
    va_end(arguments);
}

void tern_reading_unknown(struct tern_reading *reading, const char *format, ...)
{
    va_list arguments;
    reading->known = false;
    reading->value = 0;
    va_start(arguments, format);
    vsnprintf(reading->text, sizeof reading->text, format, arguments);
    va_end(arguments);
}
