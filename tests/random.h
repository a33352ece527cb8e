/* Owns: valid graphs from arbitrary bytes: every byte string decodes to a graph that the verifier accepts.
 * Does not own: what is done with them (tests/fuzz/graph_fuzz.c, tests of passes and rules).
 * Next: random_graph(). */
#ifndef QF_TESTS_RANDOM_H
#define QF_TESTS_RANDOM_H

#include "ir/text.h"
#include "ir/verify.h"

#define RANDOM_MAX_NODES 64

typedef struct random_source {
    const uint8_t *data;
    size_t size, at;
} random_source;

typedef struct random_builder {
    qf_graph *graph;
    qf_context *context;
    random_source source;
    qf_value values[4 * RANDOM_MAX_NODES + 8];
    uint32_t value_count;
    bool failed;
} random_builder;

/* The next byte; 0 behind the end. */
static inline uint32_t random_byte(random_builder *builder) {
    random_source *source = &builder->source;
    return source->at < source->size ? source->data[source->at++] : 0;
}

static inline uint32_t random_below(random_builder *builder, uint32_t limit) {
    return limit ? random_byte(builder) % limit : 0;
}

static inline qf_value random_value(random_builder *builder) {
    return builder->values[random_below(builder, builder->value_count)];
}

/* A name of up to 4 arbitrary bytes, often none. */
static inline qf_string random_name(random_builder *builder) {
    char bytes[4];
    uint32_t size = random_below(builder, 8);
    if (size == 0 || size > sizeof bytes) return (qf_string){0};
    for (uint32_t i = 0; i < size; i++) bytes[i] = (char)random_byte(builder);
    return qf_intern(builder->context, (qf_text){bytes, size});
}

static inline qf_location random_location(random_builder *builder) {
    qf_graph *graph = builder->graph;
    qf_string name = random_name(builder);
    if (!name.id) return (qf_location){0};
    qf_text text = qf_string_text(builder->context, name);
    uint32_t kind = random_below(builder, 3);
    qf_location place = qf_location_make(graph, text, kind, kind ? random_byte(builder) : 0);
    if (kind < 2 || graph->location_count < 3) return place;
    const qf_location parts[] = {place, {1 + random_below(builder, graph->location_count - 1)}};
    return qf_location_fuse(graph, name, parts, 2);
}

/* Adds a node whose results join the values; 0 when memory is out. */
static inline qf_node random_node(random_builder *builder, qf_op op, const qf_value *operands, uint32_t operand_count,
                                  const qf_attribute *attributes, uint32_t result_count, const qf_type *types) {
    qf_string names[4] = {{0}};
    for (uint32_t i = 0; i < result_count && i < 4; i++) names[i] = random_name(builder);
    uint32_t tag = random_byte(builder);
    qf_node_spec spec = {.op = op,
                         .operands = operands,
                         .operand_count = operand_count,
                         .attributes = attributes,
                         .result_count = result_count,
                         .result_types = types,
                         .result_names = names,
                         .location = random_location(builder),
                         .tag = tag > 250 ? UINT64_MAX - tag : 0};
    qf_node node = qf_graph_insert(builder->graph, (qf_node){0}, &spec);
    for (uint32_t i = 0; node.id && i < result_count; i++)
        builder->values[builder->value_count++] = qf_node_result(builder->graph, node, i);
    builder->failed = builder->failed || !node.id;
    return node;
}

static inline bool random_is_float(const random_builder *builder, qf_value value) {
    return qf_dtype_is_float(qf_value_dtype(builder->graph, value));
}

static inline qf_dtype random_dtype(random_builder *builder) {
    static const qf_dtype dtypes[] = {QF_F32,        QF_F16, QF_BF16, QF_F8E4M3FN, QF_F8E5M2, QF_F8E4M3FNUZ,
                                      QF_F8E5M2FNUZ, QF_F64, QF_I32,  QF_I64,      QF_I1};
    return dtypes[random_below(builder, QF_COUNT_OF(dtypes))];
}

static inline void random_constant(random_builder *builder) {
    uint8_t bytes[64];
    qf_dim dims[2];
    uint32_t rank = random_below(builder, 3);
    qf_dtype dtype = random_dtype(builder);
    for (uint32_t i = 0; i < rank; i++) dims[i] = qf_dim_constant(builder->context, random_below(builder, 3));
    qf_literal literal = {.type = qf_type_tensor(builder->context, dtype, dims, rank), .data = bytes};
    uint64_t count = 0;
    if (!qf_type_static_count(builder->context, literal.type, &count)) {
        builder->failed = true;
        return;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(dtype == QF_I1 ? random_byte(builder) & 1 : random_byte(builder));
    literal.size = qf_dtype_bytes(dtype, count);
    const qf_attribute attribute = {.literal = &literal};
    (void)random_node(builder, QF_OP_constant, NULL, 0, &attribute, 1, NULL);
}

static inline void random_elementwise(random_builder *builder) {
    static const qf_op unary[] = {QF_OP_exp, QF_OP_tanh, QF_OP_neg, QF_OP_sigmoid, QF_OP_is_nan, QF_OP_copy};
    static const qf_op binary[] = {QF_OP_add, QF_OP_mul, QF_OP_sub, QF_OP_div, QF_OP_less, QF_OP_maximum, QF_OP_equal};
    qf_value x = random_value(builder);
    uint32_t pick = random_below(builder, QF_COUNT_OF(unary) + QF_COUNT_OF(binary));
    if (!random_is_float(builder, x))
        (void)random_node(builder, QF_OP_copy, &x, 1, NULL, 1, NULL);
    else if (pick < QF_COUNT_OF(unary))
        (void)random_node(builder, unary[pick], &x, 1, NULL, 1, NULL);
    else {
        const qf_value operands[] = {x, x};
        (void)random_node(builder, binary[pick - QF_COUNT_OF(unary)], operands, 2, NULL, 1, NULL);
    }
}

static inline void random_cast(random_builder *builder) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_value x = random_value(builder);
    qf_attributes_default(builder->graph, QF_OP_cast, attributes);
    attributes[QF_ATTR(cast, dtype)].integer = random_dtype(builder);
    attributes[QF_ATTR(cast, saturate)].integer = random_below(builder, 2);
    (void)random_node(builder, QF_OP_cast, &x, 1, attributes, 1, NULL);
}

/* Operand 0 as a scalar of the dtype: a constant, so that it is always there. */
static inline qf_value random_scalar(random_builder *builder, qf_dtype dtype) {
    uint64_t bits = (uint64_t)random_byte(builder) << 24 | random_byte(builder);
    const qf_literal literal = {
        .type = qf_type_tensor(builder->context, dtype, NULL, 0), .size = qf_dtype_bits(dtype) / 8, .data = &bits};
    const qf_attribute attribute = {.literal = &literal};
    qf_node node = random_node(builder, QF_OP_constant, NULL, 0, &attribute, 1, NULL);
    return node.id ? qf_node_result(builder->graph, node, 0) : (qf_value){0};
}

static inline void random_quantise(random_builder *builder) {
    static const qf_dtype to[] = {QF_F8E4M3FN, QF_F8E5M2, QF_F8E4M3FNUZ, QF_I8};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_value x = random_value(builder);
    if (qf_dtype_kind_of(qf_value_dtype(builder->graph, x)) != QF_DTYPE_KIND_FLOAT) return;
    const qf_value operands[] = {x, random_scalar(builder, QF_F32)};
    if (builder->failed) return;
    qf_dtype dtype = to[random_below(builder, QF_COUNT_OF(to))];
    qf_attributes_default(builder->graph, QF_OP_quantize, attributes);
    attributes[QF_ATTR(quantize, dtype)].integer = dtype;
    attributes[QF_ATTR(quantize, mode)].integer = random_below(builder, 3);
    attributes[QF_ATTR(quantize, saturate)].integer = dtype == QF_I8 || random_below(builder, 2);
    qf_node node = random_node(builder, QF_OP_quantize, operands, 2, attributes, 1, NULL);
    if (!node.id || random_below(builder, 2)) return;
    const qf_value back[] = {qf_node_result(builder->graph, node, 0), operands[1]};
    qf_attributes_default(builder->graph, QF_OP_dequantize, attributes);
    attributes[QF_ATTR(dequantize, dtype)].integer = random_below(builder, 2) ? QF_F16 : QF_F32;
    (void)random_node(builder, QF_OP_dequantize, back, 2, attributes, 1, NULL);
}

/* permute, view to one axis, softmax or a reduction over some axis. */
static inline void random_by_axis(random_builder *builder) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_value x = random_value(builder);
    uint32_t rank = qf_value_rank(builder->graph, x), pick = random_below(builder, 5);
    if (rank == QF_UNRANKED || rank == 0) return;
    uint32_t axis = random_below(builder, rank);
    int64_t order[QF_MAX_RANK];
    const int64_t axes[] = {axis};
    for (uint32_t i = 0; i < rank; i++) order[i] = (i + axis) % rank;
    qf_op op = pick == 0   ? QF_OP_permute
               : pick == 1 ? QF_OP_view
               : pick == 2 ? QF_OP_softmax
               : pick == 3 ? QF_OP_reduce_max
                           : QF_OP_split;
    if (op == QF_OP_softmax && !random_is_float(builder, x)) op = QF_OP_permute;
    qf_attributes_default(builder->graph, op, attributes);
    qf_dim whole = qf_type_element_count(builder->context, qf_value_type(builder->graph, x));
    qf_dim size = qf_value_dims(builder->graph, x)[axis];
    const qf_dim sizes[] = {qf_dim_constant(builder->context, 0), size};
    if (!whole.id) return;
    if (op == QF_OP_permute) attributes[QF_ATTR(permute, order)] = (qf_attribute){.ints = order, .count = rank};
    if (op == QF_OP_view) attributes[QF_ATTR(view, shape)] = (qf_attribute){.dims = &whole, .count = 1};
    if (op == QF_OP_softmax) attributes[QF_ATTR(softmax, axis)].integer = axis;
    if (op == QF_OP_reduce_max) attributes[QF_ATTR(reduce_max, axes)] = (qf_attribute){.ints = axes, .count = 1};
    if (op == QF_OP_split) {
        attributes[QF_ATTR(split, axis)].integer = axis;
        attributes[QF_ATTR(split, sizes)] = (qf_attribute){.dims = sizes, .count = 2};
    }
    (void)random_node(builder, op, &x, 1, attributes, op == QF_OP_split ? 2 : 1, NULL);
}

/* Attention of the graph's fixed inputs, with whatever may vary. */
static inline void random_attention(random_builder *builder) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_value operands[16] = {builder->graph->inputs[0], builder->graph->inputs[1], builder->graph->inputs[1]};
    uint32_t bits = random_byte(builder);
    qf_attributes_default(builder->graph, QF_OP_attention, attributes);
    attributes[QF_ATTR(attention, scale)].number = (double)random_byte(builder) / 16 - 4;
    attributes[QF_ATTR(attention, causal)].integer = bits & 1;
    attributes[QF_ATTR(attention, align)].integer = bits >> 1 & 1;
    attributes[QF_ATTR(attention, window_left)].integer = (int64_t)random_byte(builder) - 1;
    attributes[QF_ATTR(attention, softcap)].number = bits & 4 ? 30.0 : 0.0;
    attributes[QF_ATTR(attention, empty_row)].integer = bits >> 3 & 1;
    if (bits & 16) {
        operands[QF_IN(attention, k_scale)] = operands[QF_IN(attention, v_scale)] = random_scalar(builder, QF_F32);
        operands[1] = operands[2] = builder->graph->inputs[2];
    }
    if (bits & 32) operands[QF_IN(attention, mask)] = builder->graph->inputs[3];
    if (bits & 64) {
        operands[QF_IN(attention, out_scale)] = random_scalar(builder, QF_F32);
        attributes[QF_ATTR(attention, out)].integer = QF_F8E4M3FN;
        attributes[QF_ATTR(attention, out_mode)].integer = random_below(builder, 3);
        attributes[QF_ATTR(attention, via)].integer = random_below(builder, 2) ? QF_F16 : QF_DTYPE_NONE;
    }
    if (builder->failed) return;
    (void)random_node(builder, QF_OP_attention, operands, 13, attributes, bits & 128 ? 2 : 1, NULL);
}

static inline void random_opaque(random_builder *builder) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_value operands[3] = {random_value(builder), random_value(builder), random_value(builder)};
    qf_type types[2] = {qf_value_type(builder->graph, operands[0]),
                        qf_type_tensor(builder->context, random_dtype(builder), NULL, QF_UNRANKED)};
    uint32_t count = random_below(builder, 3);
    qf_attributes_default(builder->graph, QF_OP_opaque, attributes);
    qf_string name = random_name(builder);
    attributes[QF_ATTR(opaque, name)].string = name.id ? name : qf_intern_c(builder->context, "vendor.op");
    attributes[QF_ATTR(opaque, payload)].string = random_name(builder);
    attributes[QF_ATTR(opaque, pure)].integer = random_below(builder, 2);
    (void)random_node(builder, QF_OP_opaque, operands, random_below(builder, 4), attributes, count, types);
}

/* The graph that the bytes mean; NULL when memory is out. */
static inline qf_graph *random_graph(qf_context *context, const uint8_t *data, size_t size) {
    static const char *const inputs[] = {"f16[2, 4, T, 8]", "f16[2, 2, S, 8]", "f8E4M3FN[2, 2, S, 8]", "i1[T, S]",
                                         "f32[2*T + 1, 6]"};
    static void (*const steps[])(random_builder *) = {random_constant, random_elementwise, random_cast,
                                                      random_quantise, random_by_axis,     random_attention,
                                                      random_opaque};
    random_builder builder = {.context = context, .source = {data, size, 0}};
    if (qf_graph_create(context, "random", &builder.graph) != QF_OK) return NULL;
    for (size_t i = 0; i < QF_COUNT_OF(inputs); i++) {
        qf_text text = qf_text_of(inputs[i]);
        qf_type type = qf_type_parse(context, &text);
        qf_value value = type.id ? qf_graph_add_input_value(builder.graph, random_name(&builder), type) : (qf_value){0};
        builder.failed = builder.failed || !value.id;
        builder.values[builder.value_count++] = value;
    }
    while (!builder.failed && builder.source.at < size && builder.graph->live_node_count < RANDOM_MAX_NODES)
        steps[random_below(&builder, QF_COUNT_OF(steps))](&builder);
    qf_value outputs[] = {random_value(&builder), builder.values[builder.value_count - 1]};
    qf_string names[] = {random_name(&builder), {0}};
    if (!builder.failed && qf_graph_set_outputs(builder.graph, outputs, names, random_below(&builder, 3)))
        return builder.graph;
    qf_graph_destroy(builder.graph);
    return NULL;
}

#endif
