// Roles, tokens of the admin listener, and the audit log. Each row of the log has the hash of the previous one, so that a row
// that was changed, inserted or removed later is found, unless all later rows are made anew, too.
#include "store/tables.h"
#include "util/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TOKENS &tern_table_tokens
#define AUDIT &tern_table_audit

// --- Roles

const char *tern_role_name(uint32_t role)
{
    static const char *const names[TERN_ROLES] = {[TERN_ROLE_NONE] = "none",
                                                  [TERN_ROLE_VIEWER] = "viewer",
                                                  [TERN_ROLE_OPERATOR] = "operator",
                                                  [TERN_ROLE_ADMIN] = "admin"};
    return names[role < TERN_ROLES ? role : TERN_ROLE_NONE];
}

// --- Tokens

enum tern_result tern_db_token_add(struct tern_db *db, const struct tern_db_token *token)
{
    struct tern_db_token row = *token;
    return tern_table_insert(db, TOKENS, &row);
}

enum tern_result tern_db_token_get(struct tern_db *db, const char *name,
                                   struct tern_db_token *token)
{
    return tern_table_get(db, TOKENS, "WHERE name = ?", TERN_BIND(name), token);
}

enum tern_result tern_db_token_revoke(struct tern_db *db, const char *name)
{
    return tern_query_run_one(
        tern_db_write(db, "UPDATE tokens SET revoked = 1 WHERE name = ?", TERN_BIND(name)));
}

struct tern_db_rows *tern_db_tokens(struct tern_db *db)
{
    return tern_table_list(db, TOKENS, "ORDER BY name", NULL);
}

// --- The audit log

struct tern_db_actor tern_db_act_as(struct tern_db *db, const struct tern_db_actor *actor)
{
    const struct tern_db_actor before = db->actor;
    db->actor = *actor;
    return before;
}

static void put_text(char *to, size_t size, const char *text)
{
    static const char cut[] = "...";
    const size_t len = strlen(text);
    if (len < size) {
        memcpy(to, text, len + 1);
    } else {
        memcpy(to, text, size - sizeof cut);
        memcpy(to + size - sizeof cut, cut, sizeof cut);
    }
    tern_utf8_show(to, strlen(to)); // a database server refuses malformed text
}

void tern_db_audit_text(char to[TERN_DB_CHANGED_MAX], const char *text)
{
    put_text(to, TERN_DB_CHANGED_MAX, text);
}

// Computes the chain of a row behind the previous one.
static void make_chain(const uint8_t previous[TERN_SHA256_SIZE], const struct tern_db_audit *row,
                       uint8_t chain[TERN_SHA256_SIZE])
{
    static const char prefix[] = "tern audit v1";
    struct tern_sha256 hash;
    tern_sha256_init(&hash);
    tern_sha256_update(&hash, prefix, sizeof prefix - 1);
    tern_sha256_update(&hash, previous, TERN_SHA256_SIZE);
    for (uint32_t i = 0; i + 1 < tern_table_audit.count; i++) { // the last column is the chain
        (void)tern_table_hash(&hash, &tern_table_audit.columns[i], row);
    }
    tern_sha256_final(&hash, chain);
}

// Adds the row behind the last one; a transaction that writes excludes all others.
static enum tern_result add_row(struct tern_db *db, struct tern_db_audit *row)
{
    struct tern_db_audit last = {.number = 0};
    if (db->actor.who[0] == '\0') {
        return tern_sql_fail(db->sql, TERN_ERR_STATE, "the audit log needs a name of who changes");
    }
    TERN_TRY(tern_db_may_miss(tern_db_audit_last(db, &last)));
    row->number = last.number + 1;
    put_text(row->who, sizeof row->who, db->actor.who);
    row->role = (uint32_t)db->actor.role;
    put_text(row->address, sizeof row->address, db->actor.address);
    make_chain(last.chain, row, row->chain);
    return tern_table_insert(db, AUDIT, row);
}

enum tern_result tern_db_audit(struct tern_db *db, uint64_t now_ms, const char *action,
                               const char *before, const char *after, const char *format, ...)
{
    struct tern_db_audit row = {.at_ms = now_ms, .result = "done"};
    char subject[2 * TERN_DB_SUBJECT_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(subject, sizeof subject, format, values);
    va_end(values);
    put_text(row.action, sizeof row.action, action);
    put_text(row.subject, sizeof row.subject, subject);
    put_text(row.before, sizeof row.before, before);
    put_text(row.after, sizeof row.after, after);
    return add_row(db, &row);
}

enum tern_result tern_db_audit_refusal(struct tern_db *db, uint64_t now_ms, const char *action,
                                       const char *subject, const char *result)
{
    struct tern_db_audit row = {.at_ms = now_ms};
    put_text(row.action, sizeof row.action, action);
    put_text(row.subject, sizeof row.subject, subject);
    put_text(row.result, sizeof row.result, result);
    return add_row(db, &row);
}

struct tern_db_rows *tern_db_audits_after(struct tern_db *db, uint64_t after)
{
    return tern_table_list(db, AUDIT, "WHERE number > ? ORDER BY number", TERN_BIND(after));
}

enum tern_result tern_db_audit_last(struct tern_db *db, struct tern_db_audit *row)
{
    return tern_table_get(db, AUDIT, "ORDER BY number DESC LIMIT 1", NULL, row);
}

enum tern_result tern_db_audit_verify(struct tern_db *db, struct tern_db_audit_check *check)
{
    struct tern_db_audit row;
    struct tern_db_rows *rows = tern_table_list(db, AUDIT, "ORDER BY number", NULL);
    *check = (struct tern_db_audit_check){.rows = 0};
    while (check->broken == 0 && tern_db_next(rows, &row)) {
        uint8_t chain[TERN_SHA256_SIZE];
        make_chain(check->chain, &row, chain);
        check->rows++;
        if (row.number != check->rows || memcmp(chain, row.chain, sizeof chain) != 0) {
            check->broken = check->rows;
        }
        memcpy(check->chain, row.chain, sizeof row.chain);
    }
    return tern_db_end(rows);
}
