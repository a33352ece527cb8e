/* Owns: writing graphs, nodes and attribute values in the text form.
 * Does not own: the language (docs/ir.md), reading it (parse.c), tensors of constants (literal.c).
 * Next: parse.c. */
#include <inttypes.h>
#include <string.h>

#include "ir/lexer.h"
#include "ir/literal.h"
#include "ir/text.h"

/* How values are spelled: a name that is the first of its kind stands as it is; others, and unnamed ones, get numbers
 * in order of appearance, so that reading the text back and printing again gives the same numbers. */
typedef struct value_spelling {
    const qf_graph *graph;
    uint32_t *numbers; /* by value id: 0 named, else number + 1 */
} value_spelling;

static void number_value(value_spelling *spelling, uint8_t *seen, uint32_t *next, qf_value value) {
    qf_string name = qf_value_at(spelling->graph, value)->name;
    if (name.id && !seen[name.id])
        seen[name.id] = 1;
    else
        spelling->numbers[value.id] = ++*next;
}

static bool spelling_create(value_spelling *spelling, const qf_graph *graph) {
    qf_context *context = graph->context;
    *spelling = (value_spelling){.graph = graph};
    spelling->numbers = qf_allocate(context, (size_t)graph->value_count * sizeof *spelling->numbers);
    uint8_t *seen = qf_allocate(context, context->string_count);
    uint32_t next = 0;
    if (spelling->numbers && seen) {
        for (uint32_t i = 0; i < graph->input_count; i++) number_value(spelling, seen, &next, graph->inputs[i]);
        QF_FOR_EACH_NODE(graph, node) {
            const qf_node_data *data = qf_node_at(graph, node);
            for (uint32_t i = 0; i < data->result_count; i++)
                number_value(spelling, seen, &next, qf_result_at(data, i));
        }
    }
    bool ok = spelling->numbers && seen;
    if (!ok) {
        qf_release(context, spelling->numbers, (size_t)graph->value_count * sizeof *spelling->numbers);
        spelling->numbers = NULL;
    }
    qf_release(context, seen, context->string_count);
    return ok;
}

static void spelling_destroy(value_spelling *spelling) {
    qf_release(spelling->graph->context, spelling->numbers,
               (size_t)spelling->graph->value_count * sizeof *spelling->numbers);
}

static void print_value(qf_buffer *buffer, const value_spelling *spelling, qf_value value) {
    uint32_t number = spelling->numbers[value.id];
    if (number)
        qf_buffer_print(buffer, "%%%" PRIu32, number - 1);
    else
        qf_buffer_sigil_name(buffer, '%',
                             qf_string_text(spelling->graph->context, qf_value_at(spelling->graph, value)->name));
}

static void comma(qf_buffer *buffer, uint32_t index) {
    if (index) qf_buffer_text(buffer, QF_TEXT(", "));
}

/* --- attributes --- */

/* A NaN other than the one that "nan" reads as is written by its bits. */
static void print_number(qf_buffer *buffer, double number) {
    const double plain = (double)__builtin_nanf("");
    if (number != number && memcmp(&number, &plain, sizeof number) != 0) {
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        qf_buffer_print(buffer, "0x%016" PRIX64, bits);
    } else {
        qf_buffer_double(buffer, number);
    }
}

static void print_dims(qf_buffer *buffer, const qf_context *context, const qf_dim *dims, uint32_t count) {
    qf_buffer_append(buffer, "[", 1);
    for (uint32_t i = 0; i < count; i++) {
        comma(buffer, i);
        qf_dim_print(buffer, context, dims[i]);
    }
    qf_buffer_append(buffer, "]", 1);
}

static void print_ints(qf_buffer *buffer, const int64_t *ints, uint32_t count) {
    qf_buffer_append(buffer, "[", 1);
    for (uint32_t i = 0; i < count; i++) {
        comma(buffer, i);
        qf_buffer_print(buffer, "%" PRId64, ints[i]);
    }
    qf_buffer_append(buffer, "]", 1);
}

void qf_attribute_print(qf_buffer *buffer, const qf_graph *graph, const qf_attribute_info *info,
                        const qf_attribute *attribute) {
    const qf_context *context = graph->context;
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: qf_buffer_text(buffer, qf_text_of(attribute->integer ? "true" : "false")); break;
    case QF_ATTRIBUTE_INT: qf_buffer_print(buffer, "%" PRId64, attribute->integer); break;
    case QF_ATTRIBUTE_FLOAT: print_number(buffer, attribute->number); break;
    case QF_ATTRIBUTE_DTYPE: qf_buffer_text(buffer, qf_text_of(qf_dtype_name((qf_dtype)attribute->integer))); break;
    case QF_ATTRIBUTE_ENUM: {
        const char *name = qf_enum_name(info->enumeration, attribute->integer);
        qf_buffer_text(buffer, qf_text_of(name ? name : "invalid"));
        break;
    }
    case QF_ATTRIBUTE_DIM: qf_dim_print(buffer, context, attribute->dim); break;
    case QF_ATTRIBUTE_DIMS: print_dims(buffer, context, attribute->dims, attribute->count); break;
    case QF_ATTRIBUTE_INTS: print_ints(buffer, attribute->ints, attribute->count); break;
    case QF_ATTRIBUTE_STRING: qf_buffer_quoted(buffer, qf_string_text(context, attribute->string)); break;
    case QF_ATTRIBUTE_LITERAL: qf_literal_print(buffer, context, attribute->literal); break;
    }
}

bool qf_attribute_equal(qf_attribute_kind kind, const qf_attribute *a, const qf_attribute *b) {
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: return memcmp(&a->number, &b->number, sizeof a->number) == 0;
    case QF_ATTRIBUTE_DIM: return qf_dim_equal(a->dim, b->dim);
    case QF_ATTRIBUTE_DIMS:
        return a->count == b->count && (!a->count || memcmp(a->dims, b->dims, a->count * sizeof *a->dims) == 0);
    case QF_ATTRIBUTE_INTS:
        return a->count == b->count && (!a->count || memcmp(a->ints, b->ints, a->count * sizeof *a->ints) == 0);
    case QF_ATTRIBUTE_STRING: return a->string.id == b->string.id;
    case QF_ATTRIBUTE_LITERAL:
        return a->literal == b->literal ||
               (a->literal && b->literal && qf_type_equal(a->literal->type, b->literal->type) &&
                a->literal->size == b->literal->size &&
                memcmp(a->literal->data, b->literal->data, a->literal->size) == 0);
    default: return a->integer == b->integer;
    }
}

/* "" and unset strings are one default. */
static bool is_default(const qf_graph *graph, const qf_attribute_info *info, const qf_attribute *attribute,
                       const qf_attribute *usual) {
    if (!info->default_text) return false;
    if (info->kind == QF_ATTRIBUTE_STRING) return qf_string_text(graph->context, attribute->string).size == 0;
    return qf_attribute_equal(info->kind, attribute, usual);
}

static void print_attributes(qf_buffer *buffer, const qf_graph *graph, const qf_node_data *data,
                             const qf_op_info *info) {
    qf_attribute usual[QF_MAX_ATTRIBUTES];
    if (!info->attribute_count) return;
    qf_attributes_default(graph, data->op, usual);
    const char *before = " {";
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        if (is_default(graph, &info->attributes[i], &data->attributes[i], &usual[i])) continue;
        qf_buffer_print(buffer, "%s%s=", before, info->attributes[i].name);
        qf_attribute_print(buffer, graph, &info->attributes[i], &data->attributes[i]);
        before = ", ";
    }
    if (before[0] == ',') qf_buffer_append(buffer, "}", 1);
}

/* --- locations --- */

#define MAX_LOCATION_DEPTH 8
#define MAX_LOCATION_PARTS 64

/* A place inside the text that the graph was read from goes without saying. */
static bool is_own_place(const qf_graph *graph, qf_location location, uint32_t depth) {
    if (!location.id) return true;
    const qf_location_data *data = &graph->locations[location.id];
    if (!data->part_count) return data->line != 0 && data->file.id == graph->text_file.id;
    if (depth >= MAX_LOCATION_DEPTH) return false;
    for (uint32_t i = 0; i < data->part_count && i < MAX_LOCATION_PARTS; i++)
        if (!is_own_place(graph, data->parts[i], depth + 1)) return false;
    return true;
}

/* Fused locations may share parts; depth and width are bounded so that the text stays linear in the graph. */
static void print_location(qf_buffer *buffer, const qf_graph *graph, qf_location location, uint32_t depth,
                           uint32_t *parts_left) {
    const qf_location_data *data = &graph->locations[location.id];
    if (!data->part_count) {
        qf_buffer_quoted(buffer, qf_string_text(graph->context, data->file));
        if (data->line) qf_buffer_print(buffer, ":%" PRIu32 ":%" PRIu32, data->line, data->column);
        return;
    }
    qf_buffer_text(buffer, QF_TEXT("fused "));
    qf_buffer_quoted(buffer, qf_string_text(graph->context, data->rule));
    qf_buffer_text(buffer, QF_TEXT(" ["));
    const char *before = "";
    for (uint32_t i = 0; i < data->part_count && *parts_left && depth < MAX_LOCATION_DEPTH; i++) {
        if (!data->parts[i].id) continue;
        --*parts_left;
        qf_buffer_text(buffer, qf_text_of(before));
        print_location(buffer, graph, data->parts[i], depth + 1, parts_left);
        before = ", ";
    }
    qf_buffer_append(buffer, "]", 1);
}

static void print_suffix(qf_buffer *buffer, const qf_graph *graph, const qf_node_data *data, uint64_t previous_tag) {
    if (!is_own_place(graph, data->location, 0)) {
        uint32_t parts_left = MAX_LOCATION_PARTS;
        qf_buffer_text(buffer, QF_TEXT(" loc("));
        print_location(buffer, graph, data->location, 0, &parts_left);
        qf_buffer_append(buffer, ")", 1);
    }
    if (data->tag == previous_tag + 1) return;
    qf_buffer_print(buffer, data->tag > INT64_MAX ? " tag(0x%" PRIX64 ")" : " tag(%" PRIu64 ")", data->tag);
}

/* --- nodes and graphs --- */

static void print_operands(qf_buffer *buffer, const value_spelling *spelling, const qf_node_data *data,
                           const qf_op_info *info) {
    const char *before = " ";
    for (uint32_t i = 0; i < data->operand_count; i++) {
        if (!data->operands[i].value.id) continue;
        qf_buffer_text(buffer, qf_text_of(before));
        before = ", ";
        if (i < info->operand_count && info->operands[i].kind == QF_OPERAND_OPTIONAL)
            qf_buffer_print(buffer, "%s=", info->operands[i].name);
        print_value(buffer, spelling, data->operands[i].value);
        if (data->op == QF_OP_return && i < spelling->graph->output_name_count && spelling->graph->output_names[i].id) {
            qf_buffer_text(buffer, QF_TEXT(" as "));
            qf_buffer_quoted(buffer, qf_string_text(spelling->graph->context, spelling->graph->output_names[i]));
        }
    }
}

static void print_node(qf_buffer *buffer, const value_spelling *spelling, qf_node node, uint64_t previous_tag) {
    const qf_graph *graph = spelling->graph;
    const qf_node_data *data = qf_node_at(graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    for (uint32_t i = 0; i < data->result_count; i++) {
        comma(buffer, i);
        print_value(buffer, spelling, qf_result_at(data, i));
    }
    qf_buffer_print(buffer, "%s%s", data->result_count ? " = " : "", info->name);
    print_operands(buffer, spelling, data, info);
    print_attributes(buffer, graph, data, info);
    for (uint32_t i = 0; i < data->result_count; i++) {
        qf_buffer_text(buffer, qf_text_of(i ? ", " : " : "));
        qf_type_print(buffer, graph->context, qf_value_type(graph, qf_result_at(data, i)));
    }
    print_suffix(buffer, graph, data, previous_tag);
}

void qf_node_print(qf_buffer *buffer, const qf_graph *graph, qf_node node) {
    value_spelling spelling;
    if (!spelling_create(&spelling, graph)) {
        buffer->failed = true;
        return;
    }
    print_node(buffer, &spelling, node, qf_node_at(graph, node)->tag - 1);
    spelling_destroy(&spelling);
}

/* Many inputs stand on lines of their own. */
#define INPUTS_ON_A_LINE 4

static void print_inputs(qf_buffer *buffer, const value_spelling *spelling) {
    const qf_graph *graph = spelling->graph;
    bool lines = graph->input_count > INPUTS_ON_A_LINE;
    qf_buffer_append(buffer, "(", 1);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (i) qf_buffer_append(buffer, ",", 1);
        if (lines)
            qf_buffer_text(buffer, QF_TEXT("\n    "));
        else if (i)
            qf_buffer_append(buffer, " ", 1);
        print_value(buffer, spelling, graph->inputs[i]);
        qf_buffer_text(buffer, QF_TEXT(": "));
        qf_type_print(buffer, graph->context, qf_input_type(graph, i));
    }
    qf_buffer_append(buffer, ")", 1);
}

static void print_facts(qf_buffer *buffer, const qf_graph *graph) {
    for (uint32_t i = 0; i < graph->fact_count; i++) {
        const qf_symbol_fact *fact = &graph->facts[i];
        qf_buffer_text(buffer, qf_text_of(i ? ", " : " symbols("));
        qf_dim_print(buffer, graph->context, qf_dim_of_symbol(graph->context, fact->symbol));
        if (fact->minimum != 0) qf_buffer_print(buffer, " min %" PRId64, fact->minimum);
        if (fact->maximum != INT64_MAX) qf_buffer_print(buffer, " max %" PRId64, fact->maximum);
        if (fact->divisor > 1) qf_buffer_print(buffer, " div %" PRId64, fact->divisor);
    }
    if (graph->fact_count) qf_buffer_append(buffer, ")", 1);
}

static void print_guards(qf_buffer *buffer, const qf_graph *graph) {
    for (uint32_t i = 0; i < graph->guard_count; i++) {
        const qf_guard *guard = &graph->guards[i];
        qf_buffer_text(buffer, qf_text_of(i ? ", " : " assume("));
        qf_dim_print(buffer, graph->context, guard->left);
        qf_buffer_text(buffer, QF_TEXT(" == "));
        qf_dim_print(buffer, graph->context, guard->right);
        if (is_own_place(graph, guard->location, 0)) continue;
        uint32_t parts_left = MAX_LOCATION_PARTS;
        qf_buffer_text(buffer, QF_TEXT(" loc("));
        print_location(buffer, graph, guard->location, 0, &parts_left);
        qf_buffer_append(buffer, ")", 1);
    }
    if (graph->guard_count) qf_buffer_append(buffer, ")", 1);
}

void qf_graph_print(qf_buffer *buffer, const qf_graph *graph) {
    value_spelling spelling;
    if (!spelling_create(&spelling, graph)) {
        buffer->failed = true;
        return;
    }
    qf_buffer_text(buffer, QF_TEXT("graph "));
    qf_buffer_sigil_name(buffer, '@', qf_string_text(graph->context, graph->name));
    print_inputs(buffer, &spelling);
    print_facts(buffer, graph);
    print_guards(buffer, graph);
    qf_buffer_text(buffer, QF_TEXT(" {\n"));
    uint64_t previous_tag = 0;
    QF_FOR_EACH_NODE(graph, node) {
        qf_buffer_text(buffer, QF_TEXT("  "));
        print_node(buffer, &spelling, node, previous_tag);
        qf_buffer_append(buffer, "\n", 1);
        previous_tag = qf_node_at(graph, node)->tag;
    }
    qf_buffer_text(buffer, QF_TEXT("}\n"));
    spelling_destroy(&spelling);
}
