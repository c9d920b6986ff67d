// Whether a sanitizer watches this build: 1 or 0; and whether tests of thousands of trials make fewer of them: under a
// sanitizer, and for a processor that is emulated (tests/CMakeLists.txt), which both take several times longer. The
// release build makes them all.
#ifndef TERN_TEST_SANITIZED_H
#define TERN_TEST_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#ifdef TERN_EMULATED
#define FEWER_TRIALS 1
#else
#define FEWER_TRIALS SANITIZED
#endif

#endif
