/* Owns: what fuzzers share: the entry point, a context that counts its memory, failing loudly.
 * Does not own: mutation (driver.c, libFuzzer).
 * Next: driver.c, text_fuzz.c. */
#ifndef QF_TESTS_FUZZ_H
#define QF_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"

/* One input; whatever is wrong ends the program. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Words that mutations insert, NULL-terminated; or NULL. */
const char *const *qf_fuzz_dictionary(void);

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (condition) break;                                                                                          \
        (void)fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                           \
        abort();                                                                                                       \
    } while (0)

typedef struct fuzz_memory {
    size_t live, peak, limit;
} fuzz_memory;

static inline void *fuzz_reallocate(void *user, void *pointer, size_t old_size, size_t new_size) {
    fuzz_memory *memory = user;
    if (new_size == 0) {
        memory->live -= pointer ? old_size : 0;
        free(pointer);
        return NULL;
    }
    void *result = realloc(pointer, new_size);
    if (!result) return NULL;
    memory->live += new_size - (pointer ? old_size : 0);
    if (memory->live > memory->peak) memory->peak = memory->live;
    FUZZ_CHECK(memory->peak <= memory->limit);
    return result;
}

/* Messages, where somebody looks into a failure. */
static inline void fuzz_message(void *user, const qf_diagnostic *diagnostic) {
    (void)user;
    if (getenv("QF_FUZZ_VERBOSE")) (void)fprintf(stderr, "%s: %s\n", diagnostic->location, diagnostic->message);
}

/* A context whose memory must stay within `limit` bytes. */
static inline qf_context *fuzz_context(fuzz_memory *memory, size_t limit) {
    *memory = (fuzz_memory){.limit = limit};
    qf_context_options options = {
        .struct_size = sizeof options, .allocator = {fuzz_reallocate, memory}, .handler = fuzz_message};
    qf_context *context = NULL;
    FUZZ_CHECK(qf_context_create(&options, &context) == QF_OK);
    return context;
}

static inline void fuzz_destroy(qf_context *context, fuzz_memory *memory) {
    qf_context_destroy(context);
    FUZZ_CHECK(memory->live == 0);
}

#endif
