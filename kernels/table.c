/* Owns: the table from op to CPU kernel, expanded from ops.def, and the scratch each needs.
 * Does not own: the kernels (cpu/).
 * Next: kernel.h. */
#include "kernels/kernel.h"

#include "kernels/cpu/cpu.h"

/* Stands in the table for ops without a kernel; never called. */
qf_status qf_cpu_none(const qf_kernel_call *call) {
    return qf_cpu_fail(call, QF_ERROR_UNSUPPORTED, "%s has no kernel", qf_op_name(call->op));
}

/* clang-format off */
static const qf_cpu_kernel kernels[256] = {
#define OP(number, name, doc, operands, results, attributes, traits, infer, cpu) [number] = qf_cpu_##cpu,
#include "spec/ops.def"
#undef OP
};
/* clang-format on */

qf_cpu_kernel qf_cpu_kernel_of(qf_op op) {
    if ((unsigned)op >= QF_COUNT_OF(kernels) || kernels[op] == qf_cpu_none) return NULL;
    return kernels[op];
}

size_t qf_cpu_scratch_size(const qf_kernel_call *call) {
    switch (call->op) {
    case QF_OP_contract:
    case QF_OP_matmul:
    case QF_OP_scaled_matmul: return qf_cpu_scratch_contract(call);
    case QF_OP_conv: return qf_cpu_scratch_conv(call);
    case QF_OP_attention:
    case QF_OP_paged_attention: return qf_cpu_scratch_attention(call);
    case QF_OP_top_k: return qf_cpu_scratch_top_k(call);
    default: return 0;
    }
}
