/* Owns: 4-bit elements in builders that move whole bytes.
 * Does not own: the builders, elementwise programs, which read and write 4-bit elements by themselves.
 * Next: packed.h. */
#include "kernels/cuda/packed.h"

#include "kernels/cuda/layout.h"

bool qf_cuda_is_packed(const qf_kernel_step *step) {
    for (uint32_t i = 0; i < step->call.operand_count; i++)
        if (step->call.operands[i].dtype == QF_F4E2M1FN) return true;
    for (uint32_t i = 0; i < step->call.result_count; i++)
        if (step->call.results[i].dtype == QF_F4E2M1FN) return true;
    return false;
}

static qf_status convert(qf_cuda_recorder *recorder, const char *kernel, uint64_t from, uint64_t to, int64_t count) {
    if (count == 0) return QF_OK;
    qf_cuda_launch *launch =
        qf_cuda_add_grid(recorder, "layout", kernel, sizeof(qf_packed_params), (uint64_t)count, 256);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    qf_packed_params *params = launch->params;
    params->from = from;
    params->to = to;
    params->count = count;
    return QF_OK;
}

qf_status qf_cuda_add_pack(qf_cuda_recorder *recorder, uint64_t from, const qf_view *y) {
    return convert(recorder, "qf_pack", from, qf_cuda_address(y), qf_view_count(y));
}

/* Copies of the views, 4-bit ones as bytes in scratch. */
static qf_view *spread(qf_cuda_recorder *recorder, const qf_view *views, uint32_t count) {
    qf_view *out = QF_ARENA_NEW(recorder->arena, qf_view, count + 1u);
    for (uint32_t i = 0; out && i < count; i++) {
        out[i] = views[i];
        if (views[i].dtype != QF_F4E2M1FN || !views[i].data) continue;
        out[i].dtype = QF_U8;
        out[i].data = qf_cuda_scratch(recorder, qf_view_bytes(&out[i]) + 1);
    }
    return out;
}

qf_status qf_cuda_build_unpacked(qf_cuda_recorder *recorder, const qf_kernel_step *step, qf_cuda_builder build) {
    qf_kernel_step bytes = *step;
    const qf_view *operands = step->call.operands, *results = step->call.results;
    qf_view *unpacked = spread(recorder, operands, step->call.operand_count);
    qf_view *packed = spread(recorder, results, step->call.result_count);
    if (!unpacked || !packed) return QF_ERROR_OUT_OF_MEMORY;
    bytes.call.operands = unpacked;
    bytes.call.results = packed;
    qf_status status = QF_OK;
    for (uint32_t i = 0; status == QF_OK && i < step->call.operand_count; i++)
        if (unpacked[i].data != operands[i].data)
            status = convert(recorder, "qf_unpack", qf_cuda_address(&operands[i]), qf_cuda_address(&unpacked[i]),
                             qf_view_count(&operands[i]));
    if (status == QF_OK) status = build(recorder, &bytes);
    for (uint32_t i = 0; status == QF_OK && i < step->call.result_count; i++)
        if (packed[i].data != results[i].data)
            status = qf_cuda_add_pack(recorder, qf_cuda_address(&packed[i]), &results[i]);
    return status;
}

void qf_cuda_start_rounded(qf_cuda_recorder *recorder, const qf_view *y, qf_view *out_y) {
    *out_y = *y;
    if (y->dtype != QF_F4E2M1FN) return;
    out_y->dtype = QF_F32;
    out_y->data = qf_cuda_scratch(recorder, qf_view_bytes(out_y));
}

qf_status qf_cuda_finish_rounded(qf_cuda_recorder *recorder, const qf_view *made, const qf_view *y) {
    if (made->dtype == y->dtype) return QF_OK;
    char message[160] = "";
    qf_view from = *made, to = *y;
    qf_kernel_attribute attributes[2] = {{.integer = 0}, {.integer = 0}};
    attributes[QF_ATTR(cast, dtype)].integer = y->dtype;
    attributes[QF_ATTR(cast, saturate)].integer = 1;
    qf_kernel_step cast = {.call = {.op = QF_OP_cast,
                                    .operand_count = 1,
                                    .result_count = 1,
                                    .operands = &from,
                                    .results = &to,
                                    .attributes = attributes,
                                    .message = message,
                                    .message_size = sizeof message}};
    uint32_t remaining = recorder->remaining;
    recorder->remaining = 1;
    qf_status status = qf_cuda_build_elementwise(recorder, &cast);
    recorder->remaining = remaining;
    return status;
}
