// Selects the features of libtern and the client core. The default is every feature. A small device
// defines TERN_BUILD_CONFIG as the name of its own header, -DTERN_BUILD_CONFIG='"tern_build.h"',
// which defines some of the names below before this file does (firmware_port/tern_build.h is an
// example). All files of a program must be compiled with the same header.
//
// Structs, messages and declarations are the same with and without a feature. Code asks for a
// feature by a constant condition, `if (TERN_PARTIALS && ...)`, so that the compiler drops the
// calls and the linker drops the functions. Results have the same bits in every build. Each switch
// saves at least 270 bytes of flash.
#ifndef TERN_BUILD_H
#define TERN_BUILD_H

#ifdef TERN_BUILD_CONFIG
#include TERN_BUILD_CONFIG
#endif

// Codecs that can encode and decode: rows of TERN_ALL_CODECS (codec/list.h). float32 must be one of them, since models
// are sent in it.
#ifndef TERN_CODECS
#define TERN_CODECS TERN_ALL_CODECS
#endif

// Coders of ternary symbols: X(name, NAME of TERN_CODER_NAME). Any ternary codec decodes with its coder alone, so a device
// may omit the quantizer of its downloads. A codec with the coder `auto` takes the smallest result of these.
#ifndef TERN_CODERS
#define TERN_CODERS(X)                                                                             \
    X(zero_run, ZERO_RUN)                                                                          \
    X(packed, PACKED)                                                                              \
    X(gaps, GAPS)                                                                                  \
    X(range, RANGE)
#endif

// 1: for devices with some kilobytes of flash and RAM. Omits encoding by several threads; loops are
// short instead of fast and use less stack.
#ifndef TERN_SMALL
#define TERN_SMALL 0
#endif

// 1: the board encodes and decodes in hardware, and defines the table of codec/kernels/offload.h.
#ifndef TERN_OFFLOAD
#define TERN_OFFLOAD 0
#endif

// 1: text for people: --help, reasons in events, and every field of struct tern_codec_info. 0: of these fields, only scale
// and maximum.
#ifndef TERN_FOR_PEOPLE
#define TERN_FOR_PEOPLE (!TERN_SMALL)
#endif

// TERN_ERROR_STORAGE: the only storage of error buffers, e.g. TERN_ERROR_INT8. Not defined: all
// (error_feedback/error_storage.h).

// 1: models with convolutions ("cnn:...").
#ifndef TERN_CONVOLUTIONS
#define TERN_CONVOLUTIONS 1
#endif

// 1: regression and autoencoders (",loss=..." in a model spec, tensor/model.h). 0: such a spec is refused.
#ifndef TERN_LOSSES
#define TERN_LOSSES (!TERN_SMALL)
#endif

// 1: imported models, and tensors with a rule of their own (tensor/manifest.h).
#ifndef TERN_MANIFESTS
#define TERN_MANIFESTS (!TERN_SMALL)
#endif

// 1: downloads can be received into a store that outlives the program, without memory of their size (struct tern_partial of
// client/ports.h).
#ifndef TERN_PARTIALS
#define TERN_PARTIALS (!TERN_SMALL)
#endif

// 1: the client fetches the global model of a finished federation (CheckinReply.final_model of
// wire/tern.proto). 0: it ends with its replica. The features below have fields in tern.proto; a
// build without the feature ignores them.
#ifndef TERN_FINAL_MODEL
#define TERN_FINAL_MODEL (!TERN_SMALL)
#endif

// 1: a training client evaluates the task's base on its held-out data if the task asks (Task.evaluate), and evaluations have
// metrics besides loss and accuracy.
#ifndef TERN_HELD_OUT
#define TERN_HELD_OUT (!TERN_SMALL)
#endif

// 1: updates with variance reduction (Task.gradient). 0: the client refuses such tasks.
#ifndef TERN_VARIANCE_REDUCTION
#define TERN_VARIANCE_REDUCTION (!TERN_SMALL)
#endif

// 1: clients share statistics to scale their columns (Statistics, Scaling). 0: the client gets no
// tasks from a federation that requires this.
#ifndef TERN_STATISTICS
#define TERN_STATISTICS (!TERN_SMALL)
#endif

// 1: the client trains in secure rounds, whose updates only the helper could unmask (Task.secure). 0: it refuses such tasks.
#ifndef TERN_SECURE
#define TERN_SECURE (!TERN_SMALL)
#endif

// 1: when the client's clock shows an earlier month than the month that it counts, the month's byte budget renews after 31
// days have certainly passed (client/budget.c). 0: it renews only when the clock shows a later month.
#ifndef TERN_MONTH_BY_TIME
#define TERN_MONTH_BY_TIME (!TERN_SMALL)
#endif

// 1: tern_client_cancel() works, and the client checks conditions and budgets while a body moves (client/watch.c). 0: a request
// ends by itself only.
#ifndef TERN_WATCH
#define TERN_WATCH (!TERN_SMALL)
#endif

// Limits of a model (tensor/model.h). A built-in model has two tensors a layer, each with at most 4 dimensions and a name of
// at most 15 bytes. Unused entries are never written.
#ifndef TERN_MODEL_MAX_TENSORS
#define TERN_MODEL_MAX_TENSORS (TERN_MANIFESTS ? 1024 : 64)
#endif
#ifndef TERN_TENSOR_NAME_MAX
#define TERN_TENSOR_NAME_MAX (TERN_MANIFESTS ? 128 : 64) // bytes with the terminating NUL
#endif
#ifndef TERN_TENSOR_MAX_DIMS
#define TERN_TENSOR_MAX_DIMS (TERN_MANIFESTS ? 8 : 4)
#endif

// TERN_WIRE_MESSAGE_MAX and TERN_WIRE_DOWNLOADS_MAX (wire/wire.h) can be defined here, too. cmake/TernWire.cmake reads the
// second one, and TERN_SECURE.

#endif
