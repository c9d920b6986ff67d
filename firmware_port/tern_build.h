// Selects what the firmware contains of libtern (see shared/build.h): codecs and their coder, the storage of the error buffer,
// and the limits of models and messages.
#ifndef TERN_FIRMWARE_BUILD_H
#define TERN_FIRMWARE_BUILD_H

#ifdef TERN_WITHOUT_UNIFORM
#define TERN_CODECS(X) X(float32, FLOAT32, 0) X(3lc, 3LC, 2)
#else
#define TERN_CODECS(X) X(float32, FLOAT32, 0) X(uniform, UNIFORM, 13) X(3lc, 3LC, 2)
#endif
#define TERN_CODERS(X) X(range, RANGE)
#ifndef TERN_ERROR_STORAGE // TERN_ERROR_INT8 takes the least RAM
#define TERN_ERROR_STORAGE TERN_ERROR_FLOAT32
#endif
#define TERN_SMALL 1
#define TERN_CONVOLUTIONS 0
#define TERN_MODEL_MAX_TENSORS 8
#define TERN_TENSOR_NAME_MAX 16
#ifdef TERN_SECURE // -DTERN_SECURE=ON of CMakeLists.txt
#define TERN_WIRE_MESSAGE_MAX 832
#else
#define TERN_WIRE_MESSAGE_MAX 512
#endif
#define TERN_WIRE_DOWNLOADS_MAX 4

#endif
