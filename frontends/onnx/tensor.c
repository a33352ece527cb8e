/* Owns: reading TensorProto: type, typed fields, raw bytes, alignment.
 * Does not own: external files (external.c).
 * Next: external.c. */
#include "frontends/onnx/tensor.h"

#include <string.h>

#include "frontends/onnx/external.h"

qf_type qf_onnx_tensor_type(qf_context *context, const Onnx__TensorProto *tensor, const char *location) {
    qf_position position = {.location = location};
    qf_dim dims[QF_MAX_RANK];
    if (tensor->n_dims > QF_MAX_RANK) {
        (void)qf_fail(context, QF_ERROR_LIMIT, &position, "tensor '%s' has rank %zu; at most %d is supported",
                      qf_onnx_text(tensor->name), tensor->n_dims, QF_MAX_RANK);
        return (qf_type){0};
    }
    for (size_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] < 0) {
            (void)qf_fail(context, QF_ERROR_PARSE, &position, "tensor '%s': dim %zu is %lld; expected zero or more",
                          qf_onnx_text(tensor->name), i, (long long)tensor->dims[i]);
            return (qf_type){0};
        }
        dims[i] = qf_dim_constant(context, tensor->dims[i]);
        if (!dims[i].id) return (qf_type){0};
    }
    return qf_type_tensor(context, qf_onnx_dtype(tensor->data_type), dims, (uint32_t)tensor->n_dims);
}

/* The typed repeated field that holds this dtype where there is no raw_data, and how many bytes an entry fills.
 * int32_data carries all narrow types, one element an entry (f4: two elements, as a byte). */
typedef struct typed_field {
    const void *data;
    size_t count, entry_size;
    uint32_t bytes;
} typed_field;

static typed_field typed_field_of(const Onnx__TensorProto *tensor, qf_dtype dtype) {
    switch (dtype) {
    case QF_F32: return (typed_field){tensor->float_data, tensor->n_float_data, sizeof(float), 4};
    case QF_F64: return (typed_field){tensor->double_data, tensor->n_double_data, sizeof(double), 8};
    case QF_I64: return (typed_field){tensor->int64_data, tensor->n_int64_data, sizeof(int64_t), 8};
    case QF_I32: return (typed_field){tensor->int32_data, tensor->n_int32_data, sizeof(int32_t), 4};
    case QF_F16:
    case QF_BF16: return (typed_field){tensor->int32_data, tensor->n_int32_data, sizeof(int32_t), 2};
    default: return (typed_field){tensor->int32_data, tensor->n_int32_data, sizeof(int32_t), 1};
    }
}

static qf_status decode_typed(qf_onnx_storage *storage, const Onnx__TensorProto *tensor, qf_dtype dtype, uint64_t size,
                              const qf_position *position, qf_onnx_bytes *out) {
    typed_field field = typed_field_of(tensor, dtype);
    if (field.count * field.bytes != size)
        return qf_fail(storage->context, QF_ERROR_PARSE, position,
                       "tensor '%s': expected %llu bytes of %s, found %zu entries that make %zu bytes",
                       qf_onnx_text(tensor->name), (unsigned long long)size, qf_dtype_name(dtype), field.count,
                       field.count * field.bytes);
    uint8_t *bytes = qf_arena_allocate(&storage->arena, (size_t)size);
    if (!bytes) return QF_ERROR_OUT_OF_MEMORY;
    const uint8_t *entries = field.data;
    for (size_t i = 0; i < field.count; i++)
        memcpy(bytes + i * field.bytes, entries + i * field.entry_size, field.bytes);
    *out = (qf_onnx_bytes){.data = bytes, .size = size};
    return QF_OK;
}

/* Booleans must be 0 or 1, and elements aligned: otherwise a copy is made. */
static qf_status make_usable(qf_onnx_storage *storage, qf_dtype dtype, qf_onnx_bytes *bytes) {
    uint32_t alignment = qf_dtype_bits(dtype) / 8;
    const uint8_t *source = bytes->data;
    bool usable = alignment < 2 || (uintptr_t)source % alignment == 0;
    if (dtype == QF_I1)
        for (uint64_t i = 0; usable && i < bytes->size; i++) usable = source[i] <= 1;
    if (usable || !bytes->size) return QF_OK;
    uint8_t *copy = qf_arena_copy(&storage->arena, source, (size_t)bytes->size);
    if (!copy) return QF_ERROR_OUT_OF_MEMORY;
    if (dtype == QF_I1)
        for (uint64_t i = 0; i < bytes->size; i++) copy[i] = copy[i] != 0;
    bytes->data = copy;
    return QF_OK;
}

qf_status qf_onnx_tensor_bytes(qf_onnx_storage *storage, const qf_onnx_folders *folders,
                               const Onnx__TensorProto *tensor, const qf_onnx_bytes *cut, qf_type type,
                               const char *location, qf_onnx_bytes *out) {
    qf_context *context = storage->context;
    qf_position position = {.location = location};
    qf_dtype dtype = qf_type_dtype(context, type);
    uint64_t count, size = UINT64_MAX;
    if (qf_type_static_count(context, type, &count)) size = qf_dtype_bytes(dtype, count);
    if (size > (uint64_t)1 << 46)
        return qf_fail(context, QF_ERROR_LIMIT, &position, "tensor '%s': its dims multiply to more than any memory",
                       qf_onnx_text(tensor->name));
    *out = (qf_onnx_bytes){0};
    if (tensor->segment)
        return qf_fail(context, QF_ERROR_UNSUPPORTED, &position, "tensor '%s' is stored in segments",
                       qf_onnx_text(tensor->name));
    bool external = tensor->has_data_location && tensor->data_location == 1;
    if (external) {
        qf_status status = qf_onnx_external_bytes(storage, folders, tensor, size, location, out);
        return status == QF_OK ? make_usable(storage, dtype, out) : status;
    }
    if (!cut && !tensor->has_raw_data) return decode_typed(storage, tensor, dtype, size, &position, out);
    if (cut)
        *out = *cut;
    else
        *out = (qf_onnx_bytes){.data = tensor->raw_data.data, .size = tensor->raw_data.len};
    if (out->size != size)
        return qf_fail(context, QF_ERROR_PARSE, &position, "tensor '%s': expected %llu bytes of raw data, found %llu",
                       qf_onnx_text(tensor->name), (unsigned long long)size, (unsigned long long)out->size);
    if (!cut && size) { /* the unpacked message does not outlive the import */
        out->data = qf_arena_copy(&storage->arena, out->data, (size_t)size);
        if (!out->data) return QF_ERROR_OUT_OF_MEMORY;
    }
    return make_usable(storage, dtype, out);
}
