// The headers of libtern-client, which CTern uses: pkg-config names their folder.
#ifndef TERN_INSTALLED_H
#define TERN_INSTALLED_H

#include <tern/client.h>

#endif
