/* Owns: the automatic test of every rule: its left side on random shapes and layouts, run before and after on the CPU.
 * Label: rules
 * Does not own: evaluation (evaluating.h), the samples (`test` clauses of patterns/rules/). */
#include "tests/patterns/evaluating.h"
#include "tests/patterns/rewriting.h"

#define TRIALS 12

/* One graph made from a rule's left side. */
typedef struct instance {
    qf_context *context;
    qf_rule *rule;
    uint32_t test;
    uint64_t random;
    qf_graph *graph;
    qf_value values[QF_RULE_MAX_VALUES];
    qf_attribute variables[QF_RULE_MAX_VARIABLES];
    bool variable_set[QF_RULE_MAX_VARIABLES];
    int64_t limits[256]; /* by graph input: integers are below */
    qf_dim_symbol symbols[16];
    int64_t extents[16];
    uint32_t symbol_count;
    int64_t lists[32][8];
    qf_dim dims[32][8];
    uint32_t list_count;
} instance;

static const char *sample_of(instance *it, bool is_value, const char *name) {
    for (uint32_t i = 0; i < it->rule->sample_count; i++) {
        const qf_rule_sample *sample = &it->rule->samples[i];
        if (sample->test != it->test || sample->is_value != is_value) continue;
        if (strcmp(qf_string_c(it->context, sample->name), name) != 0) continue;
        return qf_string_c(it->context, sample->alternatives[random_below(&it->random, sample->alternative_count)]);
    }
    return NULL;
}

static const char *member_sample(instance *it, bool is_value, const qf_rule_node *node, const char *member) {
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
    instance *it = user;
    for (uint32_t i = 0; i < it->symbol_count; i++)
        if (it->symbols[i].id == symbol.id) {
            *out = it->extents[i];
            return true;
        }
    assert_true(it->symbol_count < QF_COUNT_OF(it->symbols));
    it->symbols[it->symbol_count] = symbol;
    *out = it->extents[it->symbol_count++] = 1 + random_below(&it->random, 6);
    return true;
}

static qf_value insert(instance *it, const qf_node_spec *spec) {
    qf_node node = qf_graph_insert(it->graph, (qf_node){0}, spec);
    if (!node.id) fail_msg("%s: the left side cannot be built", qf_string_c(it->context, it->rule->name));
    return qf_node_result(it->graph, node, 0);
}

static qf_value constant(instance *it, qf_dtype dtype, double number) {
    unsigned char bytes[8] = {0};
    qf_literal literal = {qf_type_tensor(it->context, dtype, NULL, 0), qf_dtype_bytes(dtype, 1), bytes};
    qf_store_f64(dtype, bytes, 0, number, true);
    qf_attribute attribute = {.literal = &literal};
    return insert(it, &(qf_node_spec){.op = QF_OP_constant, .attributes = &attribute, .result_types = &literal.type});
}

static qf_value named_value(instance *it, uint32_t index);

static qf_value square_of(instance *it, const char *name) {
    for (uint32_t v = 0; v < it->rule->value_count; v++) {
        if (strcmp(qf_string_c(it->context, it->rule->values[v].name), name) != 0) continue;
        qf_value x[2] = {named_value(it, v), named_value(it, v)};
        return insert(it, &(qf_node_spec){.op = QF_OP_mul, .operands = x, .operand_count = 2});
    }
    fail_msg("no value %s", name);
    return (qf_value){0};
}

/* "f32[A, 8]", "i32[3] below 5", "f32[2] positive": scales, "f32 0.125": a constant, "square x": x * x. */
static qf_value input(instance *it, const char *text) {
    qf_text rest = qf_text_of(text);
    if (strncmp(text, "square ", 7) == 0) return square_of(it, text + 7);
    if (!strchr(text, '[')) {
        char name[32];
        double number;
        assert_int_equal(sscanf(text, "%31s %lf", name, &number), 2);
        return constant(it, qf_dtype_from_name(name), number);
    }
    qf_type type = qf_type_parse(it->context, &rest);
    if (!type.id) fail_msg("no type: %s", text);
    qf_dim dims[QF_MAX_RANK];
    uint32_t rank = qf_type_rank(it->context, type);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t extent;
        assert_true(qf_dim_evaluate(it->context, qf_type_dims(it->context, type)[i], extent_of, it, &extent));
        dims[i] = qf_dim_constant(it->context, extent);
    }
    int64_t below = 4;
    const char *limit = strstr(text, "below");
    if (limit) below = strtoll(limit + 5, NULL, 10);
    if (strstr(text, "positive")) below = 0;
    qf_value value = qf_graph_add_input_value(
        it->graph, (qf_string){0}, qf_type_tensor(it->context, qf_type_dtype(it->context, type), dims, rank));
    it->limits[value.id] = below;
    return value;
}

static qf_attribute attribute_of(instance *it, const qf_attribute_info *info, const char *text) {
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
        for (const char *at = text + 1; *at && *at != ']'; out.count++) {
            char *end;
            it->lists[list][out.count] = strtoll(at, &end, 10);
            it->dims[list][out.count] = qf_dim_constant(it->context, it->lists[list][out.count]);
            assert_ptr_not_equal(end, at);
            for (at = end; *at == ',' || *at == ' ';) at++;
        }
        if (info->kind == QF_ATTRIBUTE_INTS)
            out.ints = it->lists[list];
        else
            out.dims = it->dims[list];
        break;
    }
    default: fail_msg("no sample form for attribute %s", info->name);
    }
    return out;
}

static void variable(instance *it, uint32_t index, const qf_attribute_info *info) {
    if (it->variable_set[index]) return;
    const char *name = qf_string_c(it->context, it->rule->variables[index].name);
    const char *text = sample_of(it, false, name);
    if (!text) fail_msg("%s: test clause %u lacks $%s", qf_string_c(it->context, it->rule->name), it->test, name);
    static const qf_attribute_info number = {.kind = QF_ATTRIBUTE_FLOAT, .name = "constant"};
    it->variables[index] = attribute_of(it, info ? info : &number, text);
    it->variable_set[index] = true;
}

/* --- layout chains --- */

static qf_value unary(instance *it, qf_op op, qf_value x, const qf_attribute *attributes) {
    return insert(it, &(qf_node_spec){.op = op, .operands = &x, .operand_count = 1, .attributes = attributes});
}

static qf_value view_as(instance *it, qf_value x, const qf_dim *dims, uint32_t rank) {
    qf_attribute shape = {.dims = dims, .count = rank};
    return unary(it, QF_OP_view, x, &shape);
}

static qf_value permuted(instance *it, qf_value x, const int64_t *order) {
    qf_attribute attribute = {.ints = order, .count = qf_value_rank(it->graph, x)};
    return unary(it, QF_OP_permute, x, &attribute);
}

static void random_order(instance *it, uint32_t rank, int64_t *order, int64_t *inverse) {
    for (uint32_t i = 0; i < rank; i++) order[i] = i;
    for (uint32_t i = rank; i > 1; i--) {
        uint32_t j = random_below(&it->random, i);
        int64_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
    for (uint32_t i = 0; i < rank; i++) inverse[order[i]] = i;
}

/* Ends in the shape it starts with. */
static qf_value round_trip(instance *it, qf_value x, uint32_t depth) {
    int64_t order[QF_MAX_RANK], inverse[QF_MAX_RANK];
    qf_dim dims[QF_MAX_RANK], flat;
    uint32_t rank = qf_value_rank(it->graph, x);
    memcpy(dims, qf_value_dims(it->graph, x), rank * sizeof *dims);
    switch (depth ? random_below(&it->random, 4) : 0) {
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
static qf_value wander(instance *it, qf_value x) {
    for (uint32_t length = random_below(&it->random, 4); length > 0; length--) {
        int64_t order[QF_MAX_RANK], inverse[QF_MAX_RANK], steps[QF_MAX_RANK];
        qf_dim dims[QF_MAX_RANK + 1], starts[QF_MAX_RANK];
        uint32_t rank = qf_value_rank(it->graph, x);
        memcpy(dims + 1, qf_value_dims(it->graph, x), rank * sizeof *dims);
        switch (random_below(&it->random, 4)) {
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
                int64_t extent;
                assert_true(qf_dim_is_constant(it->context, dims[i + 1], &extent));
                if (extent > 1) starts[i] = qf_dim_constant(it->context, random_below(&it->random, 2));
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

static qf_value named_value(instance *it, uint32_t index) {
    if (it->values[index].id) return it->values[index];
    const qf_rule_value *value = &it->rule->values[index];
    const char *name = qf_string_c(it->context, value->name), *text = sample_of(it, true, name);
    if (!text && value->optional) return (qf_value){0};
    if (!text) fail_msg("%s: test clause %u lacks %%%s", qf_string_c(it->context, it->rule->name), it->test, name);
    return it->values[index] = input(it, text);
}

static qf_value operand(instance *it, const qf_rule_node *node, uint32_t index, qf_dtype dtype) {
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

/* Constants beside a tensor have its dtype, wherever they stand. */
static qf_dtype operand_dtype(instance *it, const qf_rule_node *node) {
    for (uint32_t i = 0; i < node->operand_count; i++)
        if (node->operands[i].kind == QF_PATTERN_VALUE && named_value(it, node->operands[i].value).id)
            return qf_value_dtype(it->graph, named_value(it, node->operands[i].value));
    return QF_F32;
}

static void build_node(instance *it, const qf_rule_node *node) {
    qf_value operands[24];
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_dtype dtype = operand_dtype(it, node);
    for (uint32_t i = 0; i < node->operand_count; i++) operands[i] = operand(it, node, i, dtype);
    if (node->info->traits & QF_TRAIT_COMMUTATIVE && random_below(&it->random, 2)) {
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
        if (!node->result_optional[i] || random_below(&it->random, 2)) spec.result_count = i + 1;
    (void)insert(it, &spec);
    qf_node made = it->graph->last;
    for (uint32_t i = 0; i < spec.result_count; i++) it->values[node->results[i]] = qf_node_result(it->graph, made, i);
}

static void build(instance *it) {
    qf_value outputs[QF_RULE_MAX_VALUES];
    uint32_t count = 0;
    assert_int_equal(qf_graph_create(it->context, "left", &it->graph), QF_OK);
    for (uint32_t n = 0; n < it->rule->before_count; n++) build_node(it, &it->rule->before[n]);
    for (uint32_t v = 0; v < it->rule->value_count; v++)
        if (it->rule->values[v].before != QF_NO_INDEX && it->rule->values[v].after != QF_NO_INDEX && it->values[v].id)
            outputs[count++] = it->values[v];
    assert_true(qf_graph_set_outputs(it->graph, outputs, NULL, count));
    assert_int_equal(qf_graph_verify(it->graph), QF_OK);
}

/* --- comparing --- */

static qf_dtype coarsest(const qf_graph *graph) {
    qf_dtype found = QF_F32;
    for (uint32_t v = 1; v < graph->value_count; v++) {
        qf_dtype dtype = qf_value_dtype(graph, (qf_value){v});
        if (dtype == QF_BF16 || (dtype == QF_F16 && found == QF_F32)) found = dtype;
    }
    return found;
}

static bool equal_bits(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

/* rounding: FP8 codes differ by one at most; wider results by a few roundings of the coarsest type, by the size of the
 * tensor. */
static void compare(const instance *it, const qf_view *a, const qf_view *b, qf_dtype coarse) {
    const char *name = qf_string_c(it->context, it->rule->name);
    int64_t count = tensor_count(a);
    double difference = 0, size = 0;
    assert_int_equal(count, tensor_count(b));
    assert_int_equal(a->dtype, b->dtype);
    for (int64_t i = 0; i < count; i++) {
        double x = qf_load_f64(a->dtype, a->data, i), y = qf_load_f64(b->dtype, b->data, i);
        if (it->rule->numerics == QF_NUMERICS_EXACT && !equal_bits(x, y))
            fail_msg("%s: element %d: %.9g before, %.9g after", name, (int)i, x, y);
        if (isfinite(x)) size += x * x;
        if (x == y || (isnan(x) && isnan(y))) continue;
        difference += (x - y) * (x - y);
        double step = a->dtype == QF_F8E5M2 ? 0.26 : 0.13;
        if (qf_dtype_is_float8(a->dtype) && !(fabs(x - y) <= step * fmax(fabs(x), fabs(y)) + 0.002))
            fail_msg("%s: element %d: code %.9g before, %.9g after", name, (int)i, x, y);
    }
    double bound = coarse == QF_F32 ? 1e-5 : coarse == QF_F16 ? 4e-3 : 3e-2;
    if (qf_dtype_is_float8(a->dtype)) return;
    if (!(sqrt(difference) <= bound * sqrt(size) + 1e-30))
        fail_msg("%s: relative difference %.3g, allowed %.3g", name, sqrt(difference / size), bound);
}

static bool has_attention(const qf_rule *rule) {
    for (uint32_t n = 0; n < rule->before_count; n++)
        if (rule->before[n].op >= QF_OP_attention || rule->before[n].op == QF_OP_rms_norm ||
            rule->before[n].op == QF_OP_reduce_mean)
            return true;
    return false;
}

static void run_both(instance *it, qf_graph *after) {
    tensors first, second;
    bool wild = it->rule->numerics == QF_NUMERICS_EXACT && !has_attention(it->rule);
    tensors_open(&first, it->graph);
    tensors_open(&second, after);
    for (uint32_t i = 0; i < it->graph->input_count; i++) {
        qf_value value = it->graph->inputs[i];
        qf_view *view = &first.views[value.id];
        *view = tensor_make(it->graph, value);
        random_fill(view, &it->random, wild, it->limits[value.id]);
        second.views[value.id] = tensor_make(it->graph, value);
        memcpy(second.views[value.id].data, view->data,
               (size_t)qf_dtype_bytes(view->dtype, (uint64_t)tensor_count(view)));
    }
    evaluate_graph(it->graph, &first);
    evaluate_graph(after, &second);
    qf_node end = it->graph->last, other = after->last;
    for (uint32_t i = 0; i < qf_node_at(it->graph, end)->operand_count; i++)
        compare(it, &first.views[qf_node_operand(it->graph, end, i).id],
                &second.views[qf_node_operand(after, other, i).id], coarsest(it->graph));
    tensors_close(&first);
    tensors_close(&second);
}

static void test_rule(qf_context *context, check_state *check, qf_rule *rule, uint32_t test, uint64_t seed) {
    instance *it = calloc(1, sizeof *it);
    *it = (instance){.context = context, .rule = rule, .test = test, .random = seed * 0x9E3779B97F4A7C15u + 1};
    build(it);
    qf_graph *after = qf_graph_clone(it->graph);
    assert_non_null(after);
    qf_report report;
    qf_report_init(&report, context);
    qf_rules_options options = {.numerics = QF_NUMERICS_RELAXED, .only = &rule->name};
    bool changed = false;
    qf_status status = qf_rules_run(after, qf_string_c(context, rule->phase), &options, &report, &changed);
    if (status == QF_OK) status = qf_graph_verify(after);
    if (status != QF_OK) fail_msg("%s: %s", qf_string_c(context, rule->name), check->messages);
    if (!report.rewrite_count) {
        qf_buffer text = {.context = context};
        qf_graph_print(&text, it->graph);
        fail_msg("%s: test clause %u does not match its own left side:\n%s", qf_string_c(context, rule->name), test,
                 text.data);
    }
    run_both(it, after);
    qf_report_destroy(&report);
    qf_graph_destroy(after);
    qf_graph_destroy(it->graph);
    free(it);
}

static void every_rule_keeps_its_numerics(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_rule_set *set = qf_rules_of(context);
    if (!set) fail_msg("%s", check.messages);
    for (uint32_t i = 0; i < set->rule_count; i++) {
        qf_rule *rule = set->rules[i];
        if (!rule->test_count) fail_msg("%s has no test clause", qf_string_c(context, rule->name));
        for (uint32_t test = 0; test < rule->test_count; test++)
            for (uint32_t trial = 0; trial < TRIALS; trial++)
                test_rule(context, &check, rule, test, 1 + trial + 1000 * (uint64_t)test);
    }
    check_destroy(context, &check);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule_keeps_its_numerics)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
