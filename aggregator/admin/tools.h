// Answers requests by running a verb of this program as a child process: `doctor`, and `export` of the newest model. A
// child opens the database by itself and takes no time of the service; its output is held in memory until it is sent.
// One child runs at a time, on a thread of its own, for a minute at most. Called from the admin listener's thread.
#ifndef TERN_ADMIN_TOOLS_H
#define TERN_ADMIN_TOOLS_H

#include "http/http.h"

enum tern_tool {
    TERN_TOOL_DOCTOR, // replies a JSON array of findings
    TERN_TOOL_EXPORT, // replies a .safetensors file
};

struct tern_tools {
    const char *const
        *options; // options for every verb, NULL-terminated, borrowed; NULL: no tool can run
    struct tern_tools_state *state;
};

TERN_MUST_USE enum tern_result tern_tools_start(struct tern_tools *tools,
                                                const char *const *options);
// Runs the tool and replies to the exchange when it ends; at once with an error if another tool is running.
void tern_tools_run(struct tern_tools *tools, enum tern_tool tool,
                    struct tern_http_exchange *exchange);
// Kills the running child, and prevents new ones. From any thread.
void tern_tools_cancel(struct tern_tools *tools);
// Waits for the thread and frees everything. Requires that no tern_tools_run() follows.
void tern_tools_stop(struct tern_tools *tools);

#endif
