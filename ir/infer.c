/* Owns: dispatch to shape rules, and what the rules share: operands, faults, agreement of dims, broadcasting, results.
 * Does not own: the rules (infer_*.c), substitution over graphs (infer_graph.c).
 * Next: infer_rules.h. */
#include "ir/infer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ir/infer_rules.h"

static const infer_rule rules[256] = {
#define OP(number, name, doc, operands, results, attributes, traits, infer, cpu) [number] = qf_infer_##infer,
#include "spec/ops.def"
#undef OP
};

static const char too_large[] = "a dim is too large: its size or its form exceeds the limits of dims";

static qf_status fail_at(const qf_infer_call *call, qf_status status, const char *message) {
    qf_context *context = call->graph->context;
    qf_position position = call->position;
    qf_buffer place = {.context = context};
    if (!position.location) {
        qf_location_print(&place, call->graph, call->location);
        position.location = place.data;
    }
    status = qf_fail(context, status, &position, "%s: %s", call->info->name, message);
    qf_buffer_destroy(&place);
    return status;
}

bool qf_infer_is_given(qf_op op) {
    return rules[op] == qf_infer_given;
}

qf_status qf_infer(qf_infer_call *call) {
    for (uint32_t i = 0; i < call->info->required_operands; i++)
        if (!infer_has(call, i))
            return infer_fault(call, "operand %s is missing: this op needs it", call->info->operands[i].name);
    qf_context *context = call->graph->context;
    qf_status before = context->status;
    qf_status status = rules[call->info->op](call);
    /* A failure that only recorded itself must not pass as success. */
    if (status != QF_OK || before != QF_OK || context->status == QF_OK) return status;
    if (context->status == QF_ERROR_LIMIT) (void)fail_at(call, QF_ERROR_LIMIT, too_large);
    return context->status;
}

/* --- operands --- */

bool infer_has(const qf_infer_call *call, uint32_t operand) {
    return operand < call->operand_count && call->operands[operand].id;
}

qf_type infer_type(const qf_infer_call *call, uint32_t operand) {
    return infer_has(call, operand) ? qf_value_type(call->graph, call->operands[operand]) : (qf_type){0};
}

qf_dtype infer_dtype(const qf_infer_call *call, uint32_t operand) {
    return qf_type_dtype(call->graph->context, infer_type(call, operand));
}

bool infer_ranked(const qf_infer_call *call, uint32_t operand) {
    return qf_type_is_ranked(call->graph->context, infer_type(call, operand));
}

uint32_t infer_rank(const qf_infer_call *call, uint32_t operand) {
    return qf_type_rank(call->graph->context, infer_type(call, operand));
}

const qf_dim *infer_dims(const qf_infer_call *call, uint32_t operand) {
    return qf_type_dims(call->graph->context, infer_type(call, operand));
}

qf_dim infer_constant(const qf_infer_call *call, int64_t value) {
    return qf_dim_constant(call->graph->context, value);
}

/* --- faults --- */

static qf_status fault_text(const qf_infer_call *call, qf_buffer *message) {
    qf_status status =
        message->failed ? QF_ERROR_OUT_OF_MEMORY : fail_at(call, QF_ERROR_VERIFY, message->data ? message->data : "");
    qf_buffer_destroy(message);
    return status;
}

static void append_formatted(qf_buffer *buffer, const char *format, va_list arguments) {
    char text[512];
    (void)vsnprintf(text, sizeof text, format, arguments);
    qf_buffer_text(buffer, qf_text_of(text));
}

qf_status infer_fault(const qf_infer_call *call, const char *format, ...) {
    qf_buffer message = {.context = call->graph->context};
    va_list arguments;
    va_start(arguments, format);
    append_formatted(&message, format, arguments);
    va_end(arguments);
    return fault_text(call, &message);
}

/* The declared name; MANY operands are numbered: "parts[2]". */
static void append_operand_name(qf_buffer *buffer, const qf_infer_call *call, uint32_t operand) {
    uint32_t last = call->info->operand_count - 1;
    if (operand >= last && call->info->operands[last].kind == QF_OPERAND_MANY)
        qf_buffer_print(buffer, "%s[%" PRIu32 "]", call->info->operands[last].name, operand - last);
    else
        qf_buffer_text(buffer, qf_text_of(call->info->operands[operand].name));
}

qf_status infer_operand_fault(const qf_infer_call *call, uint32_t operand, const char *format, ...) {
    qf_buffer message = {.context = call->graph->context};
    qf_buffer_text(&message, QF_TEXT("operand "));
    append_operand_name(&message, call, operand);
    qf_buffer_text(&message, QF_TEXT(" has type "));
    qf_type_print(&message, call->graph->context, infer_type(call, operand));
    qf_buffer_text(&message, QF_TEXT(", expected "));
    va_list arguments;
    va_start(arguments, format);
    append_formatted(&message, format, arguments);
    va_end(arguments);
    return fault_text(call, &message);
}

qf_status infer_expect_rank(const qf_infer_call *call, uint32_t operand, uint32_t low, uint32_t high) {
    if (!infer_ranked(call, operand)) return QF_OK;
    uint32_t rank = infer_rank(call, operand);
    if (rank >= low && rank <= high) return QF_OK;
    if (low == high) return infer_operand_fault(call, operand, "rank %" PRIu32 ", found rank %" PRIu32, low, rank);
    return infer_operand_fault(call, operand, "rank %" PRIu32 " to %" PRIu32 ", found rank %" PRIu32, low, high, rank);
}

qf_status infer_expect_dtype(const qf_infer_call *call, uint32_t operand, qf_dtype dtype) {
    qf_dtype found = infer_dtype(call, operand);
    if (!infer_has(call, operand) || found == QF_DTYPE_NONE || found == dtype) return QF_OK;
    return infer_operand_fault(call, operand, "element type %s", qf_dtype_name(dtype));
}

qf_status infer_same_dtype(const qf_infer_call *call, uint32_t first, uint32_t end, qf_dtype *out_dtype) {
    uint32_t known = end;
    *out_dtype = QF_DTYPE_NONE;
    for (uint32_t i = first; i < end; i++) {
        qf_dtype dtype = infer_dtype(call, i);
        if (!infer_has(call, i) || dtype == QF_DTYPE_NONE) continue;
        if (known == end) {
            known = i;
            *out_dtype = dtype;
        } else if (dtype != *out_dtype) {
            const char *name = known < call->info->operand_count
                                   ? call->info->operands[known].name
                                   : call->info->operands[call->info->operand_count - 1].name;
            return infer_operand_fault(call, i, "element type %s as operand %s has", qf_dtype_name(*out_dtype), name);
        }
    }
    return QF_OK;
}

qf_status infer_expect_axis(const qf_infer_call *call, const char *name, int64_t axis, uint32_t rank) {
    if (axis >= 0 && axis < rank) return QF_OK;
    return infer_fault(call, "attribute %s is %" PRId64 ", expected 0 to %" PRId64 ": the rank is %" PRIu32, name, axis,
                       (int64_t)rank - 1, rank);
}

/* --- agreement of dims --- */

/* The named symbols that every term of a dim has in common, as a dim. Derived ones (remainders, say) may be 0 where no
 * size is. */
static qf_dim common_symbols(qf_context *context, qf_dim dim) {
    qf_dim common = qf_dim_constant(context, 1);
    qf_dim_term first = qf_dim_term_at(context, dim, 0);
    for (uint32_t s = 0; s < first.symbol_count; s++) {
        if (qf_dim_symbol_kind(context, first.symbols[s]) != QF_SYMBOL_NAMED) continue;
        qf_dim candidate = qf_dim_multiply(context, common, qf_dim_of_symbol(context, first.symbols[s]));
        if (qf_dim_divide_exactly(context, dim, candidate).id) common = candidate;
    }
    return common;
}

infer_answer infer_equal(const qf_infer_call *call, qf_dim a, qf_dim b) {
    qf_context *context = call->graph->context;
    if (qf_dim_equal(a, b)) return INFER_YES;
    int64_t left, right;
    if (qf_dim_is_constant(context, a, &left) && qf_dim_is_constant(context, b, &right)) return INFER_NO;
    qf_status before = context->status;
    qf_dim difference = qf_dim_subtract(context, a, b);
    if (!difference.id) {
        if (before == QF_OK && context->status == QF_ERROR_LIMIT) context->status = QF_OK;
        return INFER_MAYBE;
    }
    qf_dim rest = qf_dim_divide_exactly(context, difference, common_symbols(context, difference));
    qf_symbol_facts facts = qf_graph_facts(call->graph);
    int64_t bound;
    if (qf_dim_lower_bound(context, &facts, rest, &bound) && bound > 0) return INFER_NO;
    if (qf_dim_upper_bound(context, &facts, rest, &bound) && bound < 0) return INFER_NO;
    return INFER_MAYBE;
}

/* Constants say most, then named symbols, then the rest; the first of equals. */
static int plainness(const qf_context *context, qf_dim dim) {
    if (qf_dim_is_constant(context, dim, NULL)) return 2;
    qf_dim_symbol symbol = qf_dim_as_symbol(context, dim);
    return symbol.id && qf_dim_symbol_kind(context, symbol) == QF_SYMBOL_NAMED;
}

qf_status infer_agree(const qf_infer_call *call, uint32_t operand, const char *what, qf_dim a, qf_dim b, qf_dim *out) {
    qf_context *context = call->graph->context;
    if (out) *out = a;
    if (qf_dim_equal(a, b)) return QF_OK;
    if (!a.id || !b.id) return QF_OK; /* overflow: infer_set reports it */
    if (infer_equal(call, a, b) == INFER_NO) {
        qf_buffer message = {.context = context};
        qf_buffer_text(&message, QF_TEXT("operand "));
        append_operand_name(&message, call, operand);
        qf_buffer_text(&message, QF_TEXT(" has "));
        qf_dim_print(&message, context, b);
        qf_buffer_print(&message, " %s, expected ", what);
        qf_dim_print(&message, context, a);
        qf_buffer_text(&message, QF_TEXT(" (its type is "));
        qf_type_print(&message, context, infer_type(call, operand));
        qf_buffer_text(&message, QF_TEXT(")"));
        return fault_text(call, &message);
    }
    if (!call->record_nothing && !qf_graph_add_guard(call->graph, a, b, call->location)) return QF_ERROR_OUT_OF_MEMORY;
    if (out && plainness(context, b) > plainness(context, a)) *out = b;
    return QF_OK;
}

qf_status infer_agree_axis(const qf_infer_call *call, uint32_t operand, uint32_t axis, qf_dim expected) {
    char what[40];
    qf_dim found = infer_dims(call, operand)[axis];
    if (qf_dim_equal(found, expected)) return QF_OK;
    (void)snprintf(what, sizeof what, "elements on axis %" PRIu32, axis);
    return infer_agree(call, operand, what, expected, found, NULL);
}

qf_status infer_one_scale(const qf_infer_call *call, uint32_t operand) {
    qf_dim one = infer_constant(call, 1);
    if (!infer_ranked(call, operand) || infer_rank(call, operand) != 1) return QF_OK;
    if (infer_equal(call, one, infer_dims(call, operand)[0]) != INFER_MAYBE) return QF_OK;
    return infer_agree_axis(call, operand, 0, one);
}

static qf_status broadcast_axis(const qf_infer_call *call, uint32_t operand, uint32_t axis, qf_dim *dim) {
    qf_context *context = call->graph->context;
    qf_dim found = infer_dims(call, operand)[axis];
    if (qf_dim_equal(*dim, found) || qf_dim_is(context, found, 1)) return QF_OK;
    if (qf_dim_is(context, *dim, 1)) {
        *dim = found;
        return QF_OK;
    }
    char what[56];
    (void)snprintf(what, sizeof what, "elements on axis %" PRIu32 " to broadcast", axis);
    return infer_agree(call, operand, what, *dim, found, dim);
}

qf_status infer_broadcast_onto(const qf_infer_call *call, qf_dim *dims, uint32_t *rank, uint32_t operand) {
    uint32_t other = infer_rank(call, operand);
    if (other > *rank) {
        memmove(dims + (other - *rank), dims, *rank * sizeof *dims);
        memcpy(dims, infer_dims(call, operand), (other - *rank) * sizeof *dims);
        *rank = other;
    }
    for (uint32_t i = 0; i < other; i++) INFER_TRY(broadcast_axis(call, operand, i, &dims[*rank - other + i]));
    return QF_OK;
}

qf_status infer_broadcasts_to(const qf_infer_call *call, uint32_t operand, const qf_dim *target, uint32_t rank) {
    if (!infer_ranked(call, operand)) return QF_OK;
    uint32_t own = infer_rank(call, operand);
    if (own > rank) return infer_operand_fault(call, operand, "rank %" PRIu32 " or less to broadcast", rank);
    const qf_dim *dims = infer_dims(call, operand);
    for (uint32_t i = 0; i < own; i++)
        if (!qf_dim_is(call->graph->context, dims[i], 1))
            INFER_TRY(infer_agree_axis(call, operand, i, target[rank - own + i]));
    return QF_OK;
}

/* --- results --- */

static qf_status result_fault(const qf_infer_call *call, uint32_t rank) {
    if (call->graph->context->status == QF_ERROR_OUT_OF_MEMORY) return QF_ERROR_OUT_OF_MEMORY;
    if (rank != QF_UNRANKED && rank > QF_MAX_RANK) {
        (void)infer_fault(call, "the result has rank %" PRIu32 ", expected %d or less", rank, QF_MAX_RANK);
        return QF_ERROR_LIMIT;
    }
    return fail_at(call, QF_ERROR_LIMIT, too_large);
}

qf_status infer_set(const qf_infer_call *call, uint32_t result, qf_dtype dtype, const qf_dim *dims, uint32_t rank) {
    if (result >= call->result_count) return QF_OK;
    qf_type type = {0};
    int64_t size;
    for (uint32_t i = 0; rank <= QF_MAX_RANK && i < rank; i++)
        if (qf_dim_is_constant(call->graph->context, dims[i], &size) && size < 0)
            return infer_fault(call, "the result would have size %" PRId64 " on axis %" PRIu32 ", expected 0 or more",
                               size, i);
    if (rank == QF_UNRANKED || rank <= QF_MAX_RANK) type = qf_type_tensor(call->graph->context, dtype, dims, rank);
    if (!type.id) return result_fault(call, rank);
    call->out_types[result] = type;
    return QF_OK;
}

qf_status infer_set_like(const qf_infer_call *call, uint32_t result, qf_dtype dtype, uint32_t operand) {
    if (result >= call->result_count) return QF_OK;
    call->out_types[result] = qf_type_with_dtype(call->graph->context, infer_type(call, operand), dtype);
    return call->out_types[result].id ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

qf_status infer_set_unranked(const qf_infer_call *call, uint32_t result, qf_dtype dtype) {
    return infer_set(call, result, dtype, NULL, QF_UNRANKED);
}
