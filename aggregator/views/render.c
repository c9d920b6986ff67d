#include "views/view.h"

#include "hosted/terminal.h"
#include "util/text.h"
#include "views/texts.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- JSON

static cJSON *json_of_figures(const struct tern_view_value *value)
{
    cJSON *object = cJSON_CreateObject();
    for (uint32_t i = 0; i < value->count; i++) {
        tern_json_float(object, value->figures[i].name, (float)value->figures[i].value);
    }
    return object;
}

static cJSON *json_of(const struct tern_view_value *value)
{
    char text[TERN_FLOAT_TEXT];
    switch (value->kind) {
    case TERN_VIEW_NUMBER:
        snprintf(text, sizeof text, "%" PRIu64, value->number);
        return cJSON_CreateRaw(text);
    case TERN_VIEW_REAL:
        return isfinite(value->real) ? cJSON_CreateRaw(tern_float_text(value->real, text))
                                     : cJSON_CreateNull();
    case TERN_VIEW_BOOL:
        return cJSON_CreateBool(value->yes);
    case TERN_VIEW_TEXT:
        return cJSON_CreateString(value->text);
    case TERN_VIEW_FIGURES:
        return json_of_figures(value);
    case TERN_VIEW_NULL:
    default:
        return cJSON_CreateNull();
    }
}

static const struct tern_view_column *shown(const struct tern_view_rows *rows, size_t i)
{
    return &rows->columns[rows->shown[i]];
}

cJSON *tern_view_object(const struct tern_view_rows *rows)
{
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; object != NULL && i < rows->shown_count; i++) {
        struct tern_view_value value;
        tern_view_value(rows->row, shown(rows, i), &value);
        cJSON *item = json_of(&value);
        if (!cJSON_AddItemToObject(object, shown(rows, i)->name, item)) {
            cJSON_Delete(item);
            cJSON_Delete(object);
            object = NULL;
        }
    }
    return object;
}

// Adds an item to an array. False: no memory, and the item is freed.
static bool add(cJSON *array, cJSON *item)
{
    const bool added = array != NULL && item != NULL && cJSON_AddItemToArray(array, item);
    if (!added) {
        cJSON_Delete(item);
    }
    return added;
}

cJSON *tern_view_array(struct tern_view_rows *rows)
{
    cJSON *array = cJSON_CreateArray();
    while (tern_view_next(rows)) {
        if (!add(array, tern_view_object(rows))) {
            cJSON_Delete(array);
            return NULL;
        }
    }
    return array;
}

static bool add_row(cJSON *object, const struct tern_view_rows *rows)
{
    bool added = true;
    cJSON *array = object->child;
    for (size_t i = 0; added && i < rows->shown_count; i++) {
        struct tern_view_value value;
        tern_view_value(rows->row, shown(rows, i), &value);
        added = add(array, json_of(&value));
        array = array->next;
    }
    return added;
}

cJSON *tern_view_arrays(struct tern_view_rows *rows)
{
    cJSON *object = cJSON_CreateObject();
    bool added = object != NULL;
    for (size_t i = 0; added && i < rows->shown_count; i++) {
        added = cJSON_AddArrayToObject(object, shown(rows, i)->name) != NULL;
    }
    while (added && tern_view_next(rows)) {
        added = add_row(object, rows);
    }
    if (!added) {
        cJSON_Delete(object);
        object = NULL;
    }
    return object;
}

static bool write_json(cJSON *json, FILE *out)
{
    char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    if (text != NULL) {
        fputs(text, out);
    }
    cJSON_free(text);
    return text != NULL;
}

enum tern_result tern_view_write_json(struct tern_view_rows *rows, FILE *out)
{
    const char *before = "[";
    while (tern_view_next(rows)) {
        fputs(before, out);
        if (!write_json(tern_view_object(rows), out)) {
            return TERN_ERR_NO_MEMORY;
        }
        before = ",";
    }
    fputs(before[0] == '[' ? "[]" : "]", out);
    return TERN_OK;
}

// --- CSV

static void write_field(const char *text, FILE *out)
{
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            putc('"', out);
        }
        putc(*text, out);
    }
    putc('"', out);
}

static enum tern_result write_value(const struct tern_view_value *value, FILE *out)
{
    if (value->kind == TERN_VIEW_TEXT) {
        write_field(value->text, out);
        return TERN_OK;
    }
    cJSON *json = json_of(value);
    char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;
    if (text != NULL && !cJSON_IsNull(json)) {
        write_field(text, out);
    }
    cJSON_Delete(json);
    cJSON_free(text);
    return text != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

enum tern_result tern_view_write_csv(struct tern_view_rows *rows, FILE *out)
{
    for (size_t i = 0; i < rows->shown_count; i++) {
        fputs(i > 0 ? "," : "", out);
        write_field(shown(rows, i)->name, out);
    }
    putc('\n', out);
    while (tern_view_next(rows)) {
        for (size_t i = 0; i < rows->shown_count; i++) {
            struct tern_view_value value;
            tern_view_value(rows->row, shown(rows, i), &value);
            fputs(i > 0 ? "," : "", out);
            TERN_TRY(write_value(&value, out));
        }
        putc('\n', out);
    }
    return TERN_OK;
}

// --- Tables for people

#define CELL_MAX 256
#define NONE "-" // stands for an unknown or empty value

// Writes the label of a column: "last seen" for "last_seen_ms".
static const char *label_of(const struct tern_view_column *column, char text[CELL_MAX])
{
    snprintf(text, CELL_MAX, "%s", column->name);
    const size_t len = strlen(text);
    if (len > 3 && strcmp(text + len - 3, "_ms") == 0) {
        text[len - 3] = '\0';
    }
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '_' ? ' ' : *at;
    }
    return text;
}

static const char *heading_of(const struct tern_view_column *column, char text[CELL_MAX])
{
    if (column->heading != NULL) {
        return column->heading;
    }
    (void)label_of(column, text);
    for (char *at = text; *at != '\0'; at++) {
        *at = (char)toupper((unsigned char)*at);
    }
    return text;
}

static void write_number(const struct tern_view_rows *rows, enum tern_view_format format,
                         uint64_t number, char text[CELL_MAX])
{
    if (format == TERN_VIEW_BYTES) {
        tern_text_bytes((double)number, text);
    } else if (format == TERN_VIEW_TIME) {
        tern_text_time(number, text);
    } else if (format == TERN_VIEW_AGO) {
        tern_text_ago(number, rows->query.now_ms, text);
    } else if (format == TERN_VIEW_DURATION) {
        tern_text_duration(number, text);
    } else {
        snprintf(text, CELL_MAX, format == TERN_VIEW_HEX ? "%08" PRIx64 : "%" PRIu64, number);
    }
}

static void write_text(enum tern_view_format format, const char *from, char text[CELL_MAX])
{
    snprintf(text, CELL_MAX, format == TERN_VIEW_ID ? "%.12s" : "%s", from);
    tern_utf8_show(text, strlen(text));
    if (text[0] == '\0' || (format == TERN_VIEW_STATE && strcmp(text, "none") == 0)) {
        snprintf(text, CELL_MAX, NONE);
    }
}

static void write_figures(const struct tern_view_value *value, char text[CELL_MAX])
{
    size_t len = 0;
    snprintf(text, CELL_MAX, NONE);
    for (uint32_t i = 0; i < value->count && len < CELL_MAX; i++) {
        len += (size_t)snprintf(text + len, CELL_MAX - len, "%s%s %.4g", i > 0 ? ", " : "",
                                value->figures[i].name, value->figures[i].value);
    }
    tern_utf8_show(text, strlen(text));
}

static bool is_format_of(const struct tern_view_column *column, enum tern_view_format first,
                         enum tern_view_format last)
{
    return column->format >= first && column->format <= last;
}

static void write_cell(const struct tern_view_rows *rows, const struct tern_view_column *column,
                       char text[CELL_MAX])
{
    struct tern_view_value value;
    tern_view_value(rows->row, column, &value);
    switch (value.kind) {
    case TERN_VIEW_NUMBER:
        write_number(rows, column->format, value.number, text);
        break;
    case TERN_VIEW_REAL:
        if (column->format == TERN_VIEW_BYTES) {
            tern_text_bytes((double)value.real, text);
        } else {
            snprintf(text, CELL_MAX,
                     is_format_of(column, TERN_VIEW_SCORE, TERN_VIEW_SHARE) ? "%.4f" : "%.4g",
                     (double)value.real);
        }
        break;
    case TERN_VIEW_BOOL:
        snprintf(text, CELL_MAX, "%s", value.yes ? "yes" : NONE);
        break;
    case TERN_VIEW_TEXT:
        write_text(column->format, value.text, text);
        break;
    case TERN_VIEW_FIGURES:
        write_figures(&value, text);
        break;
    case TERN_VIEW_NULL:
    default:
        snprintf(text, CELL_MAX, NONE);
        break;
    }
}

// Returns the colour of a state.
static enum tern_colour colour_of(const struct tern_view_column *column, const char *text)
{
    static const struct {
        const char *word;
        enum tern_colour colour;
    } words[] = {{"open", TERN_COLOUR_GOOD},
                 {"revoked", TERN_COLOUR_BAD},
                 {"lost", TERN_COLOUR_WARNING},
                 {"restored", TERN_COLOUR_WARNING},
                 {"cloned", TERN_COLOUR_WARNING}};
    for (size_t i = 0; column->format == TERN_VIEW_STATE && i < sizeof words / sizeof words[0];
         i++) {
        if (strcmp(text, words[i].word) == 0) {
            return words[i].colour;
        }
    }
    return TERN_COLOUR_NONE;
}

// asked: the query names its columns, so that empty columns are shown, too.
static enum tern_text_kind text_kind_of(const struct tern_view_column *column, bool asked)
{
    if (column->format == TERN_VIEW_LONG || column->format == TERN_VIEW_NOTE) {
        return column->format == TERN_VIEW_NOTE && !asked ? TERN_TEXT_NOTE : TERN_TEXT_LONG;
    }
    const bool is_number = column->kind == TERN_VIEW_NUMBER || column->kind == TERN_VIEW_REAL;
    return is_number && is_format_of(column, TERN_VIEW_PLAIN, TERN_VIEW_SHORT) ? TERN_TEXT_NUMBER
                                                                               : TERN_TEXT_WORD;
}

static const char *unit_of(const struct tern_view_column *column)
{
    return column->format == TERN_VIEW_BYTES                     ? "bytes"
           : column->format == TERN_VIEW_DURATION                ? "ms"
           : is_format_of(column, TERN_VIEW_TIME, TERN_VIEW_AGO) ? "ms since 1970"
                                                                 : "";
}

// Returns the headings of the shown columns, malloc'ed as one block with their texts. NULL: no memory.
static struct tern_text_column *make_headings(const struct tern_view_rows *rows)
{
    const size_t size = sizeof(struct tern_text_column) + CELL_MAX;
    struct tern_text_column *headings = calloc(rows->shown_count + 1, size);
    char *texts = headings != NULL ? (char *)(headings + rows->shown_count) : NULL;
    const bool asked = rows->query.columns != rows->view->usual;
    for (size_t i = 0; headings != NULL && i < rows->shown_count; i++) {
        headings[i].heading = heading_of(shown(rows, i), texts + i * CELL_MAX);
        headings[i].kind = text_kind_of(shown(rows, i), asked);
    }
    return headings;
}

enum tern_result tern_view_write_table(struct tern_view_rows *rows, FILE *out)
{
    char text[CELL_MAX];
    struct tern_text_column *headings = make_headings(rows);
    if (headings == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    struct tern_text_table table = TERN_TEXT_TABLE_OF(headings, rows->shown_count);
    while (tern_view_next(rows)) {
        for (size_t i = 0; i < rows->shown_count; i++) {
            write_cell(rows, shown(rows, i), text);
            tern_text_cell_in(&table, colour_of(shown(rows, i), text), "%s", text);
        }
    }
    const enum tern_result result = tern_text_table_print(&table, out);
    free(headings);
    return result;
}

enum tern_result tern_view_write_row(struct tern_view_rows *rows, FILE *out)
{
    char label[CELL_MAX];
    char text[CELL_MAX];
    int width = 0;
    for (size_t i = 0; i < rows->shown_count; i++) {
        const int len = (int)strlen(label_of(shown(rows, i), label));
        width = len > width ? len : width;
    }
    for (size_t i = 0; i < rows->shown_count; i++) {
        struct tern_view_column column = *shown(rows, i);
        column.format = column.format == TERN_VIEW_ID ? TERN_VIEW_PLAIN : column.format;
        write_cell(rows, &column, text);
        fprintf(out, "%-*s  %s\n", width, label_of(&column, label), text);
    }
    return TERN_OK;
}

// --- Descriptions of the columns

static const char *type_of(const struct tern_view_column *column)
{
    static const char *const names[] = {[TERN_VIEW_NUMBER] = "integer",
                                        [TERN_VIEW_REAL] = "number",
                                        [TERN_VIEW_BOOL] = "boolean",
                                        [TERN_VIEW_TEXT] = "text",
                                        [TERN_VIEW_FIGURES] = "object"};
    return names[column->kind];
}

void tern_view_write_help(const struct tern_view *view, FILE *out)
{
    for (size_t i = 0; i < view->count; i++) {
        const struct tern_view_column *column = &view->columns[i];
        if (column->name != NULL) {
            const char *unit = unit_of(column);
            fprintf(out, unit[0] != '\0' ? "%-20s %-8s %s (%s)\n" : "%-20s %-8s %s\n", column->name,
                    type_of(column), column->help, unit);
        }
    }
}

static const char *format_name(const struct tern_view_column *column)
{
    static const char *const names[] = {
        [TERN_VIEW_PLAIN] = "plain", [TERN_VIEW_BYTES] = "bytes", [TERN_VIEW_DURATION] = "duration",
        [TERN_VIEW_SCORE] = "score", [TERN_VIEW_SHARE] = "share", [TERN_VIEW_SHORT] = "short",
        [TERN_VIEW_TIME] = "time",   [TERN_VIEW_AGO] = "ago",     [TERN_VIEW_HEX] = "hex",
        [TERN_VIEW_ID] = "id",       [TERN_VIEW_LONG] = "long",   [TERN_VIEW_NOTE] = "note",
        [TERN_VIEW_STATE] = "state"};
    return column->source == TERN_VIEW_HASH ? "id" : names[column->format];
}

// Whether the name is in a list such as "id,name"; NULL = an empty list.
static bool is_in(const char *list, const char *name)
{
    const size_t len = strlen(name);
    while (list != NULL && *list != '\0') {
        const size_t part = strcspn(list, ",");
        if (part == len && strncmp(list, name, len) == 0) {
            return true;
        }
        list += part + (list[part] == ',');
    }
    return false;
}

// The dashboard's lists do not ask for costly columns.
static bool is_listed(const struct tern_view *view, const struct tern_view_column *column)
{
    return (column->listed || is_in(view->usual, column->name)) &&
           !is_in(view->costly, column->name);
}

// Returns the heading in lower case after its first letter: "Last seen", but "ID".
static const char *title_of(const struct tern_view_column *column, char text[CELL_MAX])
{
    const char *heading = heading_of(column, text);
    if (heading != text) {
        snprintf(text, CELL_MAX, "%s", heading);
    }
    for (char *at = text + 1; strlen(text) > 2 && *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    return text;
}

cJSON *tern_view_help(const struct tern_view *view)
{
    char heading[CELL_MAX];
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < view->count; i++) {
        const struct tern_view_column *column = &view->columns[i];
        if (column->name == NULL) {
            continue;
        }
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "name", column->name);
        cJSON_AddStringToObject(object, "type", type_of(column));
        cJSON_AddStringToObject(object, "unit", unit_of(column));
        cJSON_AddStringToObject(object, "heading", heading_of(column, heading));
        cJSON_AddStringToObject(object, "title", title_of(column, heading));
        cJSON_AddStringToObject(object, "format", format_name(column));
        cJSON_AddBoolToObject(object, "listed", is_listed(view, column));
        cJSON_AddStringToObject(object, "help", column->help);
        (void)add(list, object);
    }
    return list;
}
