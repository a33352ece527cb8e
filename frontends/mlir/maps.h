/* Owns: the mapping functions that the table names.
 * Does not own: what they do (map_*.c), the table (ops.def).
 * Next: ops.def. */
#ifndef QF_FRONTENDS_MLIR_MAPS_H
#define QF_FRONTENDS_MLIR_MAPS_H

#include "frontends/mlir/build.h"

#define OP(name, operands, mapping, argument) qf_mlir_outcome qf_mlir_map_##mapping(qf_mlir_call *call);
#include "frontends/mlir/ops.def"
#undef OP

#endif
