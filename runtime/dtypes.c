/* Owns: which tensors of a step must have one element type, for plans that nobody vouches for.
 * Does not own: shapes and values, which each kernel checks; the element types that an op may have (ir/verify.def).
 * Next: executor.h. */
#include "runtime/executor.h"

/* Kernels of these ops move elements as bytes. Bits count operands and results in table order; EVERY: all of them. */
#define BIT(column) (1u << (column))
#define EVERY       UINT32_MAX
static const struct {
    qf_op op;
    uint32_t operands, results;
} alike[] = {
    {QF_OP_full, BIT(QF_IN(full, value)), BIT(0)},
    {QF_OP_view, BIT(0), BIT(0)},
    {QF_OP_copy, BIT(0), BIT(0)},
    {QF_OP_permute, BIT(0), BIT(0)},
    {QF_OP_slice, BIT(0), BIT(0)},
    {QF_OP_expand, BIT(0), BIT(0)},
    {QF_OP_triangle, BIT(0), BIT(0)},
    {QF_OP_concat, EVERY, EVERY},
    {QF_OP_split, EVERY, EVERY},
    {QF_OP_pad, EVERY, EVERY},
    {QF_OP_gather, BIT(QF_IN(gather, x)), BIT(0)},
    {QF_OP_gather_elements, BIT(QF_IN(gather_elements, x)), BIT(0)},
    {QF_OP_gather_nd, BIT(QF_IN(gather_nd, x)), BIT(0)},
    {QF_OP_scatter_nd, BIT(QF_IN(scatter_nd, x)) | BIT(QF_IN(scatter_nd, updates)), BIT(0)},
    {QF_OP_scatter_elements, BIT(QF_IN(scatter_elements, x)) | BIT(QF_IN(scatter_elements, updates)), BIT(0)},
    {QF_OP_one_hot, BIT(QF_IN(one_hot, values)), BIT(0)},
    {QF_OP_where, BIT(QF_IN(where, a)) | BIT(QF_IN(where, b)), BIT(0)},
    {QF_OP_top_k, BIT(0), BIT(QF_OUT(top_k, values))},
    {QF_OP_kv_cache_write, BIT(QF_IN(kv_cache_write, cache)), BIT(0)},
    {QF_OP_rope_quantize_cache_write, BIT(QF_IN(rope_quantize_cache_write, k_cache)),
     BIT(QF_OUT(rope_quantize_cache_write, k_cache_out))},
    {QF_OP_rope_quantize_cache_write, BIT(QF_IN(rope_quantize_cache_write, v_cache)),
     BIT(QF_OUT(rope_quantize_cache_write, v_cache_out))},
};

static bool chosen(uint32_t set, uint32_t column) {
    return set == EVERY || (column < 32 && (set >> column & 1));
}

/* False where a chosen, present tensor has another dtype than *dtype (NONE: not yet known, is set). */
static bool one_dtype(const qf_view *views, uint32_t count, uint32_t set, qf_dtype *dtype) {
    for (uint32_t i = 0; i < count; i++) {
        if (!chosen(set, i) || !views[i].data) continue;
        if (*dtype == QF_DTYPE_NONE) *dtype = views[i].dtype;
        if (views[i].dtype != *dtype) return false;
    }
    return true;
}

bool qf_dtypes_agree(const qf_kernel_call *call) {
    for (uint32_t i = 0; i < QF_COUNT_OF(alike); i++) {
        qf_dtype dtype = QF_DTYPE_NONE;
        if (alike[i].op != call->op) continue;
        if (!one_dtype(call->operands, call->operand_count, alike[i].operands, &dtype) ||
            !one_dtype(call->results, call->result_count, alike[i].results, &dtype))
            return false;
    }
    return true;
}
