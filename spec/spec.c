/* Owns: the expanded op and enumeration descriptions and their lookups by name.
 * Does not own: the tables (ops.def, enums.def).
 * Next: ops.def. */
#include "spec.h"

#include <string.h>

/* clang-format off */
#define VALUE(number, name) {number, #name},
#define ENUM(name, values) static const struct qf_enum_value enum_values_##name[] = {values};
#include "enums.def"
#undef ENUM
#define ENUM(name, values) const qf_enum_info qf_enum_##name = {#name, enum_values_##name, QF_COUNT_OF(enum_values_##name)};
#include "enums.def"
#undef ENUM
#undef VALUE

#define OPERANDS(...) __VA_ARGS__
#define RESULTS(...) __VA_ARGS__
#define ATTRIBUTES(...) __VA_ARGS__
#define IN(name) {#name, QF_OPERAND_REQUIRED},
#define OPT(name) {#name, QF_OPERAND_OPTIONAL},
#define MANY(name) {#name, QF_OPERAND_MANY},
#define OUT(name) {#name, QF_RESULT_REQUIRED},
#define MAYBE(name) {#name, QF_RESULT_OPTIONAL},
#define SEVERAL(name) {#name, QF_RESULT_SEVERAL},
#define REQUIRED(kind, name) {#name, QF_ATTRIBUTE_##kind, NULL, NULL},
#define BOOL(name, value) {#name, QF_ATTRIBUTE_BOOL, NULL, #value},
#define INT(name, value) {#name, QF_ATTRIBUTE_INT, NULL, #value},
#define FLOAT(name, value) {#name, QF_ATTRIBUTE_FLOAT, NULL, #value},
#define DTYPE(name, value) {#name, QF_ATTRIBUTE_DTYPE, NULL, #value},
#define DIM(name, value) {#name, QF_ATTRIBUTE_DIM, NULL, #value},
#define STRING_(name, value) {#name, QF_ATTRIBUTE_STRING, NULL, #value},
#define ENUMERATED(enumeration, name, value) {#name, QF_ATTRIBUTE_ENUM, &qf_enum_##enumeration, #value},
#define OP(number, name, doc, operands, results, attributes, traits, infer, cpu)                     \
    static const qf_operand_info operands_of_##name[] = {operands {NULL, QF_OPERAND_REQUIRED}};      \
    static const qf_result_info results_of_##name[] = {results {NULL, QF_RESULT_REQUIRED}};          \
    static const qf_attribute_info attributes_of_##name[] = {attributes {NULL, QF_ATTRIBUTE_BOOL, NULL, NULL}};
#include "ops.def"
#undef OP

enum {
#define OP(number, name, ...) ROW_##name,
#include "ops.def"
#undef OP
    ROW_COUNT
};

#define PURE QF_TRAIT_PURE
#define ELEMENTWISE QF_TRAIT_ELEMENTWISE
#define COMMUTATIVE QF_TRAIT_COMMUTATIVE
#define LAYOUT QF_TRAIT_LAYOUT
#define QUANTISING QF_TRAIT_QUANTISING
#define SHAPE_ONLY QF_TRAIT_SHAPE_ONLY
#define TERMINATOR QF_TRAIT_TERMINATOR
#define FLOATING QF_TRAIT_FLOATING
#define TRUTH QF_TRAIT_TRUTH
#define NONE QF_TRAIT_NONE
#undef IN
#undef OPT
#undef MANY
#define IN(name) + 1
#define OPT(name)
#define MANY(name)
#define OP(number, name, doc, operands, results, attributes, traits, infer, cpu)                     \
    {QF_OP_##name, #name, doc, operands_of_##name, results_of_##name, attributes_of_##name,          \
     QF_COUNT_OF(operands_of_##name) - 1, QF_COUNT_OF(results_of_##name) - 1,                        \
     QF_COUNT_OF(attributes_of_##name) - 1, 0 operands, traits},
static const qf_op_info op_table[] = {
#include "ops.def"
};
#include "undef.h"

/* The public header repeats number and name of each op; a difference does not compile. */
#define OP(number, name, ...) _Static_assert(QF_OP_##name == number, #name " has another number in qfuse/ops.h");
#include "ops.def"
#undef OP

static const uint8_t row_of_number[256] = {
#define OP(number, name, ...) [number] = ROW_##name + 1,
#include "ops.def"
#undef OP
};
/* clang-format on */

const qf_op_info *qf_op_info_of(qf_op op) {
    if ((unsigned)op >= QF_COUNT_OF(row_of_number) || !row_of_number[op]) return NULL;
    return &op_table[row_of_number[op] - 1];
}

const qf_op_info *qf_op_table(uint32_t *out_count) {
    *out_count = ROW_COUNT;
    return op_table;
}

const char *qf_op_name(qf_op op) {
    const qf_op_info *info = qf_op_info_of(op);
    return info ? info->name : "invalid";
}

qf_op qf_op_from_name(qf_text name) {
    for (uint32_t row = 0; row < ROW_COUNT; row++)
        if (qf_text_is(name, op_table[row].name)) return op_table[row].op;
    return QF_OP_none;
}

bool qf_op_has_trait(qf_op op, qf_trait trait) {
    const qf_op_info *info = qf_op_info_of(op);
    return info && (info->traits & (uint32_t)trait) != 0;
}

int32_t qf_op_attribute_index(qf_op op, qf_text name) {
    const qf_op_info *info = qf_op_info_of(op);
    for (uint32_t i = 0; info && i < info->attribute_count; i++)
        if (qf_text_is(name, info->attributes[i].name)) return (int32_t)i;
    return -1;
}

int32_t qf_op_operand_index(qf_op op, qf_text name) {
    const qf_op_info *info = qf_op_info_of(op);
    for (uint32_t i = 0; info && i < info->operand_count; i++)
        if (qf_text_is(name, info->operands[i].name)) return (int32_t)i;
    return -1;
}

int32_t qf_enum_number(const qf_enum_info *info, qf_text name) {
    for (uint32_t i = 0; i < info->value_count; i++)
        if (qf_text_is(name, info->values[i].name)) return info->values[i].number;
    return -1;
}

const char *qf_enum_name(const qf_enum_info *info, int64_t number) {
    for (uint32_t i = 0; i < info->value_count; i++)
        if (info->values[i].number == number) return info->values[i].name;
    return NULL;
}
