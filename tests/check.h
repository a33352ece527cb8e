/* Owns: what every unit test includes: cmocka in its required order, a context that fails the test on leaks.
 * Does not own: golden files (tests/golden), random graphs (tests/random.h).
 * Next: any *_test.c. */
#ifndef QF_TESTS_CHECK_H
#define QF_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"

/* Counts live bytes and the most there were, keeps the last diagnostics, and fails the n-th allocation when asked. */
typedef struct check_state {
    size_t live_bytes, highest_bytes;
    uint64_t allocations, fail_at; /* fail_at 0: never */
    char messages[8192];           /* "error location: message\n" each */
} check_state;

static void *check_reallocate(void *user, void *pointer, size_t old_size, size_t new_size) {
    check_state *state = user;
    if (new_size == 0) {
        state->live_bytes -= pointer ? old_size : 0;
        free(pointer);
        return NULL;
    }
    if (++state->allocations == state->fail_at) return NULL;
    void *result = realloc(pointer, new_size);
    if (result) state->live_bytes += new_size - (pointer ? old_size : 0);
    if (state->live_bytes > state->highest_bytes) state->highest_bytes = state->live_bytes;
    return result;
}

static void check_message(void *user, const qf_diagnostic *diagnostic) {
    static const char *const names[] = {"error", "warning", "remark", "note"};
    check_state *state = user;
    size_t used = strlen(state->messages);
    (void)snprintf(state->messages + used, sizeof state->messages - used, "%s %s: %s\n", names[diagnostic->severity],
                   diagnostic->location, diagnostic->message);
}

static inline qf_context *check_context(check_state *state) {
    memset(state, 0, sizeof *state);
    qf_context_options options = {.struct_size = sizeof options,
                                  .allocator = {check_reallocate, state},
                                  .handler = check_message,
                                  .handler_user = state};
    qf_context *context = NULL;
    assert_int_equal(qf_context_create(&options, &context), QF_OK);
    return context;
}

static inline void check_destroy(qf_context *context, check_state *state) {
    qf_context_destroy(context);
    assert_int_equal(state->live_bytes, 0);
}

#endif
