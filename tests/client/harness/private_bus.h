// A message bus of the test's own, with a NetworkManager that the test plays. Both are processes,
// so that they can hang, and die with the test.
#ifndef TERN_TEST_PRIVATE_BUS_H
#define TERN_TEST_PRIVATE_BUS_H

#include <stdbool.h>
#include <stdint.h>

// How NetworkManager answers.
enum fake_manager_manner {
    FAKE_MANAGER_ANSWERS,
    FAKE_MANAGER_IS_SILENT,
    FAKE_MANAGER_SENDS_TEXT,    // where a number belongs
    FAKE_MANAGER_SENDS_NOTHING, // an empty answer
    FAKE_MANAGER_REFUSES,
};

// Starts the bus and returns its address, or NULL when dbus-daemon is not installed.
const char *private_bus_start(void);

void private_bus_freeze(void);
void private_bus_thaw(void);

void private_bus_stop(void);

// Starts the NetworkManager; it answers with `metered` in its `manner`, which may be changed while
// it runs.
void fake_manager_start(void);
void fake_manager_set(enum fake_manager_manner manner, uint32_t metered);
unsigned fake_manager_questions(void);
void fake_manager_stop(void);

#endif
