// A folder that looks like a machine's / to the probes: tests write its /proc and /sys.
#ifndef TERN_TEST_FAKE_ROOT_H
#define TERN_TEST_FAKE_ROOT_H

#define FAKE_ROOT_MAX 128

// Makes an empty one. The name is valid until it is removed.
const char *fake_root_make(void);

// Writes a file, and the folders that lead to it.
void fake_root_put(const char *path, const char *text);

// Removes a file or a whole folder; does nothing when it is not there.
void fake_root_drop(const char *path);

void fake_root_remove(void);

#endif
