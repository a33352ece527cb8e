/* Owns: the declarations of all mapping functions, from the table.
 * Does not own: the table (ops.def).
 * Next: ops.def. */
#ifndef QF_FRONTENDS_ONNX_MAPS_H
#define QF_FRONTENDS_ONNX_MAPS_H

#include "frontends/onnx/build.h"

/* clang-format off */
#define LAST 0
#define MAP(domain, op_type, first, last, least, most, attributes, mapping, argument) qf_onnx_outcome qf_onnx_map_##mapping(qf_onnx_call *call);
#define ONNX(...) MAP("", __VA_ARGS__)
#define MS(...) MAP("com.microsoft", __VA_ARGS__)
#include "frontends/onnx/ops.def"
#undef MAP
#undef ONNX
#undef MS
#undef LAST
/* clang-format on */
qf_onnx_outcome qf_onnx_map_qfuse(qf_onnx_call *call);

#endif
