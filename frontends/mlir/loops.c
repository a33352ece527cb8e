/* Owns: loops that count, whose bodies are imported once for each round, as layers in a scan are.
 * Does not own: calls (calls.c), other loops and branches, which are carried through as they are (opaque.c).
 * Next: calls.c. */
#include "frontends/mlir/maps.h"

#define MAX_ROUNDS       256
/* Of all loops of an import: loops inside of loops multiply. */
#define MAX_ROUNDS_TOTAL 4096

/* Not its terminator: MLIR does not know what ends a block of a dialect that is not registered. */
static MlirOperation last_of(MlirBlock block) {
    MlirOperation last = {NULL}, operation = mlirBlockGetFirstOperation(block);
    for (; !mlirOperationIsNull(operation); operation = mlirOperationGetNextInBlock(operation)) last = operation;
    return last;
}

static MlirOperation maker(MlirValue value) {
    return mlirValueIsAOpResult(value) ? mlirOpResultGetOwner(value) : (MlirOperation){NULL};
}

/* A number that is constant around the loop, or a constant inside of it. */
static bool read_number(const qf_mlir_call *call, MlirValue value, int64_t *out) {
    double number;
    uint32_t count;
    qf_value outside = qf_mlir_lookup(call->import, value, call->instance);
    if (outside.id) {
        if (!qf_mlir_uniform(call, outside, &number) || !(number >= INT32_MIN && number <= INT32_MAX)) return false;
        *out = (int64_t)number;
        return true;
    }
    qf_mlir_call inside = *call;
    inside.operation = maker(value);
    return qf_mlir_is(inside.operation, "stablehlo.constant") && qf_mlir_ints(&inside, "value", out, 1, &count) &&
           count == 1;
}

/* The argument of the block that the value is; -1: none of them. */
static intptr_t argument_of(MlirBlock block, MlirValue value) {
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        if (mlirBlockGetArgument(block, i).ptr == value.ptr) return i;
    return -1;
}

typedef struct counter {
    intptr_t index; /* of the value that counts */
    int64_t start, step;
    uint32_t rounds;
} counter;

/* Integers that the counter does not leave: it would begin anew. */
static bool stays_in_range(qf_dtype dtype, const counter *count) {
    uint32_t bits = qf_dtype_bits(dtype);
    if (qf_dtype_kind_of(dtype) != QF_DTYPE_KIND_INTEGER || bits < 2) return false;
    int64_t largest = bits == 64 ? INT64_MAX : (INT64_C(1) << (dtype == QF_U8 ? bits : bits - 1)) - 1;
    return count->start + (int64_t)count->rounds * count->step <= largest;
}

/* while (i < limit), i = start, i += step, all numbers known. */
static bool read_counter(const qf_mlir_call *call, MlirBlock condition, MlirBlock body, counter *out) {
    int64_t limit;
    MlirOperation test = maker(mlirOperationGetOperand(last_of(condition), 0));
    if (!qf_mlir_is(test, "stablehlo.compare") || mlirOperationGetNumOperands(test) != 2) return false;
    qf_mlir_call probe = *call;
    probe.operation = test;
    const char *direction = qf_mlir_printed(&probe, "comparison_direction");
    out->index = argument_of(condition, mlirOperationGetOperand(test, 0));
    if (!direction || !qf_mlir_printed_word(direction, "LT") || out->index < 0 ||
        !read_number(call, mlirOperationGetOperand(test, 1), &limit) ||
        !read_number(call, mlirOperationGetOperand(call->operation, out->index), &out->start))
        return false;
    MlirOperation sum = maker(mlirOperationGetOperand(last_of(body), out->index));
    if (!qf_mlir_is(sum, "stablehlo.add") || mlirOperationGetNumOperands(sum) != 2) return false;
    for (intptr_t side = 0; side < 2; side++) {
        if (argument_of(body, mlirOperationGetOperand(sum, side)) != out->index) continue;
        if (!read_number(call, mlirOperationGetOperand(sum, 1 - side), &out->step) || out->step < 1) return false;
        int64_t distance = limit > out->start ? limit - out->start : 0;
        if (distance > (int64_t)MAX_ROUNDS * out->step) return false;
        out->rounds = (uint32_t)((distance + out->step - 1) / out->step);
        return stays_in_range(qf_mlir_dtype_of(call, call->operands[out->index]), out);
    }
    return false;
}

/* One round: call->results are what the body makes of call->results. */
static qf_mlir_outcome import_round(qf_mlir_call *call, MlirBlock body) {
    uint32_t instance;
    MlirOperation terminator;
    if (!qf_mlir_import_instance(call, body, call->results, true, &instance, &terminator)) return QF_MLIR_FAILED;
    for (uint32_t i = 0; i < call->result_count; i++) {
        call->results[i] = qf_mlir_lookup(call->import, mlirOperationGetOperand(terminator, i), instance);
        if (!call->results[i].id)
            return qf_mlir_fault(call, QF_ERROR_UNSUPPORTED,
                                 "result %u of its body is a value that QFuse does not compute", i);
    }
    return QF_MLIR_MAPPED;
}

static bool fits(const qf_mlir_call *call, MlirBlock block, intptr_t results) {
    return !mlirBlockIsNull(block) && mlirBlockGetNumArguments(block) == (intptr_t)call->operand_count &&
           !mlirOperationIsNull(last_of(block)) && mlirOperationGetNumOperands(last_of(block)) == results;
}

qf_mlir_outcome qf_mlir_map_while(qf_mlir_call *call) {
    counter count = {0, 0, 0, 0};
    MlirBlock condition = qf_mlir_only_block(call->operation, 0), body = qf_mlir_only_block(call->operation, 1);
    if (call->import->keep_loops) return qf_mlir_decline(call, "a module that is rewritten keeps its loops");
    if (call->operand_count != call->result_count || !fits(call, condition, 1) ||
        !fits(call, body, (intptr_t)call->operand_count) || call->depth >= QF_MLIR_MAX_DEPTH)
        return qf_mlir_decline(call, "its regions do not fit its operands");
    if (!read_counter(call, condition, body, &count))
        return call->import->failed ? QF_MLIR_FAILED
                                    : qf_mlir_decline(call, "how many rounds it does is not known, or too many");
    if (call->import->round_count + count.rounds > MAX_ROUNDS_TOTAL) return qf_mlir_decline(call, "too many rounds");
    call->import->round_count += count.rounds;
    for (uint32_t i = 0; i < call->result_count; i++) call->results[i] = call->operands[i];
    qf_dtype dtype = qf_mlir_dtype_of(call, call->operands[count.index]);
    for (uint32_t round = 0; round < count.rounds; round++) {
        call->results[count.index] = qf_mlir_scalar(call, dtype, (double)(count.start + (int64_t)round * count.step));
        if (!call->results[count.index].id) return QF_MLIR_FAILED;
        if (import_round(call, body) != QF_MLIR_MAPPED) return QF_MLIR_FAILED;
    }
    return QF_MLIR_MAPPED;
}
