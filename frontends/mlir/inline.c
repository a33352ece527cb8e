/* Owns: putting the body of a callee in place of a call.
 * Does not own: which call (export.c).
 * Next: export.c. */
#include "frontends/mlir/build.h"
#include "frontends/mlir/export.h"

/* From values of the callee to values of the caller. */
typedef struct value_map {
    qf_context *context;
    MlirValue *from, *to; /* from 1 */
    uint32_t count, from_capacity, to_capacity;
    qf_index index;
} value_map;

static bool same_value(const void *owner, uint32_t id, const void *key) {
    return ((const value_map *)owner)->from[id].ptr == key;
}

static uint64_t value_hash(MlirValue value) {
    return qf_hash_mix(0x3a9, (uint64_t)(uintptr_t)value.ptr);
}

static bool map_value(value_map *map, MlirValue from, MlirValue to) {
    uint32_t id = map->count + 1;
    if (!QF_GROW(map->context, map->from, map->from_capacity, (uint64_t)id + 1) ||
        !QF_GROW(map->context, map->to, map->to_capacity, (uint64_t)id + 1))
        return false;
    map->from[id] = from;
    map->to[id] = to;
    map->count = id;
    return qf_index_add(map->context, &map->index, value_hash(from), id);
}

static MlirValue mapped(const value_map *map, MlirValue value) {
    uint32_t id = qf_index_find(&map->index, value_hash(value), same_value, map, value.ptr);
    return id ? map->to[id] : value;
}

/* Operands of the clone, those of its regions too, that are the callee's. */
static bool remap(value_map *map, MlirOperation operation, uint32_t depth) {
    if (depth > QF_MLIR_MAX_DEPTH) return false;
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(operation); i++) {
        MlirValue old = mlirOperationGetOperand(operation, i), now = mapped(map, old);
        if (old.ptr != now.ptr) mlirOperationSetOperand(operation, i, now);
    }
    bool good = true;
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(operation); r++) {
        MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, r));
        for (; !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block)) {
            MlirOperation inner = mlirBlockGetFirstOperation(block);
            for (; good && !mlirOperationIsNull(inner); inner = mlirOperationGetNextInBlock(inner))
                good = remap(map, inner, depth + 1);
        }
    }
    return good;
}

static bool clone_body(value_map *map, MlirBlock body, MlirOperation call) {
    MlirBlock into = mlirOperationGetBlock(call);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
        if (!map_value(map, mlirBlockGetArgument(body, i), mlirOperationGetOperand(call, i))) return false;
    MlirOperation operation = mlirBlockGetFirstOperation(body);
    for (; !mlirOperationIsNull(operation); operation = mlirOperationGetNextInBlock(operation)) {
        if (mlirOperationIsNull(mlirOperationGetNextInBlock(operation))) { /* the terminator */
            for (intptr_t i = 0; i < mlirOperationGetNumResults(call); i++)
                mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(call, i),
                                              mapped(map, mlirOperationGetOperand(operation, i)));
            return true;
        }
        MlirOperation clone = mlirOperationClone(operation);
        mlirBlockInsertOwnedOperationBefore(into, call, clone);
        if (!remap(map, clone, 0)) return false;
        for (intptr_t i = 0; i < mlirOperationGetNumResults(clone); i++)
            if (!map_value(map, mlirOperationGetResult(operation, i), mlirOperationGetResult(clone, i))) return false;
    }
    return false;
}

/* The import has checked the callee: one block, as many arguments and results as the call. */
qf_status qf_mlir_inline_call(qf_context *context, MlirOperation callee, MlirOperation call) {
    value_map map = {.context = context};
    MlirBlock body = qf_mlir_only_block(callee, 0);
    bool good = !mlirBlockIsNull(body) && clone_body(&map, body, call);
    if (good) mlirOperationDestroy(call);
    qf_index_destroy(context, &map.index);
    QF_FREE_ITEMS(context, map.from, map.from_capacity);
    QF_FREE_ITEMS(context, map.to, map.to_capacity);
    if (good) return QF_OK;
    return qf_context_status(context) != QF_OK ? qf_context_status(context) : qf_record(context, QF_ERROR_INTERNAL);
}
