/* Owns: a folder of its own for a test that writes files, where the caller wants temporary files (TMPDIR).
 * Does not own: what lies in it; the test removes that.
 * Next: tests/base/file_test.c. */
#ifndef QF_TESTS_FOLDER_H
#define QF_TESTS_FOLDER_H

#include "tests/check.h"

#include <unistd.h>

/* Room of a path below the folder. */
#define FOLDER_PATH 1024

/* False where there is none. `out` has FOLDER_PATH bytes. */
static inline bool folder_make(char *out) {
    const char *parent = getenv("TMPDIR");
    int length = snprintf(out, FOLDER_PATH, "%s/qfuse-test-XXXXXX", parent && *parent ? parent : "/tmp");
    return length < FOLDER_PATH - 100 && mkdtemp(out) != NULL;
}

/* The path of `name` below the folder, into `out` of FOLDER_PATH bytes. */
static inline const char *folder_path(char *out, const char *folder, const char *name) {
    assert_true(snprintf(out, FOLDER_PATH, "%s/%s", folder, name) < FOLDER_PATH);
    return out;
}

#endif
