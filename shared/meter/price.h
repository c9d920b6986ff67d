// What bytes cost: the wire bytes, both ways, TCP and IP headers included, of requests with bodies
// of a known size, before they are sent. For everybody who has to choose or to save ahead: the
// client's budgets, the ways to catch up, the codecs that a budget leaves. What was sent is
// metered (meter.h), never modelled. Pure; reentrant.
//
// Measured with Tern's client and aggregator, ECDSA P-256, over a link of 1,500 bytes MTU:
//   unshare -n sh -c 'ip link set lo mtu 1500 up && ./tern bench protocol'
// in wire bytes: a full handshake 1,900 to 1,932, a resumed one 1,055 to 1,083; beyond the bodies,
// which grow by 1/26, a check-in 303, an update 316, a download 396, of which 104 are the headers
// of one segment each way. A slower link acknowledges an answer apart: 52 more. So no more than
// that is assumed, and little less; end_to_end_price holds the model against the meter: never
// below it, and above it by at most 200 bytes an exchange or handshake and 4 % of the bodies.
#ifndef TERN_PRICE_H
#define TERN_PRICE_H

#include <stdint.h>

// A request and its answer: their lines and headers, a TLS record and a segment each, and one
// acknowledgement.
#define TERN_PRICE_EXCHANGE 450u

// A download that comes inline, with the answer to a check-in: its entry in the task.
#define TERN_PRICE_INLINE 8u

// Opening the connection they go over: TCP and TLS, and later closing it.
#define TERN_PRICE_KEPT 0u       // it is open
#define TERN_PRICE_RESUMED 1200u // with a session ticket
#define TERN_PRICE_FULL 2048u

// Bytes of bodies for one byte of segments' headers, acknowledgements and further TLS records: with
// segments of 1,400 bytes 52 of headers, half an acknowledgement and a share of a record.
#define TERN_PRICE_SHARE 16u

// The most bytes of downloads that come inline, with the answer to a check-in. That saves an
// exchange, but what a cut leaves of them is lost where a download of its own would be resumed: with
// one answer in 50 cut, half way, a hundredth of its bytes.
#define TERN_PRICE_INLINE_MAX (100u * TERN_PRICE_EXCHANGE)

// The price of `exchanges` requests with `bodies` bytes of bodies between them, both ways, over a
// connection that is opened as `opening` says.
static inline uint64_t tern_price(uint32_t opening, uint32_t exchanges, uint64_t bodies)
{
    return opening + (uint64_t)exchanges * TERN_PRICE_EXCHANGE + bodies + bodies / TERN_PRICE_SHARE;
}

#endif
