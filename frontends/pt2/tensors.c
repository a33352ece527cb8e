/* Owns: names of the program, and which tensors share memory: what a write to one makes of the others.
 * Does not own: which operators make views or write (ops.def, customs.def).
 * Next: nodes.c. */
#include "frontends/pt2/build.h"

/* --- names --- */
typedef struct name_key {
    uint32_t scope;
    qf_string name;
} name_key;

static bool binding_equal(const void *owner, uint32_t id, const void *key) {
    const qf_pt2_binding *binding = &((const qf_pt2_import *)owner)->bindings[id];
    const name_key *wanted = key;
    return binding->scope == wanted->scope && binding->name.id == wanted->name.id;
}

static uint64_t hash_key(name_key key) {
    return qf_hash_mix(qf_hash_mix(17, key.scope), key.name.id);
}

const qf_pt2_binding *qf_pt2_lookup(const qf_pt2_import *import, const qf_pt2_scope *scope, const char *name) {
    name_key key = {scope->id, qf_intern_c(import->context, name)};
    uint32_t id = qf_index_find(&import->binding_index, hash_key(key), binding_equal, import, &key);
    return id ? &import->bindings[id] : NULL;
}

bool qf_pt2_bind(qf_pt2_import *import, const qf_pt2_scope *scope, const char *name, uint32_t tensor, qf_dim dim) {
    name_key key = {scope->id, qf_intern_c(import->context, name)};
    if (!key.name.id) return false;
    if (!import->binding_count) import->binding_count = 1;
    if (!QF_GROW(import->context, import->bindings, import->binding_capacity, (uint64_t)import->binding_count + 1))
        return false;
    if (qf_index_find(&import->binding_index, hash_key(key), binding_equal, import, &key)) {
        qf_position position = {.location = import->name};
        (void)qf_fail(import->context, QF_ERROR_VERIFY, &position, "the name '%s' is defined twice", name);
        return false;
    }
    import->bindings[import->binding_count] = (qf_pt2_binding){key.scope, key.name, tensor, dim};
    return qf_index_add(import->context, &import->binding_index, hash_key(key), import->binding_count++);
}

/* --- tensors --- */
uint32_t qf_pt2_tensor_new(qf_pt2_import *import, qf_value value) {
    if (!value.id) return 0;
    if (!import->tensor_count) import->tensor_count = 1;
    if (!QF_GROW(import->context, import->tensors, import->tensor_capacity, (uint64_t)import->tensor_count + 1))
        return 0;
    import->tensors[import->tensor_count] = (qf_pt2_tensor){.value = value, .root = import->tensor_count};
    return import->tensor_count++;
}

uint32_t qf_pt2_tensor_view(qf_pt2_import *import, uint32_t of, qf_value value) {
    uint32_t made = qf_pt2_tensor_new(import, value);
    if (!made) return 0;
    uint32_t root = import->tensors[of].root;
    const qf_pt2_tensor *owner = &import->tensors[root];
    import->tensors[made].root = root;
    import->tensors[made].root_value = owner->value;
    import->tensors[made].version = owner->version;
    return made;
}

/* The layout nodes from `value` back to `root`, nearest first. False where something else stands between. */
typedef struct chain {
    qf_node *nodes;
    uint32_t count, capacity;
} chain;

static bool is_replayed(qf_op op) {
    return op == QF_OP_view || op == QF_OP_permute || op == QF_OP_slice || op == QF_OP_split || op == QF_OP_expand ||
           op == QF_OP_bitcast;
}

static bool find_chain(qf_pt2_call *call, qf_value value, qf_value root, chain *out) {
    const qf_graph *graph = call->import->graph;
    while (value.id != root.id) {
        qf_node node = qf_value_producer(graph, value);
        if (!is_replayed(qf_node_op(graph, node))) {
            (void)qf_pt2_fault(
                call, QF_ERROR_UNSUPPORTED,
                "%s reads or writes a view of memory that was written, through %s, which QFuse does not follow",
                call->target, qf_op_info_of(qf_node_op(graph, node))->name);
            return false;
        }
        if (!QF_GROW(call->import->context, out->nodes, out->capacity, (uint64_t)out->count + 1)) return false;
        out->nodes[out->count++] = node;
        value = qf_node_operand(graph, node, 0);
    }
    return true;
}

/* The result of `node` that the chain goes through. */
static uint32_t result_of(const qf_graph *graph, const chain *list, uint32_t index, qf_value value) {
    qf_value through = index ? qf_node_operand(graph, list->nodes[index - 1], 0) : value;
    return qf_value_at(graph, through)->result_index;
}

static qf_value replay(qf_pt2_call *call, qf_node source, uint32_t result, qf_value operand) {
    qf_graph *graph = call->import->graph;
    const qf_node_data *data = qf_node_at(graph, source);
    uint32_t results = data->result_count;
    qf_node node = qf_import_node(qf_pt2_target(call), data->op, &operand, 1, data->attributes, results);
    return node.id ? qf_node_result(graph, node, result) : (qf_value){0};
}

qf_value qf_pt2_read(qf_pt2_call *call, uint32_t tensor) {
    qf_pt2_import *import = call->import;
    qf_pt2_tensor *view = &import->tensors[tensor], *owner = &import->tensors[view->root];
    if (view == owner || view->version == owner->version) return view->value;
    chain list = {0};
    qf_value value = find_chain(call, view->value, view->root_value, &list) ? owner->value : (qf_value){0};
    for (uint32_t i = list.count; value.id && i-- > 0;)
        value = replay(call, list.nodes[i], result_of(import->graph, &list, i, view->value), value);
    QF_FREE_ITEMS(import->context, list.nodes, list.capacity);
    if (!value.id) {
        import->failed = true;
        return value;
    }
    view->value = value;
    view->root_value = owner->value;
    view->version = owner->version;
    return value;
}

/* x with the part that `slice` takes replaced. */
static qf_value put_slice(qf_pt2_call *call, qf_node slice, qf_value x, qf_value part) {
    qf_graph *graph = call->import->graph;
    const qf_attribute *starts = qf_node_attribute(graph, slice, QF_ATTR(slice, starts));
    const qf_attribute *ends = qf_node_attribute(graph, slice, QF_ATTR(slice, ends));
    const qf_attribute *steps = qf_node_attribute(graph, slice, QF_ATTR(slice, steps));
    uint32_t axis = UINT32_MAX, cut = 0;
    for (uint32_t i = 0; i < starts->count; i++) {
        qf_dim whole = qf_pt2_dim_of(call, x, (int32_t)i);
        bool full = qf_dim_is(call->import->context, starts->dims[i], 0) && qf_dim_equal(ends->dims[i], whole);
        if (steps->ints[i] != 1) {
            (void)qf_pt2_fault(call, QF_ERROR_UNSUPPORTED, "%s writes through a slice with steps", call->target);
            return (qf_value){0};
        }
        if (full) continue;
        axis = i;
        cut++;
    }
    if (cut == 0) return part;
    if (cut > 1) {
        (void)qf_pt2_fault(call, QF_ERROR_UNSUPPORTED, "%s writes through a slice of several axes", call->target);
        return (qf_value){0};
    }
    return qf_pt2_put_part(call, x, part, axis, starts->dims[axis], ends->dims[axis]);
}

static qf_value put_split(qf_pt2_call *call, qf_node split, uint32_t result, qf_value x, qf_value part) {
    qf_graph *graph = call->import->graph;
    const qf_attribute *sizes = qf_node_attribute(graph, split, QF_ATTR(split, sizes));
    uint32_t axis = (uint32_t)qf_node_attribute(graph, split, QF_ATTR(split, axis))->integer;
    qf_dim start = qf_dim_constant(call->import->context, 0);
    for (uint32_t i = 0; i < result; i++) start = qf_dim_add(call->import->context, start, sizes->dims[i]);
    qf_dim end = qf_dim_add(call->import->context, start, sizes->dims[result]);
    return qf_pt2_put_part(call, x, part, axis, start, end);
}

/* The value of the node's operand after `part` was written where its result stands. */
static qf_value put(qf_pt2_call *call, qf_node node, uint32_t result, qf_value part) {
    qf_graph *graph = call->import->graph;
    qf_value x = qf_node_operand(graph, node, 0);
    int64_t inverse[QF_MAX_RANK] = {0};
    switch (qf_node_op(graph, node)) {
    case QF_OP_view: return qf_import_view(qf_pt2_target(call), part, qf_value_dims(graph, x), qf_value_rank(graph, x));
    case QF_OP_permute: {
        const qf_attribute *order = qf_node_attribute(graph, node, QF_ATTR(permute, order));
        for (uint32_t i = 0; i < order->count; i++) inverse[order->ints[i]] = i;
        return qf_pt2_permute(call, part, inverse, order->count);
    }
    case QF_OP_slice: return put_slice(call, node, x, part);
    case QF_OP_split: return put_split(call, node, result, x, part);
    case QF_OP_bitcast: return qf_pt2_bitcast(call, part, qf_value_dtype(graph, x));
    default:
        (void)qf_pt2_fault(call, QF_ERROR_UNSUPPORTED,
                           "%s writes through an expanded tensor, whose elements share memory", call->target);
        return (qf_value){0};
    }
}

/* A buffer that is written must be an input: the import begins anew where that was not known. */
static void note_write(qf_pt2_import *import, uint32_t root) {
    uint32_t source = import->tensors[root].source;
    if (!source || import->sources[source - 1].written) return;
    import->sources[source - 1].written = true;
    import->again = true;
}

bool qf_pt2_write(qf_pt2_call *call, uint32_t tensor, qf_value value) {
    qf_pt2_import *import = call->import;
    qf_graph *graph = import->graph;
    if (!tensor || !value.id) return !(import->failed = true);
    qf_value before = qf_pt2_read(call, tensor);
    if (!before.id) return false;
    uint32_t root = import->tensors[tensor].root;
    note_write(import, root);
    value = qf_pt2_cast(call, value, qf_value_dtype(graph, before));
    if (qf_value_rank(graph, before) <= QF_MAX_RANK)
        value =
            qf_import_expand(qf_pt2_target(call), value, qf_value_dims(graph, before), qf_value_rank(graph, before));
    chain list = {0};
    bool good = value.id && find_chain(call, before, import->tensors[root].value, &list);
    qf_value whole = value;
    for (uint32_t i = 0; good && i < list.count; i++) {
        whole = put(call, list.nodes[i], result_of(graph, &list, i, before), whole);
        good = whole.id != 0;
    }
    QF_FREE_ITEMS(import->context, list.nodes, list.capacity);
    if (!good) return !(import->failed = true);
    import->tensors[root].value = whole;
    import->tensors[root].version++;
    return true;
}
