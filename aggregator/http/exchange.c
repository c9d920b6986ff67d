#include "http/exchange.h"
#include <stdlib.h>

struct tern_mailbox {
    pthread_mutex_t lock;
    uint32_t references;
    uv_async_t *wake; // NULL once closed
    pthread_t owner;
    struct tern_http_exchange *first;
    struct tern_http_exchange *last;
};

struct tern_mailbox *tern_mailbox_new(uv_async_t *wake)
{
    struct tern_mailbox *mailbox = calloc(1, sizeof *mailbox);
    if (mailbox != NULL) {
        pthread_mutex_init(&mailbox->lock, NULL);
        mailbox->references = 1;
        mailbox->wake = wake;
        mailbox->owner = pthread_self();
    }
    return mailbox;
}

void tern_mailbox_own(struct tern_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    mailbox->owner = pthread_self();
    pthread_mutex_unlock(&mailbox->lock);
}

static void release(struct tern_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    bool last = --mailbox->references == 0;
    pthread_mutex_unlock(&mailbox->lock);
    if (last) {
        pthread_mutex_destroy(&mailbox->lock);
        free(mailbox);
    }
}

struct tern_http_exchange *tern_mailbox_take(struct tern_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    struct tern_http_exchange *first = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return first;
}

bool tern_mailbox_is_empty(struct tern_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    bool empty = mailbox->first == NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return empty;
}

static void drop(struct tern_http_exchange *exchange)
{
    tern_blob_release(exchange->reply.body);
    tern_exchange_free(exchange);
}

void tern_mailbox_close(struct tern_mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    mailbox->wake = NULL;
    pthread_mutex_unlock(&mailbox->lock);
    struct tern_http_exchange *exchange = tern_mailbox_take(mailbox);
    while (exchange != NULL) {
        struct tern_http_exchange *next = exchange->next;
        drop(exchange);
        exchange = next;
    }
    release(mailbox);
}

// True when the loop will see the exchange; false when there is no loop any more.
static bool post(struct tern_mailbox *mailbox, struct tern_http_exchange *exchange)
{
    pthread_mutex_lock(&mailbox->lock);
    bool open = mailbox->wake != NULL;
    if (open) {
        bool was_empty = mailbox->first == NULL;
        *(was_empty ? &mailbox->first : &mailbox->last->next) = exchange;
        mailbox->last = exchange;
        // Under the lock, so that the handle cannot be closed in between.
        if (was_empty && !pthread_equal(mailbox->owner, pthread_self())) {
            uv_async_send(mailbox->wake);
        }
    }
    pthread_mutex_unlock(&mailbox->lock);
    return open;
}

struct tern_http_exchange *tern_exchange_new(struct tern_mailbox *mailbox,
                                             struct tern_request_reader *reader,
                                             struct tern_connection *connection)
{
    struct tern_http_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL) {
        return NULL;
    }
    exchange->mailbox = mailbox;
    exchange->reader = reader;
    exchange->connection = connection;
    pthread_mutex_lock(&mailbox->lock);
    mailbox->references++;
    pthread_mutex_unlock(&mailbox->lock);
    return exchange;
}

void tern_exchange_free(struct tern_http_exchange *exchange)
{
    release(exchange->mailbox);
    tern_reader_free(exchange->reader);
    free(exchange);
}

struct tern_http_tag tern_exchange_tag(struct tern_http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->mailbox->lock);
    struct tern_http_tag tag = exchange->tag;
    pthread_mutex_unlock(&exchange->mailbox->lock);
    return tag;
}

const struct tern_http_request *
tern_http_exchange_request(const struct tern_http_exchange *exchange)
{
    return tern_reader_request(exchange->reader);
}

void tern_http_exchange_rest(const struct tern_http_exchange *exchange)
{
    tern_reader_rest(exchange->reader);
}

bool tern_http_exchange_unfinished(const struct tern_http_exchange *exchange, uint64_t owner,
                                   struct tern_http_unfinished *unfinished)
{
    return tern_reader_unfinished(exchange->reader, owner, unfinished);
}

void tern_http_exchange_tag(struct tern_http_exchange *exchange, const struct tern_http_tag *tag)
{
    pthread_mutex_lock(&exchange->mailbox->lock);
    exchange->tag = *tag;
    pthread_mutex_unlock(&exchange->mailbox->lock);
}

void tern_http_reply(struct tern_http_exchange *exchange, const struct tern_http_reply *reply)
{
    exchange->reply = *reply;
    exchange->next = NULL;
    if (!post(exchange->mailbox, exchange)) {
        drop(exchange);
    }
}
