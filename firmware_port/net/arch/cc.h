// Configures lwIP for the compiler, and supplies its random numbers.
#ifndef TERN_LWIP_CC_H
#define TERN_LWIP_CC_H

#include <stdint.h>

#define LWIP_NO_UNISTD_H 1
#define LWIP_NO_CTYPE_H 1
#define LWIP_NO_INTTYPES_H 1
#define X8_F "x"
#define U16_F "u"
#define S16_F "d"
#define X16_F "x"
#define U32_F "lu"
#define S32_F "ld"
#define X32_F "lx"
#define SZT_F "u"

// Nothing is printed.
#define LWIP_PLATFORM_DIAG(text)
#define LWIP_PLATFORM_ASSERT(text)

// Local ports and initial sequence numbers must be unpredictable, and differ from those of connections that a power cut left
// open at the peer.
uint32_t tern_link_random(void);
#define LWIP_RAND() tern_link_random()
#define LWIP_HOOK_TCP_ISN(local_address, local_port, remote_address, remote_port) tern_link_random()

#endif
