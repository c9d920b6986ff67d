// A small build that holds every codec, so that the tests of both builds can be the same.
#ifndef TERN_TEST_SMALL_BUILD_H
#define TERN_TEST_SMALL_BUILD_H

#define TERN_SMALL 1
#define TERN_LOSSES 1
#define TERN_FOR_PEOPLE 1 // the tests look at it

#endif
