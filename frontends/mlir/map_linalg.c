/* Owns: named operations of linalg on tensors: their last operand is where the result goes.
 * Does not own: linalg.reduce (map_contract.c), broadcast (map_layout.c), unary ones and select (map_elementwise.c).
 * Next: maps.h. */
#include <stdio.h>

#include "frontends/mlir/maps.h"

qf_mlir_outcome qf_mlir_map_linalg_binary(qf_mlir_call *call) {
    if (qf_mlir_dtype_of(call, qf_mlir_in(call, 0)) == QF_I1) return qf_mlir_decline(call, "it computes with booleans");
    return qf_mlir_done(call, qf_import_binary(qf_mlir_target(call), (qf_op)call->row->argument, qf_mlir_in(call, 0),
                                               qf_mlir_in(call, 1)));
}

qf_mlir_outcome qf_mlir_map_linalg_fill(qf_mlir_call *call) {
    qf_value place = qf_mlir_in(call, 1);
    uint32_t rank = qf_mlir_rank(call, place);
    if (rank > QF_MAX_RANK) return qf_mlir_decline(call, "the shape of its result is not known");
    qf_value number = qf_mlir_cast(call, qf_mlir_in(call, 0), qf_mlir_dtype_of(call, place));
    return qf_mlir_done(call,
                        qf_import_full(qf_mlir_target(call), number, qf_value_dims(qf_mlir_graph(call), place), rank));
}

qf_mlir_outcome qf_mlir_map_linalg_copy(qf_mlir_call *call) {
    qf_dtype dtype = qf_mlir_dtype_of(call, qf_mlir_in(call, 1));
    if (dtype == QF_DTYPE_NONE) return qf_mlir_decline(call, "QFuse does not have its element types");
    return qf_mlir_done(call, qf_mlir_cast(call, qf_mlir_in(call, 0), dtype));
}

qf_mlir_outcome qf_mlir_map_linalg_softmax(qf_mlir_call *call) {
    int64_t axis = qf_mlir_int(call, "dimension", -1);
    uint32_t rank = qf_mlir_rank(call, qf_mlir_in(call, 0));
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    if (rank > QF_MAX_RANK || axis < 0 || axis >= (int64_t)rank)
        return qf_mlir_decline(call, "its dimension does not fit its operand");
    qf_mlir_defaults(call, QF_OP_softmax, attributes);
    attributes[QF_ATTR(softmax, axis)].integer = axis;
    return qf_mlir_done(call, qf_import_op(qf_mlir_target(call), QF_OP_softmax, call->operands, 1, attributes));
}

/* --- contractions --- */
/* By the row's argument; the last one has maps only. */
static const char *const equations[] = {"ac,cb->ab",    "ca,cb->ab",    "ac,bc->ab", "abd,adc->abc",
                                        "adb,adc->abc", "abd,acd->abc", "ab,b->a",   "a,ab->b",
                                        "abc,ac->ab",   "ab,abc->ac",   "a,a->",     NULL};

/* [affine_map<(d0, d1, d2) -> (d0, d2)>, ...], three of them, as an equation. */
static bool equation_of_maps(const char *text, char *equation, size_t size) {
    int64_t dims[3][QF_MAX_RANK];
    uint32_t counts[3];
    size_t used = 0;
    for (uint32_t m = 0; m < 3; m++) {
        if (!qf_mlir_printed_map(&text, dims[m], QF_MAX_RANK, &counts[m])) return false;
        used += (size_t)snprintf(equation + used, size - used, "%s", m == 0 ? "" : m == 1 ? "," : "->");
        for (uint32_t i = 0; i < counts[m]; i++) {
            if (dims[m][i] < 0 || dims[m][i] > 25) return false;
            for (uint32_t j = 0; j < i; j++)
                if (dims[m][j] == dims[m][i]) return false;
            used += (size_t)snprintf(equation + used, size - used, "%c", 'a' + (int)dims[m][i]);
        }
    }
    return !strstr(text, "affine_map");
}

/* What every sum begins with is added, unless it is zero. */
static qf_value begin_with(qf_mlir_call *call, qf_value y, qf_value start) {
    double number;
    if (qf_mlir_uniform(call, start, &number) && number == 0) return y;
    return qf_import_binary(qf_mlir_target(call), QF_OP_add, y, start);
}

qf_mlir_outcome qf_mlir_map_linalg_contract(qf_mlir_call *call) {
    char text[64];
    const char *equation = equations[call->row->argument], *maps = qf_mlir_printed(call, "indexing_maps");
    const char *casts = qf_mlir_printed(call, "cast");
    qf_value start = qf_mlir_in(call, 2);
    qf_dtype out = qf_mlir_dtype_of(call, start);
    if (call->import->failed) return QF_MLIR_FAILED;
    if (qf_mlir_printed_word(casts, "cast_unsigned"))
        return qf_mlir_decline(call, "it reads integers as unsigned ones");
    if (maps && !equation_of_maps(maps, text, sizeof text))
        return qf_mlir_decline(call, "its maps are no plain contraction");
    if (maps) equation = text;
    if (!equation || out == QF_DTYPE_NONE) return qf_mlir_decline(call, "it has no maps");
    return qf_mlir_done(
        call, begin_with(call, qf_mlir_contract(call, equation, qf_mlir_in(call, 0), qf_mlir_in(call, 1), out), start));
}
