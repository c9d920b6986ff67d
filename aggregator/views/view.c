#include "views/view.h"

#include "hosted/growing.h"
#include "rounds/tags.h"
#include "util/bytes.h"
#include "util/text.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// A condition of a query: a value that a row must have in a column, or as one of its tags.
struct tern_view_condition {
    size_t column;
    bool is_tag;
    char *value; // malloc'ed
    double number;
};

#define TAG "tag"   // name in conditions, for one of the tags
#define TAGS "tags" // name of the column with all tags

// --- Values

static void read_hash(const uint8_t *hash, struct tern_view_value *value)
{
    static const uint8_t none[TERN_SHA256_SIZE];
    if (memcmp(hash, none, sizeof none) != 0) {
        tern_hex_encode(hash, TERN_SHA256_SIZE, value->hash);
        TERN_VIEW_PUT_TEXT(value, value->hash);
    }
}

void tern_view_value(const void *row, const struct tern_view_column *column,
                     struct tern_view_value *value)
{
    const char *at = (const char *)row + column->offset;
    uint64_t number;
    uint32_t half;
    value->kind = TERN_VIEW_NULL;
    switch (column->source) {
    case TERN_VIEW_U64:
        memcpy(&number, at, sizeof number);
        TERN_VIEW_PUT_NUMBER(value, number);
        break;
    case TERN_VIEW_U32:
        memcpy(&half, at, sizeof half);
        TERN_VIEW_PUT_NUMBER(value, half);
        break;
    case TERN_VIEW_FLOAT:
        memcpy(&value->real, at, sizeof value->real);
        value->kind = TERN_VIEW_REAL;
        break;
    case TERN_VIEW_FLAG:
        TERN_VIEW_PUT_BOOL(value, *(const bool *)at);
        break;
    case TERN_VIEW_CHARS:
        TERN_VIEW_PUT_TEXT(value, at);
        break;
    case TERN_VIEW_HASH:
        read_hash((const uint8_t *)at, value);
        break;
    case TERN_VIEW_WORD:
        memcpy(&half, at, sizeof half);
        TERN_VIEW_PUT_TEXT(value, column->word(half));
        break;
    case TERN_VIEW_COMPUTED:
    default:
        column->get(row, column, value);
        break;
    }
}

// --- Names of columns

static size_t find(const struct tern_view_rows *rows, const char *name, size_t len)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (strlen(rows->columns[i].name) == len &&
            strncmp(rows->columns[i].name, name, len) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

__attribute__((format(printf, 2, 3))) static enum tern_result refuse(char why[TERN_VIEW_WHY_MAX],
                                                                     const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, TERN_VIEW_WHY_MAX, format, arguments);
    va_end(arguments);
    return TERN_ERR_ARGUMENT;
}

static enum tern_result refuse_name(const struct tern_view_rows *rows, const char *name, size_t len,
                                    char why[TERN_VIEW_WHY_MAX])
{
    char written[64];
    snprintf(written, sizeof written, "%.*s", (int)(len < 60 ? len : 60), name);
    struct tern_near_name near = {.written = written, .limit = tern_near_limit(written)};
    for (size_t i = 0; i < rows->count; i++) {
        tern_near_offer(&near, rows->columns[i].name);
    }
    (void)refuse(why, "there is no column '%s'%s%s%s; the columns are ", written,
                 near.best != NULL ? " (did you mean " : "", near.best != NULL ? near.best : "",
                 near.best != NULL ? "?)" : "");
    for (size_t i = 0; i < rows->count; i++) {
        const size_t end = strlen(why);
        snprintf(why + end, TERN_VIEW_WHY_MAX - end, "%s%s", i > 0 ? ", " : "",
                 rows->columns[i].name);
    }
    return TERN_ERR_ARGUMENT;
}

// Whether a name, or a pattern that ends with *, may match a column that begins with the prefix.
static bool may_begin_with(const char *item, size_t len, const char *prefix)
{
    const size_t known = len > 0 && item[len - 1] == '*' ? len - 1 : len;
    const size_t shorter = known < strlen(prefix) ? known : strlen(prefix);
    return (known < len || known >= strlen(prefix)) && strncmp(item, prefix, shorter) == 0;
}

struct tern_db_rows *tern_view_read(struct tern_view_rows *rows, struct tern_db_rows *list)
{
    rows->lists[rows->list_count++] = list;
    return list;
}

bool tern_view_wants(const struct tern_view_rows *rows, const char *prefix)
{
    const char *sort = rows->query.sort;
    const char *lists[] = {rows->query.columns, rows->query.where};
    for (size_t i = 0; i < 2; i++) {
        for (const char *at = lists[i]; at != NULL && *at != '\0';) {
            if (may_begin_with(at, strcspn(at, ",="), prefix)) {
                return true;
            }
            at += strcspn(at, ",");
            at += *at == ',';
        }
    }
    return sort != NULL && strncmp(sort + (*sort == '-'), prefix, strlen(prefix)) == 0;
}

enum tern_result tern_view_add_column(struct tern_view_rows *rows,
                                      const struct tern_view_column *column)
{
    struct tern_view_column *columns =
        realloc(rows->columns, (rows->count + 1) * sizeof columns[0]);
    if (columns == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    rows->columns = columns;
    rows->columns[rows->count++] = *column;
    return TERN_OK;
}

static enum tern_result take_columns(struct tern_view_rows *rows)
{
    for (size_t i = 0; i < rows->view->count; i++) {
        if (rows->view->columns[i].name != NULL) {
            TERN_TRY(tern_view_add_column(rows, &rows->view->columns[i]));
        }
    }
    return TERN_OK;
}

// --- Options

static enum tern_result show(struct tern_view_rows *rows, size_t column)
{
    size_t *shown = tern_grown(rows->shown, rows->shown_count, sizeof shown[0]);
    if (shown == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    rows->shown = shown;
    rows->shown[rows->shown_count++] = column;
    return TERN_OK;
}

// Whether a list such as "site=a,line=3" has this item, or an item with this key.
static bool has_item(const char *list, const char *item)
{
    const size_t len = strlen(item);
    while (list != NULL && *list != '\0') {
        const size_t of = strcspn(list, ",");
        if (of >= len && strncmp(list, item, len) == 0 && (of == len || list[len] == '=')) {
            return true;
        }
        list += of + (list[of] == ',');
    }
    return false;
}

// Shows the columns whose names begin with the prefix, except the columns in a list of names.
static enum tern_result show_pattern(struct tern_view_rows *rows, const char *prefix, size_t len,
                                     const char *except)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (strncmp(rows->columns[i].name, prefix, len) == 0 &&
            !has_item(except, rows->columns[i].name)) {
            TERN_TRY(show(rows, i));
        }
    }
    return TERN_OK;
}

static enum tern_result parse_columns(struct tern_view_rows *rows, char why[TERN_VIEW_WHY_MAX])
{
    const char *at = rows->query.columns;
    if (at == NULL) {
        return show_pattern(rows, "", 0, rows->view->costly);
    }
    for (;; at++) {
        const size_t len = strcspn(at, ",");
        const size_t column = find(rows, at, len);
        if (len > 0 && at[len - 1] == '*') {
            // A pattern may match nothing yet, for example metrics that no client has reported, but a row needs a column.
            TERN_TRY(show_pattern(rows, at, len - 1, NULL));
            if (rows->shown_count == 0 && at[len] == '\0') {
                return refuse_name(rows, at, len, why);
            }
        } else if (column == SIZE_MAX) {
            return refuse_name(rows, at, len, why);
        } else {
            TERN_TRY(show(rows, column));
        }
        at += len;
        if (*at == '\0') {
            return TERN_OK;
        }
    }
}

static enum tern_result parse_sort(struct tern_view_rows *rows, char why[TERN_VIEW_WHY_MAX])
{
    const char *name = rows->query.sort;
    if (name == NULL) {
        return TERN_OK;
    }
    rows->descending = name[0] == '-';
    name += rows->descending;
    rows->sort = find(rows, name, strlen(name));
    if (rows->sort == SIZE_MAX) {
        return refuse_name(rows, name, strlen(name), why);
    }
    return rows->columns[rows->sort].kind == TERN_VIEW_FIGURES
               ? refuse(why, "column '%s' has several figures, which have no order", name)
               : TERN_OK;
}

static bool is_true(const char *text)
{
    return strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
}

static bool is_bool(const char *text)
{
    return is_true(text) || strcmp(text, "false") == 0 || strcmp(text, "no") == 0;
}

static enum tern_result check_value(const struct tern_view_column *column,
                                    struct tern_view_condition *condition,
                                    char why[TERN_VIEW_WHY_MAX])
{
    const char *value = condition->value;
    char *end;
    if (column->kind == TERN_VIEW_FIGURES) {
        return refuse(why, "column '%s' has several figures; a condition needs one value",
                      column->name);
    }
    if (value[0] == '\0' || column->kind == TERN_VIEW_TEXT) {
        return TERN_OK;
    }
    if (column->kind == TERN_VIEW_BOOL) {
        return is_bool(value)
                   ? TERN_OK
                   : refuse(why, "column '%s' is yes or no, not '%s'", column->name, value);
    }
    condition->number = strtod(value, &end);
    return *end == '\0' ? TERN_OK
                        : refuse(why, "column '%s' has numbers, not '%s'", column->name, value);
}

// Whether a condition begins at `at`: the name of a column, or "tag", and "=". *column: SIZE_MAX for tags.
static bool begins_condition(const struct tern_view_rows *rows, const char *at, size_t *column)
{
    const size_t len = strcspn(at, "=,");
    *column = find(rows, at, len);
    const bool is_tag =
        strncmp(at, TAG "=", sizeof TAG) == 0 && find(rows, TAGS, strlen(TAGS)) != SIZE_MAX;
    return at[len] == '=' && (*column != SIZE_MAX || is_tag);
}

// Returns the length of a value, which ends before a comma that a condition follows, or at the end.
static size_t value_length(const struct tern_view_rows *rows, const char *value)
{
    size_t column;
    size_t len = strcspn(value, ",");
    while (value[len] == ',' && !begins_condition(rows, value + len + 1, &column)) {
        len += 1 + strcspn(value + len + 1, ",");
    }
    return len;
}

static enum tern_result add_condition(struct tern_view_rows *rows, size_t column, const char *value,
                                      size_t len, char why[TERN_VIEW_WHY_MAX])
{
    struct tern_view_condition *conditions =
        tern_grown(rows->conditions, rows->condition_count, sizeof conditions[0]);
    if (conditions == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    rows->conditions = conditions;
    struct tern_view_condition *condition = &rows->conditions[rows->condition_count];
    *condition = (struct tern_view_condition){
        .column = column, .is_tag = column == SIZE_MAX, .value = strndup(value, len)};
    if (condition->value == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    rows->condition_count++;
    if (condition->is_tag) {
        condition->column = find(rows, TAGS, strlen(TAGS));
        return TERN_OK;
    }
    return check_value(&rows->columns[column], condition, why);
}

static enum tern_result parse_where(struct tern_view_rows *rows, char why[TERN_VIEW_WHY_MAX])
{
    const char *at = rows->query.where;
    while (at != NULL) {
        size_t column;
        const size_t name = strcspn(at, "=,");
        if (at[name] != '=') {
            return refuse(why, "a condition is COLUMN=VALUE, not '%.60s'", at);
        }
        if (name > 0 && strchr("<>!", at[name - 1]) != NULL) {
            return refuse(why, "a condition is COLUMN=VALUE, not '%.60s'", at);
        }
        if (!begins_condition(rows, at, &column)) {
            return refuse_name(rows, at, name, why);
        }
        const char *value = at + name + 1;
        const size_t len = value_length(rows, value);
        TERN_TRY(add_condition(rows, column, value, len, why));
        at = value[len] == ',' ? value + len + 1 : NULL;
    }
    return TERN_OK;
}

// --- Conditions

static bool fits(const struct tern_view_rows *rows, const struct tern_view_condition *condition)
{
    const struct tern_view_column *column = &rows->columns[condition->column];
    struct tern_view_value value;
    tern_view_value(rows->row, column, &value);
    if (value.kind == TERN_VIEW_TEXT) {
        return condition->is_tag ? has_item(value.text, condition->value)
               : column->source == TERN_VIEW_HASH && condition->value[0] != '\0'
                   ? strncmp(value.text, condition->value, strlen(condition->value)) == 0
                   : strcmp(value.text, condition->value) == 0;
    }
    if (value.kind == TERN_VIEW_NULL || condition->value[0] == '\0') {
        return value.kind == TERN_VIEW_NULL && condition->value[0] == '\0';
    }
    if (value.kind == TERN_VIEW_BOOL) {
        return value.yes == is_true(condition->value);
    }
    return value.kind == TERN_VIEW_NUMBER ? !((double)value.number < condition->number) &&
                                                !((double)value.number > condition->number)
                                          : !(value.real < (float)condition->number) &&
                                                !(value.real > (float)condition->number);
}

// Reads the next row that fits all conditions into rows->row.
static bool read_next(struct tern_view_rows *rows)
{
    for (;;) {
        if (rows->query.limit != 0 && rows->read == rows->query.limit) {
            return false;
        }
        memset(rows->row, 0, rows->view->row_size);
        if (!rows->view->next(rows, rows->row)) {
            return false;
        }
        rows->read++;
        size_t i = 0;
        while (i < rows->condition_count && fits(rows, &rows->conditions[i])) {
            i++;
        }
        if (i == rows->condition_count) {
            return true;
        }
    }
}

// --- Sorted rows, and the last rows

struct sort_key {
    struct tern_view_value value;
    size_t at;
    bool descending;
};

static int compare_values(const struct tern_view_value *a, const struct tern_view_value *b)
{
    switch (a->kind) {
    case TERN_VIEW_NUMBER:
        return (a->number > b->number) - (a->number < b->number);
    case TERN_VIEW_REAL:
        return (a->real > b->real) - (a->real < b->real);
    case TERN_VIEW_BOOL:
        return (int)a->yes - (int)b->yes;
    case TERN_VIEW_TEXT:
        return strcmp(a->text != NULL ? a->text : a->hash, b->text != NULL ? b->text : b->hash);
    case TERN_VIEW_NULL:
    case TERN_VIEW_FIGURES:
    default:
        return 0;
    }
}

// Sorts unknown values first in ascending and descending order, so that --last leaves them out.
static int compare_keys(const void *a, const void *b)
{
    const struct sort_key *one = a;
    const struct sort_key *other = b;
    const int known = (other->value.kind == TERN_VIEW_NULL) - (one->value.kind == TERN_VIEW_NULL);
    int order = known;
    if (order == 0) {
        order = compare_values(&one->value, &other->value);
        order = one->descending ? -order : order;
    }
    return order != 0 ? order : (one->at > other->at) - (one->at < other->at);
}

// Sorts the rows in rows->kept in the order of the query.
static enum tern_result sort(struct tern_view_rows *rows)
{
    const size_t size = rows->view->row_size;
    if (rows->query.sort == NULL || rows->kept_count < 2) {
        return TERN_OK;
    }
    struct sort_key *keys = malloc(rows->kept_count * sizeof keys[0]);
    char *sorted = malloc(rows->kept_count * size);
    if (keys == NULL || sorted == NULL) {
        free(keys);
        free(sorted);
        return TERN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < rows->kept_count; i++) {
        keys[i].at = i;
        keys[i].descending = rows->descending;
        tern_view_value(rows->kept + i * size, &rows->columns[rows->sort], &keys[i].value);
        if (rows->columns[rows->sort].source == TERN_VIEW_HASH) {
            keys[i].value.text =
                NULL; // compare_values() then uses keys[i].value.hash, because qsort() moves the keys
        }
    }
    qsort(keys, rows->kept_count, sizeof keys[0], compare_keys);
    for (size_t i = 0; i < rows->kept_count; i++) {
        memcpy(sorted + i * size, rows->kept + keys[i].at * size, size);
    }
    free(rows->kept);
    rows->kept = sorted;
    free(keys);
    return TERN_OK;
}

// Sorts the rows in rows->kept, and drops all but the last rows, as many as the query wants.
static enum tern_result drop_first(struct tern_view_rows *rows)
{
    const size_t size = rows->view->row_size;
    const size_t last = (size_t)rows->query.last;
    TERN_TRY(sort(rows));
    if (last != 0 && rows->kept_count > last) {
        memmove(rows->kept, rows->kept + (rows->kept_count - last) * size, last * size);
        rows->kept_count = last;
    }
    return TERN_OK;
}

// Reads all rows into rows->kept. With --last, rows->kept never has more than twice as many rows as the query wants.
static enum tern_result keep_rows(struct tern_view_rows *rows)
{
    const size_t size = rows->view->row_size;
    while (read_next(rows)) {
        char *kept = tern_grown(rows->kept, rows->kept_count, size);
        if (kept == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        rows->kept = kept;
        memcpy(rows->kept + rows->kept_count++ * size, rows->row, size);
        if (rows->query.last != 0 && rows->kept_count / 2 >= rows->query.last) {
            TERN_TRY(drop_first(rows));
        }
    }
    return drop_first(rows);
}

// --- Rows

static bool keeps(const struct tern_view_rows *rows)
{
    return rows->query.sort != NULL || rows->query.last != 0;
}

// With --last and keys without gaps, starts at the first wanted row.
static enum tern_result skip_first(struct tern_view_rows *rows)
{
    uint64_t newest = 0;
    struct tern_view_query *query = &rows->query;
    if (rows->view->newest == NULL || query->last == 0 || query->sort != NULL ||
        query->where != NULL) {
        return TERN_OK;
    }
    TERN_TRY(rows->view->newest(rows->db, &newest));
    if (newest > query->last && newest - query->last > query->after) {
        query->after = newest - query->last;
    }
    return TERN_OK;
}

static enum tern_result start(struct tern_view_rows *rows, char why[TERN_VIEW_WHY_MAX])
{
    TERN_TRY(take_columns(rows));
    TERN_TRY(skip_first(rows));
    TERN_TRY(rows->view->open(rows));
    TERN_TRY(parse_columns(rows, why));
    TERN_TRY(parse_where(rows, why));
    TERN_TRY(parse_sort(rows, why));
    return keeps(rows) ? keep_rows(rows) : TERN_OK;
}

enum tern_result tern_view_open(const struct tern_view *view, struct tern_db *db,
                                const struct tern_view_query *query, struct tern_view_rows **out,
                                char why[TERN_VIEW_WHY_MAX])
{
    struct tern_view_rows *rows = calloc(1, sizeof *rows);
    *out = rows;
    why[0] = '\0';
    if (rows == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    *rows = (struct tern_view_rows){.view = view, .db = db, .query = *query};
    rows->state = calloc(1, view->state_size + 1);
    rows->row = calloc(1, view->row_size);
    enum tern_result result =
        rows->state != NULL && rows->row != NULL ? start(rows, why) : TERN_ERR_NO_MEMORY;
    if (result != TERN_OK) {
        const enum tern_result closed = tern_view_close(rows);
        *out = NULL;
        return result == TERN_ERR_ARGUMENT || closed == TERN_OK ? result : closed;
    }
    return TERN_OK;
}

bool tern_view_next(struct tern_view_rows *rows)
{
    if (!keeps(rows)) {
        return read_next(rows);
    }
    if (rows->kept_next == rows->kept_count) {
        return false;
    }
    memcpy(rows->row, rows->kept + rows->kept_next++ * rows->view->row_size, rows->view->row_size);
    return true;
}

enum tern_result tern_view_close(struct tern_view_rows *rows)
{
    enum tern_result result = rows->result;
    for (size_t i = 0; i < rows->list_count; i++) {
        const enum tern_result ended = tern_db_end(rows->lists[i]);
        result = result == TERN_OK ? ended : result;
    }
    if (rows->view->close != NULL && rows->state != NULL) {
        rows->view->close(rows);
    }
    for (size_t i = 0; i < rows->condition_count; i++) {
        free(rows->conditions[i].value);
    }
    free(rows->conditions);
    free(rows->columns);
    free(rows->shown);
    free(rows->state);
    free(rows->row);
    free(rows->kept);
    free(rows);
    return result;
}

bool tern_view_step(struct tern_view_beside *beside, void *next, size_t key_size, uint64_t key)
{
    for (;;) {
        uint64_t found = 0;
        uint32_t half;
        if (beside->ended) {
            return false;
        }
        if (key_size == sizeof half) {
            memcpy(&half, next, sizeof half);
            found = half;
        } else {
            memcpy(&found, next, sizeof found);
        }
        if (beside->read && found >= key) {
            return found == key;
        }
        beside->ended = !tern_db_next(beside->rows, next);
        beside->read = true;
    }
}
