#include "any_codec.h"

#include <stdio.h>
#include <stdlib.h>

static size_t append(const struct tern_spec_parameter *parameter, uint32_t value, bool first,
                     char *at, size_t room)
{
    int len = snprintf(at, room, "%c%s=", first ? ':' : ',', parameter->key);
    switch (parameter->kind) {
    case TERN_SPEC_NUMBER:
        len += snprintf(at + len, room - (size_t)len, "%u.%06u", value / 1000000, value % 1000000);
        break;
    case TERN_SPEC_WHOLE:
        len += snprintf(at + len, room - (size_t)len, "%u", value);
        break;
    case TERN_SPEC_REAL: // codecs have none
    case TERN_SPEC_CHOICE:
        len += snprintf(at + len, room - (size_t)len, "%s", parameter->choices[value]);
        break;
    }
    if ((size_t)len >= room) {
        abort();
    }
    return (size_t)len;
}

// Between the limits, in steps of a power of two, so that small values come up as often as large.
static uint32_t in_between(const struct tern_spec_parameter *parameter,
                           const struct any_source *source)
{
    uint32_t span = parameter->most - parameter->least;
    if (span == 0) {
        return parameter->least;
    }
    uint32_t shift = source->below(source->arg, 32);
    uint32_t limit = span >> shift > 0 ? span >> shift : 1;
    return parameter->least + source->below(source->arg, limit) + 1;
}

static uint32_t any_value(const struct tern_spec_parameter *parameter,
                          const struct any_source *source)
{
    if (parameter->kind == TERN_SPEC_CHOICE) {
        return source->below(source->arg, parameter->most + 1);
    }
    switch (source->below(source->arg, 6)) {
    case 0:
        return parameter->least;
    case 1:
        return parameter->most;
    case 2:
        return parameter->preset;
    default:
        return in_between(parameter, source);
    }
}

static struct tern_codec parsed(const char *spec)
{
    struct tern_codec codec;
    if (tern_codec_parse(spec, &codec, NULL) != TERN_OK) {
        fprintf(stderr, "%s does not parse\n", spec);
        abort();
    }
    return codec;
}

struct tern_codec any_codec(const struct tern_codec_entry *entry, const struct any_source *source,
                            char spec[ANY_CODEC_SPEC_MAX])
{
    size_t len = (size_t)snprintf(spec, ANY_CODEC_SPEC_MAX, "%s", entry->name);
    for (const struct tern_spec_parameter *p = entry->parameters; p->key != NULL; p++) {
        len += append(p, any_value(p, source), p == entry->parameters, spec + len,
                      ANY_CODEC_SPEC_MAX - len);
    }
    return parsed(spec);
}

struct tern_codec corner_codec(const struct tern_codec_entry *entry, uint32_t corner,
                               char spec[ANY_CODEC_SPEC_MAX])
{
    size_t len = (size_t)snprintf(spec, ANY_CODEC_SPEC_MAX, "%s", entry->name);
    for (const struct tern_spec_parameter *p = entry->parameters; p->key != NULL; p++) {
        bool larger = (corner >> (p - entry->parameters) & 1u) != 0;
        len += append(p, larger ? p->most : p->least, p == entry->parameters, spec + len,
                      ANY_CODEC_SPEC_MAX - len);
    }
    return parsed(spec);
}
