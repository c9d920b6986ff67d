#include "log/narrator.h"
#include "board.h"
#include "log/line.h"

// Numbers that a kind of event does not have are zero and are not said.
static void report_numbers(struct tern_line *line, const struct tern_client_event *event)
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
            tern_line_number(line, numbers[i].key, numbers[i].value);
        }
    }
}

static void report_answer(struct tern_line *line, const struct tern_client_event *event)
{
    const char *answer = event->result == TERN_OK ? "accepted" : tern_result_name(event->result);
    tern_line_text(line, " answer=");
    tern_line_text(line, event->duplicate ? "duplicate" : answer);
}

void tern_firmware_says_event(const struct tern_client_event *event)
{
    struct tern_line line = {0};
    tern_line_text(&line, tern_client_event_name(event->kind));
    report_numbers(&line, event);
    if (event->kind == TERN_EVENT_TRAINED) {
        tern_line_fraction(&line, "loss", event->loss);
    }
    if (event->kind == TERN_EVENT_UPLOADED) {
        report_answer(&line, event);
    } else if (event->result != TERN_OK) {
        tern_line_text(&line, " result=");
        tern_line_text(&line, tern_result_name(event->result));
    }
    if (event->final_model_hash != NULL) {
        tern_line_hex(&line, "model_hash", event->final_model_hash, TERN_SHA256_SIZE);
    }
    if (event->why != NULL && event->why[0] != '\0') {
        tern_line_quoted(&line, "why", event->why);
    }
    tern_board_log(line.text);
}

void tern_firmware_says_started(const struct tern_client *client)
{
    const struct tern_client_identity *identity = tern_client_identity(client);
    struct tern_line line = {0};
    tern_line_text(&line, "started");
    tern_line_number(&line, "client", identity->client_id);
    tern_line_quoted(&line, "model", identity->model_spec);
    tern_line_number(&line, "version", tern_client_version(client));
    tern_board_log(line.text);
}

void tern_firmware_says_enrolls_again(void)
{
    tern_board_log("enrolling failed, and is tried again");
}

_Noreturn void tern_firmware_says_failed(const char *what, enum tern_result result)
{
    struct tern_line line = {0};
    tern_line_text(&line, what);
    tern_line_text(&line, ": ");
    tern_line_text(&line, tern_result_name(result));
    tern_board_stop(true, line.text);
}

void tern_firmware_says_summary(const struct tern_client *client,
                                const struct tern_firmware_transport *network, uint32_t rounds,
                                uint32_t flash_wear)
{
    struct tern_line line = {0};
    size_t given = 0;
    size_t used = tern_board_stack_used(&given);
    tern_line_text(&line, "summary");
    tern_line_number(&line, "version", tern_client_version(client));
    tern_line_hex(&line, "replica", tern_client_replica(client), TERN_SHA256_SIZE);
    tern_line_number(&line, "rounds", rounds);
    tern_line_number(&line, "stack", used);
    tern_line_number(&line, "stack_given", given);
    used = tern_firmware_transport_peak(network, &given);
    tern_line_number(&line, "tls", used);
    tern_line_number(&line, "tls_given", given);
    tern_line_number(&line, "flash_wear", flash_wear);
    tern_board_log(line.text);
}
