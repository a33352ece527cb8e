/* Owns: building a rule's left side from a `test` clause.
 * Does not own: filling inputs and comparing results (instance_data.c).
 * Next: instance.h. */
#include "patterns/instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"
#include "ir/verify.h"
#include "patterns/instance_random.h"

#define MAX_SYMBOLS 16
#define MAX_LISTS   16
#define MAX_LIST    8

/* What is built so far. */
typedef struct builder {
    qf_rule_instance *to;
    qf_context *context;
    qf_rule *rule;
    qf_graph *graph;
    qf_value values[QF_RULE_MAX_VALUES];
    qf_attribute variables[QF_RULE_MAX_VARIABLES];
    bool variable_set[QF_RULE_MAX_VARIABLES];
    qf_dim_symbol symbols[MAX_SYMBOLS];
    int64_t extents[MAX_SYMBOLS];
    uint32_t symbol_count;
    int64_t lists[MAX_LISTS][MAX_LIST];
    qf_dim dims[MAX_LISTS][MAX_LIST];
    uint32_t list_count;
    bool failed;
} builder;

/* Reports the first fault; everything behind it is skipped. */
static void fault(builder *it, const char *format, const char *name) {
    if (it->failed) return;
    it->failed = true;
    char location[512], message[256];
    (void)snprintf(location, sizeof location, "%s:%u", qf_string_c(it->context, it->rule->file), it->rule->line);
    (void)snprintf(message, sizeof message, format, name);
    qf_position position = {.location = location};
    (void)qf_fail(it->context, QF_ERROR_VERIFY, &position, "rule %s, test clause %u: %s",
                  qf_string_c(it->context, it->rule->name), it->to->test + 1, message);
}

static const char *sample_of(builder *it, bool is_value, const char *name) {
    for (uint32_t i = 0; i < it->rule->sample_count; i++) {
        const qf_rule_sample *sample = &it->rule->samples[i];
        if (sample->test != it->to->test || sample->is_value != is_value) continue;
        if (strcmp(qf_string_c(it->context, sample->name), name) != 0) continue;
        return qf_string_c(it->context,
                           sample->alternatives[qf_random_below(&it->to->random, sample->alternative_count)]);
    }
    return NULL;
}

static const char *member_sample(builder *it, bool is_value, const qf_rule_node *node, const char *member) {
    char name[128];
    const char *text = NULL;
    for (uint32_t r = 0; r < node->result_count && !text; r++) {
        (void)snprintf(name, sizeof name, "%s.%s", qf_string_c(it->context, it->rule->values[node->results[r]].name),
                       member);
        text = sample_of(it, is_value, name);
    }
    return text;
}

static bool extent_of(void *user, qf_dim_symbol symbol, int64_t *out) {
    builder *it = user;
    for (uint32_t i = 0; i < it->symbol_count; i++)
        if (it->symbols[i].id == symbol.id) {
            *out = it->extents[i];
            return true;
        }
    if (it->symbol_count == MAX_SYMBOLS) return false;
    it->symbols[it->symbol_count] = symbol;
    *out = it->extents[it->symbol_count++] = 1 + qf_random_below(&it->to->random, 6);
    return true;
}

static qf_value insert(builder *it, const qf_node_spec *spec) {
    if (it->failed) return (qf_value){0};
    qf_node node = qf_graph_insert(it->graph, (qf_node){0}, spec);
    if (!node.id) fault(it, "%s cannot be built", qf_op_info_of(spec->op)->name);
    return node.id ? qf_node_result(it->graph, node, 0) : (qf_value){0};
}

static qf_value constant(builder *it, qf_dtype dtype, double number) {
    unsigned char bytes[8] = {0};
    qf_literal literal = {qf_type_tensor(it->context, dtype, NULL, 0), qf_dtype_bytes(dtype, 1), bytes};
    qf_store_f64(dtype, bytes, 0, number, true);
    qf_attribute attribute = {.literal = &literal};
    return insert(it, &(qf_node_spec){.op = QF_OP_constant, .attributes = &attribute, .result_types = &literal.type});
}

static qf_value named_value(builder *it, uint32_t index);

static qf_value square_of(builder *it, const char *name) {
    for (uint32_t v = 0; v < it->rule->value_count; v++) {
        if (strcmp(qf_string_c(it->context, it->rule->values[v].name), name) != 0) continue;
        qf_value x[2] = {named_value(it, v), named_value(it, v)};
        return insert(it, &(qf_node_spec){.op = QF_OP_mul, .operands = x, .operand_count = 2});
    }
    fault(it, "no value is called %s", name);
    return (qf_value){0};
}

/* "f32[A, 8]", "i32[3] below 5", "f32[2] positive": scales, "f32 0.125": a constant, "square x": x * x. */
static qf_value input(builder *it, const char *text) {
    qf_text rest = qf_text_of(text);
    if (strncmp(text, "square ", 7) == 0) return square_of(it, text + 7);
    if (!strchr(text, '[')) {
        char name[32];
        double number;
        if (sscanf(text, "%31s %lf", name, &number) != 2 || !qf_dtype_from_name(name)) {
            fault(it, "expected a type such as f32[A, 8], or a constant such as f32 0.5, found \"%s\"", text);
            return (qf_value){0};
        }
        return constant(it, qf_dtype_from_name(name), number);
    }
    qf_type type = qf_type_parse(it->context, &rest);
    uint32_t rank = type.id ? qf_type_rank(it->context, type) : QF_UNRANKED;
    qf_dim dims[QF_MAX_RANK];
    if (rank == QF_UNRANKED) {
        fault(it, "expected a type such as f32[A, 8], found \"%s\"", text);
        return (qf_value){0};
    }
    for (uint32_t i = 0; i < rank; i++) {
        int64_t extent = 1;
        if (!qf_dim_evaluate(it->context, qf_type_dims(it->context, type)[i], extent_of, it, &extent))
            fault(it, "a size in \"%s\" cannot be drawn", text);
        dims[i] = qf_dim_constant(it->context, extent);
    }
    int64_t below = 4;
    const char *limit = strstr(text, "below");
    if (limit) below = strtoll(limit + 5, NULL, 10);
    if (strstr(text, "positive")) below = 0;
    qf_value value = qf_graph_add_input_value(
        it->graph, (qf_string){0}, qf_type_tensor(it->context, qf_type_dtype(it->context, type), dims, rank));
    if (value.id < QF_COUNT_OF(it->to->limits)) it->to->limits[value.id] = below;
    if (!value.id) it->failed = true;
    return value;
}

static qf_attribute attribute_of(builder *it, const qf_attribute_info *info, const char *text) {
    qf_attribute out = {0};
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: out.integer = strcmp(text, "true") == 0; break;
    case QF_ATTRIBUTE_INT: out.integer = strtoll(text, NULL, 10); break;
    case QF_ATTRIBUTE_FLOAT: out.number = strtod(text, NULL); break;
    case QF_ATTRIBUTE_DTYPE: out.integer = qf_dtype_from_name(text); break;
    case QF_ATTRIBUTE_ENUM: out.integer = qf_enum_number(info->enumeration, qf_text_of(text)); break;
    case QF_ATTRIBUTE_INTS:
    case QF_ATTRIBUTE_DIMS: {
        uint32_t list = it->list_count++ % QF_COUNT_OF(it->lists);
        for (const char *at = text + 1; *at && *at != ']' && out.count < MAX_LIST; out.count++) {
            char *end;
            it->lists[list][out.count] = strtoll(at, &end, 10);
            it->dims[list][out.count] = qf_dim_constant(it->context, it->lists[list][out.count]);
            if (end == at) fault(it, "expected a list such as [4, 4], found \"%s\"", text);
            if (end == at) break;
            for (at = end; *at == ',' || *at == ' ';) at++;
        }
        if (info->kind == QF_ATTRIBUTE_INTS)
            out.ints = it->lists[list];
        else
            out.dims = it->dims[list];
        break;
    }
    default: fault(it, "attribute %s has no form in test clauses", info->name);
    }
    return out;
}

static void variable(builder *it, uint32_t index, const qf_attribute_info *info) {
    if (it->variable_set[index]) return;
    const char *name = qf_string_c(it->context, it->rule->variables[index].name);
    const char *text = sample_of(it, false, name);
    if (!text) {
        fault(it, "nothing says what $%s is", name);
        return;
    }
    static const qf_attribute_info number = {.kind = QF_ATTRIBUTE_FLOAT, .name = "constant"};
    it->variables[index] = attribute_of(it, info ? info : &number, text);
    it->variable_set[index] = true;
}

/* --- layout chains --- */

static qf_value unary(builder *it, qf_op op, qf_value x, const qf_attribute *attributes) {
    return insert(it, &(qf_node_spec){.op = op, .operands = &x, .operand_count = 1, .attributes = attributes});
}

static qf_value view_as(builder *it, qf_value x, const qf_dim *dims, uint32_t rank) {
    qf_attribute shape = {.dims = dims, .count = rank};
    return unary(it, QF_OP_view, x, &shape);
}

static qf_value permuted(builder *it, qf_value x, const int64_t *order) {
    qf_attribute attribute = {.ints = order, .count = qf_value_rank(it->graph, x)};
    return unary(it, QF_OP_permute, x, &attribute);
}

static void random_order(builder *it, uint32_t rank, int64_t *order, int64_t *inverse) {
    for (uint32_t i = 0; i < rank; i++) order[i] = i;
    for (uint32_t i = rank; i > 1; i--) {
        uint32_t j = qf_random_below(&it->to->random, i);
        int64_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
    for (uint32_t i = 0; i < rank; i++) inverse[order[i]] = i;
}

/* Ends in the shape it starts with. */
static qf_value round_trip(builder *it, qf_value x, uint32_t depth) {
    if (it->failed || !x.id) return x;
    int64_t order[QF_MAX_RANK], inverse[QF_MAX_RANK];
    qf_dim dims[QF_MAX_RANK], flat;
    uint32_t rank = qf_value_rank(it->graph, x);
    memcpy(dims, qf_value_dims(it->graph, x), rank * sizeof *dims);
    switch (depth ? qf_random_below(&it->to->random, 4) : 0) {
    case 1: return round_trip(it, unary(it, QF_OP_copy, x, NULL), depth - 1);
    case 2:
        random_order(it, rank, order, inverse);
        return permuted(it, round_trip(it, permuted(it, x, order), depth - 1), inverse);
    case 3:
        flat = qf_type_element_count(it->context, qf_value_type(it->graph, x));
        return view_as(it, round_trip(it, view_as(it, x, &flat, 1), depth - 1), dims, rank);
    default: return x;
    }
}

/* Any shape. */
static qf_value wander(builder *it, qf_value x) {
    for (uint32_t length = qf_random_below(&it->to->random, 4); length > 0 && x.id; length--) {
        int64_t order[QF_MAX_RANK], inverse[QF_MAX_RANK], steps[QF_MAX_RANK];
        qf_dim dims[QF_MAX_RANK + 1], starts[QF_MAX_RANK];
        uint32_t rank = qf_value_rank(it->graph, x);
        memcpy(dims + 1, qf_value_dims(it->graph, x), rank * sizeof *dims);
        switch (qf_random_below(&it->to->random, 4)) {
        case 0:
            random_order(it, rank, order, inverse);
            x = permuted(it, x, order);
            break;
        case 1:
            if (rank < 2) break;
            dims[2] = qf_dim_multiply(it->context, dims[1], dims[2]);
            x = view_as(it, x, dims + 2, rank - 1);
            break;
        case 2:
            dims[0] = qf_dim_constant(it->context, 2);
            if (rank < QF_MAX_RANK) x = unary(it, QF_OP_expand, x, &(qf_attribute){.dims = dims, .count = rank + 1});
            break;
        default:
            for (uint32_t i = 0; i < rank; i++) {
                starts[i] = qf_dim_constant(it->context, 0);
                steps[i] = 1;
                int64_t extent = 1;
                (void)qf_dim_is_constant(it->context, dims[i + 1], &extent);
                if (extent > 1) starts[i] = qf_dim_constant(it->context, qf_random_below(&it->to->random, 2));
            }
            qf_attribute attributes[3] = {
                {.dims = starts, .count = rank}, {.dims = dims + 1, .count = rank}, {.ints = steps, .count = rank}};
            x = unary(it, QF_OP_slice, x, attributes);
            break;
        }
    }
    return x;
}

/* --- the left side --- */

static qf_value named_value(builder *it, uint32_t index) {
    if (it->values[index].id) return it->values[index];
    const qf_rule_value *value = &it->rule->values[index];
    const char *name = qf_string_c(it->context, value->name), *text = sample_of(it, true, name);
    if (!text && value->optional) return (qf_value){0};
    if (!text) fault(it, "nothing says what %%%s is", name);
    return it->values[index] = text ? input(it, text) : (qf_value){0};
}

static qf_value operand(builder *it, const qf_rule_node *node, uint32_t index, qf_dtype dtype) {
    const qf_operand_pattern *pattern = &node->operands[index];
    switch (pattern->kind) {
    case QF_PATTERN_VALUE: {
        qf_value value = named_value(it, pattern->value);
        if (pattern->chain == QF_NO_INDEX) return value;
        return it->rule->chains[pattern->chain].crosses_producer ? round_trip(it, value, 3) : wander(it, value);
    }
    case QF_PATTERN_UNIFORM:
        variable(it, pattern->variable, NULL);
        return constant(it, dtype, it->variables[pattern->variable].number);
    case QF_PATTERN_NUMBER: return constant(it, dtype, pattern->number);
    case QF_PATTERN_REST: {
        const char *text = member_sample(it, true, node, node->info->operands[index].name);
        return text ? input(it, text) : (qf_value){0};
    }
    default: return (qf_value){0};
    }
}

/* Constants beside a tensor have its dtype, wherever they stand; beside a condition and a tensor, the tensor's. */
static qf_dtype operand_dtype(builder *it, const qf_rule_node *node) {
    qf_dtype dtype = QF_DTYPE_NONE;
    for (uint32_t i = 0; i < node->operand_count; i++) {
        qf_value value = {0};
        if (node->operands[i].kind == QF_PATTERN_VALUE) value = named_value(it, node->operands[i].value);
        if (value.id && (dtype == QF_DTYPE_NONE || dtype == QF_I1)) dtype = qf_value_dtype(it->graph, value);
    }
    return dtype == QF_DTYPE_NONE ? QF_F32 : dtype;
}

static void build_node(builder *it, const qf_rule_node *node) {
    qf_value operands[24];
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_dtype dtype = operand_dtype(it, node);
    for (uint32_t i = 0; i < node->operand_count; i++) operands[i] = operand(it, node, i, dtype);
    if (node->info->traits & QF_TRAIT_COMMUTATIVE && qf_random_below(&it->to->random, 2)) {
        qf_value swap = operands[0];
        operands[0] = operands[1];
        operands[1] = swap;
    }
    qf_attributes_default(it->graph, node->op, attributes);
    for (uint32_t i = 0; i < node->info->attribute_count; i++) {
        const qf_attribute_pattern *pattern = &node->attributes[i];
        const qf_attribute_info *info = &node->info->attributes[i];
        if (pattern->kind == QF_PATTERN_LITERAL) attributes[i] = pattern->literal;
        if (pattern->kind == QF_PATTERN_VARIABLE) {
            variable(it, pattern->variable, info);
            attributes[i] = it->variables[pattern->variable];
        }
        if (pattern->kind != QF_PATTERN_ANY && pattern->kind != QF_PATTERN_REST_ATTRIBUTE) continue;
        const char *text = member_sample(it, false, node, info->name);
        if (text) attributes[i] = attribute_of(it, info, text);
    }
    qf_node_spec spec = {
        .op = node->op, .operands = operands, .operand_count = node->operand_count, .attributes = attributes};
    for (uint32_t i = 0; i < node->result_count; i++)
        if (!node->result_optional[i] || qf_random_below(&it->to->random, 2)) spec.result_count = i + 1;
    if (!insert(it, &spec).id) return;
    qf_node made = it->graph->last;
    for (uint32_t i = 0; i < spec.result_count; i++) it->values[node->results[i]] = qf_node_result(it->graph, made, i);
}

static bool build(builder *it) {
    qf_value outputs[QF_RULE_MAX_VALUES];
    uint32_t count = 0;
    for (uint32_t n = 0; n < it->rule->before_count && !it->failed; n++) build_node(it, &it->rule->before[n]);
    for (uint32_t v = 0; v < it->rule->value_count; v++)
        if (it->rule->values[v].before != QF_NO_INDEX && it->rule->values[v].after != QF_NO_INDEX && it->values[v].id)
            outputs[count++] = it->values[v];
    return !it->failed && qf_graph_set_outputs(it->graph, outputs, NULL, count) && qf_graph_verify(it->graph) == QF_OK;
}

static qf_dtype coarsest_of(const qf_graph *graph) {
    qf_dtype found = QF_F32;
    for (uint32_t v = 1; v < graph->value_count; v++) {
        qf_dtype dtype = qf_value_dtype(graph, (qf_value){v});
        if (dtype == QF_BF16 || (dtype == QF_F16 && found == QF_F32)) found = dtype;
    }
    return found;
}

qf_status qf_rule_instance_make(qf_context *context, qf_rule *rule, uint32_t test, uint64_t seed,
                                qf_rule_instance *out) {
    *out = (qf_rule_instance){.rule = rule, .test = test, .random = seed * 0x9E3779B97F4A7C15u + 1};
    qf_status status = qf_graph_create(context, "left", &out->graph);
    builder *it = status == QF_OK ? qf_allocate(context, sizeof *it) : NULL;
    if (!it) return QF_ERROR_OUT_OF_MEMORY;
    *it = (builder){.to = out, .context = context, .rule = rule, .graph = out->graph};
    bool built = build(it);
    qf_release(context, it, sizeof *it);
    if (built) out->coarsest = coarsest_of(out->graph);
    if (built) return QF_OK;
    status = qf_context_status(context);
    return status != QF_OK ? status : qf_record(context, QF_ERROR_VERIFY);
}

void qf_rule_instance_destroy(qf_rule_instance *instance) {
    qf_graph_destroy(instance->graph);
    instance->graph = NULL;
}
