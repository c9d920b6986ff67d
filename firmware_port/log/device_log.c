#include "log/device_log.h"
#include "board.h"

// --- Building a line of text without printf(). Text that does not fit into the line is left out.

#define LINE_SIZE 256 // with the terminating NUL

struct line {
    char text[LINE_SIZE]; // NUL-terminated at any time
    size_t len;
};

static void put(struct line *line, char c)
{
    if (line->len < LINE_SIZE - 1) {
        line->text[line->len++] = c;
        line->text[line->len] = '\0';
    }
}

static void line_text(struct line *line, const char *text)
{
    while (*text != '\0') {
        put(line, *text++);
    }
}

static void put_key(struct line *line, const char *key)
{
    put(line, ' ');
    line_text(line, key);
    put(line, '=');
}

static void put_number(struct line *line, uint64_t value)
{
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    line_text(line, digits + at);
}

static void line_number(struct line *line, const char *key, uint64_t value)
{
    put_key(line, key);
    put_number(line, value);
}

static void line_fraction(struct line *line, const char *key, float value)
{
    put_key(line, key);
    if (!(value > -100000.0f && value < 100000.0f)) {
        put(line, '-');
        return;
    }
    if (value < 0.0f) {
        put(line, '-');
        value = -value;
    }
    const uint32_t parts = (uint32_t)(value * 10000.0f + 0.5f);
    put_number(line, parts / 10000);
    put(line, '.');
    for (uint32_t unit = 1000; unit > 0; unit /= 10) {
        put(line, (char)('0' + parts / unit % 10));
    }
}

static void line_quoted(struct line *line, const char *key, const char *text)
{
    put_key(line, key);
    put(line, '"');
    line_text(line, text);
    put(line, '"');
}

static void line_hex(struct line *line, const char *key, const uint8_t *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    put_key(line, key);
    for (size_t i = 0; i < len; i++) {
        put(line, digits[bytes[i] >> 4]);
        put(line, digits[bytes[i] & 15]);
    }
}

// --- The lines

// Adds the numbers of an event; a number that the event does not have is 0 and left out.
static void report_numbers(struct line *line, const struct tern_client_event *event)
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

static void report_answer(struct line *line, const struct tern_client_event *event)
{
    const char *answer = event->result == TERN_OK ? "accepted" : tern_result_name(event->result);
    line_text(line, " answer=");
    line_text(line, event->duplicate ? "duplicate" : answer);
}

void tern_firmware_log_event(const struct tern_client_event *event)
{
    struct line line = {0};
    line_text(&line, tern_client_event_name(event->kind));
    report_numbers(&line, event);
    if (event->kind == TERN_EVENT_TRAINED) {
        line_fraction(&line, "loss", event->loss);
    }
    if (event->kind == TERN_EVENT_UPLOADED) {
        report_answer(&line, event);
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
    tern_board_log(line.text);
}

void tern_firmware_log_started(const struct tern_client *client)
{
    const struct tern_client_identity *identity = tern_client_identity(client);
    struct line line = {0};
    line_text(&line, "started");
    line_number(&line, "client", identity->client_id);
    line_quoted(&line, "model", identity->model_spec);
    line_number(&line, "version", tern_client_version(client));
    tern_board_log(line.text);
}

void tern_firmware_log_enroll_retry(void)
{
    tern_board_log("enrolling failed; trying again");
}

_Noreturn void tern_firmware_log_failure(const char *what, enum tern_result result)
{
    struct line line = {0};
    line_text(&line, what);
    line_text(&line, ": ");
    line_text(&line, tern_result_name(result));
    tern_board_stop(true, line.text);
}

void tern_firmware_log_summary(const struct tern_client *client,
                               const struct tern_firmware_transport *network, uint32_t rounds,
                               uint32_t flash_wear)
{
    struct line line = {0};
    size_t given = 0;
    size_t used = tern_board_stack_used(&given);
    line_text(&line, "summary");
    line_number(&line, "version", tern_client_version(client));
    line_hex(&line, "replica", tern_client_replica(client), TERN_SHA256_SIZE);
    line_number(&line, "rounds", rounds);
    line_number(&line, "stack", used);
    line_number(&line, "stack_given", given);
    used = tern_firmware_transport_peak(network, &given);
    line_number(&line, "tls", used);
    line_number(&line, "tls_given", given);
    line_number(&line, "flash_wear", flash_wear);
    tern_board_log(line.text);
}
