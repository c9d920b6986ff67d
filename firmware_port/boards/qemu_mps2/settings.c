// Reads the settings from the command line "KEY=VALUE KEY=VALUE ...": mac, address, netmask, gateway, server_address, port,
// host, ca (a DER file of the host), id, token, model, seed, join, name, rounds; in images with secure rounds helper_key (base64url),
// helper_code, min_clients. The data set is in the window (mps2.h).
#include "board.h"
#include "boards/qemu_mps2/mps2.h"
#include "util/bytes.h"
#if TERN_SECURE
#include "secure/secret.h"
#endif

#include <string.h>

#define LINE_SIZE 1024
#define CA_SIZE 4096

// A product has these in flash.
__attribute__((section(".window"))) static struct {
    uint8_t records[FLASH_SIZE];
    char line[LINE_SIZE];
    uint8_t ca[CA_SIZE];
#if TERN_SECURE
    uint8_t helper_key[TERN_P256_PUBLIC_SIZE];
#endif
} window;

static struct tern_board_settings settings = {
    .board = TERN_BOARD_NAME,
    .mac = {0x52, 0x54, 0x00, 0x74, 0x65, 0x72},
    .netmask = {255, 255, 255, 0},
    .server_port = 443,
    .name = "mps2",
};

static _Noreturn void refuse(const char *key)
{
    tern_board_log(key);
    tern_board_stop(true, "this setting is unknown or its value is invalid");
}

// Reads `count` numbers up to `limit`, separated by `mark`.
static bool read_numbers(const char *text, char mark, uint64_t limit, uint64_t *dst, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t number = 0;
        const char *digits = text;
        text = tern_get_decimal(digits, &number);
        if (text == digits || number > limit || *text != (i + 1 < count ? mark : '\0')) {
            return false;
        }
        dst[i] = number;
        text += i + 1 < count;
    }
    return true;
}

static bool read_address(const char *text, uint8_t address[4])
{
    uint64_t numbers[4];
    if (!read_numbers(text, '.', 255, numbers, 4)) {
        return false;
    }
    for (size_t i = 0; i < 4; i++) {
        address[i] = (uint8_t)numbers[i];
    }
    return true;
}

static bool read_ca(const char *file)
{
    const int32_t handle = tern_semihosting_open(file);
    const int32_t len = handle >= 0 ? tern_semihosting_length(handle) : -1;
    if (len <= 0 || len > CA_SIZE || !tern_semihosting_read(handle, window.ca, (size_t)len)) {
        return false;
    }
    tern_semihosting_close(handle);
    settings.ca = window.ca;
    settings.ca_len = (size_t)len;
    return true;
}

static bool read_integer(const char *text, uint64_t limit, uint64_t *number)
{
    return read_numbers(text, '\0', limit, number, 1);
}

static bool read_mac(const char *text)
{
    // Sets only the last byte, in which the devices of a test differ.
    uint64_t last = 0;
    const bool valid = read_integer(text, 255, &last);
    settings.mac[5] = (uint8_t)last;
    return valid;
}

static bool read_text(const char *key, const char *value)
{
    const struct {
        const char *key;
        const char **text;
    } texts[] = {
        {"host", &settings.server_host}, {"token", &settings.token}, {"model", &settings.model},
        {"join", &settings.join_code},   {"name", &settings.name},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(key, texts[i].key) == 0) {
            *texts[i].text = value;
            return true;
        }
    }
    return false;
}

static bool read_addresses(const char *key, const char *value)
{
    const struct {
        const char *key;
        uint8_t *address;
    } addresses[] = {
        {"address", settings.address},
        {"netmask", settings.netmask},
        {"gateway", settings.gateway},
        {"server_address", settings.server_address},
    };
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        if (strcmp(key, addresses[i].key) == 0) {
            return read_address(value, addresses[i].address);
        }
    }
    return false;
}

static bool read_number(const char *key, const char *value)
{
    uint64_t number = 0;
    if (strcmp(key, "id") == 0) {
        return read_integer(value, UINT64_MAX, &settings.client_id);
    }
    if (strcmp(key, "seed") == 0) {
        return read_integer(value, UINT64_MAX, &settings.model_seed);
    }
    if (strcmp(key, "port") == 0 && read_integer(value, UINT16_MAX, &number)) {
        settings.server_port = (uint16_t)number;
        return true;
    }
    if (strcmp(key, "rounds") == 0 && read_integer(value, UINT32_MAX, &number)) {
        settings.rounds = (uint32_t)number;
        return true;
    }
    return strcmp(key, "mac") == 0 && read_mac(value);
}

#if TERN_SECURE
static bool read_secure(const char *key, const char *value)
{
    uint64_t number = 0;
    if (strcmp(key, "helper_key") == 0) {
        settings.helper_key = window.helper_key;
        return tern_base64url_decode(value, strlen(value), window.helper_key,
                                     sizeof window.helper_key) == TERN_OK;
    }
    if (strcmp(key, "helper_code") == 0) {
        settings.helper_code = value;
        return true;
    }
    if (strcmp(key, "min_clients") == 0 && read_integer(value, UINT32_MAX, &number)) {
        settings.secure_min_clients = (uint32_t)number;
        return true;
    }
    return false;
}
#endif

static bool read_setting(const char *key, const char *value)
{
    if (strcmp(key, "ca") == 0) {
        return read_ca(value);
    }
#if TERN_SECURE
    if (read_secure(key, value)) {
        return true;
    }
#endif
    return read_text(key, value) || read_addresses(key, value) || read_number(key, value);
}

static void read_line(char *at)
{
    while (at != NULL && *at != '\0') {
        char *key = at;
        char *end = strchr(at, ' ');
        at = end != NULL ? end + 1 : NULL;
        if (end != NULL) {
            *end = '\0';
        }
        char *value = strchr(key, '=');
        if (value == NULL) {
            refuse(key);
        }
        *value++ = '\0';
        if (!read_setting(key, value)) {
            refuse(key);
        }
    }
}

static void find_data(void)
{
    const uint8_t *at = (const uint8_t *)(WINDOW_BASE + DATA_OFFSET);
    struct window_data head;
    memcpy(&head, at, sizeof head);
    if (head.magic != DATA_MAGIC) {
        return;
    }
    const uint8_t *features = at + sizeof head;
    const size_t size = (size_t)head.count * head.feature_count;
    const void *labels = features + (size + 3) / 4 * 4;
    settings.data = (struct tern_dataset){
        .count = head.count,
        .feature_count = head.feature_count,
        .class_count = head.class_count,
        .height = 1,
        .width = head.feature_count,
        .channels = 1,
        .bytes = features,
        .labels = labels,
        .scale = head.scale,
        .offset = head.offset,
    };
}

void tern_board_settings_read(void)
{
    if (!tern_semihosting_command_line(window.line, sizeof window.line)) {
        tern_board_stop(true, "the command line is missing or longer than 1023 bytes");
    }
    read_line(window.line);
    find_data();
}

const struct tern_board_settings *tern_board_settings(void)
{
    return &settings;
}
