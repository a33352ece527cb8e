/* Owns: running one op by itself on the CPU kernels.
 * Does not own: plans (executor.c), the kernels (kernels/cpu).
 * Next: executor.h. */
#include <string.h>

#include "runtime/executor.h"

/* Up to this many operands and results need no memory. */
#define FEW 24

static bool to_view(const qf_tensor *tensor, qf_view *out) {
    *out = (qf_view){0};
    if (tensor->dtype == QF_DTYPE_NONE) return true;
    uint64_t bytes = qf_tensor_bytes(tensor);
    uint32_t width = qf_dtype_bits(tensor->dtype) / 8;
    static const char nothing[8];
    if (bytes == UINT64_MAX || (bytes && !tensor->data) || (width > 1 && (uintptr_t)tensor->data % width)) return false;
    out->dtype = tensor->dtype;
    out->rank = tensor->rank;
    memcpy(out->dims, tensor->dims, sizeof out->dims);
    /* An empty tensor is present: kernels tell absent operands by a NULL address. */
    out->data = tensor->data ? tensor->data : (void *)(uintptr_t)nothing;
    return true;
}

static qf_status fill_views(qf_context *context, qf_op op, const char *what, const qf_tensor *tensors, uint32_t count,
                            qf_view *views) {
    for (uint32_t i = 0; i < count; i++)
        if (!to_view(&tensors[i], &views[i]))
            return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL,
                           "%s: %s %u has an impossible shape, no data, or data not aligned to its elements",
                           qf_op_name(op), what, i);
    return QF_OK;
}

static void fill_attributes(const qf_op_info *info, const qf_op_attribute *given, qf_kernel_attribute *out) {
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        out[i].count = given[i].count;
        switch (info->attributes[i].kind) {
        case QF_ATTRIBUTE_FLOAT: out[i].number = given[i].value.number; break;
        case QF_ATTRIBUTE_STRING: out[i].string = given[i].value.string; break;
        case QF_ATTRIBUTE_DIMS:
        case QF_ATTRIBUTE_INTS: out[i].ints = given[i].value.ints; break;
        case QF_ATTRIBUTE_LITERAL: out[i].bytes = given[i].value.bytes; break;
        default: out[i].integer = given[i].value.integer; break;
        }
    }
}

static qf_status launch(qf_context *context, qf_kernel_call *call) {
    qf_cpu_kernel kernel = qf_cpu_kernel_of(call->op);
    if (!kernel) return qf_fail(context, QF_ERROR_UNSUPPORTED, NULL, "%s has no CPU kernel", qf_op_name(call->op));
    if (!qf_dtypes_agree(call))
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "%s: operands and results have different element types", qf_op_name(call->op));
    size_t scratch = qf_cpu_scratch_size(call);
    if (scratch > SIZE_MAX / 2)
        return qf_fail(context, QF_ERROR_LIMIT, NULL, "%s needs more scratch than can be addressed",
                       qf_op_name(call->op));
    unsigned char *block = scratch ? qf_allocate(context, scratch + 64) : NULL;
    if (scratch && !block) return QF_ERROR_OUT_OF_MEMORY;
    call->scratch = block ? block + (64 - (uintptr_t)block % 64) : NULL;
    qf_status status = kernel(call);
    if (block) qf_release(context, block, scratch + 64);
    if (status == QF_OK) return QF_OK;
    return qf_fail(context, status, NULL, "%s: %s", qf_op_name(call->op),
                   call->message[0] ? call->message : qf_status_name(status));
}

qf_status qf_op_run(qf_context *context, qf_op op, const qf_tensor *operands, uint32_t operand_count,
                    const qf_op_attribute *attributes, uint32_t attribute_count, const qf_tensor *results,
                    uint32_t result_count, uint32_t thread_count) {
    const qf_op_info *info = qf_op_info_of(op);
    if (!info || attribute_count != info->attribute_count || attribute_count > FEW)
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "%s: %u attributes, expected %u", qf_op_name(op),
                       attribute_count, info ? info->attribute_count : 0);
    char message[512] = "";
    qf_view few[FEW], *views = few;
    qf_kernel_attribute values[FEW];
    memset(values, 0, sizeof values);
    size_t size = ((size_t)operand_count + result_count) * sizeof *views;
    if (size > sizeof few && !(views = qf_allocate(context, size))) return QF_ERROR_OUT_OF_MEMORY;
    qf_status status = fill_views(context, op, "operand", operands, operand_count, views);
    if (status == QF_OK) status = fill_views(context, op, "result", results, result_count, views + operand_count);
    fill_attributes(info, attributes, values);
    qf_kernel_call call = {.op = op,
                           .operand_count = operand_count,
                           .result_count = result_count,
                           .operands = views,
                           .results = views + operand_count,
                           .attributes = values,
                           .thread_count = thread_count ? thread_count : 1,
                           .message = message,
                           .message_size = sizeof message};
    if (status == QF_OK) status = launch(context, &call);
    if (views != few) qf_release(context, views, size);
    return status;
}
