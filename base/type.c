/* Owns: interning of tensor types, and their text.
 * Does not own: dims (dim.c), dtypes (dtype.c).
 * Next: type.h. */
#include "type.h"

#include <string.h>

#include "dim_table.h"

typedef struct type_data {
    qf_dtype dtype;
    uint32_t rank;
    const qf_dim *dims;
    qf_dim count; /* elements; 0 until asked for */
} type_data;

struct qf_type_table {
    type_data *items; /* 0 = none: unknown dtype, unranked */
    uint32_t count, capacity;
    qf_index index;
};

bool qf_type_table_create(qf_context *context) {
    struct qf_type_table *table = qf_allocate(context, sizeof *table);
    if (!table) return false;
    context->types = table;
    if (!QF_GROW(context, table->items, table->capacity, 64)) return false;
    table->items[0] = (type_data){.dtype = QF_DTYPE_NONE, .rank = QF_UNRANKED};
    table->count = 1;
    return true;
}

void qf_type_table_destroy(qf_context *context) {
    struct qf_type_table *table = context->types;
    if (!table) return;
    QF_FREE_ITEMS(context, table->items, table->capacity);
    qf_index_destroy(context, &table->index);
    qf_release(context, table, sizeof *table);
    context->types = NULL;
}

static const type_data *type_at(const qf_context *context, qf_type type) {
    return &context->types->items[type.id];
}

static bool type_same(const void *owner, uint32_t id, const void *key) {
    const type_data *type = type_at(owner, (qf_type){id}), *wanted = key;
    if (type->dtype != wanted->dtype || type->rank != wanted->rank) return false;
    return type->rank == QF_UNRANKED || !type->rank ||
           memcmp(type->dims, wanted->dims, type->rank * sizeof *type->dims) == 0;
}

qf_type qf_type_tensor(qf_context *context, qf_dtype dtype, const qf_dim *dims, uint32_t rank) {
    struct qf_type_table *table = context->types;
    if (rank != QF_UNRANKED && rank > QF_MAX_RANK) {
        (void)qf_record(context, QF_ERROR_LIMIT);
        return (qf_type){0};
    }
    uint32_t count = rank == QF_UNRANKED ? 0 : rank;
    for (uint32_t i = 0; i < count; i++)
        if (!dims[i].id) return (qf_type){0};
    type_data wanted = {.dtype = dtype, .rank = rank, .dims = dims};
    uint64_t hash = qf_hash_mix(qf_hash_mix(6, (uint64_t)dtype), rank);
    for (uint32_t i = 0; i < count; i++) hash = qf_hash_mix(hash, dims[i].id);
    uint32_t id = qf_index_find(&table->index, hash, type_same, context, &wanted);
    if (id) return (qf_type){id};
    wanted.dims = count ? qf_arena_copy(&context->arena, dims, count * sizeof *dims) : NULL;
    if (count && !wanted.dims) return (qf_type){0};
    if (!QF_GROW(context, table->items, table->capacity, (uint64_t)table->count + 1)) return (qf_type){0};
    id = table->count;
    if (!qf_index_add(context, &table->index, hash, id)) return (qf_type){0};
    table->items[id] = wanted;
    table->count++;
    return (qf_type){id};
}

qf_dtype qf_type_dtype(const qf_context *context, qf_type type) {
    return type_at(context, type)->dtype;
}

uint32_t qf_type_rank(const qf_context *context, qf_type type) {
    return type_at(context, type)->rank;
}

bool qf_type_is_ranked(const qf_context *context, qf_type type) {
    return type_at(context, type)->rank != QF_UNRANKED;
}

const qf_dim *qf_type_dims(const qf_context *context, qf_type type) {
    return type_at(context, type)->dims;
}

qf_dim qf_type_dim(const qf_context *context, qf_type type, int32_t axis) {
    const type_data *data = type_at(context, type);
    if (data->rank == QF_UNRANKED) return (qf_dim){0};
    int64_t index = axis < 0 ? (int64_t)axis + data->rank : axis;
    return index >= 0 && index < data->rank ? data->dims[index] : (qf_dim){0};
}

qf_type qf_type_with_dtype(qf_context *context, qf_type type, qf_dtype dtype) {
    const type_data data = *type_at(context, type);
    return data.dtype == dtype && type.id ? type : qf_type_tensor(context, dtype, data.dims, data.rank);
}

qf_dim qf_type_element_count(qf_context *context, qf_type type) {
    type_data *data = &context->types->items[type.id];
    if (data->rank == QF_UNRANKED) return (qf_dim){0};
    if (!data->count.id) data->count = qf_dim_product(context, data->dims, data->rank);
    return data->count;
}

bool qf_type_static_count(const qf_context *context, qf_type type, uint64_t *out_count) {
    const type_data *data = type_at(context, type);
    if (data->rank == QF_UNRANKED) return false;
    uint64_t count = 1;
    bool zero = false, overflow = false;
    for (uint32_t i = 0; i < data->rank; i++) {
        int64_t dim;
        if (!qf_dim_is_constant(context, data->dims[i], &dim) || dim < 0) return false;
        zero |= dim == 0;
        if (dim) overflow |= __builtin_mul_overflow(count, (uint64_t)dim, &count);
    }
    if (overflow && !zero) return false;
    *out_count = zero ? 0 : count;
    return true;
}

void qf_type_print(qf_buffer *buffer, const qf_context *context, qf_type type) {
    const type_data *data = type_at(context, type);
    qf_buffer_text(buffer, qf_text_of(qf_dtype_name(data->dtype)));
    if (data->dtype == QF_TOKEN) return;
    if (data->rank == QF_UNRANKED) {
        qf_buffer_text(buffer, QF_TEXT("[*]"));
        return;
    }
    qf_buffer_text(buffer, QF_TEXT("["));
    for (uint32_t i = 0; i < data->rank; i++) {
        if (i) qf_buffer_text(buffer, QF_TEXT(", "));
        qf_dim_print(buffer, context, data->dims[i]);
    }
    qf_buffer_text(buffer, QF_TEXT("]"));
}

/* --- reading --- */

static void skip_spaces(qf_text *text) {
    while (text->size && (text->data[0] == ' ' || text->data[0] == '\t')) {
        text->data++;
        text->size--;
    }
}

static bool take(qf_text *text, char c) {
    skip_spaces(text);
    if (!text->size || text->data[0] != c) return false;
    text->data++;
    text->size--;
    return true;
}

static bool take_dtype(qf_text *text, qf_dtype *out_dtype) {
    char name[16];
    size_t size = 0;
    while (size < text->size && size < sizeof name - 1 &&
           ((text->data[size] >= '0' && text->data[size] <= '9') ||
            (text->data[size] >= 'A' && text->data[size] <= 'Z') ||
            (text->data[size] >= 'a' && text->data[size] <= 'z'))) {
        name[size] = text->data[size];
        size++;
    }
    name[size] = '\0';
    *out_dtype = qf_dtype_from_name(name);
    text->data += size;
    text->size -= size;
    return *out_dtype != QF_DTYPE_NONE || strcmp(name, "none") == 0;
}

qf_type qf_type_parse(qf_context *context, qf_text *text) {
    qf_text rest = *text;
    qf_dtype dtype;
    qf_dim dims[QF_MAX_RANK];
    uint32_t rank = 0;
    skip_spaces(&rest);
    if (!take_dtype(&rest, &dtype)) return (qf_type){0};
    if (dtype != QF_TOKEN) {
        if (!take(&rest, '[')) return (qf_type){0};
        if (take(&rest, '*')) {
            rank = QF_UNRANKED;
            if (!take(&rest, ']')) return (qf_type){0};
        } else if (!take(&rest, ']')) {
            do {
                if (rank == QF_MAX_RANK) return (qf_type){0};
                skip_spaces(&rest);
                dims[rank] = qf_dim_parse(context, &rest);
                if (!dims[rank++].id) return (qf_type){0};
            } while (take(&rest, ','));
            if (!take(&rest, ']')) return (qf_type){0};
        }
    }
    qf_type result = qf_type_tensor(context, dtype, dims, rank);
    if (result.id) *text = rest;
    return result;
}
