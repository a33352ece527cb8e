/* Owns: importing a list of nodes: finding the mapping, naming results, writes in place, subgraphs, opaque nodes.
 * Does not own: the whole program (import.c), the mappings (map_*.c).
 * Next: tables.c. */
#include <stdio.h>
#include <string.h>

#include "frontends/pt2/build.h"
#include "frontends/pt2/complex.h"
#include "frontends/pt2/functional.h"

qf_pt2_outcome qf_pt2_fault(qf_pt2_call *call, qf_status status, const char *format, ...) {
    va_list arguments;
    qf_position position = {.location = call->where};
    call->import->failed = true;
    va_start(arguments, format);
    (void)qf_fail_list(call->import->context, status, &position, format, arguments);
    va_end(arguments);
    return QF_PT2_FAILED;
}

void qf_pt2_warn(qf_pt2_import *import, const char *location, const char *format, ...) {
    va_list arguments;
    if (import->warning_count++ < import->warnings_sent) return; /* a second attempt says it again */
    import->warnings_sent++;
    qf_position position = {.location = location};
    va_start(arguments, format);
    qf_message_list(import->context, QF_SEVERITY_WARNING, &position, format, arguments);
    va_end(arguments);
}

/* --- where a node comes from --- */
/* The innermost frame of the Python stack: "file.py:12", without folders. */
static void source_of(const json_t *node, char *out, size_t size) {
    const char *trace = qf_pt2_text(qf_pt2_get(qf_pt2_get(node, "metadata"), "stack_trace"));
    const char *frame = NULL;
    *out = '\0';
    for (const char *at = strstr(trace, "File \""); at; at = strstr(at + 1, "File \"")) frame = at + 6;
    if (!frame) return;
    size_t length = strcspn(frame, "\"");
    const char *file = frame;
    for (const char *at = frame; at < frame + length; at++)
        if (*at == '/') file = at + 1;
    const char *line = strstr(frame + length, "line ");
    if (line)
        (void)snprintf(out, size, ", %.*s:%.*s", (int)(frame + length - file), file,
                       (int)strspn(line + 5, "0123456789"), line + 5);
}

/* "sdpa (torch.ops.aten.scaled_dot_product_attention.default, modeling.py:12, model.layers.0.self_attn)" */
static bool locate(qf_pt2_call *call, const char *target) {
    char place[128], text[640];
    source_of(call->node, place, sizeof place);
    const char *module = qf_pt2_text(qf_pt2_get(qf_pt2_get(call->node, "metadata"), "nn_module_stack"));
    const char *name = qf_pt2_text(qf_pt2_get(call->node, "name"));
    for (uint32_t i = 0; !*name && i < call->output_count; i++) name = call->output_names[i];
    (void)snprintf(text, sizeof text, "%.128s%s(%.160s%s%s%.160s)", name, *name ? " " : "", target, place,
                   *module ? ", " : "", module);
    call->location = qf_location_make(call->import->graph, qf_text_of(text), 0, 0);
    call->where = qf_arena_copy(&call->import->scratch, text, strlen(text) + 1);
    return call->location.id && call->where;
}

/* --- results --- */
static uint32_t count_outputs(const json_t *outputs) {
    uint64_t count = 0;
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const char *kind;
        const json_t *value = qf_pt2_union(json_array_get(outputs, i), &kind);
        count += json_is_array(value) ? json_array_size(value) : 1;
    }
    return count > QF_PT2_MAX_ITEMS ? UINT32_MAX : (uint32_t)count;
}

static const char *output_name(const json_t *value) {
    const char *name = qf_pt2_name_of(value);
    return *name ? name : qf_pt2_text(qf_pt2_get(value, "as_name"));
}

static bool read_outputs(qf_pt2_call *call) {
    const json_t *outputs = qf_pt2_get(call->node, "outputs");
    qf_arena *scratch = &call->import->scratch;
    uint32_t count = count_outputs(outputs), next = 0;
    if (count == UINT32_MAX) return false;
    call->output_names = QF_ARENA_NEW(scratch, const char *, count + 1);
    call->outputs = QF_ARENA_NEW(scratch, qf_value, count + 1);
    call->output_tensors = QF_ARENA_NEW(scratch, uint32_t, count + 1);
    call->output_dims = QF_ARENA_NEW(scratch, qf_dim, count + 1);
    if (!call->output_names || !call->outputs || !call->output_tensors || !call->output_dims) return false;
    call->output_count = count;
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const char *kind;
        const json_t *value = qf_pt2_union(json_array_get(outputs, i), &kind);
        if (!json_is_array(value)) call->output_names[next++] = output_name(value);
        for (size_t j = 0; json_is_array(value) && j < json_array_size(value); j++)
            call->output_names[next++] = output_name(json_array_get(value, j));
    }
    return true;
}

static bool name_value(qf_pt2_call *call, qf_value value, const char *name) {
    qf_value_data *data = qf_value_at(call->import->graph, value);
    if (data->name.id || !data->producer.id || call->scope->depth) return true;
    data->name = qf_intern_c(call->import->context, name);
    return data->name.id != 0;
}

/* The strides that the program declares for a tensor are those of contiguous memory. */
static bool is_contiguous(qf_pt2_call *call, const char *name) {
    qf_context *context = call->import->context;
    const json_t *meta = qf_pt2_get(qf_pt2_get(call->scope->graph, "tensor_values"), name);
    const json_t *sizes = qf_pt2_get(meta, "sizes"), *strides = qf_pt2_get(meta, "strides");
    qf_dim step = qf_dim_constant(context, 1);
    if (!meta || json_array_size(sizes) != json_array_size(strides)) return false;
    for (size_t i = json_array_size(sizes); i-- > 0;) {
        qf_dim size = qf_pt2_size(call->import, json_array_get(sizes, i));
        qf_dim stride = qf_pt2_size(call->import, json_array_get(strides, i));
        if (!qf_dim_is(context, size, 1) && !qf_dim_equal(stride, step)) return false;
        step = qf_dim_multiply(context, step, size);
    }
    return true;
}

/* The tensor that the results are views of; 0: none. */
static uint32_t shared_source(qf_pt2_call *call) {
    if (!call->row || call->row->sharing == QF_PT2_FRESH || !json_array_size(call->arguments)) return 0;
    const json_t *first = json_array_get(call->arguments, 0);
    uint32_t source = qf_pt2_tensor_argument(call, qf_pt2_text(qf_pt2_get(first, "name")));
    if (!source || call->row->sharing == QF_PT2_ALIAS) return source;
    if (call->import->tensors[source].complex != qf_pt2_gives_complex(call, 0)) return 0;
    qf_value value = call->import->tensors[source].value;
    bool kept = qf_pt2_dtype_of(call, value) == qf_pt2_dtype_of(call, call->outputs[0]);
    return kept && is_contiguous(call, qf_pt2_name_of(qf_pt2_get(first, "arg"))) ? source : 0;
}

static bool bind_outputs(qf_pt2_call *call) {
    qf_pt2_import *import = call->import;
    uint32_t source = shared_source(call);
    for (uint32_t i = 0; i < call->output_count; i++) {
        const char *name = call->output_names[i];
        if (!*name) continue;
        uint32_t tensor = call->output_tensors[i];
        if (!tensor && call->outputs[i].id) {
            if (!name_value(call, call->outputs[i], name)) return false;
            tensor = source ? qf_pt2_tensor_view(import, source, call->outputs[i])
                            : qf_pt2_tensor_new(import, call->outputs[i]);
            if (!tensor) return false;
            import->tensors[tensor].complex = qf_pt2_gives_complex(call, i);
            import->has_complex |= import->tensors[tensor].complex;
        }
        /* A result that the mapping does not give stays unbound: whoever reads it fails. */
        if (!tensor && !call->output_dims[i].id) continue;
        if (!qf_pt2_bind(import, call->scope, name, tensor, call->output_dims[i])) return false;
    }
    return true;
}

/* --- finding the mapping --- */
static bool row_equal(const void *owner, uint32_t id, const void *key) {
    uint32_t count;
    (void)owner;
    return strcmp(qf_pt2_rows(&count)[id - 1].target, key) == 0;
}

static const qf_pt2_row *find_row(const qf_pt2_import *import, const char *target) {
    uint32_t count;
    uint32_t id = qf_index_find(&import->row_index, qf_hash_bytes(target, strlen(target), 5), row_equal, NULL, target);
    return id ? &qf_pt2_rows(&count)[id - 1] : NULL;
}

/* "aten.add_.Tensor" writes the result of "aten.add.Tensor" into its first argument. */
static const qf_pt2_row *find_in_place(qf_pt2_call *call) {
    char plain[160];
    const char *underscore = strstr(call->target, "_.");
    if (!underscore || underscore == call->target || underscore[-1] == '_') return NULL;
    int size = snprintf(plain, sizeof plain, "%.*s%s", (int)(underscore - call->target), call->target, underscore + 1);
    return size > 0 && (size_t)size < sizeof plain ? find_row(call->import, plain) : NULL;
}

/* Whether `name` is in the comma-separated list. */
static bool listed(const char *list, const char *name) {
    size_t size = strlen(name);
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        if (length == size && memcmp(at, name, size) == 0) return true;
        at += length + (at[length] == ',');
    }
    return false;
}

/* Where tensors lie and who may write them does not change their elements. */
#define IGNORED "device,layout,pin_memory,memory_format,non_blocking,copy,requires_grad"

static bool unread_argument(qf_pt2_call *call) {
    for (size_t i = 0; i < json_array_size(call->arguments); i++) {
        const char *name = qf_pt2_text(qf_pt2_get(json_array_get(call->arguments, i), "name"));
        if (listed(call->row->arguments, name) || listed(IGNORED, name) || !qf_pt2_has(call, name)) continue;
        call->reason = "it has an argument that the importer does not read";
        return true;
    }
    return false;
}

static qf_pt2_outcome write_in_place(qf_pt2_call *call) {
    const json_t *first = json_array_get(call->arguments, 0);
    uint32_t target = qf_pt2_tensor_argument(call, qf_pt2_text(qf_pt2_get(first, "name")));
    if (!target || !qf_pt2_write(call, target, call->outputs[0])) return QF_PT2_FAILED;
    call->outputs[0] = qf_pt2_read(call, target);
    uint32_t made = qf_pt2_tensor_view(call->import, target, call->outputs[0]);
    if (!made) return QF_PT2_FAILED;
    call->import->tensors[made].complex = call->import->tensors[target].complex;
    call->output_tensors[0] = made;
    return QF_PT2_MAPPED;
}

static qf_pt2_outcome map_node(qf_pt2_call *call) {
    if (json_array_size(call->arguments) > QF_PT2_MAX_ARGUMENTS)
        return qf_pt2_decline(call, "it has more arguments than any operator of the tables");
    call->row = find_row(call->import, call->target);
    bool in_place = false;
    if (!call->row) {
        call->row = find_in_place(call);
        in_place = call->row != NULL;
    }
    bool complex = qf_pt2_is_of_complex(call);
    if (!call->row && complex) return qf_pt2_decline(call, "it computes with complex numbers");
    if (!call->row) {
        call->custom = qf_pt2_custom_of(call->import, call->target);
        if (call->custom) return qf_pt2_map_custom(call);
        return qf_pt2_decline(call, "the importer does not know this operator");
    }
    if (unread_argument(call)) return QF_PT2_DECLINED;
    if (in_place && !call->output_count) return qf_pt2_decline(call, "it writes in place and gives no result");
    call->import->unread_number = false;
    qf_pt2_outcome outcome = complex ? qf_pt2_map_complex(call) : call->row->map(call);
    if (outcome == QF_PT2_MAPPED && call->import->unread_number)
        return qf_pt2_decline(call, "a number that it takes is known only in a run");
    if (outcome != QF_PT2_MAPPED || !in_place) return outcome;
    return write_in_place(call);
}

/* --- nodes --- */
/* "torch.ops.aten.add.Tensor" and "torch._ops.aten.add.Tensor" without what all have in common. */
static const char *short_target(const char *target) {
    if (strncmp(target, "torch.ops.", 10) == 0) return target + 10;
    if (strncmp(target, "torch._ops.", 11) == 0) return target + 11;
    return target;
}

/* What messages call the node's operator: for a functionalised call the one that it makes. */
static const char *public_target(const qf_pt2_call *call, const char *target) {
    const json_t *first = qf_pt2_get(json_array_get(call->arguments, 0), "arg");
    const char *inner = qf_pt2_text(qf_pt2_get(first, "as_operator"));
    return *inner ? inner : target;
}

static qf_status import_node(qf_pt2_import *import, const qf_pt2_scope *scope, const json_t *node) {
    const char *target = qf_pt2_text(qf_pt2_get(node, "target"));
    qf_pt2_call call = {.import = import,
                        .scope = scope,
                        .node = node,
                        .target = short_target(target),
                        .arguments = qf_pt2_get(node, "inputs"),
                        .where = import->name};
    if (!*target || !json_is_array(call.arguments) || json_array_size(call.arguments) > QF_PT2_MAX_ITEMS) {
        (void)qf_pt2_fault(&call, QF_ERROR_PARSE, "a node without a target, or without a list of at most %d inputs",
                           QF_PT2_MAX_ITEMS);
        return QF_ERROR_PARSE;
    }
    if (++import->node_count > import->options.max_nodes) {
        (void)qf_pt2_fault(&call, QF_ERROR_LIMIT, "more than %llu nodes",
                           (unsigned long long)import->options.max_nodes);
        return QF_ERROR_LIMIT;
    }
    if (!read_outputs(&call)) {
        (void)qf_pt2_fault(&call, QF_ERROR_LIMIT, "%s has more than %d outputs, or memory ran out", target,
                           QF_PT2_MAX_ITEMS);
        return QF_ERROR_LIMIT;
    }
    if (!locate(&call, public_target(&call, target))) return QF_ERROR_OUT_OF_MEMORY;
    qf_pt2_outcome outcome = qf_pt2_is_higher_order(call.target) ? qf_pt2_map_higher_order(&call) : map_node(&call);
    if (outcome == QF_PT2_FAILED || import->failed) {
        qf_status recorded = qf_context_status(import->context);
        if (recorded == QF_OK)
            (void)qf_pt2_fault(&call, QF_ERROR_VERIFY, "%s cannot be read: its shapes or arguments do not fit it",
                               target);
        return QF_ERROR_VERIFY;
    }
    if (outcome == QF_PT2_DECLINED) {
        qf_pt2_warn(import, call.where, "torch.ops.%s is carried through as it is: %s", call.target, call.reason);
        call.row = NULL;
        memset(call.outputs, 0, call.output_count * sizeof *call.outputs);
        qf_status status = qf_pt2_import_opaque(&call);
        if (status != QF_OK) return status;
    }
    return bind_outputs(&call) ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

qf_status qf_pt2_import_nodes(qf_pt2_import *import, const qf_pt2_scope *scope) {
    const json_t *nodes = qf_pt2_get(scope->graph, "nodes");
    qf_status status = QF_OK;
    for (size_t i = 0; status == QF_OK && i < json_array_size(nodes); i++)
        status = import_node(import, scope, json_array_get(nodes, i));
    return status;
}
