// Implements the transport port without a network, for programs that read a state directory: every exchange returns
// TERN_ERR_NETWORK, and nothing is counted. Threads may share it.
#ifndef TERN_POSIX_OFFLINE_H
#define TERN_POSIX_OFFLINE_H

#include "ports.h"

struct tern_transport tern_offline_port(void);

#endif
