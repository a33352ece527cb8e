/* Owns: the expanded table of mappings, and the opsets that brought FP8 to standard ops.
 * Does not own: the rows (ops.def).
 * Next: ops.def. */
#include <string.h>

#include "frontends/onnx/maps.h"

/* clang-format off */
#define LAST UINT32_MAX
#define MAP(domain, op_type, first, last, least, most, attributes, mapping, argument) \
    {domain, #op_type, first, last, least, most, attributes, qf_onnx_map_##mapping, (uint32_t)(argument)},
#define ONNX(...) MAP("", __VA_ARGS__)
#define MS(...) MAP("com.microsoft", __VA_ARGS__)
static const qf_onnx_row rows[] = {
#include "frontends/onnx/ops.def"
/* Every op of QFuse under its own name: what export.c writes where ONNX has no such op. */
#undef MAP
#define OP(number, name, doc, operands, results, attributes, traits, infer, cpu) \
    {"qfuse", #name, 1, UINT32_MAX, 0, UINT32_MAX, "*", qf_onnx_map_qfuse, number},
#include "spec/ops.def"
#include "spec/undef.h"
};
/* clang-format on */

const qf_onnx_row *qf_onnx_rows(uint32_t *out_count) {
    *out_count = QF_COUNT_OF(rows);
    return rows;
}

static const struct {
    const char *op_type;
    uint32_t since;
} float8_ops[] = {
    {"BitCast", 26},
    {"Cast", 19},
    {"CastLike", 19},
    {"Constant", 19},
    {"ConstantOfShape", 20},
    {"DequantizeLinear", 19},
    {"Dropout", 22},
    {"Flatten", 21},
    {"Identity", 19},
    {"If", 19},
    {"IsInf", 20},
    {"IsNaN", 20},
    {"Loop", 19},
    {"Pad", 21},
    {"QLinearMatMul", 21},
    {"QuantizeLinear", 19},
    {"Reshape", 19},
    {"Scan", 19},
    {"Shape", 19},
    {"Size", 19},
    {"Squeeze", 21},
    {"TensorScatter", 24},
    {"Transpose", 21},
    {"Unsqueeze", 21},
};

uint32_t qf_onnx_float8_since(const char *op_type) {
    for (size_t i = 0; i < QF_COUNT_OF(float8_ops); i++)
        if (strcmp(float8_ops[i].op_type, op_type) == 0) return float8_ops[i].since;
    return UINT32_MAX;
}
