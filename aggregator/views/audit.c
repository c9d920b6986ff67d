// The audit log, and the tokens of the admin listener.
#include "views/view.h"

// --- The audit log

struct audit_row {
    struct tern_db_audit audit;
};

static const struct tern_view_column audit_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(audit, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(audit_row, __VA_ARGS__)
#include "views/audit.def"
};

static enum tern_result open_audit(struct tern_view_rows *rows)
{
    tern_view_read(rows, tern_db_audits_after(rows->db, rows->query.after));
    return TERN_OK;
}

static bool next_audit(struct tern_view_rows *rows, void *at)
{
    struct audit_row *row = at;
    return tern_db_next(rows->lists[0], &row->audit);
}

static enum tern_result newest_audit(struct tern_db *db, uint64_t *key)
{
    struct tern_db_audit last = {.number = 0};
    TERN_TRY(tern_db_may_miss(tern_db_audit_last(db, &last)));
    *key = last.number;
    return TERN_OK;
}

const struct tern_view tern_view_audit = {
    .name = "audit",
    .key = "number",
    .usual = "number,at_ms,who,action,subject,before,after,result",
    TERN_VIEW_COLUMNS(audit_columns),
    .row_size = sizeof(struct audit_row),
    .open = open_audit,
    .next = next_audit,
    .newest = newest_audit,
};

// --- Tokens

struct token_row {
    struct tern_db_token token;
    uint64_t now_ms;
};

const char *tern_token_state(const struct tern_db_token *token, uint64_t now_ms)
{
    if (token->revoked) {
        return "revoked";
    }
    return token->expires_ms <= now_ms ? "expired" : "valid";
}

#define VALUE(...) TERN_VIEW_GETTER(token_row, tokens, __VA_ARGS__)
#define STORED(...)
#include "views/tokens.def"

static const struct tern_view_column token_columns[] = {
#define VALUE(...) TERN_VIEW_VALUE(tokens, __VA_ARGS__)
#define STORED(...) TERN_VIEW_STORED(token_row, __VA_ARGS__)
#include "views/tokens.def"
};

static enum tern_result open_tokens(struct tern_view_rows *rows)
{
    tern_view_read(rows, tern_db_tokens(rows->db));
    return TERN_OK;
}

static bool next_token(struct tern_view_rows *rows, void *at)
{
    struct token_row *row = at;
    row->now_ms = rows->query.now_ms;
    return tern_db_next(rows->lists[0], &row->token);
}

const struct tern_view tern_view_tokens = {
    .name = "tokens",
    .usual = "name,role,state,made_ms,expires_ms",
    TERN_VIEW_COLUMNS(token_columns),
    .row_size = sizeof(struct token_row),
    .open = open_tokens,
    .next = next_token,
};
