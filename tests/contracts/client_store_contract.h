// What every implementation of the client's store port must do (client/ports.h).
#ifndef TERN_CLIENT_STORE_CONTRACT_H
#define TERN_CLIENT_STORE_CONTRACT_H

#include "ports.h"

// One implementation under test.
struct store_under_test {
    void (*open)(void);              // a fresh, empty store
    void (*reopen)(void);            // as after a restart: what was saved is there
    void (*close)(void);             // and everything it left behind
    struct tern_store (*port)(void); // of the store that is open
};

// Runs the suite; returns the number of failed tests.
int run_store_contract(const struct store_under_test *under_test);

#endif
