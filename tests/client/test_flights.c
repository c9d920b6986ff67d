// A handshake's messages gathered into flights, over a socket that takes as much as it likes. In
// the builds whose libcurl has mbedTLS.
#include "posix/tls/flights.h"
#include "tests/cases.h"

#include <string.h>

// Takes `room` bytes in all and at most `most` at a time.
struct socket {
    size_t room;
    size_t most;
    unsigned char taken[4096];
    size_t len;
    int writes;
};

static int take(void *ctx, const unsigned char *data, size_t len)
{
    struct socket *to = ctx;
    len = len < to->most ? len : to->most;
    len = len < to->room ? len : to->room;
    if (len == 0) {
        return MBEDTLS_ERR_SSL_WANT_WRITE;
    }
    memcpy(to->taken + to->len, data, len);
    to->len += len;
    to->room -= len;
    to->writes++;
    return (int)len;
}

static int give(void *ctx, unsigned char *data, size_t size)
{
    (void)ctx;
    memset(data, 7, size);
    return (int)size;
}

static void begin(struct socket *to, size_t room, size_t most, mbedtls_ssl_context *connection,
                  struct tern_flights *flights)
{
    *to = (struct socket){.room = room, .most = most};
    mbedtls_ssl_init(connection);
    mbedtls_ssl_set_bio(connection, to, take, give, NULL);
    tern_flights_begin(flights, connection);
}

static void say(mbedtls_ssl_context *connection, size_t len, unsigned char value)
{
    unsigned char message[2000];
    memset(message, value, len);
    assert_int_equal(connection->f_send(connection->p_bio, message, len), len);
}

static int hear(mbedtls_ssl_context *connection)
{
    unsigned char byte = 0;
    return connection->f_recv(connection->p_bio, &byte, 1);
}

// Sent: counts[i] bytes of value i + 1, in order.
static void assert_sent(const struct socket *to, const size_t *counts, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < counts[i]; k++) {
            assert_int_equal(to->taken[at++], i + 1);
        }
    }
    assert_int_equal(to->len, at);
}

CASE(flight_is_one_write)
{
    struct socket to;
    mbedtls_ssl_context connection;
    struct tern_flights flights;
    begin(&to, 4096, 4096, &connection, &flights);
    say(&connection, 75, 1);
    say(&connection, 6, 2);
    say(&connection, 37, 3);
    assert_int_equal(to.writes, 0);
    assert_int_equal(hear(&connection), 1);
    assert_int_equal(to.writes, 1);
    say(&connection, 20, 4);
    assert_int_equal(tern_flights_end(&flights, &connection), TERN_OK);
    assert_int_equal(to.writes, 2);
    assert_sent(&to, (const size_t[]){75, 6, 37, 20}, 4);
    assert_ptr_equal(connection.p_bio, &to); // no more between
    say(&connection, 1, 5);
    assert_int_equal(to.writes, 3);
}

CASE(full_socket_is_waited_for)
{
    struct socket to;
    mbedtls_ssl_context connection;
    struct tern_flights flights;
    begin(&to, 80, 30, &connection, &flights);
    say(&connection, 75, 1);
    say(&connection, 37, 2);
    assert_int_equal(hear(&connection), MBEDTLS_ERR_SSL_WANT_WRITE);
    assert_int_equal(hear(&connection), MBEDTLS_ERR_SSL_WANT_WRITE);
    to.room = 4096;
    assert_int_equal(hear(&connection), 1);
    assert_sent(&to, (const size_t[]){75, 37}, 2);
}

CASE(long_messages_keep_their_order)
{
    struct socket to;
    mbedtls_ssl_context connection;
    struct tern_flights flights;
    begin(&to, 4096, 4096, &connection, &flights);
    say(&connection, 600, 1);
    say(&connection, 600, 2); // more than one flight holds
    say(&connection, 2000, 3);
    say(&connection, 5, 4);
    assert_int_equal(tern_flights_end(&flights, &connection), TERN_OK);
    assert_sent(&to, (const size_t[]){600, 600, 2000, 5}, 4);
}

CASE(end_that_cannot_be_sent_is_an_error)
{
    struct socket to;
    mbedtls_ssl_context connection;
    struct tern_flights flights;
    begin(&to, 10, 10, &connection, &flights);
    say(&connection, 43, 1);
    assert_int_equal(tern_flights_end(&flights, &connection), TERN_ERR_NETWORK);
    assert_ptr_equal(connection.p_bio, &to);
}
