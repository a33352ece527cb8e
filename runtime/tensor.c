/* Owns: the public tensor: sizes, DLPack in and out.
 * Does not own: DLPack's layouts (qfuse/dlpack.h).
 * Next: qfuse/tensor.h. */
#include <qfuse/tensor.h>

#include <inttypes.h>
#include <string.h>

#include "base/context.h"

uint64_t qf_tensor_bytes(const qf_tensor *tensor) {
    uint64_t count = 1;
    if (tensor->rank > QF_TENSOR_MAX_RANK || !qf_dtype_bits(tensor->dtype)) return UINT64_MAX;
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] < 0 || __builtin_mul_overflow(count, (uint64_t)tensor->dims[i], &count)) return UINT64_MAX;
    uint64_t bytes = qf_dtype_bytes(tensor->dtype, count);
    return bytes > INT64_MAX ? UINT64_MAX : bytes;
}

/* code, bits of one element in DLPack, and ours. */
static const struct {
    uint8_t code, bits;
    qf_dtype dtype;
} types[] = {{QF_DL_FLOAT, 32, QF_F32},
             {QF_DL_FLOAT, 16, QF_F16},
             {QF_DL_FLOAT, 64, QF_F64},
             {QF_DL_BFLOAT, 16, QF_BF16},
             {QF_DL_FLOAT8_E4M3FN, 8, QF_F8E4M3FN},
             {QF_DL_FLOAT8_E5M2, 8, QF_F8E5M2},
             {QF_DL_FLOAT8_E4M3FNUZ, 8, QF_F8E4M3FNUZ},
             {QF_DL_FLOAT8_E5M2FNUZ, 8, QF_F8E5M2FNUZ},
             {QF_DL_FLOAT8_E8M0FNU, 8, QF_F8E8M0FNU},
             {QF_DL_FLOAT4_E2M1FN, 4, QF_F4E2M1FN},
             {QF_DL_BOOL, 8, QF_I1},
             {QF_DL_INT, 8, QF_I8},
             {QF_DL_UINT, 8, QF_U8},
             {QF_DL_INT, 32, QF_I32},
             {QF_DL_INT, 64, QF_I64}};

static qf_dtype dtype_of(qf_dl_data_type type) {
    for (uint32_t i = 0; i < QF_COUNT_OF(types); i++)
        if (types[i].code == type.code && types[i].bits == type.bits) return types[i].dtype;
    return QF_DTYPE_NONE;
}

/* Row-major without gaps; strides of dims of size 1, and all strides of an empty tensor, mean nothing. */
static bool is_contiguous(const qf_dl_tensor *source) {
    int64_t expected = 1;
    for (int32_t i = 0; source->strides && i < source->ndim; i++)
        if (source->shape[i] == 0) return true;
    for (int32_t i = source->ndim; source->strides && i-- > 0;) {
        if (source->shape[i] != 1 && source->strides[i] != expected) return false;
        if (__builtin_mul_overflow(expected, source->shape[i], &expected)) return false;
    }
    return true;
}

static qf_status convert(qf_context *context, const qf_dl_tensor *source, bool padded, qf_tensor *out) {
    *out = (qf_tensor){.dtype = dtype_of(source->dtype),
                       .device_type = source->device.device_type,
                       .device_id = source->device.device_id};
    bool pairs = out->dtype == QF_F4E2M1FN && source->dtype.lanes == 2;
    if (out->dtype == QF_DTYPE_NONE || (source->dtype.lanes != 1 && !pairs) || (out->dtype == QF_F4E2M1FN && padded))
        return qf_fail(context, QF_ERROR_UNSUPPORTED, NULL,
                       "DLPack dtype code %u, %u bits, %u lanes%s has no counterpart", source->dtype.code,
                       source->dtype.bits, source->dtype.lanes, padded ? ", padded" : "");
    if (source->ndim < 0 || (source->ndim && !source->shape))
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "DLPack rank %" PRId32 " with%s a shape", source->ndim,
                       source->shape ? "" : "out");
    if (source->ndim > QF_TENSOR_MAX_RANK)
        return qf_fail(context, QF_ERROR_UNSUPPORTED, NULL, "DLPack rank %" PRId32 ", expected at most %d",
                       source->ndim, QF_TENSOR_MAX_RANK);
    out->rank = (uint32_t)source->ndim;
    for (uint32_t i = 0; i < out->rank; i++) out->dims[i] = source->shape[i];
    if (pairs &&
        (!out->rank || __builtin_mul_overflow(out->dims[out->rank - 1], (int64_t)2, &out->dims[out->rank - 1])))
        return qf_fail(context, QF_ERROR_UNSUPPORTED, NULL, "a DLPack scalar of two lanes has no counterpart");
    uint64_t bytes = qf_tensor_bytes(out);
    if (bytes == UINT64_MAX || (bytes && !source->data))
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "a DLPack dim is negative or too large, or data is NULL");
    if (!is_contiguous(source))
        return qf_fail(context, QF_ERROR_UNSUPPORTED, NULL,
                       "the DLPack tensor has strides; make it contiguous (row-major) first");
    out->data = source->data ? (char *)source->data + source->byte_offset : NULL;
    return QF_OK;
}

qf_status qf_tensor_from_dlpack(qf_context *context, const qf_dl_tensor *source, qf_tensor *out_tensor) {
    return convert(context, source, false, out_tensor);
}

qf_status qf_tensor_from_managed(qf_context *context, const qf_dl_managed_tensor *source, qf_tensor *out_tensor) {
    return convert(context, &source->dl_tensor, false, out_tensor);
}

qf_status qf_tensor_from_versioned(qf_context *context, const qf_dl_managed_tensor_versioned *source,
                                   qf_tensor *out_tensor, bool *out_read_only) {
    *out_tensor = (qf_tensor){0};
    if (source->version.major != QF_DL_MAJOR)
        return qf_fail(context, QF_ERROR_VERSION, NULL, "DLPack version %u.%u; this library reads %d.x",
                       source->version.major, source->version.minor, QF_DL_MAJOR);
    if (out_read_only) *out_read_only = (source->flags & QF_DL_FLAG_READ_ONLY) != 0;
    return convert(context, &source->dl_tensor, (source->flags & QF_DL_FLAG_SUBBYTE_PADDED) != 0, out_tensor);
}

/* What the exported tensor points into; freed by the deleter. */
typedef struct exported {
    qf_context *context;
    void (*release)(void *owner);
    void *owner;
    int64_t shape[QF_TENSOR_MAX_RANK], strides[QF_TENSOR_MAX_RANK];
    qf_dl_managed_tensor managed;
    qf_dl_managed_tensor_versioned versioned;
} exported;

static void free_exported(exported *wrapper) {
    if (wrapper->release) wrapper->release(wrapper->owner);
    qf_release(wrapper->context, wrapper, sizeof *wrapper);
}

static void delete_managed(qf_dl_managed_tensor *self) {
    free_exported(self->manager_ctx);
}

static void delete_versioned(qf_dl_managed_tensor_versioned *self) {
    free_exported(self->manager_ctx);
}

static qf_status export(qf_context *context, const qf_tensor *tensor, void (*release)(void *owner), void *owner,
                        exported **out, qf_dl_tensor *fields) {
    *out = NULL;
    uint32_t row = 0;
    while (row < QF_COUNT_OF(types) && types[row].dtype != tensor->dtype) row++;
    if (row == QF_COUNT_OF(types) || qf_tensor_bytes(tensor) == UINT64_MAX)
        return qf_fail(context, QF_ERROR_UNSUPPORTED, NULL,
                       "a tensor of %s has no DLPack counterpart, or its shape is impossible",
                       qf_dtype_name(tensor->dtype));
    exported *wrapper = qf_allocate(context, sizeof *wrapper);
    if (!wrapper) return QF_ERROR_OUT_OF_MEMORY;
    *wrapper = (exported){.context = context, .release = release, .owner = owner};
    int64_t stride = 1;
    for (uint32_t i = tensor->rank; i-- > 0; stride *= tensor->dims[i] ? tensor->dims[i] : 1) {
        wrapper->shape[i] = tensor->dims[i];
        wrapper->strides[i] = stride;
    }
    *fields = (qf_dl_tensor){.data = tensor->data,
                             .device = {tensor->device_type ? tensor->device_type : QF_DL_CPU, tensor->device_id},
                             .ndim = (int32_t)tensor->rank,
                             .dtype = {types[row].code, types[row].bits, 1},
                             .shape = wrapper->shape,
                             .strides = wrapper->strides};
    *out = wrapper;
    return QF_OK;
}

qf_status qf_tensor_to_versioned(qf_context *context, const qf_tensor *tensor, void (*release)(void *owner),
                                 void *owner, qf_dl_managed_tensor_versioned **out) {
    exported *wrapper;
    qf_dl_tensor fields;
    *out = NULL;
    qf_status status = export(context, tensor, release, owner, &wrapper, &fields);
    if (!wrapper) return status;
    wrapper->versioned = (qf_dl_managed_tensor_versioned){.version = {QF_DL_MAJOR, QF_DL_MINOR},
                                                          .manager_ctx = wrapper,
                                                          .deleter = delete_versioned,
                                                          .dl_tensor = fields};
    *out = &wrapper->versioned;
    return QF_OK;
}

qf_status qf_tensor_to_managed(qf_context *context, const qf_tensor *tensor, void (*release)(void *owner), void *owner,
                               qf_dl_managed_tensor **out) {
    exported *wrapper;
    qf_dl_tensor fields;
    *out = NULL;
    qf_status status = export(context, tensor, release, owner, &wrapper, &fields);
    if (!wrapper) return status;
    wrapper->managed = (qf_dl_managed_tensor){.dl_tensor = fields, .manager_ctx = wrapper, .deleter = delete_managed};
    *out = &wrapper->managed;
    return QF_OK;
}
