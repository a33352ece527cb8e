/* Owns: contexts, memory, arenas, hashing, string interning, diagnostics.
 * Does not own: text buffers (buffer.c), dims (dim.c), types (type.c).
 * Next: buffer.c. */
#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dim.h"
#include "type.h"

#define ARENA_CHUNK_SIZE ((size_t)32 << 10)
#define ARENA_CHUNK_MOST ((size_t)4 << 20)

const char *qf_version(void) {
    return "0.1.0";
}

const char *qf_status_name(qf_status status) {
    switch (status) {
#define X(number, enumerator, name, meaning)                                                                           \
    case enumerator: return name;
        QF_STATUS_TABLE(X)
#undef X
    }
    return "unknown";
}

static void *default_reallocate(void *user, void *pointer, size_t old_size, size_t new_size) {
    (void)user;
    (void)old_size;
    if (new_size == 0) {
        free(pointer);
        return NULL;
    }
    return realloc(pointer, new_size);
}

qf_status qf_context_create(const qf_context_options *options, qf_context **out_context) {
    if (!out_context) return QF_ERROR_INVALID_ARGUMENT;
    *out_context = NULL;
    qf_context_options given = {.struct_size = sizeof given};
    if (options) {
        size_t size = options->struct_size < sizeof given ? options->struct_size : sizeof given;
        memcpy(&given, options, size);
    }
    if (!given.allocator.reallocate) given.allocator.reallocate = default_reallocate;
    qf_context *context = given.allocator.reallocate(given.allocator.user, NULL, 0, sizeof *context);
    if (!context) return QF_ERROR_OUT_OF_MEMORY;
    memset(context, 0, sizeof *context);
    context->build = QF_BUILD;
    context->allocator = given.allocator;
    context->handler = given.handler;
    context->handler_user = given.handler_user;
    context->arena.context = context;
    context->string_count = 1;
    if (!QF_GROW(context, context->strings, context->string_capacity, 64) || !qf_dim_table_create(context) ||
        !qf_type_table_create(context)) {
        qf_context_destroy(context);
        return QF_ERROR_OUT_OF_MEMORY;
    }
    context->strings[0].text = (qf_text){"", 0};
    *out_context = context;
    return QF_OK;
}

void qf_context_destroy(qf_context *context) {
    if (!context) return;
    if (context->rules.object) context->rules.release(context, context->rules.object);
    qf_type_table_destroy(context);
    qf_dim_table_destroy(context);
    qf_index_destroy(context, &context->string_index);
    QF_FREE_ITEMS(context, context->strings, context->string_capacity);
    qf_arena_destroy(&context->arena);
    qf_allocator allocator = context->allocator;
    allocator.reallocate(allocator.user, context, sizeof *context, 0);
}

qf_status qf_context_status(const qf_context *context) {
    return context->status;
}

void qf_context_clear_status(qf_context *context) {
    context->status = QF_OK;
}

qf_status qf_record(qf_context *context, qf_status status) {
    if (context->status == QF_OK) context->status = status;
    return status;
}

void *qf_reallocate(qf_context *context, void *pointer, size_t old_size, size_t new_size) {
    void *result = context->allocator.reallocate(context->allocator.user, pointer, old_size, new_size);
    if (!result && new_size) (void)qf_record(context, QF_ERROR_OUT_OF_MEMORY);
    return result;
}

void *qf_allocate(qf_context *context, size_t size) {
    void *result = qf_reallocate(context, NULL, 0, size ? size : 1);
    if (result) memset(result, 0, size ? size : 1);
    return result;
}

void qf_release(qf_context *context, void *pointer, size_t size) {
    if (pointer) context->allocator.reallocate(context->allocator.user, pointer, size ? size : 1, 0);
}

/* A pointer to an item is stale after any growth. AddressSanitizer sees that only where the growth moves the items, so
 * there they move more often than they must. */
static bool must_move(uint32_t capacity, uint64_t needed) {
#if defined(__SANITIZE_ADDRESS__)
    if (capacity <= 1024 && needed % 8 == 7) return true;
#endif
    return needed > capacity;
}

bool qf_grow(qf_context *context, void **items, uint32_t *capacity, uint64_t needed, size_t item_size) {
    if (!must_move(*capacity, needed)) return true;
    uint64_t wanted = *capacity < 8 ? 8 : needed <= *capacity ? *capacity : (uint64_t)*capacity * 2;
    if (wanted < needed) wanted = needed;
    if (wanted > UINT32_MAX || wanted > SIZE_MAX / item_size) {
        (void)qf_record(context, QF_ERROR_OUT_OF_MEMORY);
        return false;
    }
    void *grown = qf_reallocate(context, *items, (size_t)*capacity * item_size, (size_t)wanted * item_size);
    if (!grown) return false;
    *items = grown;
    *capacity = (uint32_t)wanted;
    return true;
}

struct qf_arena_chunk {
    qf_arena_chunk *next;
    size_t size, used; /* size counts the header */
};

#define ARENA_HEADER ((sizeof(qf_arena_chunk) + 15) & ~(size_t)15)

/* Chunks grow with what the arena holds, so that large ones are few. */
static qf_arena_chunk *add_chunk(qf_arena *arena, size_t rounded) {
    size_t wanted = ARENA_HEADER + rounded, usual = arena->total / 4;
    if (usual < ARENA_CHUNK_SIZE) usual = ARENA_CHUNK_SIZE;
    if (usual > ARENA_CHUNK_MOST) usual = ARENA_CHUNK_MOST;
    if (wanted < usual) wanted = usual;
    qf_arena_chunk *chunk = qf_reallocate(arena->context, NULL, 0, wanted);
    if (!chunk) return NULL;
    chunk->size = wanted;
    chunk->used = ARENA_HEADER;
    chunk->next = arena->chunk;
    arena->chunk = chunk;
    return chunk;
}

static size_t rounded_size(size_t size) {
    return ((size ? size : 1) + 15) & ~(size_t)15;
}

/* Not zeroed. */
static void *take(qf_arena *arena, size_t size) {
    if (size > SIZE_MAX / 2) {
        (void)qf_record(arena->context, QF_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    size_t rounded = rounded_size(size);
    qf_arena_chunk *chunk = arena->chunk;
    if (!chunk || chunk->size - chunk->used < rounded) chunk = add_chunk(arena, rounded);
    if (!chunk) return NULL;
    void *result = (char *)chunk + chunk->used;
    chunk->used += rounded;
    arena->total += rounded;
    return result;
}

void *qf_arena_allocate(qf_arena *arena, size_t size) {
    void *result = take(arena, size);
    return result ? memset(result, 0, rounded_size(size)) : NULL;
}

void *qf_arena_room(qf_arena *arena, size_t item_size, uint64_t count) {
    if (count > SIZE_MAX / 2 / item_size) {
        (void)qf_record(arena->context, QF_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    return take(arena, item_size * (size_t)count);
}

void *qf_arena_array(qf_arena *arena, size_t item_size, uint64_t count) {
    void *result = qf_arena_room(arena, item_size, count);
    return result ? memset(result, 0, rounded_size(item_size * (size_t)count)) : NULL;
}

void *qf_arena_copy(qf_arena *arena, const void *data, size_t size) {
    void *result = take(arena, size);
    if (result && size) memcpy(result, data, size);
    return result;
}

void qf_arena_destroy(qf_arena *arena) {
    while (arena->chunk) {
        qf_arena_chunk *chunk = arena->chunk;
        arena->chunk = chunk->next;
        qf_release(arena->context, chunk, chunk->size);
    }
    arena->total = 0;
}

uint64_t qf_hash_bytes(const void *data, size_t size, uint64_t seed) {
    const unsigned char *bytes = data;
    uint64_t hash = qf_hash_mix(seed, size);
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = qf_hash_mix(hash, word);
    }
    uint64_t tail = 0;
    if (size) memcpy(&tail, bytes, size);
    return qf_hash_mix(hash, tail);
}

uint32_t qf_index_find(const qf_index *index, uint64_t hash, qf_index_equal equal, const void *owner, const void *key) {
    if (!index->capacity) return 0;
    uint32_t mask = index->capacity - 1, short_hash = (uint32_t)(hash ^ (hash >> 32));
    for (uint32_t at = short_hash & mask; index->slots[at].id; at = (at + 1) & mask)
        if (index->slots[at].hash == short_hash && equal(owner, index->slots[at].id, key)) return index->slots[at].id;
    return 0;
}

static void index_put(qf_index *index, uint32_t short_hash, uint32_t id) {
    uint32_t mask = index->capacity - 1, at = short_hash & mask;
    while (index->slots[at].id) at = (at + 1) & mask;
    index->slots[at].hash = short_hash;
    index->slots[at].id = id;
}

bool qf_index_add(qf_context *context, qf_index *index, uint64_t hash, uint32_t id) {
    if ((uint64_t)index->count * 4 >= (uint64_t)index->capacity * 3) {
        qf_index grown = {.capacity = index->capacity ? index->capacity * 2 : 64, .count = index->count};
        if (!grown.capacity) {
            (void)qf_record(context, QF_ERROR_OUT_OF_MEMORY);
            return false;
        }
        grown.slots = qf_allocate(context, (size_t)grown.capacity * sizeof *grown.slots);
        if (!grown.slots) return false;
        for (uint32_t i = 0; i < index->capacity; i++)
            if (index->slots[i].id) index_put(&grown, index->slots[i].hash, index->slots[i].id);
        qf_index_destroy(context, index);
        *index = grown;
    }
    index_put(index, (uint32_t)(hash ^ (hash >> 32)), id);
    index->count++;
    return true;
}

void qf_index_destroy(qf_context *context, qf_index *index) {
    qf_release(context, index->slots, (size_t)index->capacity * sizeof *index->slots);
    memset(index, 0, sizeof *index);
}

static bool string_equal(const void *owner, uint32_t id, const void *key) {
    const qf_context *context = owner;
    return qf_text_equal(context->strings[id].text, *(const qf_text *)key);
}

qf_string qf_intern(qf_context *context, qf_text text) {
    uint64_t hash = qf_hash_bytes(text.data, text.size, 1);
    uint32_t id = qf_index_find(&context->string_index, hash, string_equal, context, &text);
    if (id) return (qf_string){id};
    if (!QF_GROW(context, context->strings, context->string_capacity, (uint64_t)context->string_count + 1))
        return (qf_string){0};
    char *copy = qf_arena_allocate(&context->arena, text.size + 1);
    if (!copy) return (qf_string){0};
    if (text.size) memcpy(copy, text.data, text.size);
    id = context->string_count;
    if (!qf_index_add(context, &context->string_index, hash, id)) return (qf_string){0};
    context->strings[id].text = (qf_text){copy, text.size};
    context->string_count++;
    return (qf_string){id};
}

qf_string qf_intern_c(qf_context *context, const char *text) {
    return qf_intern(context, qf_text_of(text));
}

qf_text qf_string_text(const qf_context *context, qf_string string) {
    return string.id < context->string_count ? context->strings[string.id].text : (qf_text){"", 0};
}

const char *qf_string_c(const qf_context *context, qf_string string) {
    return qf_string_text(context, string).data;
}

qf_text qf_text_of(const char *zero_terminated) {
    return (qf_text){zero_terminated ? zero_terminated : "", zero_terminated ? strlen(zero_terminated) : 0};
}

bool qf_text_equal(qf_text a, qf_text b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool qf_text_is(qf_text a, const char *zero_terminated) {
    return qf_text_equal(a, qf_text_of(zero_terminated));
}

/* Messages are built on the stack so that reporting works when memory is exhausted; longer ones are cut with "...". */
static void send(qf_context *context, qf_severity severity, qf_status status, const qf_position *position,
                 const char *format, va_list arguments) {
    if (!context->handler) return;
    char message[2048], line[512];
    int length = vsnprintf(message, sizeof message, format, arguments);
    if (length >= (int)sizeof message) memcpy(message + sizeof message - 4, "...", 4);
    qf_diagnostic diagnostic = {.struct_size = sizeof diagnostic,
                                .severity = severity,
                                .status = status,
                                .location = "",
                                .message = message,
                                .source_line = ""};
    if (position) {
        size_t size = position->source_line.size < sizeof line - 1 ? position->source_line.size : sizeof line - 1;
        if (size) memcpy(line, position->source_line.data, size);
        line[size] = '\0';
        if (position->location) diagnostic.location = position->location;
        diagnostic.source_line = line;
        diagnostic.column = position->column;
    }
    context->handler(context->handler_user, &diagnostic);
}

qf_status qf_fail_list(qf_context *context, qf_status status, const qf_position *position, const char *format,
                       va_list arguments) {
    send(context, QF_SEVERITY_ERROR, status, position, format, arguments);
    return qf_record(context, status);
}

qf_status qf_fail(qf_context *context, qf_status status, const qf_position *position, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)qf_fail_list(context, status, position, format, arguments);
    va_end(arguments);
    return status;
}

void qf_message_list(qf_context *context, qf_severity severity, const qf_position *position, const char *format,
                     va_list arguments) {
    send(context, severity, QF_OK, position, format, arguments);
}

void qf_message(qf_context *context, qf_severity severity, const qf_position *position, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    qf_message_list(context, severity, position, format, arguments);
    va_end(arguments);
}
