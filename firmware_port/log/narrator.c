#include "log/narrator.h"
#include "board.h"
#include "log/line.h"
#include "net/transport.h"

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

void narrator_event(const struct tern_client_event *event)
{
    struct line line = {0};
    line_text(&line, tern_client_event_name(event->kind));
    say_numbers(&line, event);
    if (event->kind == TERN_EVENT_TRAINED) {
        line_fraction(&line, "loss", event->loss);
    }
    if (event->kind == TERN_EVENT_UPLOADED) {
        say_answer(&line, event);
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

void narrator_started(const struct tern_client *client)
{
    const struct tern_client_identity *identity = tern_client_identity(client);
    struct line line = {0};
    line_text(&line, "started");
    line_number(&line, "client", identity->client_id);
    line_quoted(&line, "model", identity->model_spec);
    line_number(&line, "version", tern_client_version(client));
    board_log(line.text);
}

void narrator_enrolls_again(void)
{
    board_log("enrolling failed, and is tried again");
}

_Noreturn void narrator_failed(const char *what, enum tern_result result)
{
    struct line line = {0};
    line_text(&line, what);
    line_text(&line, ": ");
    line_text(&line, tern_result_name(result));
    board_stop(true, line.text);
}

void narrator_summary(const struct tern_client *client, uint32_t rounds, uint32_t flash_wear)
{
    struct line line = {0};
    size_t given = 0;
    size_t used = board_stack_used(&given);
    line_text(&line, "summary");
    line_number(&line, "version", tern_client_version(client));
    line_hex(&line, "replica", tern_client_replica(client), TERN_SHA256_SIZE);
    line_number(&line, "rounds", rounds);
    line_number(&line, "stack", used);
    line_number(&line, "stack_given", given);
    used = tern_firmware_transport_peak(&given);
    line_number(&line, "tls", used);
    line_number(&line, "tls_given", given);
    line_number(&line, "flash_wear", flash_wear);
    board_log(line.text);
}
