/* Owns: the graph: nodes, values, use-lists, attributes, locations, and the only functions that change them.
 * Does not own: text (text.h), shapes (infer.h), checks (verify.h), weights' bytes (the host's).
 * Next: graph.c, spec/ops.def. */
#ifndef QF_IR_GRAPH_H
#define QF_IR_GRAPH_H

#include <qfuse/graph.h>

#include "base/type.h"
#include "spec/spec.h"

/* Straight-line SSA. The last node is always `return`; its operands are the graph's outputs, so that use-lists hold all
 * uses. Values without a producer are graph inputs. Nodes form a doubly linked list in topological order. Everything
 * lives in the graph's arena; erased nodes keep their ids (never reused) and are skipped. Failure: constructors return
 * 0 and record a status in the context (context.h); setters that may allocate return false. */

typedef struct qf_use qf_use;
struct qf_use {
    qf_value value;          /* 0: absent optional operand */
    qf_node user;            /* qf_use_index tells which operand of it */
    qf_use *next, *previous; /* other uses of the value, in no particular order */
};

/* A small tensor: constant dims, row-major bytes (f4 packed) in the arena. */
typedef struct qf_literal {
    qf_type type;
    uint64_t size;
    const void *data;
} qf_literal;

typedef struct qf_attribute {
    union {
        int64_t integer; /* BOOL, INT, DTYPE, ENUM */
        double number;   /* FLOAT */
        qf_dim dim;
        qf_string string; /* STRING; 0 is "" */
        const qf_literal *literal;
        const qf_dim *dims;  /* DIMS: count of them */
        const int64_t *ints; /* INTS */
    };
    uint32_t count; /* DIMS, INTS */
} qf_attribute;

/* Where a node comes from: a source place, an importer's name, or the fusion of several. Interned per graph by
 * location.c. */
typedef struct qf_location {
    uint32_t id; /* 0 = unknown */
} qf_location;

/* Passes over large graphs wait for memory: a node is one cache line, a value half of one. */
typedef struct qf_node_data {
    qf_op op;
    bool erased;
    qf_node previous, next;
    uint32_t operand_count, result_count;
    qf_use *operands;         /* MANY operands follow the named ones */
    qf_attribute *attributes; /* in table order, all of them, defaults filled in */
    qf_value first_result;    /* the others have the ids after it; trailing optional results may be missing */
    qf_location location;
    uint64_t tag;   /* the host's; survives rewrites */
    uint64_t order; /* increases along the list; for comparisons only */
} qf_node_data;
_Static_assert(sizeof(qf_node_data) <= 64, "a node fits a cache line");

typedef struct qf_value_data {
    qf_type type;
    qf_node producer; /* 0: graph input */
    uint32_t result_index;
    qf_string name; /* without '%'; 0: numbered when printed */
    qf_use *first_use;
    uint32_t use_count;
    qf_value replaced_by; /* what qf_graph_replace_all_uses put in its place; 0: nothing */
} qf_value_data;
_Static_assert(sizeof(qf_value_data) <= 32, "a value fits half a cache line");

/* An equality that had to be assumed (left == right), checked at launch. */
typedef struct qf_guard {
    qf_dim left, right;
    qf_location location;
} qf_guard;

typedef struct qf_location_data {
    qf_string file; /* file name, or importer's node name when line is 0 */
    uint32_t line, column;
    qf_string rule;           /* the rule that fused `parts` */
    const qf_location *parts; /* fused from these */
    uint32_t part_count;
} qf_location_data;

/* Bytes that the host bound to a parameter by name; not owned. */
typedef struct qf_weight {
    qf_string name;
    const void *data;
    uint64_t size;
} qf_weight;

/* Something kept alive with the graph (an importer's file buffer), freed by `release` when the graph is destroyed. */
typedef struct qf_adopted {
    void *object;
    void (*release)(qf_context *context, void *object);
} qf_adopted;

struct qf_graph {
    qf_context *context;
    qf_arena arena;
    qf_string name;
    qf_string text_file; /* file that the text form was read from: its places are not printed (print.c); 0: none */
    qf_node_data *nodes; /* index 0 unused */
    uint32_t node_count, node_capacity, live_node_count;
    qf_value_data *values; /* index 0 unused */
    uint32_t value_count, value_capacity;
    qf_node first, last; /* last is the return node once the graph is complete */
    qf_value *inputs;
    uint32_t input_count, input_capacity;
    qf_type *declared; /* of inputs: the types before assumed equalities changed them; 0: unchanged */
    uint32_t declared_capacity;
    qf_string *output_names; /* one for each operand of return; 0: unnamed */
    uint32_t output_name_count, output_name_capacity;
    qf_symbol_fact *facts;
    uint32_t fact_count, fact_capacity;
    qf_guard *guards;
    uint32_t guard_count, guard_capacity;
    qf_index guard_index;        /* by both dims; qf_graph_add_guard brings it up to date */
    qf_location_data *locations; /* index 0 unused */
    uint32_t location_count, location_capacity;
    qf_index location_index;
    qf_weight *weights;
    uint32_t weight_count, weight_capacity;
    qf_index weight_index; /* by name; weights.c brings it up to date */
    qf_adopted *adopted;
    uint32_t adopted_count, adopted_capacity;
    uint64_t next_tag;
};

/* --- reading --- */
static inline qf_node_data *qf_node_at(const qf_graph *graph, qf_node node) {
    return &graph->nodes[node.id];
}
static inline qf_value_data *qf_value_at(const qf_graph *graph, qf_value value) {
    return &graph->values[value.id];
}
static inline qf_op qf_node_op(const qf_graph *graph, qf_node node) {
    return node.id ? graph->nodes[node.id].op : QF_OP_none;
}
/* `index` is less than result_count. */
static inline qf_value qf_result_at(const qf_node_data *data, uint32_t index) {
    return (qf_value){data->first_result.id + index};
}
static inline uint32_t qf_use_index(const qf_graph *graph, const qf_use *use) {
    return (uint32_t)(use - graph->nodes[use->user.id].operands);
}
/* 0 when absent or out of range. */
static inline qf_value qf_node_operand(const qf_graph *graph, qf_node node, uint32_t index) {
    const qf_node_data *data = &graph->nodes[node.id];
    return index < data->operand_count ? data->operands[index].value : (qf_value){0};
}
static inline qf_value qf_node_result(const qf_graph *graph, qf_node node, uint32_t index) {
    const qf_node_data *data = &graph->nodes[node.id];
    return index < data->result_count ? (qf_value){data->first_result.id + index} : (qf_value){0};
}
static inline qf_attribute *qf_node_attribute(const qf_graph *graph, qf_node node, uint32_t index) {
    return &graph->nodes[node.id].attributes[index];
}
static inline qf_node qf_value_producer(const qf_graph *graph, qf_value value) {
    return value.id ? graph->values[value.id].producer : (qf_node){0};
}
static inline qf_type qf_value_type(const qf_graph *graph, qf_value value) {
    return graph->values[value.id].type;
}
/* What callers of the graph see of an input: its type in the symbols that they bind. */
static inline qf_type qf_input_type(const qf_graph *graph, uint32_t index) {
    qf_type declared = graph->declared[index];
    return declared.id ? declared : graph->values[graph->inputs[index].id].type;
}
static inline qf_dtype qf_value_dtype(const qf_graph *graph, qf_value value) {
    return qf_type_dtype(graph->context, graph->values[value.id].type);
}
static inline uint32_t qf_value_rank(const qf_graph *graph, qf_value value) {
    return qf_type_rank(graph->context, graph->values[value.id].type);
}
static inline const qf_dim *qf_value_dims(const qf_graph *graph, qf_value value) {
    return qf_type_dims(graph->context, graph->values[value.id].type);
}
static inline qf_symbol_facts qf_graph_facts(const qf_graph *graph) {
    return (qf_symbol_facts){graph->facts, graph->fact_count};
}
#define QF_FOR_EACH_NODE(graph, node) for (qf_node node = (graph)->first; node.id; node = (graph)->nodes[node.id].next)
#define QF_FOR_EACH_USE(graph, value, use)                                                                             \
    for (qf_use *use = (graph)->values[(value).id].first_use; use; use = use->next)
/* The producer of `value` if it is of this op, else 0. */
qf_node qf_producer_of_op(const qf_graph *graph, qf_value value, qf_op op);
/* a stands before b in the list. Constant time. */
bool qf_node_before(const qf_graph *graph, qf_node a, qf_node b);
/* The literal of a `constant` producer, else NULL. */
const qf_literal *qf_value_literal(const qf_graph *graph, qf_value value);

/* Bit for bit (attribute.c). Literals are not NULL. */
bool qf_attribute_same(qf_attribute_kind kind, const qf_attribute *a, const qf_attribute *b);
uint64_t qf_attribute_hash(qf_attribute_kind kind, const qf_attribute *attribute, uint64_t hash);
/* Makes lists and literals copies in the arena, so that callers may build them on the stack and clones outlive
 * originals. */
bool qf_attribute_own(qf_arena *arena, qf_attribute_kind kind, qf_attribute *attribute);

/* --- building --- */
typedef struct qf_node_spec {
    qf_op op;
    const qf_value
        *operands; /* named ones in table order (0 = absent), then MANY; trailing absent ones may be left out */
    uint32_t operand_count;
    const qf_attribute
        *attributes;       /* in table order, all of them (qf_attributes_default fills a row), or NULL: defaults */
    uint32_t result_count; /* 0: the required ones of the table; more: optional ones too, or SEVERAL */
    const qf_type *result_types;   /* NULL: inferred (infer.h); ops with infer rule `given` need them */
    const qf_string *result_names; /* NULL: unnamed */
    qf_location location;
    uint64_t tag; /* 0: a new one */
} qf_node_spec;

/* Inserts a node before `before` (0: at the end, before a `return` that is there). Copies everything it is given into
 * the arena; dims and ints lists, strings and literals of attributes too. Infers result types when result_types is
 * NULL; a fault found there fails with QF_ERROR_VERIFY and a located message. Returns 0 on failure (graph unchanged).
 */
qf_node qf_graph_insert(qf_graph *graph, qf_node before, const qf_node_spec *spec);
/* `attributes` has room for the op's columns; required ones become zero. */
void qf_attributes_default(const qf_graph *graph, qf_op op, qf_attribute *attributes);
#define QF_MAX_ATTRIBUTES 16
qf_value qf_graph_add_input_value(qf_graph *graph, qf_string name, qf_type type);
/* Ends the graph (only once). */
bool qf_graph_set_outputs(qf_graph *graph, const qf_value *outputs, const qf_string *names, uint32_t count);

/* --- changing --- */
void qf_graph_set_operand(qf_graph *graph, qf_node node, uint32_t index, qf_value value);
/* All uses of `from` read `to` instead. Types may differ only where the caller re-infers. */
void qf_graph_replace_all_uses(qf_graph *graph, qf_value from, qf_value to);
/* The value that stands for this one now: itself, or what rewrites put in its place; 0 where that is gone. */
qf_value qf_graph_current_value(const qf_graph *graph, qf_value value);
/* The node must have no uses of its results. */
void qf_graph_erase(qf_graph *graph, qf_node node);
void qf_graph_move_before(qf_graph *graph, qf_node node, qf_node before);
void qf_graph_set_type(qf_graph *graph, qf_value value, qf_type type);
bool qf_graph_add_guard(qf_graph *graph, qf_dim left, qf_dim right, qf_location location); /* once each */
/* Narrows what is known of a symbol; facts only grow stronger. */
bool qf_graph_add_fact(qf_graph *graph, qf_symbol_fact fact);
bool qf_graph_adopt(qf_graph *graph, void *object, void (*release)(qf_context *context, void *object));
/* Replaces every dim of types and attributes by what `rewrite` makes of it (0: failure). *out_changed becomes true
 * where that differs; then inputs remember the type that they had before. */
typedef qf_dim (*qf_dim_rewrite)(void *user, qf_context *context, qf_dim dim);
bool qf_graph_rewrite_dims(qf_graph *graph, qf_dim_rewrite rewrite, void *user, bool *out_changed);

/* --- whole graphs --- */
/* A copy with the same ids, names, tags and locations, in the same context. Adopted objects stay with the original,
 * which must outlive the copy unless qf_graph_swap moves them. 0 on failure. */
qf_graph *qf_graph_clone(const qf_graph *graph);
/* Exchanges the contents of two graphs of one context; adopted objects stay with `a`. */
void qf_graph_swap(qf_graph *a, qf_graph *b);

/* --- weights --- */
/* Binds or replaces. */
bool qf_graph_set_weight(qf_graph *graph, qf_string name, const void *data, uint64_t size);
/* NULL where nothing is bound, or after a failure. Constant time. */
const qf_weight *qf_graph_find_weight(qf_graph *graph, qf_string name);

/* --- locations --- */
qf_location qf_location_make(qf_graph *graph, qf_text file_or_name, uint32_t line, uint32_t column);
qf_location qf_location_fuse(qf_graph *graph, qf_string rule, const qf_location *parts, uint32_t count);
/* "model.onnx:/layers.0/attn/MatMul", "graph.qf:12:3", "fused<rule>[a, b]"; "" for unknown. */
void qf_location_print(qf_buffer *buffer, const qf_graph *graph, qf_location location);
/* A qf_position for qf_fail with the printed location; the text lives in the context. */
qf_position qf_node_position(const qf_graph *graph, qf_node node);

#endif
