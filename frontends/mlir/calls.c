/* Owns: calls and composites, whose bodies are imported where they stand.
 * Does not own: operations (operations.c).
 * Next: operations.c, inline.c. */
#include "frontends/mlir/maps.h"

bool qf_mlir_import_instance(qf_mlir_call *call, MlirBlock block, const qf_value *arguments, bool captures,
                             uint32_t *out_instance, MlirOperation *out_terminator) {
    qf_mlir_import_state *import = call->import;
    uint32_t instance = import->instance_count;
    if (!QF_GROW(import->context, import->instances, import->instance_capacity, (uint64_t)instance + 1)) return false;
    import->instances[import->instance_count++] =
        (qf_mlir_instance){.parent = call->instance, .captures = captures, .call = call->operation};
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        if (!qf_mlir_bind(import, mlirBlockGetArgument(block, i), instance, 0, arguments[i])) return false;
    *out_instance = instance;
    return qf_mlir_import_block(import, block, instance, call->depth + 1, out_terminator) == QF_OK;
}

static qf_mlir_outcome inline_body(qf_mlir_call *call, const char *symbol) {
    qf_mlir_import_state *import = call->import;
    qf_text name = qf_mlir_symbol_name(call->operation, symbol);
    MlirOperation callee = qf_mlir_symbol(import, name);
    if (!name.size || mlirOperationIsNull(callee))
        return qf_mlir_fault(call, QF_ERROR_NOT_FOUND, "%s calls @%.*s, which the module does not have", call->name,
                             (int)(name.size < 200 ? name.size : 200), name.data);
    MlirBlock block = qf_mlir_only_block(callee, 0);
    if (mlirBlockIsNull(block)) return qf_mlir_decline(call, "the callee has no body, or one with branches");
    if (call->depth >= QF_MLIR_MAX_DEPTH)
        return qf_mlir_fault(call, QF_ERROR_LIMIT, "calls are nested more than %d deep (recursion?)",
                             QF_MLIR_MAX_DEPTH);
    if (mlirBlockGetNumArguments(block) != (intptr_t)call->operand_count)
        return qf_mlir_fault(call, QF_ERROR_VERIFY, "%s has %u operands, and @%.*s takes %lld", call->name,
                             call->operand_count, (int)(name.size < 200 ? name.size : 200), name.data,
                             (long long)mlirBlockGetNumArguments(block));
    uint32_t instance;
    MlirOperation terminator;
    if (!qf_mlir_import_instance(call, block, call->operands, false, &instance, &terminator)) return QF_MLIR_FAILED;
    if (mlirOperationIsNull(terminator) || mlirOperationGetNumOperands(terminator) != (intptr_t)call->result_count)
        return qf_mlir_fault(call, QF_ERROR_VERIFY, "%s has %u results, and its callee returns another number",
                             call->name, call->result_count);
    for (uint32_t i = 0; i < call->result_count; i++)
        call->results[i] = qf_mlir_lookup(import, mlirOperationGetOperand(terminator, i), instance);
    return QF_MLIR_MAPPED;
}

qf_mlir_outcome qf_mlir_map_call(qf_mlir_call *call) {
    return inline_body(call, "callee");
}

/* Its decomposition says what it means, whatever it is called. */
qf_mlir_outcome qf_mlir_map_composite(qf_mlir_call *call) {
    return inline_body(call, "decomposition");
}
