/* Owns: the n-th-allocation sweep: a step runs with allocation 1, 2, 3, ... failing, until it runs through.
 * Does not own: the steps (files with label oom).
 * Next: tests/ir/oom_test.c. */
#ifndef QF_TESTS_OOM_H
#define QF_TESTS_OOM_H

#include "tests/check.h"

typedef struct oom_state {
    size_t live_bytes;
    uint64_t allocations, fail_at;
    bool fail_after; /* every allocation from fail_at on fails */
    bool failed;
} oom_state;

static void *oom_reallocate(void *user, void *pointer, size_t old_size, size_t new_size) {
    oom_state *state = user;
    if (new_size == 0) {
        state->live_bytes -= pointer ? old_size : 0;
        free(pointer);
        return NULL;
    }
    state->allocations++;
    if (state->allocations == state->fail_at || (state->fail_after && state->allocations > state->fail_at)) {
        state->failed = true;
        return NULL;
    }
    void *result = realloc(pointer, new_size);
    if (result) state->live_bytes += new_size - (pointer ? old_size : 0);
    return result;
}

/* Does its work in a fresh context and frees all it made but the context. True where the work succeeded. */
typedef bool (*oom_step)(qf_context *context, void *user);

/* One run; true when no allocation failed any more. */
static inline bool oom_run(oom_step step, void *user, uint64_t fail_at, bool fail_after) {
    oom_state state = {.fail_at = fail_at, .fail_after = fail_after};
    qf_context_options options = {.struct_size = sizeof options, .allocator = {oom_reallocate, &state}};
    qf_context *context = NULL;
    qf_status created = qf_context_create(&options, &context);
    if (created != QF_OK) {
        assert_int_equal(created, QF_ERROR_OUT_OF_MEMORY);
        assert_null(context);
    } else {
        bool worked = step(context, user);
        /* A failure is never mistaken for another one, and never forgotten. */
        assert_int_equal(qf_context_status(context), state.failed ? QF_ERROR_OUT_OF_MEMORY : QF_OK);
        assert_true(worked || state.failed);
        qf_context_destroy(context);
    }
    assert_int_equal(state.live_bytes, 0);
    return !state.failed;
}

/* Sweeps a single failure, and memory that stays gone. `stride` 1 tries every allocation. */
static inline void oom_sweep(oom_step step, void *user, uint64_t stride) {
    for (int after = 0; after < 2; after++) {
        uint64_t n = 1;
        while (!oom_run(step, user, n, after)) n += stride;
        assert_true(n > 1);
    }
}

#endif
