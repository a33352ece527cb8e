/* Owns: the inside of qf_context: allocator, arenas, growth, interned strings, failure recording, diagnostics.
 * Does not own: dims (dim.h), types (type.h).
 * Next: context.c, dim.h. */
#ifndef QF_BASE_CONTEXT_H
#define QF_BASE_CONTEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qfuse/context.h>

#define QF_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A borrowed run of bytes; not NUL-terminated. */
typedef struct qf_text {
    const char *data;
    size_t size;
} qf_text;

#define QF_TEXT(literal) ((qf_text){(literal), sizeof(literal) - 1})
qf_text qf_text_of(const char *zero_terminated);
bool qf_text_equal(qf_text a, qf_text b);
bool qf_text_is(qf_text a, const char *zero_terminated);

/* An interned string of one context; 0 = none. Equal strings have equal ids. */
typedef struct qf_string {
    uint32_t id;
} qf_string;

/* --- memory: every call may fail; a failure is recorded as QF_ERROR_OUT_OF_MEMORY in the context --- */
void *qf_allocate(qf_context *context, size_t size);                                       /* zeroed; NULL on failure */
void *qf_reallocate(qf_context *context, void *pointer, size_t old_size, size_t new_size); /* new tail not zeroed */
void qf_release(qf_context *context, void *pointer, size_t size);

/* Makes room for `needed` items of `item_size` bytes, at least doubling. False on failure or overflow (items
 * unchanged). */
bool qf_grow(qf_context *context, void **items, uint32_t *capacity, uint64_t needed, size_t item_size);
/* For `T *items; uint32_t capacity` pairs: room for `needed` items. */
#define QF_GROW(context, items, capacity, needed)                                                                      \
    qf_grow((context), (void **)&(items), &(capacity), (needed), sizeof *(items))
#define QF_FREE_ITEMS(context, items, capacity)                                                                        \
    (qf_release((context), (items), (size_t)(capacity) * sizeof *(items)), (items) = NULL, (capacity) = 0)

/* Bump allocation freed all at once. Zero-initialise, set context. */
typedef struct qf_arena_chunk qf_arena_chunk;
typedef struct qf_arena {
    qf_context *context;
    qf_arena_chunk *chunk;
    size_t total; /* bytes asked for so far */
} qf_arena;
void *qf_arena_allocate(qf_arena *arena, size_t size); /* zeroed, aligned to 16; NULL on failure */
void *qf_arena_copy(qf_arena *arena, const void *data, size_t size);
void *qf_arena_room(qf_arena *arena, size_t item_size, uint64_t count); /* not zeroed: for what is filled at once */
void qf_arena_destroy(qf_arena *arena);
#define QF_ARENA_NEW(arena, type, count) ((type *)qf_arena_array((arena), sizeof(type), (count)))
void *qf_arena_array(qf_arena *arena, size_t item_size, uint64_t count); /* checks the product */

/* Growable text, always NUL-terminated once something was appended. A failed append sets `failed` and is recorded. */
typedef struct qf_buffer {
    qf_context *context;
    char *data;
    size_t size, capacity;
    bool failed;
} qf_buffer;
void qf_buffer_append(qf_buffer *buffer, const void *data, size_t size);
void qf_buffer_print(qf_buffer *buffer, const char *format, ...) QF_PRINTF(2, 3);
void qf_buffer_text(qf_buffer *buffer, qf_text text);
void qf_buffer_unsigned(qf_buffer *buffer, uint64_t number); /* decimal; where formatting would cost too much */
/* A double that reads back bit for bit: shortest of %.9g/%.17g, "inf", "-inf", "nan". Always holds '.', 'e' or letters.
 */
void qf_buffer_double(qf_buffer *buffer, double number);
/* `text` in double quotes, with \" \\ \n \t and \xNN escapes. */
void qf_buffer_quoted(qf_buffer *buffer, qf_text text);
void qf_buffer_destroy(qf_buffer *buffer);

/* Open addressing from 64-bit hash to 32-bit id; the owner holds the items and compares them. */
typedef bool (*qf_index_equal)(const void *owner, uint32_t id, const void *key);
typedef struct qf_index {
    struct {
        uint32_t hash, id;
    } * slots;
    uint32_t capacity, count;
} qf_index;
/* The id whose item equals `key`, or 0. */
uint32_t qf_index_find(const qf_index *index, uint64_t hash, qf_index_equal equal, const void *owner, const void *key);
/* Adds `id` (never 0) under `hash`; false on failure. The caller checked that it is absent. */
bool qf_index_add(qf_context *context, qf_index *index, uint64_t hash, uint32_t id);
void qf_index_destroy(qf_context *context, qf_index *index);

uint64_t qf_hash_bytes(const void *data, size_t size, uint64_t seed);
static inline uint64_t qf_hash_mix(uint64_t hash, uint64_t value) {
    uint64_t mixed = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return mixed ^ (mixed >> 29);
}

/* --- strings --- */
qf_string qf_intern(qf_context *context, qf_text text); /* 0 on failure */
qf_string qf_intern_c(qf_context *context, const char *text);
qf_text qf_string_text(const qf_context *context, qf_string string);  /* "" for 0; lives as long as the context */
const char *qf_string_c(const qf_context *context, qf_string string); /* NUL-terminated (may hold inner NULs) */

/* --- failures and diagnostics --- */
typedef struct qf_position {
    const char *location; /* "" or NULL when unknown */
    qf_text source_line;  /* for an excerpt */
    uint32_t column;      /* from 1; 0 unknown */
} qf_position;

/* Records `status` as the context's first failure (if none yet), sends the message, returns `status`. */
qf_status qf_fail(qf_context *context, qf_status status, const qf_position *position, const char *format, ...)
    QF_PRINTF(4, 5);
/* Sends a message without recording a failure. */
void qf_message(qf_context *context, qf_severity severity, const qf_position *position, const char *format, ...)
    QF_PRINTF(4, 5);
/* The same for functions that take a format themselves. */
qf_status qf_fail_list(qf_context *context, qf_status status, const qf_position *position, const char *format,
                       va_list arguments) QF_PRINTF(4, 0);
void qf_message_list(qf_context *context, qf_severity severity, const qf_position *position, const char *format,
                     va_list arguments) QF_PRINTF(4, 0);
/* Records without a message (out of memory: nothing may be allocated). Returns `status`. */
qf_status qf_record(qf_context *context, qf_status status);

struct qf_dim_table;
struct qf_type_table;

/* The two libraries share the inside of contexts and plans, so both must be of one version. */
#define QF_BUILD ((uint32_t)QF_VERSION_MAJOR << 20 | (uint32_t)QF_VERSION_MINOR << 10 | (uint32_t)QF_VERSION_PATCH)

struct qf_context {
    uint32_t build; /* QF_BUILD of the library that made it; stays first */
    qf_allocator allocator;
    qf_diagnostic_handler handler;
    void *handler_user;
    qf_status status;
    qf_arena arena; /* strings and other interned data */
    struct qf_interned {
        qf_text text; /* data[size] is NUL */
    } * strings;
    uint32_t string_count, string_capacity; /* string 0 is none */
    qf_index string_index;
    struct qf_dim_table *dims;   /* dim.c */
    struct qf_type_table *types; /* type.c */
    struct {
        void *object;
        void (*release)(qf_context *context, void *object);
    } rules; /* patterns/engine.c */
};

#endif
