/* Owns: what the tables of this folder expand to: op numbers, operand, result and attribute descriptions.
 * Does not own: the tables themselves (ops.def, enums.def, target.def, kernels.def), graphs (ir/graph.h).
 * Next: ops.def. */
#ifndef QF_SPEC_SPEC_H
#define QF_SPEC_SPEC_H

#include <qfuse/ops.h>

#include "base/type.h"

typedef enum qf_trait {
    QF_TRAIT_NONE = 0,
    QF_TRAIT_PURE = 1,
    QF_TRAIT_ELEMENTWISE = 2,
    QF_TRAIT_COMMUTATIVE = 4,
    QF_TRAIT_LAYOUT = 8,
    QF_TRAIT_QUANTISING = 16,
    QF_TRAIT_SHAPE_ONLY = 32,
    QF_TRAIT_TERMINATOR = 64,
    QF_TRAIT_FLOATING = 128,
    QF_TRAIT_TRUTH = 256
} qf_trait;

typedef enum qf_operand_kind { QF_OPERAND_REQUIRED, QF_OPERAND_OPTIONAL, QF_OPERAND_MANY } qf_operand_kind;
typedef enum qf_result_kind { QF_RESULT_REQUIRED, QF_RESULT_OPTIONAL, QF_RESULT_SEVERAL } qf_result_kind;

typedef struct qf_operand_info {
    const char *name;
    qf_operand_kind kind;
} qf_operand_info;

typedef struct qf_result_info {
    const char *name;
    qf_result_kind kind;
} qf_result_info;

typedef struct qf_enum_info {
    const char *name;
    const struct qf_enum_value {
        int32_t number;
        const char *name;
    } * values;
    uint32_t value_count;
} qf_enum_info;

typedef struct qf_attribute_info {
    const char *name;
    qf_attribute_kind kind;
    const qf_enum_info *enumeration; /* QF_ATTRIBUTE_ENUM only */
    const char *default_text;        /* as the text form writes it; NULL: required */
} qf_attribute_info;

typedef struct qf_op_info {
    qf_op op;
    const char *name, *doc;
    const qf_operand_info *operands;
    const qf_result_info *results;
    const qf_attribute_info *attributes;
    uint32_t operand_count, result_count, attribute_count; /* table columns; MANY and SEVERAL count as one */
    uint32_t required_operands;
    uint32_t traits; /* qf_trait bits */
} qf_op_info;

/* NULL for numbers that are no op. Static storage; any thread. */
const qf_op_info *qf_op_info_of(qf_op op);
/* The op of this name, or 0. */
qf_op qf_op_from_name(qf_text name);
/* All ops in table order. */
const qf_op_info *qf_op_table(uint32_t *out_count);
/* Index of the named attribute or operand in the op's columns, or -1. */
int32_t qf_op_attribute_index(qf_op op, qf_text name);
int32_t qf_op_operand_index(qf_op op, qf_text name);
bool qf_op_has_trait(qf_op op, qf_trait trait);
/* The number of an enumerated value, or -1; its name, or NULL. */
int32_t qf_enum_number(const qf_enum_info *info, qf_text name);
const char *qf_enum_name(const qf_enum_info *info, int64_t number);

/* Indices by name, as integer constant expressions: QF_IN(attention, q_scale), QF_OUT(attention, lse),
 * QF_ATTR(attention, softcap). A name that the table lacks does not compile. Enumerated values: QF_VALUE_bhsd. */
#define QF_IN(op, operand)     ((uint32_t)offsetof(struct qf_operands_of_##op, operand))
#define QF_OUT(op, result)     ((uint32_t)offsetof(struct qf_results_of_##op, result))
#define QF_ATTR(op, attribute) ((uint32_t)offsetof(struct qf_attributes_of_##op, attribute))

/* clang-format off */
#define OPERANDS(...) __VA_ARGS__
#define RESULTS(...) __VA_ARGS__
#define ATTRIBUTES(...) __VA_ARGS__
#define IN(name) char name;
#define OPT(name) char name;
#define MANY(name) char name;
#define OUT(name) char name;
#define MAYBE(name) char name;
#define SEVERAL(name) char name;
#define REQUIRED(kind, name) char name;
#define BOOL(name, value) char name;
#define INT(name, value) char name;
#define FLOAT(name, value) char name;
#define DTYPE(name, value) char name;
#define DIM(name, value) char name;
#define STRING_(name, value) char name;
#define ENUMERATED(enumeration, name, value) char name;
#define OP(number, name, doc, operands, results, attributes, traits, infer, cpu) \
    struct qf_operands_of_##name { operands char end_; };                        \
    struct qf_results_of_##name { results char end_; };                          \
    struct qf_attributes_of_##name { attributes char end_; };
#include "ops.def"
#include "undef.h"

enum {
#define ENUM(name, values) values
#define VALUE(number, name) QF_VALUE_##name = number,
#include "enums.def"
#undef ENUM
#undef VALUE
};

#define ENUM(name, values) extern const qf_enum_info qf_enum_##name;
#define VALUE(number, name)
#include "enums.def"
#undef ENUM
#undef VALUE
/* clang-format on */

#endif
