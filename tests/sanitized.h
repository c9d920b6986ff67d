// Whether a sanitizer watches this build: 1 or 0. Tests of thousands of trials, which take several
// times longer then, make fewer of them; the release build makes them all.
#ifndef TERN_TEST_SANITIZED_H
#define TERN_TEST_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#endif
