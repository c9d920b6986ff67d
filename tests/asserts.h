// cmocka's assertions, with the headers that cmocka.h needs in front of it.
#ifndef TERN_TEST_ASSERTS_H
#define TERN_TEST_ASSERTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// The headers above come first.
#include <cmocka.h>

#endif
