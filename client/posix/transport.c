#define _GNU_SOURCE
#include "posix/transport.h"
#include "defaults.h"
#include "hosted/system.h"
#include "posix/sockets.h"
#include "posix/tls/curl_tls.h"
#include "util/text.h"
#include "wire/wire.h"

#include <curl/curl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// --- The bytes of sockets, by the kernel's counters (sockets.h)

#define TCP_STATE_ESTABLISHED 1
#define TCP_STATE_CLOSE_WAIT 8

// Overhead in the estimates for kernels that do not count.
#define RECORD_BYTES 29     // AES-GCM in TLS 1.2; other suites take 7 or 8 less
#define RECORD_LENGTH 16384 // largest content of a record
#define SEGMENT_LENGTH 1400 // content of a segment with a usual MTU
#define TIMESTAMP_BYTES 12

static bool read_info(int fd, struct tcp_info *info)
{
    socklen_t len = sizeof *info;
    memset(info, 0, sizeof *info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0 &&
           len >= offsetof(struct tcp_info, tcpi_bytes_retrans) + sizeof info->tcpi_bytes_retrans;
}

bool tern_curl_is_counted(void)
{
    struct tcp_info info;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool counted = fd >= 0 && read_info(fd, &info);
    if (fd >= 0) {
        close(fd);
    }
    return counted;
}

void tern_sockets_init(struct tern_sockets *sockets)
{
    memset(sockets, 0, sizeof *sockets);
    sockets->counted = tern_curl_is_counted();
    sockets->header = 20 + 20 + TIMESTAMP_BYTES; // used before the first connection
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        sockets->sockets[i].fd = -1;
    }
}

static struct tern_socket_reading *find(struct tern_sockets *sockets, int fd)
{
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        if (sockets->sockets[i].fd == fd) {
            return &sockets->sockets[i];
        }
    }
    return NULL;
}

void tern_sockets_add(struct tern_sockets *sockets, int fd)
{
    struct tern_socket_reading *reading = find(sockets, -1);
    if (reading != NULL) {
        *reading = (struct tern_socket_reading){.fd = fd};
    }
}

// Header bytes of IP and TCP, without TCP options.
static uint32_t plain_header_bytes(int fd)
{
    int family = AF_INET;
    socklen_t len = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
    return (family == AF_INET6 ? 40 : 20) + 20;
}

static uint32_t header_bytes(int fd, const struct tcp_info *info)
{
    const bool timestamps = (info->tcpi_options & TCPI_OPT_TIMESTAMPS) != 0;
    return plain_header_bytes(fd) + (timestamps ? TIMESTAMP_BYTES : 0);
}

static struct tern_bytes *bytes_of(struct tern_sockets *sockets, enum tern_purpose purpose,
                                   enum tern_direction direction)
{
    return &sockets->meter.bytes[purpose][direction];
}

// Returns the received bytes of the TCP stream. tcpi_bytes_received counts a FIN as one byte more.
static uint64_t bytes_received(struct tern_socket_reading *reading, const struct tcp_info *info)
{
    reading->peer_closed = reading->peer_closed || info->tcpi_state == TCP_STATE_CLOSE_WAIT;
    return info->tcpi_bytes_received - (reading->peer_closed ? 1 : 0);
}

static void read_one(struct tern_sockets *sockets, struct tern_socket_reading *reading,
                     enum tern_purpose purpose)
{
    struct tcp_info info;
    if (!read_info(reading->fd, &info)) {
        return;
    }
    const bool first = reading->last_counters.segments_sent == 0;
    const struct tern_socket_counters now = {
        .bytes_sent = info.tcpi_bytes_sent,
        .bytes_received = bytes_received(reading, &info),
        .bytes_retransmitted = info.tcpi_bytes_retrans,
        .segments_sent = info.tcpi_segs_out,
        .segments_received = info.tcpi_segs_in,
        .header_bytes = header_bytes(reading->fd, &info),
    };
    struct tern_bytes sent = {0};
    struct tern_bytes received = {0};
    tern_socket_delta(&reading->last_counters, &now, &sent, &received);
    if (first && now.segments_sent > 0) {
        sent.wire += TERN_METER_SYN_BYTES;
        received.wire += now.segments_received > 0 ? TERN_METER_SYN_BYTES : 0;
    }
    tern_bytes_add(bytes_of(sockets, purpose, TERN_UP), &sent);
    tern_bytes_add(bytes_of(sockets, purpose, TERN_DOWN), &received);
    reading->last_counters = now;
}

// --- Estimates for kernels that do not count

// Adds the estimate for opening and closing a connection: half of the bytes in each direction, and half of these are headers.
static void estimate_opening(struct tern_sockets *sockets, enum tern_purpose purpose,
                             uint64_t price)
{
    for (int d = 0; d < TERN_DIRECTION_COUNT; d++) {
        const struct tern_bytes half = {.tls = price / 4, .wire = price / 2};
        tern_bytes_add(bytes_of(sockets, purpose, (enum tern_direction)d), &half);
    }
}

// Adds the estimate for the plaintext since the last call: its records, their segments, and an acknowledgement in the other
// direction for every second segment.
static void estimate(struct tern_sockets *sockets, enum tern_purpose purpose)
{
    for (int d = 0; d < TERN_DIRECTION_COUNT; d++) {
        const uint64_t len = sockets->plaintext[d] - sockets->estimated_bytes[d];
        if (len == 0) {
            continue;
        }
        const uint64_t tls = len + (len / RECORD_LENGTH + 1) * RECORD_BYTES;
        const uint64_t segments = tls / SEGMENT_LENGTH + 1;
        const struct tern_bytes sent = {.tls = tls, .wire = tls + segments * sockets->header};
        tern_bytes_add(bytes_of(sockets, purpose, (enum tern_direction)d), &sent);
        bytes_of(sockets, purpose, d == TERN_UP ? TERN_DOWN : TERN_UP)->wire +=
            segments / 2 * sockets->header;
        sockets->estimated_bytes[d] = sockets->plaintext[d];
    }
}

// Adds the estimate for a connection that failed to open: two SYNs if TCP did not connect, else a full TLS handshake.
static void estimate_failure(struct tern_sockets *sockets, int fd, enum tern_purpose purpose)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    const bool connected = getpeername(fd, (struct sockaddr *)&peer, &len) == 0;
    estimate_opening(sockets, purpose,
                     connected ? TERN_PRICE_FULL : 2 * (sockets->header + TERN_METER_SYN_BYTES));
}

// Returns the bytes in a socket that the peer has not acknowledged.
static uint64_t unacknowledged(int fd)
{
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

// Marks new sockets as open after a TLS handshake. resumed: the handshake resumed a session.
static void count_opened(struct tern_sockets *sockets, bool resumed)
{
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        struct tern_socket_reading *reading = &sockets->sockets[i];
        if (reading->fd < 0 || reading->opened) {
            continue;
        }
        reading->opened = true;
        if (!sockets->counted) {
            sockets->header = plain_header_bytes(reading->fd) + TIMESTAMP_BYTES;
            estimate_opening(sockets, TERN_PURPOSE_HANDSHAKE,
                             resumed ? TERN_PRICE_RESUMED : TERN_PRICE_FULL);
        }
    }
}

// Counts bytes of HTTP that were handed to TLS or received from it.
static void count_traffic(struct tern_sockets *sockets, enum tern_purpose purpose,
                          enum tern_direction direction, size_t len)
{
    bytes_of(sockets, purpose, direction)->http += len;
    sockets->plaintext[direction] += len;
}

// Delays acknowledgements of answers until the next request. Called before each request, since the kernel resets the
// option after it has sent an acknowledgement alone.
static void delay_acknowledgements(const struct tern_sockets *sockets)
{
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        const int fd = sockets->sockets[i].fd;
        const int off = 0;
        if (fd >= 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
        }
    }
}

// Returns a number that changes when the peer of any socket has acknowledged or sent something.
static uint64_t bytes_moved(const struct tern_sockets *sockets)
{
    uint64_t moved =
        sockets->counted ? 0 : sockets->plaintext[TERN_UP] + sockets->plaintext[TERN_DOWN];
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        struct tcp_info info;
        const int fd = sockets->sockets[i].fd;
        if (fd >= 0 && !sockets->counted) {
            moved -= unacknowledged(fd);
        } else if (fd >= 0 && read_info(fd, &info)) {
            moved += info.tcpi_bytes_acked + info.tcpi_bytes_received;
        }
    }
    return moved;
}

void tern_sockets_read(struct tern_sockets *sockets, enum tern_purpose purpose)
{
    if (!sockets->counted) {
        estimate(sockets, purpose);
        return;
    }
    for (int i = 0; i < TERN_SOCKETS_MAX; i++) {
        if (sockets->sockets[i].fd >= 0) {
            read_one(sockets, &sockets->sockets[i], purpose);
        }
    }
}

// Adds the client's FIN and its acknowledgement and, unless it has arrived already, the peer's FIN and its acknowledgement.
static void count_close(struct tern_sockets *sockets, const struct tern_socket_reading *reading,
                        enum tern_purpose purpose)
{
    struct tcp_info info;
    if (!read_info(reading->fd, &info)) {
        return;
    }
    const uint64_t header = reading->last_counters.header_bytes;
    if (info.tcpi_state == TCP_STATE_ESTABLISHED) {
        bytes_of(sockets, purpose, TERN_UP)->wire += 2 * header;
        bytes_of(sockets, purpose, TERN_DOWN)->wire += 2 * header;
    } else if (info.tcpi_state == TCP_STATE_CLOSE_WAIT) {
        bytes_of(sockets, purpose, TERN_UP)->wire += header;
        bytes_of(sockets, purpose, TERN_DOWN)->wire += header;
    }
}

void tern_sockets_remove(struct tern_sockets *sockets, int fd, enum tern_purpose purpose)
{
    struct tern_socket_reading *reading = fd >= 0 ? find(sockets, fd) : NULL;
    if (reading == NULL) {
        return;
    }
    if (sockets->counted) {
        read_one(sockets, reading, purpose);
        count_close(sockets, reading, purpose);
    } else if (!reading->opened) {
        estimate_failure(sockets, fd, purpose);
    }
    reading->fd = -1;
}

#define WHY_SIZE 512

// --- The HTTP proxy between this transport and its server (client.proxy, relay.proxy): which one, and why it fails

struct proxy {
    char *url;            // with user and password; NULL: none
    char *place;          // "host:port", for messages
    char setting[64];     // the setting or the environment variable that names it
    bool by_environment;  // also obeys no_proxy
    bool has_credentials; // the URL has a user
};

// Sets *value to the first of libcurl's variables for https that is not empty. Returns its name; NULL: there is none.
static const char *find_variable(const char **value)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *value = getenv(names[i]);
        if (*value != NULL && (*value)[0] != '\0') {
            return names[i];
        }
    }
    return NULL;
}

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    const bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

static bool part_is(CURLU *url, CURLUPart part, const char *wanted)
{
    char *text = NULL;
    const bool same = curl_url_get(url, part, &text, 0) == CURLUE_OK && strcmp(text, wanted) == 0;
    curl_free(text);
    return same;
}

// Returns what is wrong with the URL; NULL: nothing.
static const char *fault_of(CURLU *url)
{
    if (!part_is(url, CURLUPART_SCHEME, "http")) {
        return "its scheme is not http";
    }
    if (!has_part(url, CURLUPART_PORT)) {
        return "it has no port";
    }
    if (!part_is(url, CURLUPART_PATH, "/") || has_part(url, CURLUPART_QUERY) ||
        has_part(url, CURLUPART_FRAGMENT)) {
        return "it goes on after the port";
    }
    return NULL;
}

// Returns "host:port", malloc'ed; NULL without memory.
static char *place_of(CURLU *url)
{
    char *host = NULL;
    char *port = NULL;
    char *place = NULL;
    if (curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &port, 0) == CURLUE_OK &&
        asprintf(&place, "%s:%s", host, port) < 0) {
        place = NULL;
    }
    curl_free(host);
    curl_free(port);
    return place;
}

static enum tern_result read_proxy(struct proxy *proxy, const char *text, CURLU *url, char *why)
{
    // In the environment, "host:port" is common.
    const unsigned flags = proxy->by_environment ? CURLU_GUESS_SCHEME : 0;
    const char *fault = curl_url_set(url, CURLUPART_URL, text, flags) == CURLUE_OK
                            ? fault_of(url)
                            : "it is no such URL";
    if (fault != NULL) {
        snprintf(why, WHY_SIZE, "%s must be http://[user:password@]host:port%s: %s", proxy->setting,
                 proxy->by_environment ? "" : ", environment, or empty", fault);
        return TERN_ERR_CONFIG;
    }
    proxy->has_credentials = has_part(url, CURLUPART_USER);
    proxy->place = place_of(url);
    proxy->url = strdup(text);
    return proxy->url != NULL && proxy->place != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// Chooses the proxy. wanted: NULL or "": none; "environment"; else a URL. The caller frees *proxy, also after an error, whose
// why has no password.
static enum tern_result choose_proxy(const char *section, const char *wanted, struct proxy *proxy,
                                     char *why)
{
    *proxy = (struct proxy){0};
    if (wanted == NULL || wanted[0] == '\0') {
        return TERN_OK;
    }
    proxy->by_environment = strcmp(wanted, "environment") == 0;
    const char *variable = proxy->by_environment ? find_variable(&wanted) : NULL;
    if (proxy->by_environment && variable == NULL) {
        return TERN_OK;
    }
    if (proxy->by_environment) {
        snprintf(proxy->setting, sizeof proxy->setting, "the environment variable %s", variable);
    } else {
        snprintf(proxy->setting, sizeof proxy->setting, "%s.proxy", section);
    }
    CURLU *url = curl_url();
    snprintf(why, WHY_SIZE, "there is no memory for a connection");
    const enum tern_result result =
        url != NULL ? read_proxy(proxy, wanted, url, why) : TERN_ERR_NO_MEMORY;
    curl_url_cleanup(url);
    return result;
}

static void free_proxy(struct proxy *proxy)
{
    if (proxy->url != NULL) {
        explicit_bzero(proxy->url, strlen(proxy->url));
    }
    free(proxy->url);
    free(proxy->place);
    *proxy = (struct proxy){0};
}

// Sets the proxy of a new handle. Without one, libcurl obeys none of the environment either.
static void configure_proxy(const struct proxy *proxy, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_PROXY, proxy->url != NULL ? proxy->url : "");
    if (!proxy->by_environment) {
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    }
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
}

static void explain_refused_connect(const struct proxy *proxy, long status, char *text, size_t size)
{
    if (status != 407) {
        snprintf(text, size,
                 "the proxy %s answered HTTP %ld, and did not connect to the aggregator (%s)",
                 proxy->place, status, proxy->setting);
    } else if (proxy->has_credentials) {
        snprintf(text, size, "the proxy %s refused the user or the password in %s (HTTP 407)",
                 proxy->place, proxy->setting);
    } else {
        snprintf(text, size,
                 "the proxy %s requires a user and a password (HTTP 407): add user:password@ to "
                 "the URL in %s",
                 proxy->place, proxy->setting);
    }
}

// Returns whether libcurl's message is about a connection to the proxy, and not one past it (no_proxy).
static bool is_about(const struct proxy *proxy, const char *text)
{
    const bool brackets = proxy->place[0] == '[';
    const char *host = proxy->place + brackets;
    char wanted[300];
    snprintf(wanted, sizeof wanted, " %.*s port ", (int)strcspn(host, brackets ? "]" : ":"), host);
    return strstr(text, wanted) != NULL;
}

// Replaces libcurl's message in text[0..size) about an exchange that failed with `code`, if the proxy is the reason.
static void explain_proxy(const struct proxy *proxy, CURL *easy, CURLcode code, char *text,
                          size_t size)
{
    long status = 0;
    char before[CURL_ERROR_SIZE];
    if (proxy->url == NULL || code == CURLE_OK) {
        return;
    }
    curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &status);
    snprintf(before, sizeof before, "%s", text);
    if (code == CURLE_COULDNT_RESOLVE_PROXY) {
        snprintf(text, size, "the name of the proxy %s has no address (DNS): check %s",
                 proxy->place, proxy->setting);
    } else if (status >= 300) {
        explain_refused_connect(proxy, status, text, size);
    } else if (code == CURLE_COULDNT_CONNECT && is_about(proxy, before)) {
        snprintf(text, size, "the proxy %s of %s cannot be reached: %.80s", proxy->place,
                 proxy->setting, before);
    } else if (strstr(before, "CONNECT") != NULL) {
        snprintf(text, size, "the proxy %s ended the connection before it answered (%s)",
                 proxy->place, proxy->setting);
    }
}

// --- The transport

#define CONNECT_TIMEOUT_MS 20000
#define IDLE_CONNECTION_S 600 // a connection that is idle for longer is closed

// An exchange with a lower average rate (4 kbit/s) is aborted even if bytes move. The aggregator does the same
// (limits.min_rate).
#define MIN_BYTES_PER_SECOND 500

// Longest wait for the network without a call of on_progress(), so that a program can cancel an exchange within a second.
#define POLL_MS 500

// A socket takes no more than this before it has sent it, so that few bytes follow the end of an exchange.
#define UNSENT_MAX 16384

#define PIECE_SIZE 16384  // of long bodies; a TLS record takes no more
#define BUFFER_SIZE 65536 // libcurl's default

struct tern_curl {
    CURL *easy;   // NULL: no connection
    CURLM *multi; // has the kept connection
    struct tern_curl_tls *tls;
    struct proxy proxy;
    char *server;
    uint32_t connect_timeout_ms;
    char *url;
    size_t url_size;
    char error[CURL_ERROR_SIZE];
    struct tern_sockets sockets;
    enum tern_purpose purpose; // purpose of the current or last exchange
    bool connecting;           // the newest socket has not sent a request yet
    bool body_is_long;         // the aggregator may keep a partial body of this exchange
    bool body_begun;           // a part of such a body was sent
    bool sent;                 // a part of the request was sent
    const struct tern_request *request;
    struct tern_response *response;
    enum tern_result refused; // error of put(), response->take or request->watch

    curl_off_t received; // bytes of the response's body

    // An exchange fails if no byte moves for stall_ms.
    uint32_t stall_ms; // 0: no exchange is active
    uint64_t moved;    // last value of bytes_moved()
    uint64_t moved_ms; // time when bytes_moved() last changed
    bool stalled;      // the exchange has failed for this reason
};

enum tern_result tern_curl_global(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? TERN_OK : TERN_ERR_NO_MEMORY;
}

// --- Callbacks of libcurl

// Returns whether the exchange may go on. `done` bytes of `total` have moved; libcurl's total is at most 0 if it is unknown.
static bool may_go_on(struct tern_curl *curl, enum tern_direction direction, curl_off_t done,
                      curl_off_t total)
{
    const struct tern_request *request = curl->request;
    if (request->watch == NULL || request->watch(request->watch_ctx, direction, (uint64_t)done,
                                                 total > 0 ? (uint64_t)total : 0)) {
        return true;
    }
    curl->refused = TERN_ERR_CANCELLED;
    return false;
}

static enum tern_result put(struct tern_response *response, const uint8_t *data, size_t len)
{
    if (len > response->body_size - response->body_len) {
        return TERN_ERR_TOO_LARGE;
    }
    memcpy(response->body + response->body_len, data, len);
    response->body_len += len;
    return TERN_OK;
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx)
{
    struct tern_curl *curl = ctx;
    struct tern_response *response = curl->response;
    const size_t len = size * count;
    long status = 0;
    curl_easy_getinfo(curl->easy, CURLINFO_RESPONSE_CODE, &status);
    response->status = (int)status;
    const bool taken = response->take != NULL && status >= 200 && status <= 299;
    curl->refused = taken ? response->take(response->take_ctx, (const uint8_t *)data, len)
                          : put(response, (const uint8_t *)data, len);
    curl->received += (curl_off_t)len;
    curl_off_t total = 0;
    curl_easy_getinfo(curl->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &total);
    return curl->refused == TERN_OK && may_go_on(curl, TERN_DOWN, curl->received, total)
               ? len
               : 0; // 0 makes libcurl stop
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    static const char name[] = "retry-after:";
    struct tern_curl *curl = ctx;
    const size_t len = size * count;
    char value[16] = "";
    if (len > sizeof name - 1 && strncasecmp(line, name, sizeof name - 1) == 0) {
        const size_t rest = len - (sizeof name - 1);
        memcpy(value, line + sizeof name - 1, rest < sizeof value ? rest : sizeof value - 1);
        const unsigned long seconds = strtoul(value, NULL, 10); // a date reads as 0: not asked
        curl->response->retry_after_s = seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
    }
    return len;
}

// Opens a socket. libcurl repeats a request on a new socket if an open connection breaks before a response. If many bytes of an
// update were sent, this function refuses the socket, so that the client first asks the aggregator how many bytes it has.
static curl_socket_t on_open(void *ctx, curlsocktype type, struct curl_sockaddr *address)
{
    struct tern_curl *curl = ctx;
    (void)type;
    if (curl->body_begun) {
        return CURL_SOCKET_BAD;
    }
    const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd >= 0) {
        const int unsent = UNSENT_MAX;
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
        tern_sockets_add(&curl->sockets, fd);
        curl->connecting = true;
    }
    return fd >= 0 ? fd : CURL_SOCKET_BAD;
}

static int on_close(void *ctx, curl_socket_t fd)
{
    struct tern_curl *curl = ctx;
    const struct linger discard = {.l_onoff = 1, .l_linger = 0};
    tern_sockets_remove(&curl->sockets, fd,
                        curl->connecting ? TERN_PURPOSE_HANDSHAKE : curl->purpose);
    if (curl->refused == TERN_ERR_CANCELLED) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &discard, sizeof discard); // what waits is not sent
    }
    return close(fd);
}

// Called between the handshake and the first byte of a request.
static int on_connected(void *ctx, char *remote, char *local, int remote_port, int local_port)
{
    struct tern_curl *curl = ctx;
    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    const bool connected = curl->connecting;
    const enum tern_result result =
        connected ? tern_curl_tls_connected(curl->tls, curl->easy) : TERN_OK;
    if (connected) {
        count_opened(&curl->sockets, tern_curl_tls_resumed(curl->tls));
    }
    tern_sockets_read(&curl->sockets, connected ? TERN_PURPOSE_HANDSHAKE : curl->purpose);
    curl->connecting = false;
    return result == TERN_OK ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

// Counts the bytes between libcurl and TLS. libcurl's counters do not always include a request's body.
static int on_traffic(CURL *easy, curl_infotype type, char *data, size_t len, void *ctx)
{
    struct tern_curl *curl = ctx;
    (void)easy;
    if (type == CURLINFO_SSL_DATA_IN && curl->connecting) {
        tern_curl_tls_note_received(curl->tls, (const uint8_t *)data, len);
    }
    // Before the handshake with the server, these are the request to a proxy and its answer.
    const enum tern_purpose purpose = curl->connecting ? TERN_PURPOSE_HANDSHAKE : curl->purpose;
    if (type == CURLINFO_HEADER_OUT || type == CURLINFO_DATA_OUT) {
        count_traffic(&curl->sockets, purpose, TERN_UP, len);
        curl->body_begun = curl->body_begun || (type == CURLINFO_DATA_OUT && curl->body_is_long);
        curl->sent = curl->sent || !curl->connecting;
    } else if (type == CURLINFO_HEADER_IN || type == CURLINFO_DATA_IN) {
        count_traffic(&curl->sockets, purpose, TERN_DOWN, len);
    }
    return 0;
}

// Returns whether the exchange has stalled. The peer's acknowledgements count as progress: libcurl passes a complete update to
// the kernel long before a slow link has transmitted it.
static bool is_stalled(struct tern_curl *curl)
{
    const uint64_t moved = bytes_moved(&curl->sockets);
    const uint64_t now = tern_monotonic_ms();
    if (moved != curl->moved) {
        curl->moved = moved;
        curl->moved_ms = now;
    }
    curl->stalled = curl->stall_ms != 0 && now - curl->moved_ms >= curl->stall_ms;
    return curl->stalled;
}

// Called at least every POLL_MS.
static int on_progress(void *ctx, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    struct tern_curl *curl = ctx;
    (void)down;
    // on_body() reports the bytes of the response
    const bool ends = curl->received > 0 ? !may_go_on(curl, TERN_DOWN, curl->received, down_total)
                                         : !may_go_on(curl, TERN_UP, up, up_total);
    return ends || is_stalled(curl) ? 1 : 0;
}

// --- The handle

static void set_options(struct tern_curl *curl)
{
    CURL *easy = curl->easy;
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT,
                     1L); // the end of an exchange waits for no name lookup
#endif
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)IDLE_CONNECTION_S);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)curl->connect_timeout_ms);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, curl->error);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, curl);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, curl);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, curl);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, curl);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, curl);
    curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);
    curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_traffic);
    curl_easy_setopt(easy, CURLOPT_DEBUGDATA, curl);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, curl);
    configure_proxy(&curl->proxy, easy);
    tern_curl_tls_configure(curl->tls, easy);
}

static void close_connection(void *ctx)
{
    struct tern_curl *curl = ctx;
    // The handle that closes the connection reports to it, so it must exist until then.
    curl_multi_cleanup(curl->multi);
    curl_easy_cleanup(curl->easy);
    curl->multi = NULL;
    curl->easy = NULL;
}

static enum tern_result make_ready(struct tern_curl *curl)
{
    if (curl->easy != NULL) {
        return TERN_OK;
    }
    curl->multi = curl_multi_init();
    curl->easy = curl_easy_init();
    if (curl->easy == NULL || curl->multi == NULL) {
        close_connection(curl);
        return TERN_ERR_NO_MEMORY;
    }
    curl_multi_setopt(curl->multi, CURLMOPT_MAXCONNECTS, 1L);
    set_options(curl);
    return TERN_OK;
}

// --- One exchange

static bool append(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);
    if (longer != NULL) {
        *list = longer;
    }
    return longer != NULL;
}

// Makes the list of headers: without those that libcurl would add, and with the token and the offset of the body.
static struct curl_slist *make_headers(const struct tern_request *request)
{
    static const char *const removed[] = {
        "Accept:", "User-Agent:", "Expect:", "Content-Type:", "Accept-Encoding:"};
    struct curl_slist *list = NULL;
    bool whole = true;
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        whole = append(&list, removed[i]) && whole;
    }
    if (request->token != NULL) {
        char line[256];
        const int len = snprintf(line, sizeof line, "Authorization: Bearer %s", request->token);
        whole = len < (int)sizeof line && append(&list, line) && whole;
    }
    if (request->body_len > 0 && request->range_from > 0) {
        const size_t end = request->range_from + request->body_len;
        char line[96];
        snprintf(line, sizeof line, "Content-Range: bytes %zu-%zu/%zu", request->range_from,
                 end - 1, end);
        whole = append(&list, line) && whole;
    }
    if (!whole) {
        curl_slist_free_all(list);
        return NULL;
    }
    return list;
}

static enum tern_result make_url(struct tern_curl *curl, const char *path)
{
    const size_t need = strlen(curl->server) + strlen(path) + 1;
    if (need > curl->url_size) {
        char *longer = realloc(curl->url, need);
        if (longer == NULL) {
            return TERN_ERR_NO_MEMORY;
        }
        curl->url = longer;
        curl->url_size = need;
    }
    snprintf(curl->url, curl->url_size, "%s%s", curl->server, path);
    return TERN_OK;
}

// Returns the longest duration of an exchange in ms: the time without progress plus the time for all bytes at the lowest rate.
static long total_ms(const struct tern_request *request, const struct tern_response *response)
{
    const uint64_t bytes = (uint64_t)request->body_len + response->body_size + response->take_size;
    const uint64_t ms = request->timeout_ms + bytes * 1000 / MIN_BYTES_PER_SECOND;
    return ms < INT32_MAX ? (long)ms : INT32_MAX;
}

static void watch(struct tern_curl *curl, const struct tern_request *request)
{
    delay_acknowledgements(&curl->sockets);
    curl->stall_ms = request->timeout_ms;
    curl->moved = bytes_moved(&curl->sockets);
    curl->moved_ms = tern_monotonic_ms();
    curl->stalled = false;
    curl_easy_setopt(curl->easy, CURLOPT_TIMEOUT_MS, total_ms(request, curl->response));
}

static void set_request(struct tern_curl *curl, const struct tern_request *request)
{
    CURL *easy = curl->easy;
    curl_easy_setopt(easy, CURLOPT_URL, curl->url);
    curl_easy_setopt(easy, CURLOPT_RANGE, NULL);
    if (strcmp(request->method, "GET") == 0) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL);
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    } else {
        // CURLOPT_POST for all methods makes libcurl write the head and a body of up to 64 KB at once, in the fewest records
        // and segments.
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                         request->body != NULL ? (const char *)request->body : "");
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    }
    if (request->range_from > 0 && request->body_len == 0) {
        char range[32];
        snprintf(range, sizeof range, "%zu-", request->range_from);
        curl_easy_setopt(easy, CURLOPT_RANGE, range);
    }
}

static enum tern_result result_of(CURLcode code)
{
    switch ((int)code) {
    case CURLE_OK:
        return TERN_OK;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return TERN_ERR_TLS;
    case CURLE_OUT_OF_MEMORY:
        return TERN_ERR_NO_MEMORY;
    default:
        return TERN_ERR_NETWORK;
    }
}

// Performs the request, like curl_easy_perform(), which waits for the network for up to a second.
static CURLcode run_once(struct tern_curl *curl)
{
    int running = 1;
    int messages = 0;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (curl_multi_add_handle(curl->multi, curl->easy) != CURLM_OK) {
        return code;
    }
    while (curl_multi_perform(curl->multi, &running) == CURLM_OK && running > 0 &&
           curl_multi_poll(curl->multi, NULL, 0, POLL_MS, NULL) == CURLM_OK) {
    }
    const CURLMsg *message = curl_multi_info_read(curl->multi, &messages);
    if (message != NULL) {
        code = message->data.result;
    }
    curl_multi_remove_handle(curl->multi, curl->easy);
    return code;
}

// Performs the request. After a failed handshake that has offered a session, performs it once more without the session, since
// an old session may be the reason. Nothing of the request was sent before.
static CURLcode run_request(struct tern_curl *curl)
{
    tern_curl_tls_begin(curl->tls);
    const CURLcode code = run_once(curl);
    if (curl->connecting && result_of(code) == TERN_ERR_TLS &&
        !tern_curl_tls_is_intercepted(curl->tls, curl->easy) &&
        tern_curl_tls_try_without_session(curl->tls)) {
        return run_once(curl);
    }
    return code;
}

// Returns whether libcurl's message, which comes from the TLS library, reports an alert that the aggregator has sent. The
// second text is OpenSSL's message about the alert for an expired certificate; about errors that OpenSSL finds itself it says
// "certificate problem".
static bool was_alerted(const struct tern_curl *curl)
{
    return strstr(curl->error, " alert ") != NULL ||
           strcmp(curl->error, "SSL certificate verification failed") == 0;
}

// Adds advice to the message about an alert. An aggregator that requires client certificates sends one if the certificate is
// missing or untrusted.
static void advise_about_certificate(struct tern_curl *curl)
{
    const size_t len = strlen(curl->error);
    if (strstr(curl->error, "protocol version") != NULL) {
        return; // a certificate would not help
    }
    const char *section = tern_curl_tls_section(curl->tls);
    if (tern_curl_tls_has_certificate(curl->tls)) {
        snprintf(
            curl->error + len, sizeof curl->error - len,
            "; it may not trust this client's certificate (%s.certificate), or the certificate "
            "has expired",
            section);
    } else {
        snprintf(curl->error + len, sizeof curl->error - len,
                 "; it may require a certificate of this client: %s.certificate and %s.key",
                 section, section);
    }
}

// Describes what a timed-out exchange was waiting for, unless libcurl has a message about a name lookup.
static void explain_timeout(struct tern_curl *curl, const struct tern_request *request)
{
    if (curl->stalled) {
        snprintf(curl->error, sizeof curl->error,
                 "timed out: no byte was sent or received for %u ms while %s",
                 (unsigned)request->timeout_ms,
                 curl->connecting ? "TLS was being set up" : "the client waited for the answer");
    } else if (curl->connecting) {
        snprintf(curl->error, sizeof curl->error,
                 "timed out: no connection with TCP and TLS within %u ms",
                 (unsigned)curl->connect_timeout_ms);
    } else if (curl->response->status != 0 || curl->body_begun) {
        snprintf(curl->error, sizeof curl->error,
                 "timed out: the link carried less than %d bytes a second", MIN_BYTES_PER_SECOND);
    } else if (curl->error[0] == '\0') {
        snprintf(curl->error, sizeof curl->error, "timed out");
    }
}

static void explain(struct tern_curl *curl, CURLcode code, const struct tern_request *request)
{
    const bool refused = result_of(code) == TERN_ERR_TLS;
    if (refused && curl->connecting) {
        tern_curl_tls_explain_intercepted(curl->tls, curl->easy);
    }
    const char *why = tern_curl_tls_why(curl->tls);
    if (code == CURLE_OK) {
        curl->error[0] = '\0'; // libcurl may have left a message about an old connection
    } else if (curl->stalled || code == CURLE_OPERATION_TIMEDOUT) {
        explain_timeout(curl, request);
    } else if (refused && why[0] != '\0') {
        snprintf(curl->error, sizeof curl->error, "%s", why);
    } else if (curl->error[0] == '\0') {
        snprintf(curl->error, sizeof curl->error, "%s", curl_easy_strerror(code));
    }
    if (code == CURLE_COULDNT_RESOLVE_HOST) {
        const size_t len = strlen(curl->error);
        snprintf(curl->error + len, sizeof curl->error - len,
                 " (DNS): check the server's name, or wait for the network");
    }
    if (code != CURLE_OK && was_alerted(curl)) {
        advise_about_certificate(curl);
    }
    explain_proxy(&curl->proxy, curl->easy, code, curl->error, sizeof curl->error);
}

static enum tern_result perform(struct tern_curl *curl, const struct tern_request *request)
{
    struct curl_slist *headers = make_headers(request);
    if (headers == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    set_request(curl, request);
    curl_easy_setopt(curl->easy, CURLOPT_HTTPHEADER, headers);
    // Bytes that were transferred since the last exchange are counted for the purpose of that exchange.
    tern_sockets_read(&curl->sockets, curl->purpose);
    curl->purpose = request->purpose;
    curl->request = request;
    curl->received = 0;
    curl->error[0] = '\0';
    curl->refused = TERN_OK;
    curl->body_is_long =
        request->body_len > TERN_CLIENT_RESUME_UPLOAD_ABOVE || request->range_from > 0;
    // A TLS library reports the progress of a whole buffer only, and long bodies may have to end early.
    curl_easy_setopt(curl->easy, CURLOPT_UPLOAD_BUFFERSIZE,
                     (long)(curl->body_is_long ? PIECE_SIZE : BUFFER_SIZE));
    curl->body_begun = false;
    curl->sent = false;
    watch(curl, request);
    const CURLcode code = run_request(curl);
    long status = 0;
    curl_easy_getinfo(curl->easy, CURLINFO_RESPONSE_CODE, &status);
    curl->response->status = curl->connecting ? 0 : (int)status; // a proxy has others
    tern_sockets_read(&curl->sockets, curl->connecting ? TERN_PURPOSE_HANDSHAKE : request->purpose);
    curl_easy_setopt(curl->easy, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    curl->stall_ms = 0;
    explain(curl, code, request);
    if (code == CURLE_OK) {
        tern_curl_tls_exchanged(curl->tls);
    }
    if (curl->refused != TERN_OK) {
        return curl->refused;
    }
    // Where something else answers in the aggregator's place, the client waits as without a network.
    if (curl->connecting && result_of(code) == TERN_ERR_TLS &&
        tern_curl_tls_is_intercepted(curl->tls, curl->easy)) {
        return TERN_ERR_NETWORK;
    }
    // With TLS 1.3 the aggregator can reject our certificate after our handshake has completed.
    if (code != CURLE_OK && was_alerted(curl)) {
        return TERN_ERR_TLS;
    }
    // The connection broke during the handshake, since nothing was wrong with a certificate and no alert has arrived.
    if (code == CURLE_SSL_CONNECT_ERROR && tern_curl_tls_why(curl->tls)[0] == '\0') {
        return TERN_ERR_NETWORK;
    }
    return result_of(code);
}

static enum tern_result exchange(void *ctx, const struct tern_request *request,
                                 struct tern_response *response)
{
    struct tern_curl *curl = ctx;
    response->status = 0;
    response->retry_after_s = 0;
    response->body_len = 0;
    curl->response = response;
    TERN_TRY(make_ready(curl));
    TERN_TRY(make_url(curl, request->path));
    return perform(curl, request);
}

static void collect(void *ctx, struct tern_meter *meter)
{
    struct tern_curl *curl = ctx;
    if (curl->stall_ms != 0) { // an exchange is active
        tern_sockets_read(&curl->sockets,
                          curl->connecting ? TERN_PURPOSE_HANDSHAKE : curl->purpose);
    }
    tern_meter_add(meter, &curl->sockets.meter);
    curl->sockets.meter = (struct tern_meter){0};
}

// --- Opening and closing

static enum tern_result check_config(const struct tern_curl_config *config, char *why)
{
    if (strncmp(config->server, "https://", 8) != 0 || config->server[8] == '\0') {
        snprintf(why, WHY_SIZE, "server is \"%s\"; it must be https://host:port", config->server);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

static bool copy_config(struct tern_curl *curl, const struct tern_curl_config *config)
{
    curl->connect_timeout_ms =
        config->connect_timeout_ms != 0 ? config->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    curl->server = strdup(config->server);
    if (curl->server == NULL) {
        return false;
    }
    const size_t len = strlen(curl->server);
    if (curl->server[len - 1] == '/') {
        curl->server[len - 1] = '\0';
    }
    return true;
}

static const char *section_of(const struct tern_curl_config *config)
{
    return config->section != NULL ? config->section : "client";
}

enum tern_result tern_curl_open(struct tern_curl **curl, const struct tern_curl_config *config,
                                char why[512])
{
    const struct tern_curl_tls_config tls = {.section = section_of(config),
                                             .server = config->server,
                                             .ca_file = config->ca_file,
                                             .certificate = config->certificate,
                                             .key = config->key,
                                             .versions = config->tls,
                                             .session_file = config->session_file};
    TERN_TRY(check_config(config, why));
    struct tern_curl *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL || !copy_config(fresh, config)) {
        snprintf(why, WHY_SIZE, "there is no memory for a connection");
        tern_curl_close(fresh);
        return TERN_ERR_NO_MEMORY;
    }
    tern_sockets_init(&fresh->sockets);
    enum tern_result result = choose_proxy(section_of(config), config->proxy, &fresh->proxy, why);
    if (result == TERN_OK) {
        result = tern_curl_tls_open(&fresh->tls, &tls, why);
    }
    if (result != TERN_OK) {
        tern_curl_close(fresh);
        return result;
    }
    *curl = fresh;
    return TERN_OK;
}

void tern_curl_close(struct tern_curl *curl)
{
    if (curl == NULL) {
        return;
    }
    close_connection(curl);
    tern_curl_tls_close(curl->tls);
    free_proxy(&curl->proxy);
    free(curl->server);
    free(curl->url);
    free(curl);
}

struct tern_transport tern_curl_port(struct tern_curl *curl)
{
    return (struct tern_transport){
        .ctx = curl, .exchange = exchange, .close = close_connection, .collect = collect};
}

struct tern_curl_expiries tern_curl_certificates(const struct tern_curl *curl)
{
    return tern_curl_tls_expiries(curl->tls);
}

const char *tern_curl_why(const struct tern_curl *curl)
{
    return curl->error;
}

bool tern_curl_has_sent(const struct tern_curl *curl)
{
    return curl->sent;
}

// --- Explaining a failure

// Copies the sentence of an Error message in the response; "" if the response has no such message.
static void read_sentence(const struct tern_response *response, char sentence[TERN_FAILURE_MAX])
{
    tern_Error error;
    sentence[0] = '\0';
    if (tern_wire_decode_error(response->body, response->body_len, &error) == TERN_OK) {
        snprintf(sentence, TERN_FAILURE_MAX, "%s", error.sentence);
        tern_utf8_show(sentence, strlen(sentence));
    }
}

const char *tern_failure_text(const struct tern_client *client, const struct tern_curl *curl,
                              enum tern_result result, char text[TERN_FAILURE_MAX])
{
    const struct tern_response *response = &client->response;
    const bool unreached = result == TERN_ERR_NETWORK || result == TERN_ERR_TLS;
    char sentence[TERN_FAILURE_MAX];
    if (unreached && tern_curl_why(curl)[0] != '\0') {
        snprintf(text, TERN_FAILURE_MAX, "%s", tern_curl_why(curl));
    } else if (!unreached && response->status >= 300) {
        read_sentence(response, sentence);
        snprintf(text, TERN_FAILURE_MAX, "the aggregator answered HTTP %d%s%.340s",
                 response->status, sentence[0] != '\0' ? ": " : "", sentence);
    } else {
        snprintf(text, TERN_FAILURE_MAX, "%s", tern_result_sentence(result));
    }
    return text;
}

// --- A transport without a network

static enum tern_result exchange_offline(void *ctx, const struct tern_request *request,
                                         struct tern_response *response)
{
    (void)ctx;
    (void)request;
    response->status = 0;
    return TERN_ERR_NETWORK;
}

static void close_offline(void *ctx)
{
    (void)ctx;
}

static void collect_offline(void *ctx, struct tern_meter *meter)
{
    (void)ctx;
    (void)meter;
}

struct tern_transport tern_offline_port(void)
{
    return (struct tern_transport){
        .exchange = exchange_offline, .close = close_offline, .collect = collect_offline};
}
