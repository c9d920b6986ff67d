// What aggregators on one database tell each other (store/nodes.h). Each may come for nothing, or twice.
#ifndef TERN_NODES_MESSAGES_H
#define TERN_NODES_MESSAGES_H

#define TERN_TOLD_RELAYED "relayed"   // there are requests for the leader
#define TERN_TOLD_ANSWERED "answers " // behind it the number of the node that there are answers for
#define TERN_TOLD_ENROLLED "enrolled" // there are more clients
#define TERN_TOLD_CLIENTS "clients"   // others may have been revoked, or have other keys
#define TERN_TOLD_SUM "sum "          // behind it the number of a round: its parts are wanted
#define TERN_TOLD_SUMMED                                                                           \
    "summed " // likewise, and that of a node, which has delivered its part or has none

#endif
