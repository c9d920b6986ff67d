// One example of each message, the ones whose bytes stand in docs/PROTOCOL.md, behind one interface
// so that every test can do the same to all of them.
#ifndef TEST_EXAMPLES_H
#define TEST_EXAMPLES_H

#include "wire/helper/messages.h"
#include "wire/wire.h"

#define EXAMPLE_BYTES_MAX 8192

// Room for any decoded message.
union example_message {
    tern_EnrollRequest enroll_request;
    tern_EnrollReply enroll_reply;
    tern_CheckinRequest checkin_request;
    tern_CheckinReply checkin_reply;
    tern_Update update;
    tern_UpdateReply update_reply;
    tern_Download download;
    tern_Statistics statistics;
    tern_Scaling scaling;
    tern_Error error;
    tern_EpochKey epoch_key;
    tern_TicketRequest ticket_request;
    tern_TicketReply ticket_reply;
    struct tern_sum_request sum_request;
    tern_SumReply sum_reply;
};

struct example {
    const char *name;    // in docs/PROTOCOL.md
    const char *message; // in tern.proto or helper.proto

    // Encodes the example.
    enum tern_result (*encode)(uint8_t *dst, size_t dst_size, size_t *written);

    // Decodes bytes as this message and, when they are taken, encodes what was decoded.
    enum tern_result (*decode)(const uint8_t *src, size_t src_len, union example_message *message,
                               struct tern_span *container);
    enum tern_result (*encode_again)(const union example_message *message,
                                     struct tern_span container, uint8_t *dst, size_t dst_size,
                                     size_t *written);
};

extern const struct example examples[];
extern const size_t example_count;

// 32 bytes: first, first + 1, ...
void example_hash(uint8_t first, uint8_t hash[TERN_SHA256_SIZE]);

void example_enroll_request(tern_EnrollRequest *message);
void example_enroll_reply(tern_EnrollReply *message);
void example_checkin_request(tern_CheckinRequest *message);
void example_checkin_reply(tern_CheckinReply *message); // with a task
void example_update(tern_Update *message);
void example_update_reply(tern_UpdateReply *message); // with a visit to come
void example_download(tern_Download *message);        // a delta
void example_statistics(tern_Statistics *message);
void example_scaling(tern_Scaling *message);
void example_error(tern_Error *message);
void example_epoch_key(tern_EpochKey *message);
void example_ticket_request(tern_TicketRequest *message);
void example_ticket_reply(tern_TicketReply *message);
void example_sum_request(struct tern_sum_request *message); // with one client
void example_sum_reply(tern_SumReply *message);

// Stands for a container in the examples: opaque to the wire.
extern const struct tern_span example_container;

// Two columns of 2950 and 16384, and of 0.0078125 and 0.25.
extern const struct tern_span example_columns;

#endif
