/* Owns: the expanded table of operations.
 * Does not own: the rows (ops.def).
 * Next: ops.def. */
#include "frontends/mlir/maps.h"

#define ANY                                   QF_MLIR_ANY
#define OP(name, operands, mapping, argument) {name, operands, qf_mlir_map_##mapping, (uint32_t)(argument)},
static const qf_mlir_row rows[] = {
#include "frontends/mlir/ops.def"
};

const qf_mlir_row *qf_mlir_rows(uint32_t *out_count) {
    *out_count = QF_COUNT_OF(rows);
    return rows;
}
