/* Owns: reading a graph in the text form: header, statements, names of values; going on after a fault.
 * Does not own: the language (docs/ir.md), attribute values and locations (parse_attribute.c), tokens (lexer.c).
 * Next: parse.h, verify.h. */
#include "ir/parse.h"

#include <inttypes.h>
#include <string.h>

#include "ir/infer.h"
#include "ir/text.h"
#include "ir/verify.h"

#define MAX_FAULTS 20

/* True when reading on makes no sense: memory is gone, or there were too many faults. */
static bool must_stop(const qf_parser *parser) {
    return parser->context->status == QF_ERROR_OUT_OF_MEMORY || parser->lexer.fault_count >= MAX_FAULTS;
}

/* --- names of values --- */

static bool name_equal(const void *owner, uint32_t id, const void *key) {
    const qf_parse_name *a = &((const qf_parser *)owner)->names[id], *b = key;
    return a->text.id == b->text.id && a->numbered == b->numbered;
}

static uint64_t name_hash(const qf_parse_name *name) {
    return qf_hash_mix(name->text.id, name->numbered);
}

static bool name_key(qf_parser *parser, const qf_token *token, qf_parse_name *out_key) {
    char first = token->text.data[1];
    *out_key = (qf_parse_name){.text = qf_lexer_name(&parser->lexer, token), .line = token->line};
    out_key->numbered = first != '"' && !qf_text_is_plain_name((qf_text){token->text.data + 1, token->text.size - 1});
    return out_key->text.id != 0;
}

static bool define(qf_parser *parser, const qf_token *token, qf_value value) {
    qf_parse_name key;
    if (!name_key(parser, token, &key)) return false;
    uint32_t known = qf_index_find(&parser->name_index, name_hash(&key), name_equal, parser, &key);
    if (known) {
        (void)qf_lexer_fail(&parser->lexer, token, QF_ERROR_PARSE,
                            "%.*s is already defined in line %" PRIu32 "; every value needs a name of its own",
                            (int)(token->text.size > 60 ? 60 : token->text.size), token->text.data,
                            parser->names[known].line);
        return false;
    }
    if (!QF_GROW(parser->context, parser->names, parser->name_capacity, (uint64_t)parser->name_count + 1)) return false;
    if (!qf_index_add(parser->context, &parser->name_index, name_hash(&key), parser->name_count)) return false;
    key.value = value;
    parser->names[parser->name_count++] = key;
    if (!key.numbered) qf_value_at(parser->graph, value)->name = key.text;
    return true;
}

/* Reads a value that was defined before. */
static bool parse_use(qf_parser *parser, qf_value *out_value) {
    qf_lexer *lexer = &parser->lexer;
    const qf_token token = lexer->token;
    qf_parse_name key;
    if (token.kind != QF_TOKEN_VALUE) {
        (void)qf_lexer_unexpected(lexer, "a value such as %x");
        return false;
    }
    if (!name_key(parser, &token, &key)) return false;
    uint32_t known = qf_index_find(&parser->name_index, name_hash(&key), name_equal, parser, &key);
    if (!known) {
        (void)qf_lexer_fail(lexer, &token, QF_ERROR_PARSE, "%.*s is not defined above",
                            (int)(token.text.size > 60 ? 60 : token.text.size), token.text.data);
        return false;
    }
    *out_value = parser->names[known].value;
    qf_lexer_next(lexer);
    return true;
}

/* After a fault the results exist with unknown types, so that their uses give no further faults. */
static void define_unknown(qf_parser *parser) {
    qf_type unknown = qf_type_tensor(parser->context, QF_DTYPE_NONE, NULL, QF_UNRANKED);
    for (uint32_t i = 0; i < parser->result_count && !must_stop(parser); i++) {
        qf_value value = qf_graph_add_input_value(parser->graph, (qf_string){0}, unknown);
        if (value.id) (void)define(parser, &parser->results[i], value);
    }
}

/* --- header --- */

static bool parse_inputs(qf_parser *parser) {
    qf_lexer *lexer = &parser->lexer;
    if (!qf_lexer_expect(lexer, "(", "before the inputs of the graph")) return false;
    for (bool first = true; !qf_lexer_is(lexer, ")"); first = false) {
        if (!first && !qf_lexer_expect(lexer, ",", "or ')' behind an input")) return false;
        const qf_token token = lexer->token;
        qf_type type;
        if (token.kind != QF_TOKEN_VALUE) {
            (void)qf_lexer_unexpected(lexer, "an input such as %x: f16[B, T]");
            return false;
        }
        qf_lexer_next(lexer);
        if (!qf_lexer_expect(lexer, ":", "before the type of an input") || !qf_parse_type(parser, &type)) return false;
        qf_value value = qf_graph_add_input_value(parser->graph, (qf_string){0}, type);
        if (!value.id) return false;
        if (!define(parser, &token, value) && must_stop(parser)) return false;
    }
    qf_lexer_next(lexer);
    return true;
}

static bool parse_fact(qf_parser *parser) {
    qf_lexer *lexer = &parser->lexer;
    const qf_token token = lexer->token;
    qf_dim dim;
    if (!qf_parse_dim(parser, "a symbol", &dim)) return false;
    qf_symbol_fact fact = {qf_dim_as_symbol(parser->context, dim), 0, INT64_MAX, 1};
    if (!fact.symbol.id) {
        (void)qf_lexer_fail(lexer, &token, QF_ERROR_PARSE, "expected a symbol, found a dim that is none");
        return false;
    }
    bool least = false, greatest = false, divisor = false;
    for (;;) {
        const qf_token word = lexer->token;
        if (!least && qf_lexer_accept(lexer, "min"))
            least = true;
        else if (!greatest && qf_lexer_accept(lexer, "max"))
            greatest = true;
        else if (!divisor && qf_lexer_accept(lexer, "div"))
            divisor = true;
        else
            break;
        int64_t *out = word.text.data[0] == 'd'   ? &fact.divisor
                       : word.text.data[1] == 'i' ? &fact.minimum
                                                  : &fact.maximum;
        if (!qf_lexer_integer(lexer, "an integer", out)) return false;
    }
    if (fact.divisor < 1 || fact.minimum > fact.maximum) {
        (void)qf_lexer_fail(lexer, &token, QF_ERROR_PARSE,
                            fact.divisor < 1 ? "div must be at least 1" : "min is larger than max");
        return false;
    }
    return qf_graph_add_fact(parser->graph, fact);
}

static bool parse_guard(qf_parser *parser) {
    qf_lexer *lexer = &parser->lexer;
    const qf_token token = lexer->token;
    qf_dim left, right;
    if (!qf_parse_dim(parser, "a dim", &left) || !qf_lexer_expect(lexer, "==", "between two dims") ||
        !qf_parse_dim(parser, "a dim", &right))
        return false;
    qf_location location = qf_location_make(parser->graph, qf_text_of(lexer->file_name), token.line, token.column);
    if (qf_lexer_accept(lexer, "loc") && !qf_parse_location(parser, &location)) return false;
    return location.id && qf_graph_add_guard(parser->graph, left, right, location);
}

static bool parse_clause(qf_parser *parser, bool (*parse_item)(qf_parser *parser)) {
    qf_lexer *lexer = &parser->lexer;
    if (!qf_lexer_expect(lexer, "(", "")) return false;
    do {
        if (!parse_item(parser)) return false;
    } while (qf_lexer_accept(lexer, ","));
    return qf_lexer_expect(lexer, ")", "or ','");
}

static bool parse_header(qf_parser *parser) {
    qf_lexer *lexer = &parser->lexer;
    if (!qf_lexer_expect(lexer, "graph", "at the start of a graph")) return false;
    if (lexer->token.kind == QF_TOKEN_GLOBAL) {
        parser->graph->name = qf_lexer_name(lexer, &lexer->token);
        if (!parser->graph->name.id) return false;
        qf_lexer_next(lexer);
    }
    if (!parse_inputs(parser)) return false;
    if (qf_lexer_accept(lexer, "symbols") && !parse_clause(parser, parse_fact)) return false;
    if (qf_lexer_accept(lexer, "assume") && !parse_clause(parser, parse_guard)) return false;
    return qf_lexer_expect(lexer, "{", "before the nodes of the graph");
}

/* --- statements --- */

static bool add_operand(qf_parser *parser, qf_value value) {
    if (!QF_GROW(parser->context, parser->operands, parser->operand_capacity, (uint64_t)parser->operand_count + 1))
        return false;
    parser->operands[parser->operand_count++] = value;
    return true;
}

/* "name=%v" goes to its column; columns before it that are not given yet stay absent. */
static bool parse_named_operand(qf_parser *parser, const qf_op_info *info) {
    qf_lexer *lexer = &parser->lexer;
    const qf_token token = lexer->token;
    int32_t index = qf_op_operand_index(info->op, token.text);
    if (index < 0 || info->operands[index].kind == QF_OPERAND_MANY) {
        (void)qf_lexer_fail(lexer, &token, QF_ERROR_PARSE, "%s has no operand named %.*s", info->name,
                            (int)(token.text.size > 60 ? 60 : token.text.size), token.text.data);
        return false;
    }
    qf_value value;
    qf_lexer_next(lexer);
    if (!qf_lexer_expect(lexer, "=", "behind the name of an operand") || !parse_use(parser, &value)) return false;
    while (parser->operand_count <= (uint32_t)index)
        if (!add_operand(parser, (qf_value){0})) return false;
    if (parser->operands[index].id) {
        (void)qf_lexer_fail(lexer, &token, QF_ERROR_PARSE, "operand %s is given twice", info->operands[index].name);
        return false;
    }
    parser->operands[index] = value;
    return true;
}

static bool positional_allowed(qf_parser *parser, const qf_op_info *info, bool named_before) {
    uint32_t at = parser->operand_count, columns = info->operand_count;
    bool many = columns && info->operands[columns - 1].kind == QF_OPERAND_MANY;
    if (!named_before && (many || (at < columns && info->operands[at].kind == QF_OPERAND_REQUIRED))) return true;
    const qf_lexer *lexer = &parser->lexer;
    if (named_before)
        (void)qf_lexer_fail(&parser->lexer, &lexer->token, QF_ERROR_PARSE,
                            "operands without a name stand before those with one");
    else if (at < columns)
        (void)qf_lexer_fail(&parser->lexer, &lexer->token, QF_ERROR_PARSE,
                            "%s takes %" PRIu32 " operands without a name; write %s=... for this one", info->name,
                            info->required_operands, info->operands[at].name);
    else
        (void)qf_lexer_fail(&parser->lexer, &lexer->token, QF_ERROR_PARSE, "%s takes %" PRIu32 " operands, found more",
                            info->name, columns);
    return false;
}

static bool at_suffix(const qf_lexer *lexer) {
    return qf_lexer_is(lexer, "loc") || qf_lexer_is(lexer, "tag");
}

static bool parse_operands(qf_parser *parser, const qf_op_info *info) {
    qf_lexer *lexer = &parser->lexer;
    bool named = false;
    if (lexer->token.first_on_line) return true;
    if (lexer->token.kind != QF_TOKEN_VALUE && (lexer->token.kind != QF_TOKEN_NAME || at_suffix(lexer))) return true;
    do {
        if (lexer->token.kind == QF_TOKEN_NAME) {
            named = true;
            if (!parse_named_operand(parser, info)) return false;
            continue;
        }
        qf_value value;
        if (lexer->token.kind == QF_TOKEN_VALUE && !positional_allowed(parser, info, named)) return false;
        if (!parse_use(parser, &value) || !add_operand(parser, value)) return false;
        if (info->op != QF_OP_return) continue;
        if (!QF_GROW(parser->context, parser->operand_names, parser->operand_name_capacity, parser->operand_count))
            return false;
        qf_string *name = &parser->operand_names[parser->operand_count - 1];
        *name = (qf_string){0};
        if (qf_lexer_accept(lexer, "as") && !qf_lexer_string(lexer, "the name of the output in quotes", name))
            return false;
    } while (qf_lexer_accept(lexer, ","));
    return true;
}

static bool parse_types(qf_parser *parser) {
    if (!qf_lexer_accept(&parser->lexer, ":")) return true;
    do {
        qf_type type;
        if (!QF_GROW(parser->context, parser->types, parser->type_capacity, (uint64_t)parser->type_count + 1) ||
            !qf_parse_type(parser, &type))
            return false;
        parser->types[parser->type_count++] = type;
    } while (qf_lexer_accept(&parser->lexer, ","));
    return true;
}

static bool parse_tag(qf_parser *parser, uint64_t *out_tag) {
    const qf_token token = parser->lexer.token;
    int64_t value;
    if (!qf_lexer_expect(&parser->lexer, "(", "behind tag") || !qf_lexer_integer(&parser->lexer, "a tag", &value) ||
        !qf_lexer_expect(&parser->lexer, ")", "behind a tag"))
        return false;
    memcpy(out_tag, &value, sizeof value); /* tags above INT64_MAX are written in hexadecimal */
    if (value != 0) return true;
    (void)qf_lexer_fail(&parser->lexer, &token, QF_ERROR_PARSE, "a tag is not 0");
    return false;
}

/* loc(...) and tag(...), then the end of the statement. */
static bool parse_suffix(qf_parser *parser, qf_location *location, uint64_t *out_tag) {
    qf_lexer *lexer = &parser->lexer;
    *out_tag = parser->previous_tag + 1;
    if (qf_lexer_accept(lexer, "loc") && !qf_parse_location(parser, location)) return false;
    if (qf_lexer_accept(lexer, "tag") && !parse_tag(parser, out_tag)) return false;
    if (!*out_tag) *out_tag = 1;
    if (lexer->token.first_on_line || qf_lexer_is(lexer, "}") || lexer->token.kind == QF_TOKEN_END) return true;
    (void)qf_lexer_unexpected(lexer, "the end of the line");
    return false;
}

static bool check_counts(qf_parser *parser, const qf_op_info *info, const qf_token *op) {
    uint32_t required = 0, most = info->result_count;
    for (uint32_t i = 0; i < info->result_count; i++) {
        required += info->results[i].kind == QF_RESULT_REQUIRED;
        if (info->results[i].kind == QF_RESULT_SEVERAL) most = UINT32_MAX;
    }
    bool ok = true;
    if (parser->result_count < required || parser->result_count > most) {
        (void)qf_lexer_fail(&parser->lexer, op, QF_ERROR_PARSE, "%s has %s%" PRIu32 " results, found %" PRIu32 " names",
                            info->name, required < most ? "at least " : "",
                            parser->result_count > most ? most : required, parser->result_count);
        ok = false;
    }
    if (parser->type_count && parser->type_count != parser->result_count) {
        (void)qf_lexer_fail(&parser->lexer, op, QF_ERROR_PARSE,
                            "expected %" PRIu32 " types, one a result, found %" PRIu32, parser->result_count,
                            parser->type_count);
        ok = false;
    }
    for (uint32_t i = 0; i < info->operand_count; i++) {
        if (info->operands[i].kind != QF_OPERAND_REQUIRED) continue;
        if (i < parser->operand_count && parser->operands[i].id) continue;
        (void)qf_lexer_fail(&parser->lexer, op, QF_ERROR_PARSE, "%s needs the operand %s", info->name,
                            info->operands[i].name);
        ok = false;
    }
    return ok;
}

/* Fills missing types, checks given ones. */
static bool settle_types(qf_parser *parser, const qf_op_info *info, const qf_token *op, const qf_attribute *attributes,
                         qf_location location) {
    char storage[QF_LOCATION_SIZE];
    qf_verify_call call = {.graph = parser->graph,
                           .info = info,
                           .operands = parser->operands,
                           .operand_count = parser->operand_count,
                           .attributes = attributes,
                           .result_count = parser->result_count,
                           .location = location,
                           .position = qf_lexer_position(&parser->lexer, op, storage)};
    if (!QF_GROW(parser->context, parser->types, parser->type_capacity, parser->result_count)) return false;
    bool ok = qf_verify_operation(&call) &&
              qf_verify_types(&call, parser->graph, parser->types, parser->type_count ? parser->types : NULL);
    parser->lexer.fault_count += call.fault_count;
    return ok;
}

static bool insert_node(qf_parser *parser, const qf_op_info *info, const qf_attribute *attributes, qf_location location,
                        uint64_t tag) {
    qf_node_spec spec = {.op = info->op,
                         .operands = parser->operands,
                         .operand_count = parser->operand_count,
                         .attributes = attributes,
                         .result_count = parser->result_count,
                         .result_types = parser->types,
                         .location = location,
                         .tag = tag};
    qf_node node = qf_graph_insert(parser->graph, (qf_node){0}, &spec);
    if (!node.id) return false;
    parser->previous_tag = tag;
    bool ok = true;
    for (uint32_t i = 0; i < parser->result_count; i++)
        ok = define(parser, &parser->results[i], qf_node_result(parser->graph, node, i)) && ok;
    return ok;
}

static bool insert_return(qf_parser *parser, qf_location location, uint64_t tag) {
    if (!QF_GROW(parser->context, parser->operand_names, parser->operand_name_capacity, 1) ||
        !qf_graph_set_outputs(parser->graph, parser->operands, parser->operand_names, parser->operand_count))
        return false;
    qf_node_data *data = qf_node_at(parser->graph, parser->graph->last);
    data->location = location;
    data->tag = tag;
    if (tag >= parser->graph->next_tag) parser->graph->next_tag = tag + 1;
    return true;
}

static bool parse_results(qf_parser *parser) {
    qf_lexer *lexer = &parser->lexer;
    if (lexer->token.kind != QF_TOKEN_VALUE) return true;
    do {
        if (lexer->token.kind != QF_TOKEN_VALUE) {
            (void)qf_lexer_unexpected(lexer, "the name of a result such as %y");
            return false;
        }
        if (!QF_GROW(parser->context, parser->results, parser->result_capacity, (uint64_t)parser->result_count + 1))
            return false;
        parser->results[parser->result_count++] = lexer->token;
        qf_lexer_next(lexer);
    } while (qf_lexer_accept(lexer, ","));
    return qf_lexer_expect(lexer, "=", "behind the results of a node");
}

/* `*ended` is set by return. On false the results still need names. */
static bool parse_body(qf_parser *parser, const qf_token *start, bool *ended) {
    qf_lexer *lexer = &parser->lexer;
    const qf_token op = lexer->token;
    const qf_op_info *info = op.kind == QF_TOKEN_NAME ? qf_op_info_of(qf_op_from_name(op.text)) : NULL;
    if (!info) {
        (void)qf_lexer_unexpected(lexer, "the name of an op (docs/ops.md)");
        return false;
    }
    *ended = info->op == QF_OP_return;
    qf_lexer_next(lexer);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_location location = qf_location_make(parser->graph, qf_text_of(lexer->file_name), start->line, start->column);
    uint64_t tag;
    if (!location.id || !parse_operands(parser, info) || !qf_parse_attributes(parser, info, &op, attributes) ||
        !parse_types(parser) || !parse_suffix(parser, &location, &tag) || !check_counts(parser, info, &op))
        return false;
    if (*ended) return insert_return(parser, location, tag);
    return settle_types(parser, info, &op, attributes, location) &&
           insert_node(parser, info, attributes, location, tag);
}

/* After a fault: to the next line that starts like a statement. */
static void skip_statement(qf_lexer *lexer) {
    while (lexer->token.kind != QF_TOKEN_END) {
        if (lexer->token.first_on_line &&
            (lexer->token.kind == QF_TOKEN_VALUE || lexer->token.kind == QF_TOKEN_NAME || qf_lexer_is(lexer, "}")))
            return;
        if (lexer->token.kind == QF_TOKEN_MARK && qf_lexer_is(lexer, "{")) {
            /* braces of attributes do not end the graph */
            while (lexer->token.kind != QF_TOKEN_END && !qf_lexer_is(lexer, "}")) qf_lexer_next(lexer);
            if (lexer->token.kind == QF_TOKEN_END) return;
        }
        qf_lexer_next(lexer);
    }
}

static void parse_statements(qf_parser *parser) {
    qf_lexer *lexer = &parser->lexer;
    bool ended = false;
    while (!ended && !must_stop(parser) && !qf_lexer_is(lexer, "}") && lexer->token.kind != QF_TOKEN_END) {
        const qf_token start = lexer->token;
        uint32_t faults = lexer->fault_count;
        parser->operand_count = parser->result_count = parser->type_count = 0;
        if (parse_results(parser) && parse_body(parser, &start, &ended)) continue;
        if (must_stop(parser)) return;
        if (lexer->fault_count == faults) lexer->fault_count++; /* reported by somebody else */
        define_unknown(parser);
        if (lexer->token.text.data == start.text.data) qf_lexer_next(lexer);
        if (!lexer->token.first_on_line || !qf_lexer_is(lexer, "}")) skip_statement(lexer);
    }
    if (must_stop(parser)) return;
    if (!ended) (void)qf_lexer_unexpected(lexer, "return at the end of the graph");
    if (ended && qf_lexer_expect(lexer, "}", "behind return") && lexer->token.kind != QF_TOKEN_END)
        (void)qf_lexer_unexpected(lexer, "the end of the text behind the graph");
}

static void parser_destroy(qf_parser *parser) {
    qf_context *context = parser->context;
    QF_FREE_ITEMS(context, parser->names, parser->name_capacity);
    QF_FREE_ITEMS(context, parser->operands, parser->operand_capacity);
    QF_FREE_ITEMS(context, parser->operand_names, parser->operand_name_capacity);
    QF_FREE_ITEMS(context, parser->results, parser->result_capacity);
    QF_FREE_ITEMS(context, parser->types, parser->type_capacity);
    qf_index_destroy(context, &parser->name_index);
    qf_arena_destroy(&parser->scratch);
}

static bool parse_graph(qf_parser *parser, qf_text text, const char *file_name) {
    qf_context *context = parser->context;
    qf_string file = qf_intern_c(context, file_name ? file_name : "");
    if (!file.id || qf_graph_create(context, "main", &parser->graph) != QF_OK) return false;
    parser->graph->text_file = file;
    qf_lexer_start(&parser->lexer, context, text, qf_string_c(context, file));
    if (parse_header(parser)) parse_statements(parser);
    return parser->lexer.fault_count == 0 && context->status == QF_OK && qf_graph_verify(parser->graph) == QF_OK;
}

qf_graph *qf_graph_parse(qf_context *context, qf_text text, const char *file_name) {
    if (text.size > QF_TEXT_MAX_BYTES) {
        (void)qf_fail(context, QF_ERROR_LIMIT, &(qf_position){.location = file_name},
                      "the text has %zu bytes, more than the limit of %zu", text.size, QF_TEXT_MAX_BYTES);
        return NULL;
    }
    qf_status before = context->status;
    context->status = QF_OK; /* so that a failure in here can be told from an older one */
    qf_parser parser = {.context = context, .scratch = {.context = context}, .name_count = 1};
    bool ok = parse_graph(&parser, text, file_name);
    parser_destroy(&parser);
    if (!ok) {
        qf_graph_destroy(parser.graph);
        parser.graph = NULL;
        if (context->status == QF_OK) (void)qf_record(context, QF_ERROR_PARSE);
    }
    if (before != QF_OK) context->status = before;
    return parser.graph;
}
