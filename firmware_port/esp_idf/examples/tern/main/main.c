// A client of a federation on ESP-IDF: Wi-Fi or Ethernet by the settings of "Example Connection Configuration", the date by
// SNTP. docs/PORTING.md has the commands.
#include "stream/samples/softmax.h"
#include "tern_esp.h"

#include <esp_event.h>
#include <esp_netif.h>
#include <esp_netif_sntp.h>
#include <freertos/FreeRTOS.h>
#include <freertos/task.h>
#include <nvs_flash.h>
#include <protocol_examples_common.h>
#include <sdkconfig.h>
#include <stdarg.h>
#include <stdio.h>

#define EXAMPLE_SNTP_MS 30000

extern const char ca_pem[] __asm__("_binary_ca_pem_start"); // ends with a NUL
extern const char ca_pem_end[] __asm__("_binary_ca_pem_end");

static void print(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void print(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
}

// ESP-IDF logs why a connection failed.
static void explain(void)
{
    print("\n");
}

static void wait_ms(uint32_t ms)
{
    vTaskDelay(pdMS_TO_TICKS(ms) + 1);
}

// Waits for the date as long as it takes: without it, certificates are refused, and enrolling would end the example.
static void connect_and_set_date(void)
{
    const esp_sntp_config_t sntp = ESP_NETIF_SNTP_DEFAULT_CONFIG("pool.ntp.org");
    ESP_ERROR_CHECK(nvs_flash_init());
    ESP_ERROR_CHECK(esp_netif_init());
    ESP_ERROR_CHECK(esp_event_loop_create_default());
    ESP_ERROR_CHECK(example_connect());
    ESP_ERROR_CHECK(esp_netif_sntp_init(&sntp));
    while (esp_netif_sntp_sync_wait(pdMS_TO_TICKS(EXAMPLE_SNTP_MS)) != ESP_OK) {
        print("no date from SNTP yet\n");
    }
}

void app_main(void)
{
    static struct tern_esp_connection connection = {
        .host = CONFIG_TERN_EXAMPLE_HOST, .port = CONFIG_TERN_EXAMPLE_PORT, .ca = ca_pem};
    static struct tern_stream_transport transport;
    static struct tern_flash flash;
    connect_and_set_date();
    connection.ca_len = (size_t)(ca_pem_end - ca_pem);
    transport = (struct tern_stream_transport){.stream = tern_esp_stream(&connection),
                                               .clock = tern_esp_clock(),
                                               .host = connection.host,
                                               .port = connection.port};
    if (tern_esp_flash(&flash, "tern") != TERN_OK) {
        print("partitions.csv has no partition \"tern\"\n");
        return;
    }
    const struct tern_sample sample = {
        .ports = {.transport = tern_stream_transport_port(&transport),
                  .clock = transport.clock,
                  .entropy = tern_esp_entropy()},
        .flash = &flash,
        .name = "esp-idf-example",
        .platform = "esp-idf",
        .join_code = CONFIG_TERN_EXAMPLE_JOIN_CODE,
        .print = print,
        .wait_ms = wait_ms,
        .explain = explain};
    tern_sample_run(&sample);
}
