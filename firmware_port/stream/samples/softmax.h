// Runs the client of the samples for Zephyr and ESP-IDF: it enrols once, then trains softmax:64-6 in each round that selects
// it. Called by the sample's main(). Owns all memory of the client.
#ifndef TERN_SAMPLES_SOFTMAX_H
#define TERN_SAMPLES_SOFTMAX_H

#include "client.h"
#include "flash.h"

// The parts of a sample that depend on the board. The caller sets all fields and keeps them until tern_sample_run() returns.
struct tern_sample {
    struct tern_ports ports; // without the store
    const struct tern_flash *flash;
    const char *name;
    const char *platform;
    const char *join_code;
    void (*print)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    void (*wait_ms)(uint32_t ms);
    void (*explain)(void); // prints why the last connection failed
};

// Takes part until the federation has completed its rounds, or an error ends the client. Prints events and the end.
void tern_sample_run(const struct tern_sample *sample);

#endif
