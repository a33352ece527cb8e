/* Owns: building graphs through the public API: inputs, nodes by named operands and settings, short forms.
 * Does not own: reading and text (api.c), insertion itself (graph.c).
 * Next: qfuse/graph.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/convert.h"
#include "ir/graph.h"

static qf_string optional_name(qf_context *context, const char *name) {
    return name && *name ? qf_intern_c(context, name) : (qf_string){0};
}

static bool value_exists(const qf_graph *graph, qf_value value) {
    return value.id && value.id < graph->value_count;
}

qf_value qf_graph_add_input(qf_graph *graph, const char *name, qf_type type) {
    if (!graph || !type.id) return (qf_value){0};
    qf_string string = optional_name(graph->context, name);
    if (name && *name && !string.id) return (qf_value){0};
    return qf_graph_add_input_value(graph, string, type);
}

qf_status qf_graph_finish(qf_graph *graph, const qf_value *outputs, const char *const *names, uint32_t count) {
    qf_context *context = graph->context;
    if (graph->last.id && qf_node_op(graph, graph->last) == QF_OP_return)
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "the graph has its outputs already");
    for (uint32_t i = 0; i < count; i++)
        if (!value_exists(graph, outputs[i]))
            return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL, "output %" PRIu32 " is no value of the graph", i);
    qf_string *strings = qf_allocate(context, (count ? count : 1) * sizeof *strings);
    if (!strings) return QF_ERROR_OUT_OF_MEMORY;
    bool ok = true;
    for (uint32_t i = 0; ok && names && i < count; i++) {
        strings[i] = optional_name(context, names[i]);
        ok = strings[i].id || !names[i] || !*names[i];
    }
    ok = ok && qf_graph_set_outputs(graph, outputs, strings, count);
    qf_release(context, strings, (count ? count : 1) * sizeof *strings);
    return ok ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

qf_status qf_graph_set_symbol(qf_graph *graph, const char *name, int64_t minimum, int64_t maximum, int64_t divisor) {
    qf_context *context = graph->context;
    if (!name || !*name || minimum > maximum || divisor < 1)
        return qf_fail(context, QF_ERROR_INVALID_ARGUMENT, NULL,
                       "a symbol needs a name, minimum <= maximum and a divisor of at least 1");
    qf_dim dim = qf_dim_named(context, qf_text_of(name));
    if (!dim.id) return context->status;
    const qf_symbol_fact fact = {qf_dim_as_symbol(context, dim), minimum, maximum, divisor};
    return qf_graph_add_fact(graph, fact) ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

qf_status qf_graph_assume(qf_graph *graph, qf_dim left, qf_dim right) {
    if (!left.id || !right.id)
        return qf_fail(graph->context, QF_ERROR_INVALID_ARGUMENT, NULL, "an assumed equality needs two dims");
    return qf_graph_add_guard(graph, left, right, (qf_location){0}) ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

/* --- nodes --- */

/* A node on its way in: the spec and the lists that it points to. */
typedef struct node_builder {
    qf_graph *graph;
    const qf_op_info *info;
    qf_position position;
    qf_value *operands;
    uint32_t operand_count, operand_capacity;
    qf_string *names;
    uint32_t name_capacity;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_literal literals[QF_MAX_ATTRIBUTES];
} node_builder;

static bool refuse(node_builder *builder, const char *format, ...) QF_PRINTF(2, 3);
static bool refuse(node_builder *builder, const char *format, ...) {
    char message[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    (void)qf_fail(builder->graph->context, QF_ERROR_INVALID_ARGUMENT, &builder->position, "%s: %s", builder->info->name,
                  message);
    return false;
}

static bool put_operand(node_builder *builder, uint32_t index, qf_value value) {
    if (value.id && !value_exists(builder->graph, value))
        return refuse(builder, "operand %" PRIu32 " is no value of the graph", index);
    if (!QF_GROW(builder->graph->context, builder->operands, builder->operand_capacity, (uint64_t)index + 1))
        return false;
    while (builder->operand_count <= index) builder->operands[builder->operand_count++] = (qf_value){0};
    if (builder->operands[index].id) return refuse(builder, "operand %" PRIu32 " is given twice", index);
    builder->operands[index] = value;
    return true;
}

static bool build_operands(node_builder *builder, const qf_node_options *options) {
    const qf_op_info *info = builder->info;
    bool many = info->operand_count && info->operands[info->operand_count - 1].kind == QF_OPERAND_MANY;
    if (options->operand_count > info->operand_count && !many)
        return refuse(builder, "expected at most %" PRIu32 " operands, found %" PRIu32, info->operand_count,
                      options->operand_count);
    for (uint32_t i = 0; i < options->operand_count; i++)
        if (!put_operand(builder, i, options->operands[i])) return false;
    for (uint32_t i = 0; i < options->named_operand_count; i++) {
        const qf_named_value *named = &options->named_operands[i];
        int32_t index = qf_op_operand_index(info->op, qf_text_of(named->name));
        if (index < 0 || info->operands[index].kind == QF_OPERAND_MANY)
            return refuse(builder, "has no operand named %s", named->name ? named->name : "NULL");
        if (named->value.id && !put_operand(builder, (uint32_t)index, named->value)) return false;
    }
    for (uint32_t i = 0; i < info->operand_count; i++)
        if (info->operands[i].kind == QF_OPERAND_REQUIRED && (i >= builder->operand_count || !builder->operands[i].id))
            return refuse(builder, "operand %s is missing", info->operands[i].name);
    return true;
}

static bool build_enum(node_builder *builder, const qf_attribute_info *info, const qf_setting *setting,
                       qf_attribute *out) {
    out->integer = setting->as.text ? qf_enum_number(info->enumeration, qf_text_of(setting->as.text)) : -1;
    if (out->integer >= 0) return true;
    return refuse(builder, "attribute %s has no value %s", info->name, setting->as.text ? setting->as.text : "NULL");
}

static bool build_literal(node_builder *builder, const qf_attribute_info *info, const qf_setting *setting,
                          qf_literal *storage, qf_attribute *out) {
    const qf_context *context = builder->graph->context;
    uint64_t count;
    qf_dtype dtype = qf_type_dtype(context, setting->as.tensor.type);
    if (!setting->as.tensor.type.id || !qf_type_static_count(context, setting->as.tensor.type, &count) ||
        !qf_dtype_bits(dtype))
        return refuse(builder, "attribute %s: a tensor needs constant dims and an element type with storage",
                      info->name);
    if (qf_dtype_bytes(dtype, count) != setting->as.tensor.size || (!setting->as.tensor.data && count))
        return refuse(builder, "attribute %s: expected %" PRIu64 " bytes, found %zu", info->name,
                      qf_dtype_bytes(dtype, count), setting->as.tensor.size);
    *storage = (qf_literal){setting->as.tensor.type, setting->as.tensor.size, setting->as.tensor.data};
    out->literal = storage;
    return true;
}

static bool build_list(node_builder *builder, const qf_attribute_info *info, const qf_setting *setting,
                       qf_attribute *out) {
    bool dims = info->kind == QF_ATTRIBUTE_DIMS;
    if (setting->count && (dims ? !setting->as.dims : !setting->as.ints))
        return refuse(builder, "attribute %s: a list of %" PRIu32 " entries is NULL", info->name, setting->count);
    out->count = setting->count;
    if (!dims) {
        out->ints = setting->as.ints;
        return true;
    }
    out->dims = setting->as.dims;
    for (uint32_t i = 0; i < setting->count; i++)
        if (!setting->as.dims[i].id) return refuse(builder, "attribute %s: entry %" PRIu32 " is no dim", info->name, i);
    return true;
}

static bool build_attribute(node_builder *builder, uint32_t index, const qf_setting *setting) {
    const qf_attribute_info *info = &builder->info->attributes[index];
    qf_attribute *out = &builder->attributes[index];
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: out->integer = setting->as.truth; return true;
    case QF_ATTRIBUTE_INT: out->integer = setting->as.integer; return true;
    case QF_ATTRIBUTE_FLOAT: out->number = setting->as.number; return true;
    case QF_ATTRIBUTE_DTYPE:
        out->integer = setting->as.dtype;
        return (unsigned)setting->as.dtype < QF_DTYPE_COUNT || refuse(builder, "attribute %s is no dtype", info->name);
    case QF_ATTRIBUTE_ENUM: return build_enum(builder, info, setting, out);
    case QF_ATTRIBUTE_DIM:
        out->dim = setting->as.dim;
        return out->dim.id || refuse(builder, "attribute %s is no dim", info->name);
    case QF_ATTRIBUTE_DIMS:
    case QF_ATTRIBUTE_INTS: return build_list(builder, info, setting, out);
    case QF_ATTRIBUTE_STRING:
        out->string = qf_intern_c(builder->graph->context, setting->as.text);
        return out->string.id != 0;
    case QF_ATTRIBUTE_LITERAL: return build_literal(builder, info, setting, &builder->literals[index], out);
    }
    return false;
}

static bool build_attributes(node_builder *builder, const qf_node_options *options) {
    const qf_op_info *info = builder->info;
    bool given[QF_MAX_ATTRIBUTES] = {false};
    qf_attributes_default(builder->graph, info->op, builder->attributes);
    for (uint32_t i = 0; i < options->setting_count; i++) {
        const qf_setting *setting = &options->settings[i];
        int32_t index = qf_op_attribute_index(info->op, qf_text_of(setting->name));
        if (index < 0) return refuse(builder, "has no attribute named %s", setting->name ? setting->name : "NULL");
        if (info->attributes[index].kind != setting->kind)
            return refuse(builder, "attribute %s is of another kind than its setting", setting->name);
        if (given[index]) return refuse(builder, "attribute %s is given twice", setting->name);
        given[index] = true;
        if (!build_attribute(builder, (uint32_t)index, setting)) return false;
    }
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!given[i] && !info->attributes[i].default_text)
            return refuse(builder, "needs the attribute %s", info->attributes[i].name);
    return true;
}

static bool build_results(node_builder *builder, const qf_node_options *options) {
    qf_context *context = builder->graph->context;
    const qf_op_info *info = builder->info;
    uint32_t required = 0, most = info->result_count, count = options->result_count;
    for (uint32_t i = 0; i < info->result_count; i++) {
        required += info->results[i].kind == QF_RESULT_REQUIRED;
        if (info->results[i].kind == QF_RESULT_SEVERAL) most = UINT32_MAX;
    }
    if (!count) count = required;
    if (count < required || count > most)
        return refuse(builder, "expected at least %" PRIu32 " results, at most %" PRIu32 ", found %" PRIu32, required,
                      most, count);
    if (!QF_GROW(context, builder->names, builder->name_capacity, (uint64_t)count + 1)) return false;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = options->result_names ? options->result_names[i] : NULL;
        builder->names[i] = optional_name(context, name);
        if (name && *name && !builder->names[i].id) return false;
        if (options->result_types && !options->result_types[i].id)
            return refuse(builder, "the type of result %" PRIu32 " is none", i);
    }
    if (!options->result_types && (info->op == QF_OP_parameter || (info->op == QF_OP_opaque && count)))
        return refuse(builder, "needs its result types");
    return true;
}

/* The library's own copy, with members that the caller's struct may lack at zero. */
static bool read_options(const qf_node_options *options, qf_node_options *out) {
    memset(out, 0, sizeof *out);
    if (!options || options->struct_size < offsetof(qf_node_options, operands)) return false;
    memcpy(out, options, options->struct_size < sizeof *out ? options->struct_size : sizeof *out);
    return true;
}

static qf_node insert(node_builder *builder, const qf_node_options *options) {
    qf_graph *graph = builder->graph;
    qf_node_spec spec = {.op = options->op,
                         .operands = builder->operands,
                         .operand_count = builder->operand_count,
                         .attributes = builder->attributes,
                         .result_count = options->result_count,
                         .result_types = options->result_types,
                         .result_names = builder->names,
                         .tag = options->tag};
    if (options->location) {
        spec.location =
            qf_location_make(graph, qf_text_of(options->location), options->line, options->line ? options->column : 0);
        if (!spec.location.id) return (qf_node){0};
    }
    return qf_graph_insert(graph, (qf_node){0}, &spec);
}

qf_node qf_graph_add_node(qf_graph *graph, const qf_node_options *options) {
    qf_node_options given;
    if (!graph) return (qf_node){0};
    node_builder builder = {.graph = graph};
    if (!read_options(options, &given) || !(builder.info = qf_op_info_of(given.op)) || given.op == QF_OP_return) {
        (void)qf_fail(graph->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                      "a node needs struct_size and an op other than return (qf_graph_finish)");
        return (qf_node){0};
    }
    builder.position.location = given.location;
    qf_node node = {0};
    if (build_operands(&builder, &given) && build_attributes(&builder, &given) && build_results(&builder, &given))
        node = insert(&builder, &given);
    QF_FREE_ITEMS(graph->context, builder.operands, builder.operand_capacity);
    QF_FREE_ITEMS(graph->context, builder.names, builder.name_capacity);
    return node;
}

/* --- short forms --- */

static qf_value add(qf_graph *graph, qf_op op, const qf_value *operands, uint32_t operand_count,
                    const qf_setting *settings, uint32_t setting_count) {
    for (uint32_t i = 0; i < operand_count; i++)
        if (!operands[i].id) return (qf_value){0};
    const qf_node_options options = {.struct_size = sizeof options,
                                     .op = op,
                                     .operands = operands,
                                     .operand_count = operand_count,
                                     .settings = settings,
                                     .setting_count = setting_count};
    qf_node node = qf_graph_add_node(graph, &options);
    return node.id ? qf_node_result(graph, node, 0) : (qf_value){0};
}

qf_value qf_graph_add_constant(qf_graph *graph, qf_type type, const void *data, size_t size) {
    if (!type.id) return (qf_value){0};
    const qf_setting value = qf_set_tensor("value", type, data, size);
    return add(graph, QF_OP_constant, NULL, 0, &value, 1);
}

qf_value qf_graph_add_scalar(qf_graph *graph, qf_dtype dtype, double number) {
    uint64_t storage = 0;
    if (!graph) return (qf_value){0};
    if (!qf_dtype_bits(dtype)) {
        (void)qf_fail(graph->context, QF_ERROR_INVALID_ARGUMENT, NULL, "a scalar needs an element type with storage");
        return (qf_value){0};
    }
    qf_store_f64(dtype, &storage, 0, number, false);
    return qf_graph_add_constant(graph, qf_type_tensor(graph->context, dtype, NULL, 0), &storage,
                                 (size_t)qf_dtype_bytes(dtype, 1));
}

qf_value qf_graph_add_parameter(qf_graph *graph, const char *name, qf_type type) {
    if (!type.id) return (qf_value){0};
    const qf_setting setting = qf_set_string("name", name);
    const qf_node_options options = {.struct_size = sizeof options,
                                     .op = QF_OP_parameter,
                                     .settings = &setting,
                                     .setting_count = 1,
                                     .result_count = 1,
                                     .result_types = &type};
    qf_node node = qf_graph_add_node(graph, &options);
    return node.id ? qf_node_result(graph, node, 0) : (qf_value){0};
}

qf_value qf_graph_add_unary(qf_graph *graph, qf_op op, qf_value x) {
    return add(graph, op, &x, 1, NULL, 0);
}

qf_value qf_graph_add_binary(qf_graph *graph, qf_op op, qf_value a, qf_value b) {
    const qf_value operands[] = {a, b};
    return add(graph, op, operands, 2, NULL, 0);
}

qf_value qf_graph_add_cast(qf_graph *graph, qf_value x, qf_dtype dtype, bool saturate) {
    const qf_setting settings[] = {qf_set_dtype("dtype", dtype), qf_set_bool("saturate", saturate)};
    return add(graph, QF_OP_cast, &x, 1, settings, 2);
}

qf_value qf_graph_add_view(qf_graph *graph, qf_value x, const qf_dim *shape, uint32_t rank) {
    const qf_setting setting = qf_set_dims("shape", shape, rank);
    return add(graph, QF_OP_view, &x, 1, &setting, 1);
}

qf_value qf_graph_add_permute(qf_graph *graph, qf_value x, const int64_t *order, uint32_t rank) {
    const qf_setting setting = qf_set_ints("order", order, rank);
    return add(graph, QF_OP_permute, &x, 1, &setting, 1);
}

qf_value qf_graph_add_softmax(qf_graph *graph, qf_value x, int64_t axis) {
    if (!graph || !value_exists(graph, x)) return (qf_value){0};
    uint32_t rank = qf_value_rank(graph, x);
    if (axis < 0 && rank != QF_UNRANKED) axis += (int64_t)rank;
    const qf_setting setting = qf_set_int("axis", axis);
    return add(graph, QF_OP_softmax, &x, 1, &setting, 1);
}

qf_value qf_graph_add_contract(qf_graph *graph, qf_value a, qf_value b, const char *equation) {
    const qf_value operands[] = {a, b};
    const qf_setting setting = qf_set_string("equation", equation);
    return add(graph, QF_OP_contract, operands, 2, &setting, 1);
}

qf_value qf_graph_add_quantize(qf_graph *graph, qf_value x, qf_value scale, qf_dtype dtype) {
    const qf_value operands[] = {x, scale};
    const qf_setting setting = qf_set_dtype("dtype", dtype);
    return add(graph, QF_OP_quantize, operands, 2, &setting, 1);
}

qf_value qf_graph_add_dequantize(qf_graph *graph, qf_value x, qf_value scale, qf_dtype dtype) {
    const qf_value operands[] = {x, scale};
    const qf_setting setting = qf_set_dtype("dtype", dtype);
    return add(graph, QF_OP_dequantize, operands, 2, &setting, 1);
}
