/* Owns: the builder of elementwise ops: which steps have a meaning, which arithmetic they need, how many join.
 * Does not own: chains and their programs (elementwise_chain.c).
 * Next: elementwise_chain.h, docs/decisions/0008-elementwise-programs.md. */
#include "kernels/cuda/elementwise_chain.h"
#include "kernels/cuda/fast.h"

#include <string.h>

#define LEAST_THREADS 32u

typedef enum op_class {
    NOT_ELEMENTWISE,
    FUNCTION,   /* of one float */
    ARITHMETIC, /* of one or two numbers */
    TRUTH,      /* a boolean of one or two elements */
    CHOICE,     /* where, clamp */
    CONVERSION
} op_class;

static op_class class_of(qf_op op) {
    const qf_op_info *info = qf_op_info_of(op);
    if (!info || !(info->traits & QF_TRAIT_ELEMENTWISE) || op == QF_OP_bitcast) return NOT_ELEMENTWISE; /* a copy */
    if (op == QF_OP_cast) return CONVERSION;
    if (info->operand_count > 2) return CHOICE;
    if (info->traits & QF_TRAIT_TRUTH) return TRUTH;
    return info->traits & QF_TRAIT_FLOATING ? FUNCTION : ARITHMETIC;
}

uint32_t qf_cuda_elementwise_operands(qf_op op) {
    return class_of(op) == NOT_ELEMENTWISE ? 0 : qf_op_info_of(op)->operand_count;
}

/* The dtype in whose arithmetic the step computes. */
static qf_dtype computing(const qf_kernel_call *call) {
    return call->op == QF_OP_where ? call->results[0].dtype : call->operands[0].dtype;
}

static bool is_exact_in_f32(qf_dtype dtype) {
    return qf_domain_of(dtype) == QF_DOMAIN_F32 || dtype == QF_I1;
}

/* Whether f32 registers give the CPU's bits for a conversion. An integer result can be stored then, not used on. */
static bool converts_through_f32(qf_dtype from, qf_dtype to) {
    if (qf_domain_of(from) == QF_DOMAIN_F32 || from == QF_I1) return true;
    if (from == QF_I8 || from == QF_U8) return is_exact_in_f32(to);
    return (from == QF_I32 || from == QF_I64) && to == QF_F32;
}

static bool is_wide(const qf_kernel_call *call) {
    qf_dtype dtype = computing(call);
    if (call->op == QF_OP_cast) return !converts_through_f32(dtype, call->results[0].dtype);
    if (!is_exact_in_f32(dtype)) return true;
    /* Integer arithmetic on booleans: division by zero, remainders. */
    return dtype == QF_I1 && class_of(call->op) != TRUTH && class_of(call->op) != CHOICE;
}

static qf_status check_dtypes(const qf_kernel_step *step) {
    const qf_kernel_call *call = &step->call;
    qf_dtype dtype = computing(call);
    for (uint32_t i = 0; i < call->operand_count; i++) {
        const qf_view *operand = qf_call_operand(&step->call, i);
        bool is_condition = call->op == QF_OP_where && i == 0;
        if (operand && operand->dtype != (is_condition ? QF_I1 : dtype))
            return qf_cuda_wrong(step, is_condition ? "a condition of type i1" : "operands of one dtype");
    }
    bool has_meaning = class_of(call->op) != FUNCTION || qf_dtype_is_float(dtype);
    if (!has_meaning)
        return qf_cuda_refuse(step, "%s has no meaning for %s", qf_op_name(call->op), qf_dtype_name(dtype));
    qf_dtype result = class_of(call->op) == TRUTH ? QF_I1 : dtype;
    QF_CUDA_EXPECT(step, call->op == QF_OP_cast || call->results[0].dtype == result, "a result of the operands' dtype");
    return QF_OK;
}

static bool broadcasts(const qf_view *operand, const qf_view *shape) {
    if (operand->rank > shape->rank) return false;
    uint32_t missing = shape->rank - operand->rank;
    for (uint32_t i = 0; i < operand->rank; i++)
        if (operand->dims[i] != 1 && operand->dims[i] != shape->dims[missing + i]) return false;
    return true;
}

static qf_status check_step(const qf_kernel_step *step) {
    const qf_kernel_call *call = &step->call;
    uint32_t most = qf_cuda_elementwise_operands(call->op), least = call->op == QF_OP_clamp ? 1 : most;
    QF_CUDA_EXPECT(step, call->operand_count <= most && call->result_count == 1 && qf_call_result(&step->call, 0),
                   "as many operands as the op has");
    for (uint32_t i = 0; i < most; i++) {
        const qf_view *operand = qf_call_operand(&step->call, i);
        QF_CUDA_EXPECT(step, operand || i >= least, "all operands");
        QF_CUDA_EXPECT(step, !operand || broadcasts(operand, &call->results[0]),
                       "operands that broadcast to the result");
    }
    return check_dtypes(step);
}

bool qf_cuda_chain_has_value(const qf_cuda_chain *chain, const qf_cuda_link *link) {
    return chain->wide || is_exact_in_f32(link->step->call.results[0].dtype);
}

/* Steps join as long as they are elementwise over as many elements and compute alike. */
static void collect(const qf_kernel_step *steps, uint32_t remaining, qf_cuda_chain *chain) {
    char *message = steps[0].call.message;
    for (uint32_t i = 0; i < remaining; i++) {
        const qf_kernel_step *step = &steps[i];
        if (class_of(step->call.op) == NOT_ELEMENTWISE || check_step(step) != QF_OK) break;
        if (is_wide(&step->call) != chain->wide || qf_view_count(&step->call.results[0]) != chain->elements) break;
        if (!qf_cuda_chain_extend(chain, step)) break;
    }
    /* Why a later step did not join is no fault of this one. */
    if (message && steps[0].call.message_size) message[0] = '\0';
}

static uint32_t threads_for(const qf_cuda_recorder *recorder, uint64_t items) {
    uint32_t threads = QF_ELEMENTWISE_THREADS;
    while (threads > LEAST_THREADS && items / threads < recorder->processor_count) threads /= 2;
    return threads;
}

static bool reads_16_bits(const qf_elementwise_params *params, uint32_t source) {
    if (source >= QF_ELEMENTWISE_SLOT(0)) return true;
    const qf_elementwise_tensor *tensor = &params->tensors[source];
    return tensor->kind == QF_ELEMENTWISE_ONE || qf_dtype_bits((qf_dtype)tensor->dtype) == 16;
}

static qf_status launch_runs(qf_cuda_recorder *recorder, const qf_elementwise_params *params) {
    bool of_16_bits = true;
    for (uint32_t i = 0; of_16_bits && i < params->code_count; i++)
        of_16_bits = reads_16_bits(params, params->codes[i].first) && reads_16_bits(params, params->codes[i].second);
    qf_cuda_launch *launch = qf_cuda_add_launch(
        recorder, "elementwise_runs", of_16_bits ? "qf_elementwise_runs_16" : "qf_elementwise_runs", sizeof *params);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, params, sizeof *params);
    int64_t each = QF_ELEMENTWISE_RUN * (of_16_bits ? QF_ELEMENTWISE_RUNS_16 : 1);
    launch->block[0] = QF_ELEMENTWISE_RUN_THREADS;
    launch->grid[0] = qf_cuda_blocks(qf_cuda_divide_up(params->count, each * QF_ELEMENTWISE_RUN_THREADS));
    launch->dependent = qf_cuda_is_dependent(recorder);
    return QF_OK;
}

static qf_status launch_chain(qf_cuda_recorder *recorder, const qf_cuda_chain *chain,
                              const qf_elementwise_params *params, uint32_t slots) {
    uint32_t numbers = chain->wide ? QF_ELEMENTWISE_VECTOR : QF_ELEMENTWISE_VECTOR * QF_ELEMENTWISE_GROUPS;
    uint64_t items = ((uint64_t)chain->elements + numbers - 1) / numbers;
    uint32_t threads = threads_for(recorder, items);
    qf_cuda_launch *launch =
        qf_cuda_add_grid(recorder, chain->wide ? "elementwise_wide" : "elementwise",
                         chain->wide ? "qf_elementwise_wide" : "qf_elementwise", sizeof *params, items, threads);
    if (!launch) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(launch->params, params, sizeof *params);
    launch->shared_bytes = slots * numbers * threads * (chain->wide ? 8u : 4u);
    return QF_OK;
}

qf_status qf_cuda_build_elementwise(qf_cuda_recorder *recorder, const qf_kernel_step *step) {
    qf_status status = check_step(step);
    if (status) return status;
    const qf_view *x = &step->call.operands[0], *y = &step->call.results[0];
    qf_cuda_chain chain = {.wide = is_wide(&step->call), .elements = qf_view_count(y), .first_step = recorder->index};
    if (chain.elements == 0) return QF_OK;
    /* Codes of NaN, too, stay what they are. */
    if (step->call.op == QF_OP_cast && x->dtype == y->dtype)
        return qf_cuda_add_copy(recorder, y->data, x->data, qf_view_bytes(y));
    qf_elementwise_params params;
    uint32_t slots = 0;
    collect(step, recorder->remaining ? recorder->remaining : 1, &chain);
    for (uint32_t count = chain.count; count > 0; count--) {
        if (!qf_cuda_chain_program(&chain, count, &params, &slots)) continue;
        recorder->taken = count;
        if (!chain.wide && qf_cuda_program_has_runs(&params)) return launch_runs(recorder, &params);
        return launch_chain(recorder, &chain, &params, slots);
    }
    return qf_cuda_refuse(step, "%s: the result overlaps an operand in memory", qf_op_name(step->call.op));
}
