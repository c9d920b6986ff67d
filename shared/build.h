// What is built into libtern and the client core. Everything is, unless a build says less: a small
// device defines TERN_BUILD_CONFIG as the name of a header of its own,
//   -DTERN_BUILD_CONFIG='"tern_build.h"'
// which defines some of the names below before this file does (firmware_port/tern_build.h is one).
// What is left out is referenced nowhere, so the linker drops it; results are the same bits. All of
// a program is built with the same header: sizes of structs depend on it.
#ifndef TERN_BUILD_H
#define TERN_BUILD_H

#ifdef TERN_BUILD_CONFIG
#include TERN_BUILD_CONFIG
#endif

// Codecs that encode, with the payloads that only they make, which are decoded, too: rows of
// TERN_ALL_CODECS (codec/list.h). float32 is what models are sent in as they are, so it is always
// one of them.
#ifndef TERN_CODECS
#define TERN_CODECS TERN_ALL_CODECS
#endif

// Coders of ternary symbols, both ways: X(name, NAME of TERN_CODER_NAME). A coder is all it takes
// to decode any ternary codec, so that a device may lack the quantizer of its downloads. Where a
// codec says `auto`, the smallest of these is taken.
#ifndef TERN_CODERS
#define TERN_CODERS(X)                                                                             \
    X(zero_run, ZERO_RUN)                                                                          \
    X(packed, PACKED)                                                                              \
    X(gaps, GAPS)                                                                                  \
    X(range, RANGE)
#endif

// 1: for flash and RAM that are counted in kilobytes. Leaves out encoding on several threads; loops
// are short instead of fast, and take smaller steps on less stack.
#ifndef TERN_SMALL
#define TERN_SMALL 0
#endif

// 1: the board has codecs in hardware, and defines the table of codec/kernels/offload.h.
#ifndef TERN_OFFLOAD
#define TERN_OFFLOAD 0
#endif

// 1: what people read: the texts of --help, the reasons in events, and all that struct
// tern_codec_info says of a payload. 0: of that, its scale and largest magnitude alone.
#ifndef TERN_FOR_PEOPLE
#define TERN_FOR_PEOPLE (!TERN_SMALL)
#endif

// The one form that error buffers are kept in, say TERN_ERROR_INT8. Not defined: any
// (error_feedback/error_storage.h).

// 1: clients can start training ahead of their replica (ERROR_STEP_AHEAD of wire/tern.proto). 0:
// such a task is done as if it said to keep the error buffer.
#ifndef TERN_STEP_AHEAD
#define TERN_STEP_AHEAD (!TERN_SMALL)
#endif

// 1: models with convolutions ("cnn:...").
#ifndef TERN_CONVOLUTIONS
#define TERN_CONVOLUTIONS 1
#endif

// 1: losses beside cross-entropy, of models that tell numbers or find anomalies (",loss=..." of a spec,
// tensor/model.h). 0: such a spec is none.
#ifndef TERN_LOSSES
#define TERN_LOSSES (!TERN_SMALL)
#endif

// 1: models that are not built in, and tensors that are sent by a rule of their own
// (tensor/manifest.h).
#ifndef TERN_MANIFESTS
#define TERN_MANIFESTS (!TERN_SMALL)
#endif

// 1: downloads that are received into a store that keeps them when the program ends (struct
// tern_partial of client/ports.h), and need no memory of their size.
#ifndef TERN_PARTIALS
#define TERN_PARTIALS (!TERN_SMALL)
#endif

// 1: the last download of a federation that has finished, the global model itself (CheckinReply.final_model
// of wire/tern.proto). 0: a client ends with the replica that it trained; cmake/TernWire.cmake leaves the
// field out.
#ifndef TERN_FINAL_MODEL
#define TERN_FINAL_MODEL (!TERN_SMALL)
#endif

// 1: clients that train evaluate the model they are given on held-out data of their own where a task asks
// for it, and evaluations have metrics beside loss and accuracy (Task.evaluate of wire/tern.proto). 0: as
// above, the fields are left out.
#ifndef TERN_HELD_OUT
#define TERN_HELD_OUT (!TERN_SMALL)
#endif

// 1: trainers may give the change itself in place of trained weights (struct tern_train_result of
// client/ports.h), as a gateway does, which has summed it exactly.
#ifndef TERN_GIVEN_CHANGES
#define TERN_GIVEN_CHANGES (!TERN_SMALL)
#endif

// 1: updates whose variance is reduced by a full gradient (Task.gradient of wire/tern.proto). 0: as above, the
// fields are left out; such a client has no tasks under such a strategy.
#ifndef TERN_VARIANCE_REDUCTION
#define TERN_VARIANCE_REDUCTION (!TERN_SMALL)
#endif

// 1: columns that are scaled by statistics which clients share (Statistics and Scaling of wire/tern.proto). 0:
// as above, the fields are left out; a federation that scales so has no tasks for such a client.
#ifndef TERN_STATISTICS
#define TERN_STATISTICS (!TERN_SMALL)
#endif

// 1: where a client's clock stands before the month that it counts, the month's byte budget is renewed after 31
// days that have passed for certain (client/budget.c). 0: not before that month.
#ifndef TERN_MONTH_BY_TIME
#define TERN_MONTH_BY_TIME (!TERN_SMALL)
#endif

// Limits of a model (tensor/model.h). A built-in one has two tensors a layer, of at most 4
// dimensions, whose names are at most 15 bytes. Entries that a model does not use are not touched.
#ifndef TERN_MODEL_MAX_TENSORS
#define TERN_MODEL_MAX_TENSORS (TERN_MANIFESTS ? 1024 : 64)
#endif
#ifndef TERN_TENSOR_NAME_MAX
#define TERN_TENSOR_NAME_MAX (TERN_MANIFESTS ? 128 : 64) // bytes with the terminating NUL
#endif
#ifndef TERN_TENSOR_MAX_DIMS
#define TERN_TENSOR_MAX_DIMS (TERN_MANIFESTS ? 8 : 4)
#endif

// TERN_WIRE_MESSAGE_MAX and TERN_WIRE_DOWNLOADS_MAX stand in wire/wire.h, and can be defined here,
// too; the latter goes with the option of cmake/TernWire.cmake.

#endif
