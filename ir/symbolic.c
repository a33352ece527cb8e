/* Owns: the symbolic analysis: which values it follows, the order of work, what it remembers; sources of values.
 * Does not own: arithmetic (symbolic_arithmetic.c), layout (symbolic_layout.c).
 * Next: symbolic_ops.h. */
#include <math.h>
#include <string.h>

#include "base/convert.h"
#include "ir/infer.h"
#include "ir/symbolic_ops.h"

typedef enum entry_state { ENTRY_NEW = 0, ENTRY_WAITING, ENTRY_DONE } entry_state;

typedef struct entry {
    uint8_t state;              /* entry_state */
    bool complete;              /* every element is a known integer */
    symbolic_element *elements; /* NULL: nothing is known */
    qf_dim *dims;               /* what callers see; made on demand */
    uint32_t count;
} entry;

struct qf_symbolic {
    qf_graph *graph;
    qf_arena arena;
    entry *entries; /* by value id */
    uint32_t entry_count, entry_capacity;
    qf_value *stack;
    uint32_t stack_count, stack_capacity;
    symbolic_tensor *operands; /* of the step at work */
    uint32_t operand_capacity;
};

qf_symbolic *qf_symbolic_create(qf_graph *graph) {
    qf_symbolic *symbolic = qf_allocate(graph->context, sizeof *symbolic);
    if (!symbolic) return NULL;
    symbolic->graph = graph;
    symbolic->arena.context = graph->context;
    return symbolic;
}

void qf_symbolic_destroy(qf_symbolic *symbolic) {
    if (!symbolic) return;
    qf_context *context = symbolic->graph->context;
    QF_FREE_ITEMS(context, symbolic->entries, symbolic->entry_capacity);
    QF_FREE_ITEMS(context, symbolic->stack, symbolic->stack_capacity);
    QF_FREE_ITEMS(context, symbolic->operands, symbolic->operand_capacity);
    qf_arena_destroy(&symbolic->arena);
    qf_release(context, symbolic, sizeof *symbolic);
}

/* --- sources --- */

static void from_symbolic(symbolic_step *step) {
    const qf_attribute *values = &step->node->attributes[QF_ATTR(symbolic, values)];
    for (uint32_t i = 0; i < step->out.count && i < values->count; i++)
        step->out.elements[i] = symbolic_integer(values->dims[i]);
}

static void from_shape(symbolic_step *step) {
    qf_value x = step->node->operands[0].value;
    int64_t start = step->node->attributes[QF_ATTR(shape_of, start)].integer;
    if (!qf_type_is_ranked(step->context, qf_value_type(step->graph, x))) return;
    uint32_t rank = qf_value_rank(step->graph, x);
    if (start < 0) start += rank;
    start = start < 0 ? 0 : start;
    for (uint32_t i = 0; i < step->out.count && start + i < rank; i++)
        step->out.elements[i] = symbolic_integer(qf_value_dims(step->graph, x)[start + i]);
}

/* A float that is a small dyadic fraction, exactly. */
static symbolic_element from_double(qf_context *context, double number) {
    const double largest = 0x1p53, scale = 0x1p20;
    if (!(fabs(number) < largest)) return (symbolic_element){{0}, 1};
    if (number == floor(number)) return symbolic_integer(qf_dim_constant(context, (int64_t)number));
    double scaled = number * scale;
    if (scaled != floor(scaled) || !(fabs(scaled) < largest)) return (symbolic_element){{0}, 1};
    return symbolic_fraction(context, qf_dim_constant(context, (int64_t)scaled), (int64_t)scale);
}

static void from_constant(symbolic_step *step) {
    const qf_literal *literal = step->node->attributes[QF_ATTR(constant, value)].literal;
    if (!literal) return;
    qf_dtype dtype = qf_type_dtype(step->context, literal->type);
    if (literal->size < qf_dtype_bytes(dtype, step->out.count)) return;
    for (uint32_t i = 0; i < step->out.count; i++) {
        if (qf_dtype_is_float(dtype))
            step->out.elements[i] = from_double(step->context, qf_load_f64(dtype, literal->data, i));
        else
            step->out.elements[i] =
                symbolic_integer(qf_dim_constant(step->context, qf_load_i64(dtype, literal->data, i)));
    }
}

static void from_iota(symbolic_step *step) {
    const qf_attribute *attributes = step->node->attributes;
    int64_t axis = attributes[QF_ATTR(iota, axis)].integer, position[QF_MAX_RANK];
    if (axis < 0 || axis >= step->out.rank) return;
    for (uint32_t i = 0; i < step->out.count; i++) {
        symbolic_unravel(step->out.dims, step->out.rank, i, position);
        qf_dim moved = qf_dim_multiply(step->context, attributes[QF_ATTR(iota, step)].dim,
                                       qf_dim_constant(step->context, position[axis]));
        step->out.elements[i] =
            symbolic_integer(qf_dim_add(step->context, attributes[QF_ATTR(iota, start)].dim, moved));
    }
}

/* NULL for ops that the analysis does not follow. */
static symbolic_rule rule_of(qf_op op) {
    switch (op) {
    case QF_OP_constant: return from_constant;
    case QF_OP_symbolic: return from_symbolic;
    case QF_OP_shape_of: return from_shape;
    case QF_OP_iota: return from_iota;
    case QF_OP_full: return symbolic_full;
    case QF_OP_view: return symbolic_view;
    case QF_OP_permute: return symbolic_permute;
    case QF_OP_slice: return symbolic_slice;
    case QF_OP_concat: return symbolic_concat;
    case QF_OP_split: return symbolic_split;
    case QF_OP_expand: return symbolic_expand;
    case QF_OP_pad: return symbolic_pad;
    case QF_OP_gather: return symbolic_gather;
    case QF_OP_gather_elements: return symbolic_gather_elements;
    case QF_OP_scatter_nd: return symbolic_scatter_nd;
    case QF_OP_reduce_sum:
    case QF_OP_reduce_max:
    case QF_OP_reduce_min:
    case QF_OP_reduce_prod: return symbolic_reduce;
    case QF_OP_cumulative_sum: return symbolic_cumulative_sum;
    case QF_OP_copy: return symbolic_elementwise;
    default: return qf_op_has_trait(op, QF_TRAIT_ELEMENTWISE) ? symbolic_elementwise : NULL;
    }
}

/* --- the order of work: a stack of values, each looked at twice: before and after its operands --- */

/* A small tensor of constant dims whose elements may be sizes. */
static bool describe(const qf_symbolic *symbolic, qf_value value, symbolic_tensor *out) {
    const qf_context *context = symbolic->graph->context;
    *out = (symbolic_tensor){.dtype = QF_DTYPE_NONE};
    if (!value.id) return false;
    qf_type type = qf_value_type(symbolic->graph, value);
    uint64_t count;
    out->dtype = qf_type_dtype(context, type);
    qf_dtype_kind kind = qf_dtype_kind_of(out->dtype);
    if (kind != QF_DTYPE_KIND_INTEGER && kind != QF_DTYPE_KIND_BOOL && kind != QF_DTYPE_KIND_FLOAT) return false;
    if (!qf_type_static_count(context, type, &count)) return false;
    out->rank = qf_type_rank(context, type);
    for (uint32_t i = 0; i < out->rank; i++)
        (void)qf_dim_is_constant(context, qf_type_dims(context, type)[i], &out->dims[i]);
    out->count = count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
    return true;
}

static bool push(qf_symbolic *symbolic, qf_value value) {
    if (!QF_GROW(symbolic->graph->context, symbolic->stack, symbolic->stack_capacity,
                 (uint64_t)symbolic->stack_count + 1))
        return false;
    symbolic->stack[symbolic->stack_count++] = value;
    return true;
}

/* shape_of reads no elements. */
static bool push_operands(qf_symbolic *symbolic, const qf_node_data *node) {
    if (node->op == QF_OP_shape_of) return true;
    for (uint32_t i = 0; i < node->operand_count; i++) {
        qf_value operand = node->operands[i].value;
        if (operand.id && symbolic->entries[operand.id].state == ENTRY_NEW && !push(symbolic, operand)) return false;
    }
    return true;
}

static bool followed(const qf_symbolic *symbolic, qf_value value) {
    symbolic_tensor shape;
    qf_node node = qf_value_producer(symbolic->graph, value);
    return node.id && rule_of(qf_node_op(symbolic->graph, node)) && describe(symbolic, value, &shape) &&
           shape.count <= SYMBOLIC_MAX_ELEMENTS;
}

/* Constants that the dtype does not hold were wrapped or rounded: they are not known. */
static bool held(const qf_context *context, qf_dtype dtype, symbolic_element element) {
    int64_t value;
    if (!qf_dim_is_constant(context, element.numerator, &value)) return true;
    unsigned char bytes[8];
    if (element.denominator != 1) {
        double number = (double)value / (double)element.denominator;
        qf_store_f64(dtype, bytes, 0, number, false);
        return (element.denominator & (element.denominator - 1)) != 0 || qf_load_f64(dtype, bytes, 0) == number;
    }
    qf_store_i64(dtype, bytes, 0, value);
    return qf_load_i64(dtype, bytes, 0) == value;
}

static void finish(entry *at, const symbolic_tensor *out) {
    uint32_t known = 0, whole = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        known += symbolic_known(out->elements[i]);
        whole += symbolic_known(out->elements[i]) && out->elements[i].denominator == 1;
    }
    at->complete = whole == out->count;
    at->elements = known || at->complete ? out->elements : NULL;
    at->count = out->count;
}

/* Computes a value whose operands are done (one that still waits is its own ancestor: unknown). False without memory.
 */
static bool compute(qf_symbolic *symbolic, qf_value value) {
    qf_graph *graph = symbolic->graph;
    qf_context *context = graph->context;
    const qf_node_data *node = qf_node_at(graph, qf_value_producer(graph, value));
    symbolic_step step = {.graph = graph,
                          .context = context,
                          .facts = qf_graph_facts(graph),
                          .node = node,
                          .result_index = qf_value_at(graph, value)->result_index,
                          .operand_count = node->operand_count};
    if (!QF_GROW(context, symbolic->operands, symbolic->operand_capacity, node->operand_count)) return false;
    for (uint32_t i = 0; i < node->operand_count; i++) {
        qf_value operand = node->operands[i].value;
        if (!describe(symbolic, operand, &symbolic->operands[i])) symbolic->operands[i].rank = QF_UNRANKED;
        const entry *known = &symbolic->entries[operand.id];
        if (operand.id && known->state == ENTRY_DONE) symbolic->operands[i].elements = known->elements;
    }
    step.operands = symbolic->operands;
    (void)describe(symbolic, value, &step.out);
    step.out.elements = QF_ARENA_NEW(&symbolic->arena, symbolic_element, step.out.count);
    if (!step.out.elements) return false;
    for (uint32_t i = 0; i < step.out.count; i++) step.out.elements[i].denominator = 1;
    qf_status before = context->status;
    rule_of(node->op)(&step);
    for (uint32_t i = 0; i < step.out.count; i++)
        if (symbolic_known(step.out.elements[i]) && !held(context, step.out.dtype, step.out.elements[i]))
            step.out.elements[i] = (symbolic_element){{0}, 1};
    /* A dim beyond the limits is an element that is not known, no failure. */
    if (before == QF_OK && context->status == QF_ERROR_LIMIT) context->status = QF_OK;
    if (before == QF_OK && context->status != QF_OK) return false;
    finish(&symbolic->entries[value.id], &step.out);
    return true;
}

static bool resolve(qf_symbolic *symbolic, qf_value value) {
    symbolic->stack_count = 0;
    if (!push(symbolic, value)) return false;
    while (symbolic->stack_count) {
        qf_value top = symbolic->stack[symbolic->stack_count - 1];
        entry *at = &symbolic->entries[top.id];
        if (at->state == ENTRY_NEW && followed(symbolic, top)) {
            at->state = ENTRY_WAITING;
            if (!push_operands(symbolic, qf_node_at(symbolic->graph, qf_value_producer(symbolic->graph, top))))
                return false;
            continue;
        }
        if (at->state == ENTRY_WAITING && !compute(symbolic, top)) return false;
        at->state = ENTRY_DONE;
        symbolic->stack_count--;
    }
    return true;
}

/* Values made since the last call have no entry yet. */
static bool cover_values(qf_symbolic *symbolic) {
    uint32_t count = symbolic->graph->value_count;
    if (count <= symbolic->entry_count) return true;
    if (!QF_GROW(symbolic->graph->context, symbolic->entries, symbolic->entry_capacity, count)) return false;
    memset(&symbolic->entries[symbolic->entry_count], 0, (count - symbolic->entry_count) * sizeof *symbolic->entries);
    symbolic->entry_count = count;
    return true;
}

/* After a failure nothing may look as if it were still at work. */
static void abandon(qf_symbolic *symbolic) {
    for (uint32_t i = 0; i < symbolic->stack_count; i++)
        if (symbolic->entries[symbolic->stack[i].id].state == ENTRY_WAITING)
            symbolic->entries[symbolic->stack[i].id].state = ENTRY_NEW;
}

bool qf_symbolic_elements(qf_symbolic *symbolic, qf_value value, const qf_dim **out_elements, uint32_t *out_count) {
    if (!value.id || !cover_values(symbolic)) return false;
    entry *at = &symbolic->entries[value.id];
    if (at->state != ENTRY_DONE && !resolve(symbolic, value)) {
        abandon(symbolic);
        return false;
    }
    if (!at->complete) return false;
    if (!at->dims) {
        at->dims = QF_ARENA_NEW(&symbolic->arena, qf_dim, at->count);
        if (!at->dims) return false;
        for (uint32_t i = 0; i < at->count; i++) at->dims[i] = at->elements[i].numerator;
    }
    *out_elements = at->dims;
    *out_count = at->count;
    return true;
}
