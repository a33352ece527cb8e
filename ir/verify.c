/* Owns: one op against the constraints of verify.def, result types against their rule.
 * Does not own: checks of one op alone (verify_*.c), whole graphs (verify_graph.c), the rules of result types
 * (infer.h). Next: verify.def, verify_call.h. */
#include "ir/verify.h"

#include <inttypes.h>
#include <string.h>

#include "ir/infer.h"
#include "ir/verify_call.h"

/* --- constraints of verify.def --- */

typedef enum constraint_kind {
    CONSTRAINT_OPERAND,
    CONSTRAINT_SAME,
    CONSTRAINT_AXIS,
    CONSTRAINT_AXES,
    CONSTRAINT_TYPE,
    CONSTRAINT_RANGE
} constraint_kind;

typedef struct constraint {
    uint8_t op, kind;
    uint8_t a, b; /* operand or attribute indices */
    uint8_t class, least_rank, most_rank;
    int64_t least, most;
} constraint;

/* clang-format off */
#define OPERAND(op, operand, class, least, most) {QF_OP_##op, CONSTRAINT_OPERAND, QF_IN(op, operand), 0, QF_CLASS_##class, least, most, 0, 0},
#define SAME(op, a, b) {QF_OP_##op, CONSTRAINT_SAME, QF_IN(op, a), QF_IN(op, b), 0, 0, 0, 0, 0},
#define AXIS(op, attribute, operand) {QF_OP_##op, CONSTRAINT_AXIS, QF_ATTR(op, attribute), QF_IN(op, operand), 0, 0, 0, 0, 0},
#define AXES(op, attribute, operand) {QF_OP_##op, CONSTRAINT_AXES, QF_ATTR(op, attribute), QF_IN(op, operand), 0, 0, 0, 0, 0},
#define TYPE(op, attribute, class) {QF_OP_##op, CONSTRAINT_TYPE, QF_ATTR(op, attribute), 0, QF_CLASS_##class, 0, 0, 0, 0},
#define RANGE(op, attribute, least, most) {QF_OP_##op, CONSTRAINT_RANGE, QF_ATTR(op, attribute), 0, 0, 0, 0, least, most},
static const constraint constraints[] = {
#include "verify.def"
};
#undef OPERAND
#undef SAME
#undef AXIS
#undef AXES
#undef TYPE
#undef RANGE

static const struct {
    qf_op op;
    qf_verify_function check;
} checks[] = {
#define X(name) {QF_OP_##name, qf_verify_##name},
    QF_VERIFY_OPS(X)
#undef X
};

/* clang-format on */

static void check_axis(qf_verify_call *call, const constraint *row, int64_t axis) {
    uint32_t rank = qf_verify_rank(call, row->b);
    if (axis >= 0 && (rank == QF_UNRANKED ? axis < QF_MAX_RANK : axis < (int64_t)rank)) return;
    qf_verify_fault(call, "attribute %s: expected an axis of %s (%s), counted from 0, found %" PRId64,
                    call->info->attributes[row->a].name, qf_verify_name(call, row->b),
                    qf_verify_type_text(call, qf_verify_type(call, row->b)).data, axis);
}

static void check_axes(qf_verify_call *call, const constraint *row) {
    const qf_attribute *attribute = &call->attributes[row->a];
    for (uint32_t i = 0; i < attribute->count; i++) {
        check_axis(call, row, attribute->ints[i]);
        for (uint32_t j = 0; j < i && j < QF_MAX_RANK; j++)
            if (attribute->ints[j] == attribute->ints[i])
                qf_verify_fault(call, "attribute %s: axis %" PRId64 " is there twice",
                                call->info->attributes[row->a].name, attribute->ints[i]);
        if (i >= QF_MAX_RANK) return; /* reported: some axis was there twice or out of range */
    }
}

static void check_constraint(qf_verify_call *call, const constraint *row) {
    const qf_attribute *attribute = &call->attributes[row->a];
    switch ((constraint_kind)row->kind) {
    case CONSTRAINT_OPERAND: {
        bool many = call->info->operands[row->a].kind == QF_OPERAND_MANY;
        uint32_t end = many ? call->operand_count : row->a + 1u;
        for (uint32_t i = row->a; i < end; i++)
            if (qf_verify_operand_class(call, i, (qf_verify_class)row->class))
                (void)qf_verify_operand_rank(call, i, row->least_rank, row->most_rank);
        break;
    }
    case CONSTRAINT_SAME: (void)qf_verify_same_dtype(call, row->a, row->b); break;
    case CONSTRAINT_AXIS: check_axis(call, row, attribute->integer); break;
    case CONSTRAINT_AXES: check_axes(call, row); break;
    case CONSTRAINT_TYPE:
        if (attribute->integer != QF_DTYPE_NONE &&
            qf_class_holds((qf_verify_class)row->class, (qf_dtype)attribute->integer))
            break;
        qf_verify_fault(call, "attribute %s: expected %s, found %s", call->info->attributes[row->a].name,
                        row->class == QF_CLASS_TENSOR ? "an element type" : qf_class_text((qf_verify_class)row->class),
                        qf_dtype_name((qf_dtype)attribute->integer));
        break;
    case CONSTRAINT_RANGE:
        if (attribute->integer >= row->least && attribute->integer <= row->most) break;
        if (row->most == INT64_MAX)
            qf_verify_fault(call, "attribute %s: expected at least %" PRId64 ", found %" PRId64,
                            call->info->attributes[row->a].name, row->least, attribute->integer);
        else
            qf_verify_fault(call, "attribute %s: expected %" PRId64 " to %" PRId64 ", found %" PRId64,
                            call->info->attributes[row->a].name, row->least, row->most, attribute->integer);
        break;
    }
}

void qf_verify_directory_init(qf_verify_directory *directory) {
    memset(directory, 0, sizeof *directory);
    for (uint32_t i = (uint32_t)QF_COUNT_OF(constraints); i-- > 0;)
        directory->rows[constraints[i].op] = (uint16_t)(i + 1);
    for (uint32_t i = 0; i < QF_COUNT_OF(checks); i++) directory->checks[checks[i].op] = (uint16_t)(i + 1);
}

/* Operands without a row take tensors. */
static void check_tokens(qf_verify_call *call) {
    if (call->info->op == QF_OP_opaque || call->info->op == QF_OP_return) return;
    for (uint32_t i = 0; i < call->operand_count; i++)
        if (qf_verify_dtype(call, i) == QF_TOKEN)
            qf_verify_fault(call, "operand %s: expected a tensor, found a token", qf_verify_name(call, i));
}

/* Numbers of enumerations and dtypes are valid, so that later checks may trust them. */
static bool check_attribute_values(qf_verify_call *call) {
    bool ok = true;
    for (uint32_t i = 0; i < call->info->attribute_count; i++) {
        const qf_attribute_info *info = &call->info->attributes[i];
        int64_t number = call->attributes[i].integer;
        bool valid = true;
        if (info->kind == QF_ATTRIBUTE_ENUM) valid = qf_enum_name(info->enumeration, number) != NULL;
        if (info->kind == QF_ATTRIBUTE_DTYPE) valid = number >= 0 && number < QF_DTYPE_COUNT;
        if (info->kind == QF_ATTRIBUTE_DIM) valid = call->attributes[i].dim.id != 0;
        if (info->kind == QF_ATTRIBUTE_LITERAL) valid = call->attributes[i].literal != NULL;
        for (uint32_t j = 0; valid && info->kind == QF_ATTRIBUTE_DIMS && j < call->attributes[i].count; j++)
            valid = call->attributes[i].dims[j].id != 0;
        if (valid) continue;
        qf_verify_fault(call, "attribute %s holds no valid value", info->name);
        ok = false;
    }
    return ok;
}

static bool check_required_operands(qf_verify_call *call) {
    uint32_t before = call->fault_count;
    for (uint32_t i = 0; i < call->info->operand_count; i++)
        if (call->info->operands[i].kind == QF_OPERAND_REQUIRED && !qf_verify_has(call, i))
            qf_verify_fault(call, "operand %s is missing", call->info->operands[i].name);
    for (uint32_t i = call->info->operand_count; i < call->operand_count; i++)
        if (!call->operands[i].id)
            qf_verify_fault(call, "operand %s: entry %" PRIu32 " is missing", qf_verify_name(call, i), i);
    bool many =
        call->info->operand_count && call->info->operands[call->info->operand_count - 1].kind == QF_OPERAND_MANY;
    if (!many && call->operand_count > call->info->operand_count)
        qf_verify_fault(call, "expected at most %" PRIu32 " operands, found %" PRIu32, call->info->operand_count,
                        call->operand_count);
    return call->fault_count == before;
}

bool qf_verify_operation_by(qf_verify_call *call, const qf_verify_directory *directory) {
    uint32_t before = call->fault_count, op = (uint32_t)call->info->op;
    if (!check_required_operands(call) || !check_attribute_values(call)) return false;
    check_tokens(call);
    for (uint32_t i = directory->rows[op]; i && i <= QF_COUNT_OF(constraints) && constraints[i - 1].op == op; i++)
        check_constraint(call, &constraints[i - 1]);
    /* Checks of one op rely on dtypes and ranks that verify.def asks for. */
    if (call->fault_count == before && directory->checks[op]) checks[directory->checks[op] - 1].check(call);
    return call->fault_count == before;
}

bool qf_verify_operation(qf_verify_call *call) {
    qf_verify_directory directory;
    qf_verify_directory_init(&directory);
    return qf_verify_operation_by(call, &directory);
}

/* --- result types --- */

/* `given` says the same as `inferred`, or more where that is unknown, or the two may be equal. */
static bool types_agree(const qf_verify_call *call, qf_type inferred, qf_type given) {
    const qf_context *context = call->graph->context;
    if (qf_type_equal(inferred, given)) return true;
    qf_dtype a = qf_type_dtype(context, inferred), b = qf_type_dtype(context, given);
    if (a != b && a != QF_DTYPE_NONE && b != QF_DTYPE_NONE) return false;
    uint32_t rank = qf_type_rank(context, inferred);
    if (rank == QF_UNRANKED || qf_type_rank(context, given) == QF_UNRANKED) return true;
    if (rank != qf_type_rank(context, given)) return false;
    for (uint32_t i = 0; i < rank; i++)
        if (qf_verify_dims_differ(call, qf_type_dims(context, inferred)[i], qf_type_dims(context, given)[i]))
            return false;
    return true;
}

/* Dims that need not be equal become guards. */
static bool assume_equal_dims(qf_verify_call *call, qf_graph *record_in, qf_type inferred, qf_type given) {
    const qf_context *context = call->graph->context;
    uint32_t rank = qf_type_rank(context, inferred);
    if (rank == QF_UNRANKED || rank != qf_type_rank(context, given)) return true;
    for (uint32_t i = 0; i < rank; i++) {
        qf_dim a = qf_type_dims(context, inferred)[i], b = qf_type_dims(context, given)[i];
        if (!qf_dim_equal(a, b) && !qf_graph_add_guard(record_in, a, b, call->location)) return false;
    }
    return true;
}

const char *qf_verify_result_name(const qf_op_info *info, uint32_t index) {
    if (!info->result_count) return "";
    return info->results[index < info->result_count ? index : info->result_count - 1].name;
}

static bool check_given(qf_verify_call *call, qf_graph *record_in, const qf_type *inferred, const qf_type *given) {
    bool ok = true;
    for (uint32_t i = 0; i < call->result_count; i++) {
        if (types_agree(call, inferred[i], given[i])) {
            if (record_in && !assume_equal_dims(call, record_in, inferred[i], given[i])) return false;
            continue;
        }
        qf_verify_fault(call, "result %s: expected %s, found %s", qf_verify_result_name(call->info, i),
                        qf_verify_type_text(call, inferred[i]).data, qf_verify_type_text(call, given[i]).data);
        ok = false;
    }
    return ok;
}

/* Inference that records nothing only reads, so a shallow copy stands for a graph that may not change. */
static bool infer(qf_verify_call *call, qf_graph *record_in, qf_type *types) {
    qf_graph copy = *call->graph;
    qf_infer_call infer = {.graph = record_in      ? record_in
                                    : call->reader ? call->reader
                                                   : &copy,
                           .info = call->info,
                           .operands = call->operands,
                           .operand_count = call->operand_count,
                           .attributes = call->attributes,
                           .result_count = call->result_count,
                           .out_types = types,
                           .location = call->location,
                           .position = call->position,
                           .record_nothing = !record_in};
    if (qf_infer(&infer) == QF_OK) return true;
    call->fault_count++; /* reported there */
    return false;
}

#define TYPES_ON_STACK 16

bool qf_verify_types(qf_verify_call *call, qf_graph *record_in, qf_type *out_types, const qf_type *given) {
    if (!given && !qf_infer_is_given(call->info->op)) return infer(call, record_in, out_types);
    if (!given && call->result_count) {
        qf_verify_fault(call, "the result types of this op must be written, as in ': f16[B, T]'");
        return false;
    }
    bool ok = true;
    if (!qf_infer_is_given(call->info->op)) {
        qf_type few[TYPES_ON_STACK], *types = few;
        size_t size = call->result_count * sizeof *types;
        if (call->result_count > TYPES_ON_STACK && !(types = qf_allocate(call->graph->context, size))) return false;
        ok = infer(call, record_in, types) && check_given(call, record_in, types, given);
        if (types != few) qf_release(call->graph->context, types, size);
    }
    if (out_types != given && call->result_count) memcpy(out_types, given, call->result_count * sizeof *out_types);
    return ok;
}
