/* Owns: reading types, dims, attribute values and locations of the text form.
 * Does not own: statements and the graph's header (parse.c), tensors of constants (literal.c).
 * Next: parse.h. */
#include <inttypes.h>
#include <string.h>

#include "ir/literal.h"
#include "ir/parse.h"
#include "ir/text.h"

bool qf_parse_type(qf_parser *parser, qf_type *out_type) {
    qf_text rest = qf_lexer_rest(&parser->lexer);
    *out_type = qf_type_parse(parser->context, &rest);
    if (!out_type->id) {
        (void)qf_lexer_unexpected(&parser->lexer, "a type such as f16[B, 8, T, 64] or none[*]");
        return false;
    }
    qf_lexer_resume(&parser->lexer, rest);
    return true;
}

bool qf_parse_dim(qf_parser *parser, const char *what, qf_dim *out_dim) {
    qf_text rest = qf_lexer_rest(&parser->lexer);
    *out_dim = qf_dim_parse(parser->context, &rest);
    if (!out_dim->id) {
        (void)qf_lexer_unexpected(&parser->lexer, what);
        return false;
    }
    qf_lexer_resume(&parser->lexer, rest);
    return true;
}

static bool parse_bool(qf_parser *parser, qf_attribute *out) {
    if (!qf_lexer_is(&parser->lexer, "true") && !qf_lexer_is(&parser->lexer, "false")) {
        (void)qf_lexer_unexpected(&parser->lexer, "true or false");
        return false;
    }
    out->integer = qf_lexer_is(&parser->lexer, "true");
    qf_lexer_next(&parser->lexer);
    return true;
}

static bool parse_dtype(qf_parser *parser, qf_attribute *out) {
    qf_lexer *lexer = &parser->lexer;
    for (int i = 0; i < QF_DTYPE_COUNT && lexer->token.kind == QF_TOKEN_NAME; i++) {
        if (!qf_text_is(lexer->token.text, qf_dtype_name((qf_dtype)i))) continue;
        out->integer = i;
        qf_lexer_next(lexer);
        return true;
    }
    (void)qf_lexer_unexpected(lexer, "an element type such as f16, f8E4M3FN or none");
    return false;
}

static bool parse_enum(qf_parser *parser, const qf_attribute_info *info, qf_attribute *out) {
    qf_lexer *lexer = &parser->lexer;
    if (lexer->token.kind == QF_TOKEN_NAME) {
        int32_t number = qf_enum_number(info->enumeration, lexer->token.text);
        if (number >= 0) {
            out->integer = number;
            qf_lexer_next(lexer);
            return true;
        }
    }
    qf_buffer values = {.context = parser->context};
    for (uint32_t i = 0; i < info->enumeration->value_count; i++)
        qf_buffer_print(&values, "%s%s", i ? ", " : "one of ", info->enumeration->values[i].name);
    if (!values.failed) (void)qf_lexer_unexpected(lexer, values.data);
    qf_buffer_destroy(&values);
    return false;
}

/* "[...]" of dims (`as_dims`) or integers, kept in the scratch arena. */
static bool parse_list(qf_parser *parser, bool as_dims, qf_attribute *out) {
    qf_context *context = parser->context;
    qf_dim *dims = NULL;
    int64_t *ints = NULL;
    uint32_t dim_capacity = 0, int_capacity = 0, count = 0;
    bool ok = qf_lexer_expect(&parser->lexer, "[", "before a list");
    while (ok && !qf_lexer_is(&parser->lexer, "]")) {
        if (count && !(ok = qf_lexer_expect(&parser->lexer, ",", "between the entries of a list"))) break;
        if (as_dims)
            ok = QF_GROW(context, dims, dim_capacity, (uint64_t)count + 1) &&
                 qf_parse_dim(parser, "a dim such as 2*T + 1", &dims[count]);
        else
            ok = QF_GROW(context, ints, int_capacity, (uint64_t)count + 1) &&
                 qf_lexer_integer(&parser->lexer, "an integer", &ints[count]);
        count++;
    }
    if (ok) {
        qf_lexer_next(&parser->lexer);
        out->count = count;
        if (as_dims)
            ok = (out->dims = qf_arena_copy(&parser->scratch, dims, count * sizeof *dims)) != NULL;
        else
            ok = (out->ints = qf_arena_copy(&parser->scratch, ints, count * sizeof *ints)) != NULL;
    }
    QF_FREE_ITEMS(context, dims, dim_capacity);
    QF_FREE_ITEMS(context, ints, int_capacity);
    return ok;
}

static bool parse_value(qf_parser *parser, const qf_attribute_info *info, qf_attribute *out) {
    qf_lexer *lexer = &parser->lexer;
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: return parse_bool(parser, out);
    case QF_ATTRIBUTE_INT: return qf_lexer_integer(lexer, "an integer", &out->integer);
    case QF_ATTRIBUTE_FLOAT: return qf_lexer_number(lexer, "a number", &out->number);
    case QF_ATTRIBUTE_DTYPE: return parse_dtype(parser, out);
    case QF_ATTRIBUTE_ENUM: return parse_enum(parser, info, out);
    case QF_ATTRIBUTE_DIM: return qf_parse_dim(parser, "a dim such as 2*T + 1", &out->dim);
    case QF_ATTRIBUTE_DIMS: return parse_list(parser, true, out);
    case QF_ATTRIBUTE_INTS: return parse_list(parser, false, out);
    case QF_ATTRIBUTE_STRING: return qf_lexer_string(lexer, "a string", &out->string);
    case QF_ATTRIBUTE_LITERAL: return (out->literal = qf_literal_parse(lexer, &parser->scratch)) != NULL;
    }
    return false;
}

static void report_unknown_attribute(qf_parser *parser, const qf_op_info *info) {
    qf_buffer names = {.context = parser->context};
    for (uint32_t i = 0; i < info->attribute_count; i++)
        qf_buffer_print(&names, "%s%s", i ? ", " : "", info->attributes[i].name);
    qf_buffer what = {.context = parser->context};
    if (info->attribute_count)
        qf_buffer_print(&what, "an attribute of %s (%s)", info->name, names.failed ? "" : names.data);
    else
        qf_buffer_print(&what, "'}': %s has no attributes", info->name);
    if (!what.failed) (void)qf_lexer_unexpected(&parser->lexer, what.data);
    qf_buffer_destroy(&names);
    qf_buffer_destroy(&what);
}

static bool parse_attribute(qf_parser *parser, const qf_op_info *info, qf_attribute *attributes, bool *given) {
    qf_lexer *lexer = &parser->lexer;
    int32_t index = lexer->token.kind == QF_TOKEN_NAME ? qf_op_attribute_index(info->op, lexer->token.text) : -1;
    if (index < 0) {
        report_unknown_attribute(parser, info);
        return false;
    }
    if (given[index]) {
        (void)qf_lexer_fail(lexer, &lexer->token, QF_ERROR_PARSE, "attribute %s is given twice",
                            info->attributes[index].name);
        return false;
    }
    given[index] = true;
    qf_lexer_next(lexer);
    return qf_lexer_expect(lexer, "=", "behind the name of an attribute") &&
           parse_value(parser, &info->attributes[index], &attributes[index]);
}

bool qf_parse_attributes(qf_parser *parser, const qf_op_info *info, const qf_token *op, qf_attribute *attributes) {
    qf_lexer *lexer = &parser->lexer;
    bool given[QF_MAX_ATTRIBUTES] = {false};
    qf_attributes_default(parser->graph, info->op, attributes);
    if (qf_lexer_accept(lexer, "{")) {
        for (bool first = true; !qf_lexer_is(lexer, "}"); first = false) {
            if (!first && !qf_lexer_expect(lexer, ",", "or '}' behind an attribute")) return false;
            if (!parse_attribute(parser, info, attributes, given)) return false;
        }
        qf_lexer_next(lexer);
    }
    bool complete = true;
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        if (given[i] || info->attributes[i].default_text) continue;
        (void)qf_lexer_fail(lexer, op, QF_ERROR_PARSE, "%s needs the attribute %s: write {%s=...}", info->name,
                            info->attributes[i].name, info->attributes[i].name);
        complete = false;
    }
    return complete;
}

/* --- locations --- */

static bool parse_uint32(qf_lexer *lexer, const char *what, uint32_t *out_value) {
    const qf_token token = lexer->token;
    int64_t value;
    if (!qf_lexer_integer(lexer, what, &value)) return false;
    if (value < 0 || value > UINT32_MAX) {
        (void)qf_lexer_fail(lexer, &token, QF_ERROR_PARSE, "expected %s of 32 bits, found %" PRId64, what, value);
        return false;
    }
    *out_value = (uint32_t)value;
    return true;
}

static bool parse_place(qf_parser *parser, uint32_t depth, qf_location *out_location);

static bool parse_fused(qf_parser *parser, uint32_t depth, qf_location *out_location) {
    qf_lexer *lexer = &parser->lexer;
    qf_context *context = parser->context;
    const qf_token start = lexer->token;
    qf_string rule;
    if (depth >= QF_TEXT_MAX_DEPTH) {
        (void)qf_lexer_fail(lexer, &start, QF_ERROR_LIMIT, "locations are nested deeper than %d", QF_TEXT_MAX_DEPTH);
        return false;
    }
    if (!qf_lexer_string(lexer, "the name of a rule in quotes", &rule) ||
        !qf_lexer_expect(lexer, "[", "before the parts of a fused location"))
        return false;
    qf_location *parts = NULL;
    uint32_t capacity = 0, count = 0;
    bool ok = true;
    for (; ok && !qf_lexer_is(lexer, "]"); count++) {
        if (count && !(ok = qf_lexer_expect(lexer, ",", "between the parts of a fused location"))) break;
        ok = QF_GROW(context, parts, capacity, (uint64_t)count + 1) && parse_place(parser, depth + 1, &parts[count]);
    }
    if (ok) {
        qf_lexer_next(lexer);
        *out_location = qf_location_fuse(parser->graph, rule, parts, count);
        ok = out_location->id != 0;
    }
    QF_FREE_ITEMS(context, parts, capacity);
    return ok;
}

static bool parse_place(qf_parser *parser, uint32_t depth, qf_location *out_location) {
    qf_lexer *lexer = &parser->lexer;
    if (qf_lexer_accept(lexer, "fused")) return parse_fused(parser, depth, out_location);
    qf_string file;
    uint32_t line = 0, column = 0;
    if (!qf_lexer_string(lexer, "a file or name in quotes, or fused \"rule\" [...]", &file)) return false;
    if (qf_lexer_accept(lexer, ":") &&
        (!parse_uint32(lexer, "a line number", &line) || !qf_lexer_expect(lexer, ":", "before the column") ||
         !parse_uint32(lexer, "a column number", &column)))
        return false;
    *out_location = qf_location_make(parser->graph, qf_string_text(parser->context, file), line, column);
    return out_location->id != 0;
}

bool qf_parse_location(qf_parser *parser, qf_location *out_location) {
    return qf_lexer_expect(&parser->lexer, "(", "behind loc") && parse_place(parser, 0, out_location) &&
           qf_lexer_expect(&parser->lexer, ")", "at the end of a location");
}
