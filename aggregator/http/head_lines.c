#include "http/head_lines.h"

static bool is_control(uint8_t byte)
{
    return (byte < ' ' && byte != '\t') || byte == 0x7f;
}

// One blank separates method, target and version; none surrounds them.
static bool take_in_request_line(struct tern_head_lines *lines, uint8_t byte)
{
    const bool begins = lines->place != TERN_HEAD_LINE;
    const bool is_blank = byte == ' ';
    const bool good = !is_blank || (!begins && !lines->behind_blank && lines->blanks < 2);
    lines->behind_blank = is_blank;
    lines->blanks += is_blank;
    return good && byte != '\t';
}

// The place behind one byte that is no CR and no LF.
static bool take_text(struct tern_head_lines *lines, uint8_t byte)
{
    const bool folds = lines->place == TERN_HEAD_LINE_START && (byte == ' ' || byte == '\t');
    const bool behind_cr = lines->place == TERN_HEAD_BEFORE_CR ||
                           lines->place == TERN_HEAD_LINE_CR || lines->place == TERN_HEAD_END_CR;
    const bool fits = lines->in_headers || take_in_request_line(lines, byte);
    lines->place = TERN_HEAD_LINE;
    return fits && !folds && !behind_cr && !is_control(byte);
}

static bool take_cr(struct tern_head_lines *lines)
{
    switch (lines->place) {
    case TERN_HEAD_BEFORE:
        lines->place = TERN_HEAD_BEFORE_CR;
        return true;
    case TERN_HEAD_LINE:
        lines->place = TERN_HEAD_LINE_CR;
        return lines->in_headers || !lines->behind_blank;
    case TERN_HEAD_LINE_START:
        lines->place = TERN_HEAD_END_CR;
        return true;
    case TERN_HEAD_BEFORE_CR:
    case TERN_HEAD_LINE_CR:
    case TERN_HEAD_END_CR:
    case TERN_HEAD_ENDED:
        break;
    }
    return false;
}

static bool take_lf(struct tern_head_lines *lines)
{
    switch (lines->place) {
    case TERN_HEAD_BEFORE_CR:
        lines->place = TERN_HEAD_BEFORE;
        return true;
    case TERN_HEAD_LINE_CR:
        lines->place = TERN_HEAD_LINE_START;
        lines->in_headers = true;
        return true;
    case TERN_HEAD_END_CR:
        lines->place = TERN_HEAD_ENDED;
        return true;
    case TERN_HEAD_BEFORE:
    case TERN_HEAD_LINE:
    case TERN_HEAD_LINE_START:
    case TERN_HEAD_ENDED:
        break;
    }
    return false;
}

bool tern_head_lines_take(struct tern_head_lines *lines, const uint8_t *data, size_t len)
{
    bool good = true;
    for (size_t i = 0; i < len && good && lines->place != TERN_HEAD_ENDED; i++) {
        good = data[i] == '\r'   ? take_cr(lines)
               : data[i] == '\n' ? take_lf(lines)
                                 : take_text(lines, data[i]);
    }
    return good;
}
