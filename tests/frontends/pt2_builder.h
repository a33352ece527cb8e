/* Owns: small torch.export archives for tests, from a notation of one line a node.
 * Does not own: whole exported models (tests/corpus/pt2).
 * Next: pt2_ops_test.c. */
#ifndef QF_TESTS_FRONTENDS_PT2_BUILDER_H
#define QF_TESTS_FRONTENDS_PT2_BUILDER_H

#include "tests/check.h"

#include <jansson.h>
#include <qfuse/pt2.h>
#include <zip.h>

#include "ir/graph.h"

/* A program of lines:
 *   input x 7[2,s0]            a user input: name, dtype code [sizes]
 *   buffer b 7[4]              a buffer; its bytes by p_weight
 *   y 7[2,s0] = aten.add.Tensor self=%x other=2.0
 *   a 7[2], b 7[2] = op ...    several results; "-" for none
 *   output y
 *   graph g                a subgraph, of lines as the program's: input, nodes, output
 *   end
 *   number n s1            a user input that is a symbolic integer
 *   guard L['x'].size()[0] >= 2
 * Arguments: %name, [%a,%b], [None,%a], [1,-1,$s], $s (symbolic integer), 3, 2.5, 2.0j, true, 'text, dtype:13, op:name,
 * graph:g, None. Those of higher-order operators have no names: =%x.
 */
typedef struct program {
    json_t *inputs, *outputs, *nodes, *values, *numbers, *input_specs, *output_specs, *config, *guards;
    json_t *graphs;
    struct {
        char name[64];
        const void *data;
        size_t size;
    } weights[16];
    uint32_t weight_count;
    int major; /* of the schema */
} program;

static inline json_t *p_size(const char *text, size_t size) {
    char word[64];
    (void)snprintf(word, sizeof word, "%.*s", (int)size, text);
    if (word[0] >= '0' && word[0] <= '9') return json_pack("{s:i}", "as_int", atoi(word));
    char expression[128];
    (void)snprintf(expression, sizeof expression, "Symbol('%s', positive=True, integer=True)", word);
    return json_pack("{s:{s:s}}", "as_expr", "expr_str", expression);
}

/* "7[2,s0]" with contiguous strides (symbols count as 1, which only tests of views through symbols would see). */
static inline json_t *p_meta(const char *text) {
    json_t *sizes = json_array(), *strides = json_array();
    const char *at = strchr(text, '[') + 1;
    while (*at && *at != ']') {
        size_t size = strcspn(at, ",]");
        (void)json_array_append_new(sizes, p_size(at, size));
        at += size + (at[size] == ',');
    }
    long long step = 1;
    for (size_t i = json_array_size(sizes); i-- > 0;) {
        (void)json_array_insert_new(strides, 0, json_pack("{s:I}", "as_int", (json_int_t)step));
        const json_t *number = json_object_get(json_array_get(sizes, i), "as_int");
        step *= number ? json_integer_value(number) : 1;
    }
    return json_pack("{s:i,s:o,s:o,s:{s:i}}", "dtype", atoi(text), "sizes", sizes, "strides", strides, "storage_offset",
                     "as_int", 0);
}

static inline program *p_begin(void) {
    program *p = calloc(1, sizeof *p);
    p->inputs = json_array();
    p->outputs = json_array();
    p->nodes = json_array();
    p->values = json_object();
    p->numbers = json_object();
    p->input_specs = json_array();
    p->output_specs = json_array();
    p->config = json_object();
    p->guards = json_array();
    p->graphs = json_object();
    p->major = 8;
    return p;
}

static inline json_t *p_tensor(const char *name) {
    return json_pack("{s:{s:s}}", "as_tensor", "name", name);
}

static inline json_t *p_list(const char *text) {
    json_t *items = json_array();
    bool optional = strstr(text, "None") != NULL;
    const char *kind = optional            ? "as_optional_tensors"
                       : text[1] == '%'    ? "as_tensors"
                       : strchr(text, '$') ? "as_sym_ints"
                                           : "as_ints";
    for (const char *at = text + 1; *at && *at != ']';) {
        char word[64];
        size_t size = strcspn(at, ",]");
        (void)snprintf(word, sizeof word, "%.*s", (int)size, at);
        at += size + (at[size] == ',');
        if (optional)
            (void)json_array_append_new(items, word[0] == '%' ? p_tensor(word + 1) : json_pack("{s:b}", "as_none", 1));
        else if (word[0] == '%')
            (void)json_array_append_new(items, json_pack("{s:s}", "name", word + 1));
        else if (word[0] == '$')
            (void)json_array_append_new(items, json_pack("{s:s}", "as_name", word + 1));
        else if (strcmp(kind, "as_sym_ints") == 0)
            (void)json_array_append_new(items, json_pack("{s:i}", "as_int", atoi(word)));
        else
            (void)json_array_append_new(items, json_integer(atoi(word)));
    }
    return json_pack("{s:o}", kind, items);
}

static inline json_t *p_value(const char *text) {
    if (text[0] == '%') return p_tensor(text + 1);
    if (text[0] == '[') return p_list(text);
    if (text[0] == '$') return json_pack("{s:{s:s}}", "as_sym_int", "as_name", text + 1);
    if (text[0] == '\'') return json_pack("{s:s}", "as_string", text + 1);
    if (strncmp(text, "dtype:", 6) == 0) return json_pack("{s:i}", "as_scalar_type", atoi(text + 6));
    if (strncmp(text, "op:", 3) == 0) return json_pack("{s:s}", "as_operator", text + 3);
    if (strcmp(text, "None") == 0) return json_pack("{s:b}", "as_none", 1);
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) return json_pack("{s:b}", "as_bool", text[0] == 't');
    if (text[strlen(text) - 1] == 'j') return json_pack("{s:{s:f,s:f}}", "as_complex", "real", 0.0, "imag", atof(text));
    if (strchr(text, '.')) return json_pack("{s:f}", "as_float", atof(text));
    return json_pack("{s:I}", "as_int", (json_int_t)atoll(text));
}

static inline void p_source(program *p, const char *kind, const char *name, const char *meta) {
    (void)json_object_set_new(p->values, name, p_meta(meta));
    (void)json_array_append_new(p->inputs, p_tensor(name));
    if (strcmp(kind, "input") == 0)
        (void)json_array_append_new(p->input_specs, json_pack("{s:{s:o}}", "user_input", "arg", p_tensor(name)));
    else
        (void)json_array_append_new(p->input_specs, json_pack("{s:{s:{s:s},s:s,s:b}}", "buffer", "arg", "name", name,
                                                              "buffer_name", name, "persistent", 1));
}

static inline void p_number(program *p, const char *name, const char *symbol) {
    json_t *argument = json_pack("{s:{s:s}}", "as_sym_int", "as_name", name);
    (void)json_object_set_new(p->numbers, name, p_size(symbol, strlen(symbol)));
    (void)json_array_append(p->inputs, argument);
    (void)json_array_append_new(p->input_specs, json_pack("{s:{s:o}}", "user_input", "arg", argument));
}

/* Words of the results, before the "=": "y 7[2]" or "a 7[2], b 7[2]", "s $" for a number, "-" for none. */
static inline json_t *p_results(program *p, char *text) {
    json_t *outputs = json_array();
    char *rest = NULL;
    for (char *part = strtok_r(text, ";", &rest); part; part = strtok_r(NULL, ";", &rest)) {
        char name[64] = "", meta[64] = "";
        if (sscanf(part, " %63s %63s", name, meta) < 1) continue;
        if (strcmp(name, "-") == 0) {
            (void)json_array_append_new(outputs, json_pack("{s:b}", "as_none", 1));
        } else if (meta[0] == '$') {
            (void)json_array_append_new(outputs, json_pack("{s:{s:s}}", "as_sym_int", "as_name", name));
            (void)json_object_set_new(p->numbers, name, json_object());
        } else {
            (void)json_array_append_new(outputs, p_tensor(name));
            (void)json_object_set_new(p->values, name, p_meta(meta));
        }
    }
    return outputs;
}

static inline void p_node(program *p, char *line) {
    char *equals = strstr(line, " = "), *rest = NULL, target[128];
    *equals = '\0';
    char *word = strtok_r(equals + 3, " ", &rest);
    bool of_sizes = strncmp(word, "_operator.", 10) == 0 || strncmp(word, "torch.sym_", 10) == 0;
    (void)snprintf(target, sizeof target, of_sizes ? "%s" : "torch.ops.%s", word);
    json_t *arguments = json_array();
    while ((word = strtok_r(NULL, " ", &rest))) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        json_t *graph = strncmp(value, "graph:", 6) == 0 ? json_object_get(p->graphs, value + 6) : NULL;
        json_t *argument =
            graph ? json_pack("{s:{s:s,s:O}}", "as_graph", "name", value + 6, "graph", graph) : p_value(value);
        (void)json_array_append_new(arguments, json_pack("{s:s,s:o,s:i}", "name", word, "arg", argument, "kind", 1));
    }
    (void)json_array_append_new(p->nodes, json_pack("{s:s,s:o,s:o,s:{s:s}}", "target", target, "inputs", arguments,
                                                    "outputs", p_results(p, line), "metadata", "stack_trace",
                                                    "  File \"/a/model.py\", line 7, in forward\n"));
}

static inline void p_end(program *p) {
    json_t *parts[] = {p->inputs,      p->outputs,      p->nodes,  p->values, p->numbers,
                       p->input_specs, p->output_specs, p->config, p->guards, p->graphs};
    for (size_t i = 0; i < QF_COUNT_OF(parts); i++) json_decref(parts[i]);
    free(p);
}

static inline void p_line(program *p, char *line) {
    char name[64], meta[64];
    if (sscanf(line, "input %63s %63s", name, meta) == 2) {
        p_source(p, "input", name, meta);
    } else if (sscanf(line, "buffer %63s %63s", name, meta) == 2) {
        p_source(p, "buffer", name, meta);
    } else if (sscanf(line, "number %63s %63s", name, meta) == 2) {
        p_number(p, name, meta);
    } else if (strncmp(line, "guard ", 6) == 0) {
        (void)json_array_append_new(p->guards, json_string(line + 6));
    } else if (sscanf(line, "output %63s", name) == 1) {
        (void)json_array_append_new(p->output_specs, json_pack("{s:{s:o}}", "user_output", "arg", p_tensor(name)));
        (void)json_array_append_new(p->outputs, p_tensor(name));
    } else if (*line) {
        p_node(p, line);
    }
}

static inline void p_lines(program *p, const char *text) {
    char *copy = strdup(text), *rest = NULL, name[64] = "";
    program *inner = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        line += strspn(line, " ");
        if (!inner && sscanf(line, "graph %63s", name) == 1) {
            inner = p_begin();
        } else if (inner && strcmp(line, "end") == 0) {
            (void)json_object_set_new(p->graphs, name,
                                      json_pack("{s:O,s:O,s:O,s:O,s:O}", "inputs", inner->inputs, "outputs",
                                                inner->outputs, "nodes", inner->nodes, "tensor_values", inner->values,
                                                "sym_int_values", inner->numbers));
            p_end(inner);
            inner = NULL;
        } else {
            p_line(inner ? inner : p, line);
        }
    }
    free(copy);
}

static inline program *p_program(const char *text) {
    program *p = p_begin();
    p_lines(p, text);
    return p;
}

/* The bytes of a buffer. They must live until the archive is written. */
static inline void p_weight(program *p, const char *name, const void *data, size_t size) {
    char path[32];
    (void)snprintf(path, sizeof path, "weight_%u", p->weight_count);
    json_t *meta = json_object_get(p->values, name);
    (void)json_object_set_new(
        p->config, name,
        json_pack("{s:s,s:b,s:b,s:O}", "path_name", path, "is_param", 0, "use_pickle", 0, "tensor_meta", meta));
    (void)snprintf(p->weights[p->weight_count].name, sizeof p->weights[0].name, "m/data/weights/%s", path);
    p->weights[p->weight_count].data = data;
    p->weights[p->weight_count++].size = size;
}

static inline json_t *p_document(program *p) {
    return json_pack("{s:{s:{s:O,s:O,s:O,s:O,s:O,s:{}},s:{s:O,s:O}},s:{s:i,s:i},s:{s:{s:i,s:i}},s:O}", "graph_module",
                     "graph", "inputs", p->inputs, "outputs", p->outputs, "nodes", p->nodes, "tensor_values", p->values,
                     "sym_int_values", p->numbers, "sym_bool_values", "signature", "input_specs", p->input_specs,
                     "output_specs", p->output_specs, "schema_version", "major", p->major, "minor", 20,
                     "range_constraints", "s0", "min_val", 1, "max_val", 128, "guards_code", p->guards);
}

static inline void p_add(zip_t *zip, const char *name, const void *data, size_t size, bool stored) {
    zip_source_t *source = zip_source_buffer(zip, data, size, 0);
    zip_int64_t index = zip_file_add(zip, name, source, ZIP_FL_OVERWRITE);
    assert_true(index >= 0);
    assert_int_equal(zip_set_file_compression(zip, (zip_uint64_t)index, stored ? ZIP_CM_STORE : ZIP_CM_DEFLATE, 0), 0);
}

static inline void *p_pack(const char *json, program *p, bool stored, size_t *out_size) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(NULL, 0, 0, &error);
    zip_t *zip = zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error);
    assert_non_null(zip);
    json_t *config = json_pack("{s:O}", "config", p->config);
    char *weights = json_dumps(config, JSON_COMPACT);
    p_add(zip, "m/models/model.json", json, strlen(json), stored);
    p_add(zip, "m/byteorder", "little", 6, true);
    p_add(zip, "m/data/weights/model_weights_config.json", weights, strlen(weights), stored);
    for (uint32_t i = 0; i < p->weight_count; i++)
        p_add(zip, p->weights[i].name, p->weights[i].data, p->weights[i].size, stored);
    zip_source_keep(source);
    assert_int_equal(zip_close(zip), 0);
    assert_int_equal(zip_source_open(source), 0);
    (void)zip_source_seek(source, 0, SEEK_END);
    size_t size = (size_t)zip_source_tell(source);
    (void)zip_source_seek(source, 0, SEEK_SET);
    void *data = malloc(size);
    assert_int_equal(zip_source_read(source, data, size), size);
    (void)zip_source_close(source);
    zip_source_free(source);
    zip_error_fini(&error);
    json_decref(config);
    free(weights);
    *out_size = size;
    return data;
}

/* The archive's bytes, for free(); the program is used up. */
static inline void *p_archive(program *p, bool stored, size_t *out_size) {
    json_t *document = p_document(p);
    char *json = json_dumps(document, JSON_COMPACT);
    assert_non_null(json);
    void *data = p_pack(json, p, stored, out_size);
    free(json);
    json_decref(document);
    p_end(p);
    return data;
}

#endif
