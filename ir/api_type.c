/* Owns: types and dims of the public API, from text and back.
 * Does not own: how they are stored (base/dim.h, base/type.h), graphs (api.c).
 * Next: qfuse/type.h. */
#include "base/type.h"

static bool all_read(qf_text text) {
    while (text.size && (text.data[0] == ' ' || text.data[0] == '\t' || text.data[0] == '\n')) {
        text.data++;
        text.size--;
    }
    return text.size == 0;
}

static const char *intern_buffer(qf_context *context, qf_buffer *buffer) {
    qf_string string = {0};
    if (!buffer->failed && buffer->size) string = qf_intern(context, (qf_text){buffer->data, buffer->size});
    qf_buffer_destroy(buffer);
    return qf_string_c(context, string);
}

qf_dim qf_dim_from_text(qf_context *context, const char *text) {
    qf_text rest = qf_text_of(text);
    qf_status before = context->status;
    context->status = QF_OK;
    qf_dim dim = qf_dim_parse(context, &rest);
    if (context->status == QF_OK && (!dim.id || !all_read(rest))) {
        (void)qf_fail(context, QF_ERROR_PARSE, NULL, "expected a dim such as 2*T + 1, found \"%s\"", text ? text : "");
        dim = (qf_dim){0};
    }
    if (before != QF_OK) context->status = before;
    return dim;
}

const char *qf_dim_text(qf_context *context, qf_dim dim) {
    qf_buffer buffer = {.context = context};
    if (dim.id) qf_dim_print(&buffer, context, dim);
    return intern_buffer(context, &buffer);
}

qf_type qf_type_from_text(qf_context *context, const char *text) {
    qf_text rest = qf_text_of(text);
    qf_status before = context->status;
    context->status = QF_OK;
    qf_type type = qf_type_parse(context, &rest);
    if (context->status == QF_OK && (!type.id || !all_read(rest))) {
        (void)qf_fail(context, QF_ERROR_PARSE, NULL, "expected a type such as f16[B, 8, T, 64], found \"%s\"",
                      text ? text : "");
        type = (qf_type){0};
    }
    if (before != QF_OK) context->status = before;
    return type;
}

qf_type qf_type_from_sizes(qf_context *context, qf_dtype dtype, const int64_t *sizes, uint32_t rank) {
    qf_dim dims[QF_MAX_RANK];
    if (rank > QF_MAX_RANK) {
        (void)qf_fail(context, QF_ERROR_LIMIT, NULL, "a type has at most %d dims, found %u", QF_MAX_RANK, rank);
        return (qf_type){0};
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (sizes[i] < 0) {
            (void)qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL,
                          "a size is at least 0, found %lld; use qf_type_from_text for symbols", (long long)sizes[i]);
            return (qf_type){0};
        }
        dims[i] = qf_dim_constant(context, sizes[i]);
        if (!dims[i].id) return (qf_type){0};
    }
    return qf_type_tensor(context, dtype, dims, rank);
}

const char *qf_type_text(qf_context *context, qf_type type) {
    qf_buffer buffer = {.context = context};
    if (type.id) qf_type_print(&buffer, context, type);
    return intern_buffer(context, &buffer);
}
