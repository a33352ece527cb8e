/* Owns: the public graph: building, reading, checking, text form, DOT, weights, symbols.
 * Does not own: types and dims (type.h), passes (pass.h), frontends (onnx.h, pt2.h), plans (plan.h).
 * Next: pass.h; docs/ir.md for the language, docs/ops.md for every op. */
#ifndef QFUSE_GRAPH_H
#define QFUSE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <qfuse/context.h>
#include <qfuse/dtype.h>
#include <qfuse/ops.h>
#include <qfuse/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How this header works, once for all functions:
 *  - A graph belongs to the context it was made in; destroy it before the context. One thread at a time uses a context
 * and all that was made from it.
 *  - Functions that make something return 0 after a failure; its status is then in qf_context_status and its message
 * went to the diagnostic handler. A 0 given for a required value or type gives 0 in turn, so a chain of calls is
 * checked once at the end.
 *  - Strings and arrays that the caller gives are copied, except weights. Strings that the library returns are
 * NUL-terminated and live as long as the context, unless said otherwise.
 *  - A graph must not be used after one of its building functions failed for lack of memory, except to destroy it. */

/* A straight-line graph of tensor ops: nodes in order, each reading values made before it; the last one is `return`. */
typedef struct qf_graph qf_graph;

/* Ids within one graph; 0 = none. They stay valid until the graph is destroyed; the id of an erased node is never
 * reused. */
typedef struct qf_node {
    uint32_t id;
} qf_node;
typedef struct qf_value {
    uint32_t id;
} qf_value;

/* --- whole graphs --- */

/* An empty graph, named "main" where `name` is NULL or "". On failure *out_graph is NULL; QF_ERROR_VERSION: libqfuse
 * and libqfuse_rt are of different releases. */
QF_API QF_MUST_USE qf_status qf_graph_create(qf_context *context, const char *name, qf_graph **out_graph);
/* NULL is allowed. */
QF_API void qf_graph_destroy(qf_graph *graph);
/* A copy with the same ids, names, tags and locations. What an importer attached to the original (a mapped file) stays
 * with it, so the original must outlive the copy. NULL on failure. */
QF_API qf_graph *qf_graph_clone(const qf_graph *graph);
QF_API qf_context *qf_graph_context(const qf_graph *graph);
QF_API const char *qf_graph_name(const qf_graph *graph);
/* Checks order, use-lists, types and every op's own rules; each fault is one located message. QF_OK, QF_ERROR_VERIFY or
 * QF_ERROR_OUT_OF_MEMORY. */
QF_API QF_MUST_USE qf_status qf_graph_verify(const qf_graph *graph);
/* One warning for each scale that is a constant with a zero, negative, infinite, subnormal or NaN element. Such graphs
 * are valid, but a calibrator probably failed. Gives the number of warnings. */
QF_API uint32_t qf_graph_warn_scales(const qf_graph *graph);

/* --- text --- */

/* Reads one graph in the text form (docs/ir.md). `size` bytes, no NUL needed; at most 1 GiB. `file_name` is for
 * messages and locations. Reports up to 20 faults, each with file:line:column and the source line. The result is
 * verified. On failure *out_graph is NULL and the status QF_ERROR_PARSE, QF_ERROR_VERIFY, QF_ERROR_LIMIT or
 * QF_ERROR_OUT_OF_MEMORY. */
QF_API QF_MUST_USE qf_status qf_graph_from_text(qf_context *context, const char *text, size_t size,
                                                const char *file_name, qf_graph **out_graph);
/* The graph in the text form, NUL-terminated; reading it back gives the same graph. The caller frees it with
 * qf_text_destroy. On failure *out_text is NULL. `out_size` (without the NUL) may be NULL. */
QF_API QF_MUST_USE qf_status qf_graph_to_text(const qf_graph *graph, char **out_text, size_t *out_size);
/* One node as a line without a newline; otherwise as qf_graph_to_text. Costs time in the size of the graph. */
QF_API QF_MUST_USE qf_status qf_node_to_text(const qf_graph *graph, qf_node node, char **out_text, size_t *out_size);
/* The graph in Graphviz' DOT language; otherwise as qf_graph_to_text. */
QF_API QF_MUST_USE qf_status qf_graph_to_dot(const qf_graph *graph, char **out_text, size_t *out_size);
/* Frees text that a function of this header returned for the caller to free. NULL is allowed. */
QF_API void qf_text_destroy(qf_context *context, char *text);

/* --- symbols --- */

/* States that the named symbol lies in minimum..maximum (INT64_MAX: no limit) and is a multiple of `divisor` (1:
 * nothing known). Facts only grow stronger. Symbols without facts are at least 0. */
QF_API QF_MUST_USE qf_status qf_graph_set_symbol(qf_graph *graph, const char *name, int64_t minimum, int64_t maximum,
                                                 int64_t divisor);
/* Assumes that both are equal; a plan checks it at each launch. */
QF_API QF_MUST_USE qf_status qf_graph_assume(qf_graph *graph, qf_dim left, qf_dim right);

/* --- building --- */

/* An input of the graph, in call order. `name` may be NULL. */
QF_API qf_value qf_graph_add_input(qf_graph *graph, const char *name, qf_type type);
/* Ends the graph with its outputs, once. `names` may be NULL, and so may each of them. */
QF_API QF_MUST_USE qf_status qf_graph_finish(qf_graph *graph, const qf_value *outputs, const char *const *names,
                                             uint32_t count);

/* An attribute by name. The member of `as` follows from `kind`; the pointers of strings, lists and tensors are copied
 * by qf_graph_add_node, and point into the graph (until it is destroyed) after qf_node_get_attribute. */
typedef struct qf_setting {
    const char *name;
    qf_attribute_kind kind;
    uint32_t count; /* DIMS, INTS */
    union {
        bool truth;          /* BOOL */
        int64_t integer;     /* INT */
        double number;       /* FLOAT */
        qf_dtype dtype;      /* DTYPE */
        const char *text;    /* STRING, and ENUM by the value's name */
        qf_dim dim;          /* DIM */
        const qf_dim *dims;  /* DIMS */
        const int64_t *ints; /* INTS */
        struct {
            qf_type type; /* constant dims */
            const void *data;
            size_t size; /* bytes, row-major; f4E2M1FN packs two elements a byte, the first in the low half */
        } tensor;        /* LITERAL */
    } as;
} qf_setting;

/* One setting each, for arrays of settings. The pointers are borrowed until the node was added. */
static inline qf_setting qf_setting_of(const char *name, qf_attribute_kind kind) {
    qf_setting setting;
    memset(&setting, 0, sizeof setting);
    setting.name = name;
    setting.kind = kind;
    return setting;
}
static inline qf_setting qf_set_bool(const char *name, bool truth) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_BOOL);
    setting.as.truth = truth;
    return setting;
}
static inline qf_setting qf_set_int(const char *name, int64_t integer) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_INT);
    setting.as.integer = integer;
    return setting;
}
static inline qf_setting qf_set_float(const char *name, double number) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_FLOAT);
    setting.as.number = number;
    return setting;
}
static inline qf_setting qf_set_dtype(const char *name, qf_dtype dtype) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_DTYPE);
    setting.as.dtype = dtype;
    return setting;
}
static inline qf_setting qf_set_enum(const char *name, const char *value_name) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_ENUM);
    setting.as.text = value_name;
    return setting;
}
static inline qf_setting qf_set_string(const char *name, const char *text) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_STRING);
    setting.as.text = text;
    return setting;
}
static inline qf_setting qf_set_dim(const char *name, qf_dim dim) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_DIM);
    setting.as.dim = dim;
    return setting;
}
static inline qf_setting qf_set_dims(const char *name, const qf_dim *dims, uint32_t count) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_DIMS);
    setting.as.dims = dims;
    setting.count = count;
    return setting;
}
static inline qf_setting qf_set_ints(const char *name, const int64_t *ints, uint32_t count) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_INTS);
    setting.as.ints = ints;
    setting.count = count;
    return setting;
}
static inline qf_setting qf_set_tensor(const char *name, qf_type type, const void *data, size_t size) {
    qf_setting setting = qf_setting_of(name, QF_ATTRIBUTE_LITERAL);
    setting.as.tensor.type = type;
    setting.as.tensor.data = data;
    setting.as.tensor.size = size;
    return setting;
}

/* An operand by its declared name (docs/ops.md). */
typedef struct qf_named_value {
    const char *name;
    qf_value value; /* 0: absent */
} qf_named_value;

/* A node to be added. Set struct_size to sizeof; all other members may be zero. */
typedef struct qf_node_options {
    size_t struct_size;
    qf_op op;
    /* Operands in declared order, 0 where an optional one is absent; then named ones, for the others. */
    const qf_value *operands;
    uint32_t operand_count;
    const qf_named_value *named_operands;
    uint32_t named_operand_count;
    /* Attributes that differ from their default. */
    const qf_setting *settings;
    uint32_t setting_count;
    /* 0: the required results. More for optional results (lse of attention), or as many as the op shall have (split,
     * opaque). */
    uint32_t result_count;
    const qf_type *result_types;     /* NULL: inferred; needed for parameter and opaque */
    const char *const *result_names; /* NULL, or result_count names, each may be NULL */
    /* Where the node comes from: a file with line and column from 1, or a name with line 0. NULL: unknown. */
    const char *location;
    uint32_t line, column;
    uint64_t tag; /* the host's, kept through rewrites; 0: the library numbers it */
} qf_node_options;

/* Adds a node at the end. Unknown operand or attribute names, values of another kind and operands without a value fail
 * with QF_ERROR_INVALID_ARGUMENT; types that do not fit with QF_ERROR_VERIFY. The other rules of the op are checked by
 * qf_graph_verify. 0 on failure; the graph is unchanged then. */
QF_API qf_node qf_graph_add_node(qf_graph *graph, const qf_node_options *options);

/* Shorter ways for common ops; each gives the node's first result, or 0 on failure. Types and semantics: docs/ops.md.
 */

/* `data`: the elements, row-major, `size` bytes, copied. The dims of `type` are constants. */
QF_API qf_value qf_graph_add_constant(qf_graph *graph, qf_type type, const void *data, size_t size);
/* A constant of shape []; `number` is rounded to dtype (to nearest even; integers truncate). */
QF_API qf_value qf_graph_add_scalar(qf_graph *graph, qf_dtype dtype, double number);
/* A weight by name; its bytes come later, from qf_graph_bind_weight or from whoever runs the plan. */
QF_API qf_value qf_graph_add_parameter(qf_graph *graph, const char *name, qf_type type);
/* Ops with one operand and attributes at their defaults: neg, exp, tanh, relu, copy, ... */
QF_API qf_value qf_graph_add_unary(qf_graph *graph, qf_op op, qf_value x);
/* Ops with two operands and attributes at their defaults: add, mul, less, matmul, ... */
QF_API qf_value qf_graph_add_binary(qf_graph *graph, qf_op op, qf_value a, qf_value b);
QF_API qf_value qf_graph_add_cast(qf_graph *graph, qf_value x, qf_dtype dtype, bool saturate);
QF_API qf_value qf_graph_add_view(qf_graph *graph, qf_value x, const qf_dim *shape, uint32_t rank);
/* `order` has one entry an axis of x: axis i of the result is axis order[i] of x. */
QF_API qf_value qf_graph_add_permute(qf_graph *graph, qf_value x, const int64_t *order, uint32_t rank);
/* Negative axes count from the end where the rank is known. */
QF_API qf_value qf_graph_add_softmax(qf_graph *graph, qf_value x, int64_t axis);
/* Einsum of two operands, e.g. "bhtd,bhsd->bhts". */
QF_API qf_value qf_graph_add_contract(qf_graph *graph, qf_value a, qf_value b, const char *equation);
/* x / scale, rounded to dtype and saturated; one scale ([] or [1]) for the tensor. */
QF_API qf_value qf_graph_add_quantize(qf_graph *graph, qf_value x, qf_value scale, qf_dtype dtype);
/* x * scale, as dtype. */
QF_API qf_value qf_graph_add_dequantize(qf_graph *graph, qf_value x, qf_value scale, qf_dtype dtype);

/* --- reading --- */

/* Nodes in order; 0 at the end. The last one is `return`, whose operands are the outputs. */
QF_API qf_node qf_graph_first_node(const qf_graph *graph);
QF_API qf_node qf_graph_next_node(const qf_graph *graph, qf_node node);
/* How many nodes there are, `return` included. */
QF_API uint32_t qf_graph_node_count(const qf_graph *graph);
QF_API uint32_t qf_graph_input_count(const qf_graph *graph);
/* 0 outside. */
QF_API qf_value qf_graph_input(const qf_graph *graph, uint32_t index);
QF_API uint32_t qf_graph_output_count(const qf_graph *graph);
QF_API qf_value qf_graph_output(const qf_graph *graph, uint32_t index);
/* "" where the output has no name. */
QF_API const char *qf_graph_output_name(const qf_graph *graph, uint32_t index);

/* QF_OP_none for 0, erased nodes and ids that are no node. The functions below give 0, "" or QF_ERROR_INVALID_ARGUMENT
 * for those. */
QF_API qf_op qf_node_get_op(const qf_graph *graph, qf_node node);
QF_API uint32_t qf_node_operand_count(const qf_graph *graph, qf_node node);
/* By position (0: absent or outside), and by declared name. */
QF_API qf_value qf_node_get_operand(const qf_graph *graph, qf_node node, uint32_t index);
QF_API qf_value qf_node_named_operand(const qf_graph *graph, qf_node node, const char *name);
QF_API uint32_t qf_node_result_count(const qf_graph *graph, qf_node node);
QF_API qf_value qf_node_get_result(const qf_graph *graph, qf_node node, uint32_t index);
/* The attribute of this name, defaults filled in. QF_ERROR_NOT_FOUND where the op has none of the name. */
QF_API QF_MUST_USE qf_status qf_node_get_attribute(const qf_graph *graph, qf_node node, const char *name,
                                                   qf_setting *out_setting);
QF_API uint64_t qf_node_tag(const qf_graph *graph, qf_node node);
QF_API void qf_node_set_tag(qf_graph *graph, qf_node node, uint64_t tag);
/* "model.onnx:/layers.0/attn", "graph.qf:12:3", "fused<rule>[...]"; "" where unknown. */
QF_API const char *qf_node_location(const qf_graph *graph, qf_node node);

/* 0 for ids that are no value. */
QF_API qf_type qf_value_get_type(const qf_graph *graph, qf_value value);
/* Without '%'; "" where it has none. */
QF_API const char *qf_value_name(const qf_graph *graph, qf_value value);
/* The node that makes it; 0 for inputs. */
QF_API qf_node qf_value_get_producer(const qf_graph *graph, qf_value value);
/* How many operands read it, outputs included. */
QF_API uint32_t qf_value_use_count(const qf_graph *graph, qf_value value);

/* --- weights --- */

/* Gives the bytes of the parameters of this name (attribute `name`): row-major, `size` of them. They are not copied and
 * must stay valid and unchanged as long as the graph, its clones and the compilation of plans from them. Binding again
 * replaces. QF_ERROR_OUT_OF_MEMORY or QF_ERROR_INVALID_ARGUMENT (no name, or size without data). */
QF_API QF_MUST_USE qf_status qf_graph_bind_weight(qf_graph *graph, const char *name, const void *data, size_t size);
/* The bytes bound to this name; NULL where there are none. *out_size may be NULL. */
QF_API const void *qf_graph_weight(qf_graph *graph, const char *name, size_t *out_size);

#ifdef __cplusplus
}
#endif

#endif
