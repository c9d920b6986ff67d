// lwIP's hooks.
#ifndef TERN_LWIP_HOOKS_H
#define TERN_LWIP_HOOKS_H

#define LWIP_HOOK_TCP_ISN(local_address, local_port, remote_address, remote_port) tern_link_random()

#endif
