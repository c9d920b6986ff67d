#include "app/narrator.h"
#include "app/line.h"
#include "board.h"

// Numbers that a kind of event does not have are zero and are not said.
static void say_numbers(struct line *line, const struct tern_client_event *event)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"client", event->client_id},
        {"round", event->round},
        {"version", event->version},
        {"sequence", event->sequence},
        {"local_steps", event->local_steps},
        {"num_examples", event->num_examples},
        {"bytes", event->bytes},
        {"round_wire_bytes", event->round_bytes},
        {"status", (uint64_t)event->status},
        {"wait_ms", event->wait_ms},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].value != 0) {
            line_number(line, numbers[i].key, numbers[i].value);
        }
    }
}

static void say_answer(struct line *line, const struct tern_client_event *event)
{
    const char *answer = event->result == TERN_OK ? "accepted" : tern_result_name(event->result);
    line_text(line, " answer=");
    line_text(line, event->duplicate ? "duplicate" : answer);
}

void narrator_on_event(void *ctx, const struct tern_client_event *event)
{
    uint32_t *rounds = ctx;
    struct line line = {0};
    line_text(&line, tern_client_event_name(event->kind));
    say_numbers(&line, event);
    if (event->kind == TERN_EVENT_TRAINED) {
        line_fraction(&line, "loss", event->loss);
    }
    if (event->kind == TERN_EVENT_UPLOADED) {
        say_answer(&line, event);
        ++*rounds;
    } else if (event->result != TERN_OK) {
        line_text(&line, " result=");
        line_text(&line, tern_result_name(event->result));
    }
    if (event->final_model_hash != NULL) {
        line_hex(&line, "model_hash", event->final_model_hash, TERN_SHA256_SIZE);
    }
    if (event->why != NULL && event->why[0] != '\0') {
        line_quoted(&line, "why", event->why);
    }
    board_log(line.text);
}
