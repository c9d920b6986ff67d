// The transport of a client without a network, for who looks at a state directory: every exchange is
// TERN_ERR_NETWORK, and nothing is counted. Threads may share it.
#ifndef TERN_POSIX_OFFLINE_H
#define TERN_POSIX_OFFLINE_H

#include "ports.h"

struct tern_transport tern_offline_port(void);

#endif
