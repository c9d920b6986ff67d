#include "cli/standby.h"

#include "hosted/log.h"
#include "hosted/notify.h"
#include "util/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct standby {
    struct tern_db *db;
    const struct tern_standby_ports *ports;
    char leader[TERN_STANDBY_NAME_MAX]; // as it was said last
    bool has_said_lost;
};

const char *tern_standby_name(const struct tern_db_node *node, char text[TERN_STANDBY_NAME_MAX])
{
    char number[16] = "";
    if (node->number != 0) {
        snprintf(number, sizeof number, " (%" PRIx32 ")", node->number);
    }
    snprintf(text, TERN_STANDBY_NAME_MAX, "%s%s%s%s",
             node->name[0] != '\0' ? node->name : "one without a name", number,
             node->address[0] != '\0' ? " at " : "", node->address);
    tern_utf8_show(text, strlen(text));
    return text;
}

const char *tern_standby_role(const struct tern_db_node *node)
{
    return node->leads ? "leads" : node->follows ? "follows" : "stands by";
}

bool tern_standby_complaint(const struct tern_db_node *leader, char sentence[256])
{
    const bool is_silent = leader->silent_ms >= TERN_STANDBY_SILENT_MS;
    char name[TERN_STANDBY_NAME_MAX];
    char ago[TERN_TEXT];
    tern_standby_name(leader, name);
    tern_text_duration(is_silent ? leader->silent_ms : leader->idle_ms, ago);
    if (is_silent) {
        snprintf(sentence, 256, "%.150s leads, and has not been heard of for %.40s", name, ago);
    } else {
        snprintf(sentence, 256, "%.150s leads, and its service has not moved for %.40s", name, ago);
    }
    return is_silent || leader->idle_ms >= TERN_STANDBY_IDLE_MS;
}

// False where nobody leads, or that cannot be found out.
static bool find_leader(struct standby *standby, char leader[TERN_STANDBY_NAME_MAX])
{
    struct tern_db_node node;
    size_t count = 0;
    snprintf(leader, TERN_STANDBY_NAME_MAX, "another aggregator");
    if (tern_db_nodes(standby->db, &node, 1, &count) != TERN_OK || count == 0 || !node.leads) {
        return false;
    }
    tern_standby_name(&node, leader);
    return true;
}

static const char *alive(const struct standby *standby)
{
    const struct tern_standby_ports *ports = standby->ports;
    return ports->lives == NULL || ports->lives(ports->ctx) ? "WATCHDOG=1\n" : "";
}

static void say_leader(struct standby *standby, const char *leader)
{
    if (standby->has_said_lost) {
        tern_log(TERN_LOG_INFO, "store-reached", "leader=%s", TERN_LOG_TEXT(leader));
    }
    standby->has_said_lost = false;
    const bool follows = standby->ports->follows;
    tern_notify("READY=1\n%sSTATUS=%s: %s leads\n", alive(standby),
                follows ? "follows" : "stands by", leader);
    if (strcmp(leader, standby->leader) == 0) {
        return;
    }
    snprintf(standby->leader, sizeof standby->leader, "%s", leader);
    tern_log(TERN_LOG_INFO, follows ? "follows" : "stands-by", "leader=%s", TERN_LOG_TEXT(leader));
    printf("%s leads; %s\n", leader, follows ? "following" : "standing by");
    fflush(stdout);
}

static void say_lost(struct standby *standby)
{
    tern_notify("READY=1\n%sSTATUS=the database cannot be reached\n", alive(standby));
    if (!standby->has_said_lost) {
        tern_log(TERN_LOG_WARN, "store-unreachable", "detail=%s",
                 TERN_LOG_TEXT(tern_db_error(standby->db)));
    }
    standby->has_said_lost = true;
}

static bool is_stopped(const struct standby *standby, int seconds)
{
    const struct timespec wait = {.tv_sec = seconds};
    const int number = sigtimedwait(standby->ports->signals, NULL, &wait);
    if (number == SIGHUP && standby->ports->reload != NULL) {
        standby->ports->reload(standby->ports->ctx);
    } else if (number == SIGHUP) { // settings are read when it starts
        tern_log(TERN_LOG_WARN, "reload-refused",
                 "why=\"it stands by; restart it for other settings\"");
    }
    return number == SIGTERM || number == SIGINT;
}

bool tern_standby_is_led(struct tern_db *db, uint32_t self)
{
    struct tern_db_node node;
    size_t count = 0;
    return tern_db_nodes(db, &node, 1, &count) == TERN_OK && count > 0 && node.leads &&
           node.number != self;
}

int tern_standby(struct tern_cli *cli, struct tern_db *db, const struct tern_standby_ports *ports,
                 bool *stopped)
{
    struct standby standby = {.db = db, .ports = ports};
    char leader[TERN_STANDBY_NAME_MAX];
    bool stands_by = find_leader(&standby, leader); // holding waits for seconds
    if (stands_by) {
        say_leader(&standby, leader);
    }
    stands_by = stands_by || ports->follows;
    enum tern_result result = tern_db_hold(db);
    while (result == TERN_ERR_STATE || (result == TERN_ERR_IO && stands_by)) {
        stands_by = true;
        if (result == TERN_ERR_STATE) {
            find_leader(&standby, leader);
            say_leader(&standby, leader);
            if (ports->ends != NULL && ports->ends(ports->ctx)) {
                return TERN_EXIT_OK;
            }
        } else {
            say_lost(&standby);
        }
        *stopped = is_stopped(&standby, result == TERN_ERR_STATE ? 0 : 1);
        if (*stopped) {
            return TERN_EXIT_OK;
        }
        result = tern_db_hold(db);
    }
    if (result == TERN_OK && stands_by) {
        tern_log(TERN_LOG_INFO, "leads", "before=%s", TERN_LOG_TEXT(standby.leader));
    }
    return tern_cli_check(cli, result, "%s", tern_db_error(db));
}
