/* Owns: subgraphs that run once where they stand, and custom operators whose writes torch made explicit.
 * Does not own: control flow (carried as opaque nodes), the custom operators (customs.c).
 * Next: customs.c. */
#include "frontends/pt2/functional.h"

#include <stdio.h>
#include <string.h>

#include "frontends/pt2/build.h"
#include "frontends/pt2/complex.h"

#define PREFIX "higher_order."

bool qf_pt2_is_higher_order(const char *target) {
    return strncmp(target, PREFIX, sizeof PREFIX - 1) == 0;
}

/* --- subgraphs: (flags..., graph, name?, operands...) --- */
/* Binds the names of the subgraph's inputs to what the node passes. */
static bool bind_inputs(qf_pt2_call *call, const qf_pt2_scope *inner, size_t first) {
    const json_t *inputs = qf_pt2_get(inner->graph, "inputs");
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        const char *kind, *other;
        const json_t *input = json_array_get(inputs, i);
        const json_t *argument = qf_pt2_get(json_array_get(call->arguments, first + i), "arg");
        const json_t *value = qf_pt2_union(argument, &other), *wanted = qf_pt2_union(input, &kind);
        if (!value || !wanted) {
            (void)qf_pt2_fault(call, QF_ERROR_PARSE, "%s: input %zu of its subgraph is given no argument", call->target,
                               i);
            return false;
        }
        const char *name =
            strcmp(kind, "as_tensor") == 0 ? qf_pt2_name_of(wanted) : qf_pt2_text(qf_pt2_get(wanted, "as_name"));
        const char *given =
            strcmp(other, "as_tensor") == 0 ? qf_pt2_name_of(value) : qf_pt2_text(qf_pt2_get(value, "as_name"));
        qf_pt2_binding found = {0};
        const qf_pt2_binding *binding = *given ? qf_pt2_lookup(call->import, call->scope, given) : NULL;
        if (binding)
            found = *binding;
        else if (json_is_integer(value))
            found.dim = qf_pt2_constant(call, json_integer_value(value));
        if (!*name || (!found.tensor && !found.dim.id)) {
            (void)qf_pt2_fault(call, QF_ERROR_VERIFY, "%s: argument %zu is not defined", call->target, first + i);
            return false;
        }
        if (!qf_pt2_bind(call->import, inner, name, found.tensor, found.dim)) return false;
    }
    return true;
}

static bool take_outputs(qf_pt2_call *call, const qf_pt2_scope *inner) {
    const json_t *outputs = qf_pt2_get(inner->graph, "outputs");
    for (uint32_t i = 0; i < call->output_count && i < json_array_size(outputs); i++) {
        const char *kind;
        const json_t *value = qf_pt2_union(json_array_get(outputs, i), &kind);
        const char *name = qf_pt2_name_of(value);
        if (!*name) name = qf_pt2_text(qf_pt2_get(value, "as_name"));
        const qf_pt2_binding *binding = *name ? qf_pt2_lookup(call->import, inner, name) : NULL;
        if (!binding) continue;
        call->output_tensors[i] = binding->tensor;
        call->output_dims[i] = binding->dim;
    }
    return true;
}

static const json_t *argument_at(const qf_pt2_call *call, size_t index) {
    return qf_pt2_get(json_array_get(call->arguments, index), "arg");
}

/* The first subgraph among the arguments, and which of them it is. */
static const json_t *find_graph(const qf_pt2_call *call, size_t *out_index) {
    for (size_t i = 0; i < json_array_size(call->arguments); i++) {
        const json_t *graph = qf_pt2_get(qf_pt2_get(argument_at(call, i), "as_graph"), "graph");
        *out_index = i;
        if (graph) return graph;
    }
    return NULL;
}

/* `between`: arguments behind the graph that are no operands. */
static qf_pt2_outcome inline_graph(qf_pt2_call *call, size_t between) {
    size_t at;
    const json_t *graph = find_graph(call, &at);
    if (!graph) return qf_pt2_decline(call, "it has no subgraph");
    at += 1 + between;
    if (at + json_array_size(qf_pt2_get(graph, "inputs")) != json_array_size(call->arguments))
        return qf_pt2_decline(call, "its operands are not those of its subgraph, one by one");
    if (call->scope->depth == QF_PT2_MAX_SUBGRAPHS)
        return qf_pt2_fault(call, QF_ERROR_LIMIT, "subgraphs nested deeper than %d", QF_PT2_MAX_SUBGRAPHS);
    qf_pt2_scope inner = {.graph = graph, .id = ++call->import->scope_count, .depth = call->scope->depth + 1};
    if (!bind_inputs(call, &inner, at)) return QF_PT2_FAILED;
    if (qf_pt2_import_nodes(call->import, &inner) != QF_OK) {
        call->import->failed = true;
        return QF_PT2_FAILED;
    }
    return take_outputs(call, &inner) ? QF_PT2_MAPPED : QF_PT2_FAILED;
}

/* Every float of the graph is an f32, so that no cast to f32 changes anything. */
static bool is_all_f32(const json_t *graph) {
    const json_t *nodes = qf_pt2_get(graph, "nodes");
    const char *name;
    json_t *meta;
    json_object_foreach(qf_pt2_get(graph, "tensor_values"), name, meta) {
        qf_dtype dtype = qf_pt2_meta_dtype(meta);
        if (dtype == QF_DTYPE_NONE || qf_pt2_meta_is_complex(meta) || (qf_dtype_is_float(dtype) && dtype != QF_F32))
            return false;
    }
    for (size_t i = 0; i < json_array_size(nodes); i++) /* whose subgraphs have tensors of their own */
        if (strstr(qf_pt2_text(qf_pt2_get(json_array_get(nodes, i), "target")), PREFIX)) return false;
    return true;
}

/* (device type, dtype, enabled, cache enabled, graph, operands...). The operators of an enabled region cast their
 * inputs by a list that torch keeps for each device; run_decompositions writes those casts out, an export as it is does
 * not. On a CPU torch takes autocast to anything but 16-bit floats as disabled. */
static qf_pt2_outcome autocast(qf_pt2_call *call) {
    size_t at;
    const json_t *type = qf_pt2_get(argument_at(call, 1), "as_scalar_type");
    bool to_f32 = json_is_integer(type) && qf_pt2_dtype(json_integer_value(type)) == QF_F32;
    bool on_cpu = strcmp(qf_pt2_text(qf_pt2_get(argument_at(call, 0), "as_string")), "cpu") == 0;
    if (json_is_false(qf_pt2_get(argument_at(call, 2), "as_bool")) ||
        (to_f32 && (on_cpu || is_all_f32(find_graph(call, &at)))))
        return inline_graph(call, 0);
    return qf_pt2_decline(call, "autocast is enabled: its operators cast their inputs, which only "
                                "run_decompositions({}) writes out");
}

/* --- auto_functionalized_v2(operator, arguments..., _x_base_index, _x_size, ..., _all_bases) --- */
/* The base's copy seen as the argument that the operator writes: whole, under another shape, or a slice of it. */
static uint32_t view_of_base(qf_pt2_call *call, const char *name, uint32_t base) {
    char key[128];
    qf_dim sizes[QF_MAX_RANK], axis, start, end;
    uint32_t rank;
    qf_value value = qf_pt2_read(call, base);
    (void)snprintf(key, sizeof key, "_%s_slice_dim", name);
    if (qf_pt2_dim(call, key, &axis)) {
        int64_t number;
        uint32_t place;
        if (!qf_dim_is_constant(call->import->context, axis, &number) ||
            !qf_pt2_axis(call, number, qf_pt2_rank(call, value), &place))
            return 0;
        (void)snprintf(key, sizeof key, "_%s_slice_start", name);
        if (!qf_pt2_dim(call, key, &start)) start = qf_pt2_constant(call, 0);
        (void)snprintf(key, sizeof key, "_%s_slice_end", name);
        qf_dim whole = qf_pt2_dim_of(call, value, (int32_t)place);
        if (!qf_pt2_dim(call, key, &end)) end = whole;
        end = qf_dim_minimum(call->import->context, end, whole);
        return qf_pt2_tensor_view(call->import, base, qf_pt2_slice_axis(call, value, place, start, end, 1));
    }
    (void)snprintf(key, sizeof key, "_%s_size", name);
    if (!qf_pt2_dims(call, key, sizes, QF_MAX_RANK, &rank)) return base;
    return qf_pt2_tensor_view(call->import, base, qf_import_view(qf_pt2_target(call), value, sizes, rank));
}

/* The written arguments of the call, from its "_<name>_base_index". */
static bool read_overrides(qf_pt2_call *call, const uint32_t *bases, uint32_t base_count, qf_pt2_override *out,
                           uint32_t *out_count) {
    static const char suffix[] = "_base_index";
    for (size_t i = 0; i < json_array_size(call->arguments); i++) {
        const char *name = qf_pt2_text(qf_pt2_get(json_array_get(call->arguments, i), "name"));
        size_t size = strlen(name);
        if (size < sizeof suffix + 1 || name[0] != '_' || strcmp(name + size - sizeof suffix + 1, suffix) != 0)
            continue;
        char *plain = qf_arena_copy(&call->import->scratch, name + 1, size - sizeof suffix + 1);
        if (!plain) return false;
        plain[size - sizeof suffix] = '\0';
        int64_t index = qf_pt2_int(call, name, -1);
        uint32_t tensor = 0;
        if (qf_pt2_has(call, name)) {
            if (index < 0 || index >= base_count) {
                (void)qf_pt2_fault(call, QF_ERROR_VERIFY, "%s: %s is %lld of %u bases", call->target, name,
                                   (long long)index, base_count);
                return false;
            }
            tensor = view_of_base(call, plain, bases[index]);
            if (!tensor) return false;
        }
        out[(*out_count)++] = (qf_pt2_override){plain, tensor};
    }
    return true;
}

static qf_pt2_outcome functionalised(qf_pt2_call *call) {
    if (json_array_size(call->arguments) > QF_PT2_MAX_ARGUMENTS)
        return qf_pt2_decline(call, "it has more arguments than any operator of the tables");
    qf_pt2_import *import = call->import;
    const char *target = qf_pt2_text(qf_pt2_get(qf_pt2_get(json_array_get(call->arguments, 0), "arg"), "as_operator"));
    if (strncmp(target, "torch.ops.", 10) == 0) target += 10;
    const qf_pt2_custom *custom = qf_pt2_custom_of(import, target);
    if (!custom) return qf_pt2_decline(call, "the importer does not know the operator that it calls");
    uint32_t *bases, base_count = 0, override_count = 0;
    if (qf_pt2_is_of_complex(call)) return qf_pt2_decline(call, "it computes with complex numbers");
    if (!qf_pt2_tensors(call, "_all_bases", &bases, &base_count)) return qf_pt2_decline(call, "it lists no bases");
    for (uint32_t i = 0; i < base_count; i++) { /* the operator writes copies */
        if (bases[i]) bases[i] = qf_pt2_tensor_new(import, qf_pt2_read(call, bases[i]));
        if (!bases[i]) return QF_PT2_FAILED;
    }
    qf_pt2_override *overrides = QF_ARENA_NEW(&import->scratch, qf_pt2_override, json_array_size(call->arguments) + 1);
    if (!overrides || !read_overrides(call, bases, base_count, overrides, &override_count)) return QF_PT2_FAILED;
    qf_pt2_call inner = *call;
    inner.custom = custom;
    inner.target = target;
    inner.overrides = overrides;
    inner.override_count = override_count;
    inner.output_count = call->output_count > base_count ? call->output_count - base_count : 0;
    qf_pt2_outcome outcome = qf_pt2_map_custom(&inner);
    call->reason = inner.reason;
    if (outcome != QF_PT2_MAPPED) return outcome;
    for (uint32_t i = 0; i < base_count && i < call->output_count; i++)
        call->output_tensors[inner.output_count + i] = bases[i];
    return QF_PT2_MAPPED;
}

qf_pt2_outcome qf_pt2_map_higher_order(qf_pt2_call *call) {
    const char *name = call->target + sizeof PREFIX - 1;
    if (strcmp(name, "wrap_with_set_grad_enabled") == 0) return inline_graph(call, 0);
    if (strcmp(name, "invoke_subgraph") == 0) return inline_graph(call, 1); /* its name, for those that are alike */
    if (strcmp(name, "wrap_with_autocast") == 0) return autocast(call);
    if (strcmp(name, "auto_functionalized_v2") == 0) return functionalised(call);
    return qf_pt2_decline(call, "it is control flow, or holds an operator in a way that the importer does not know");
}
