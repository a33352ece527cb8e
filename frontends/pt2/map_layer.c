/* Owns: attentions that are only a layer's name: over the tokens of the call, or over a cache that becomes inputs.
 * Does not own: torch's own attention (map_attention.c), the other families (map_custom.c).
 * Next: customs.def; qfuse/pt2.h for the inputs' names. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontends/pt2/custom.h"

/* Layout nodes and elementwise ones between an operand and the place that shows its heads. */
#define MAX_STEPS 64

/* --- shapes: [tokens, heads, head size], or [tokens, heads * head size] --- */

static int64_t last_of(qf_pt2_call *call, qf_value x) {
    int64_t size;
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank == 0 || rank > QF_MAX_RANK) return 0;
    return qf_dim_is_constant(call->import->context, qf_pt2_dim_of(call, x, -1), &size) ? size : 0;
}

/* A number in the table's line, or an argument of the node. 0: neither. */
static double literal_role(qf_pt2_call *call, const char *role) {
    char *end;
    const char *text = qf_pt2_role(call, role);
    if (!*text) return 0;
    double number = strtod(text, &end);
    return *end ? qf_pt2_number(call, text, 0) : number;
}

/* The head size of an operand of rank 2: where it was made from heads, a view merged them; norms, rotations and casts
 * may stand between. 0: nothing tells. */
static int64_t merged_head_size(qf_pt2_call *call, qf_value x) {
    const qf_graph *graph = qf_pt2_graph(call);
    int64_t width = last_of(call, x);
    for (uint32_t step = 0; width > 1 && step < MAX_STEPS; step++) {
        qf_node node = qf_value_producer(graph, x);
        qf_op op = qf_node_op(graph, node);
        qf_value from = qf_node_operand(graph, node, 0);
        if (!node.id || !from.id) return 0;
        bool layout = op == QF_OP_view || op == QF_OP_copy;
        if (!layout && !qf_op_has_trait(op, QF_TRAIT_ELEMENTWISE)) return 0;
        if (!layout && qf_value_type(graph, from).id != qf_value_type(graph, x).id && op != QF_OP_cast) return 0;
        int64_t last = last_of(call, from);
        if (op == QF_OP_view && qf_pt2_rank(call, from) > 2 && last > 1 && last < width && width % last == 0)
            return last;
        if (last != width) return 0;
        x = from;
    }
    return 0;
}

static int64_t head_size_of(qf_pt2_call *call, const qf_value *operands) {
    int64_t size = (int64_t)literal_role(call, "head_size");
    for (uint32_t i = 0; size < 1 && i < 3; i++)
        if (qf_pt2_rank(call, operands[i]) == 3) size = last_of(call, operands[i]);
    for (uint32_t i = 0; size < 1 && i < 3; i++) size = merged_head_size(call, operands[i]);
    return size;
}

/* [tokens, heads, head size]; 0 where its heads are not whole. */
static qf_value with_heads(qf_pt2_call *call, qf_value x, int64_t head_size) {
    qf_context *context = call->import->context;
    if (qf_pt2_rank(call, x) == 3) return x;
    qf_dim size = qf_pt2_constant(call, head_size);
    qf_dim heads = qf_dim_divide_exactly(context, qf_pt2_dim_of(call, x, 1), size);
    if (!heads.id) return (qf_value){0};
    return qf_import_view(qf_pt2_target(call), x, (qf_dim[]){qf_pt2_dim_of(call, x, 0), heads, size}, 3);
}

static const char *const operand_roles[] = {"query", "key", "value"};

/* NULL, or why the operands are none that QFuse knows. */
static const char *read_operands(qf_pt2_call *call, uint32_t first, qf_value *operands) {
    for (uint32_t i = first; i < 3; i++) {
        operands[i] = qf_pt2_role_value(call, operand_roles[i]);
        uint32_t rank = qf_pt2_rank(call, operands[i]);
        if (rank != 2 && rank != 3)
            return "its operands are not [tokens, heads, head size] or [tokens, heads * head size]";
    }
    int64_t head_size = head_size_of(call, operands);
    if (head_size < 1) return "nothing in the program tells its head size: give head_size=N in a line of customs";
    for (uint32_t i = first; i < 3; i++) {
        operands[i] = with_heads(call, operands[i], head_size);
        if (!operands[i].id) return "its operands are not whole heads of one size";
    }
    return NULL;
}

/* --- the cache of a layer --- */

static qf_value add_input(qf_pt2_call *call, const char *name, qf_dtype dtype, const qf_dim *dims, uint32_t rank,
                          qf_string *out_name) {
    qf_context *context = call->import->context;
    qf_string string = qf_intern_c(context, name);
    qf_type type = qf_type_tensor(context, dtype, dims, rank);
    if (out_name) *out_name = string;
    if (!string.id || !type.id) return (qf_value){0};
    return qf_graph_add_input_value(qf_pt2_graph(call), string, type);
}

static qf_dim symbol(qf_pt2_call *call, const char *name) {
    return qf_dim_named(call->import->context, qf_text_of(name));
}

/* The inputs that all layers share. False: other tokens than the layers before, or a failure. */
static bool need_paging(qf_pt2_call *call, qf_dim tokens) {
    qf_pt2_paging *paging = &call->import->paging;
    if (paging->slots.id) return qf_dim_equal(paging->tokens, tokens);
    qf_dim sequences = symbol(call, "sequences");
    qf_dim starts = qf_dim_add_constant(call->import->context, sequences, 1);
    paging->tokens = tokens;
    paging->block_table =
        add_input(call, "block_table", QF_I32, (qf_dim[]){sequences, symbol(call, "sequence_pages")}, 2, NULL);
    paging->kv_lens = add_input(call, "kv_lens", QF_I32, &sequences, 1, NULL);
    paging->q_start = add_input(call, "q_start", QF_I32, &starts, 1, NULL);
    paging->slots = add_input(call, "slots", QF_I64, &tokens, 1, NULL);
    return paging->block_table.id && paging->kv_lens.id && paging->q_start.id && paging->slots.id;
}

static qf_value layer_input(qf_pt2_call *call, const char *layer, const char *what, qf_dtype dtype, const qf_dim *dims,
                            uint32_t rank, qf_string *out_name) {
    size_t size = strlen(layer) + strlen(what) + 2;
    char *name = qf_arena_allocate(&call->import->scratch, size);
    if (!name) return (qf_value){0};
    (void)snprintf(name, size, "%s.%s", layer, what);
    return add_input(call, name, dtype, dims, rank, out_name);
}

static bool make_layer(qf_pt2_call *call, const char *name, const qf_value *operands, qf_pt2_layer *layer) {
    static const char *const names[] = {"k_cache", "v_cache"};
    qf_pt2_import *import = call->import;
    qf_dtype dtype = import->cache_dtype ? import->cache_dtype : qf_pt2_dtype_of(call, operands[1]);
    qf_dim page =
        import->options.page_size ? qf_pt2_constant(call, import->options.page_size) : symbol(call, "page_size");
    for (uint32_t i = 0; i < 2; i++) {
        qf_dim dims[] = {symbol(call, "pages"), page, qf_pt2_dim_of(call, operands[i + 1], 1),
                         qf_pt2_dim_of(call, operands[i + 1], 2)};
        qf_value input = layer_input(call, name, names[i], dtype, dims, 4, &layer->names[i]);
        layer->caches[i] = input.id ? qf_pt2_tensor_new(import, input) : 0;
        if (!layer->caches[i]) return false;
    }
    if (!qf_dtype_is_float8(dtype)) return true;
    layer->q_scale = layer_input(call, name, "q_scale", QF_F32, NULL, 0, NULL);
    layer->scales[0] = layer_input(call, name, "k_scale", QF_F32, NULL, 0, NULL);
    layer->scales[1] = layer_input(call, name, "v_scale", QF_F32, NULL, 0, NULL);
    return layer->q_scale.id && layer->scales[0].id && layer->scales[1].id;
}

/* The string that names the call's layer, or "layers.N" of a number. NULL when memory is out. */
static const char *layer_name(qf_pt2_call *call) {
    const char *role = qf_pt2_role(call, "layer");
    int64_t number = qf_pt2_int(call, role, -1);
    if (number < 0) return qf_pt2_string(call, role, "");
    char *name = qf_arena_allocate(&call->import->scratch, 32);
    if (name) (void)snprintf(name, 32, "layers.%lld", (long long)number);
    return name;
}

/* The layer that the call names, with its inputs. NULL: call->reason says why not, or a failure. */
static qf_pt2_layer *layer_of(qf_pt2_call *call, const qf_value *operands) {
    qf_pt2_import *import = call->import;
    const char *name = layer_name(call);
    if (!name) return NULL;
    if (!*name) {
        call->reason = "its line in the table of custom operators does not say which argument is the layer's name";
        return NULL;
    }
    if (!need_paging(call, qf_pt2_dim_of(call, operands[1], 0))) {
        call->reason = "its keys are of other tokens than those of the layers before";
        return NULL;
    }
    qf_string string = qf_intern_c(import->context, name);
    for (uint32_t i = import->layer_count; i-- > 0;) /* the last one, mostly */
        if (import->layers[i].name.id == string.id) return &import->layers[i];
    if (!string.id ||
        !QF_GROW(import->context, import->layers, import->layer_capacity, (uint64_t)import->layer_count + 1))
        return NULL;
    qf_pt2_layer *layer = &import->layers[import->layer_count];
    *layer = (qf_pt2_layer){.name = string};
    if (!make_layer(call, name, operands, layer)) return NULL;
    import->layer_count++;
    return layer;
}

/* Keys and values of the call go to their slots; an FP8 cache divides by its scale. */
static bool write_cache(qf_pt2_call *call, qf_pt2_layer *layer, const qf_value *operands) {
    for (uint32_t i = 0; i < 2; i++) {
        qf_value cache = qf_pt2_read(call, layer->caches[i]);
        qf_dtype dtype = qf_pt2_dtype_of(call, cache);
        qf_value rows = layer->scales[i].id ? operands[i + 1] : qf_pt2_cast(call, operands[i + 1], dtype);
        qf_value written =
            qf_import_op(qf_pt2_target(call), QF_OP_kv_cache_write,
                         (qf_value[]){cache, rows, call->import->paging.slots, layer->scales[i]}, 4, NULL);
        if (!written.id || !qf_pt2_write(call, layer->caches[i], written)) return false;
    }
    return true;
}

/* --- attention --- */

static double score_scale(qf_pt2_call *call, qf_value query) {
    double given = literal_role(call, "softmax_scale");
    return given > 0 ? given : 1 / sqrt((double)last_of(call, query));
}

/* `y`, [tokens, heads, head size], as the call gives it: like the argument that is written, else like the query. */
static qf_pt2_outcome give_result(qf_pt2_call *call, qf_value y) {
    qf_graph *graph = qf_pt2_graph(call);
    qf_value out = qf_pt2_role_value(call, "out"), query = qf_pt2_role_value(call, "query");
    if (!y.id) return QF_PT2_FAILED;
    if (out.id && qf_pt2_rank(call, out) <= QF_MAX_RANK) {
        y = qf_import_view(qf_pt2_target(call), y, qf_value_dims(graph, out), qf_pt2_rank(call, out));
    } else if (qf_pt2_rank(call, query) == 2) {
        qf_dim width = qf_dim_multiply(call->import->context, qf_pt2_dim_of(call, y, 1), qf_pt2_dim_of(call, y, 2));
        y = qf_import_view(qf_pt2_target(call), y, (qf_dim[]){qf_pt2_dim_of(call, y, 0), width}, 2);
    }
    return qf_pt2_mapped_if(call, qf_pt2_role_give(call, "out", 0, y));
}

static qf_pt2_outcome over_tokens(qf_pt2_call *call, const qf_value *rows) {
    qf_value operands[QF_IN(attention, out_scale) + 1] = {{0}};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    for (uint32_t i = 0; i < 3; i++) operands[i] = qf_pt2_unsqueeze(call, rows[i], 0);
    qf_pt2_defaults(call, QF_OP_attention, attributes);
    attributes[QF_ATTR(attention, scale)].number = score_scale(call, rows[0]);
    attributes[QF_ATTR(attention, causal)].integer = true;
    attributes[QF_ATTR(attention, align)].integer = QF_VALUE_bottom_right;
    attributes[QF_ATTR(attention, layout)].integer = QF_VALUE_bshd;
    if (!qf_pt2_role_quantised(call, &operands[QF_IN(attention, out_scale)], &attributes[QF_ATTR(attention, out)]))
        return qf_pt2_decline(call, qf_pt2_scale_shape);
    qf_value y = qf_import_op(qf_pt2_target(call), QF_OP_attention, operands, QF_COUNT_OF(operands), attributes);
    qf_dim dims[3];
    for (uint32_t i = 0; y.id && i < 3; i++) dims[i] = qf_pt2_dim_of(call, y, (int32_t)i + 1);
    return give_result(call, y.id ? qf_import_view(qf_pt2_target(call), y, dims, 3) : y);
}

static qf_pt2_outcome over_cache(qf_pt2_call *call, const qf_value *rows) {
    qf_value operands[QF_IN(paged_attention, out_scale) + 1] = {{0}};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_paged_attention, attributes);
    attributes[QF_ATTR(paged_attention, scale)].number = score_scale(call, rows[0]);
    if (!qf_pt2_role_quantised(call, &operands[QF_IN(paged_attention, out_scale)],
                               &attributes[QF_ATTR(paged_attention, out)]))
        return qf_pt2_decline(call, qf_pt2_scale_shape);
    qf_pt2_layer *layer = layer_of(call, rows);
    if (!layer) return call->reason ? QF_PT2_DECLINED : QF_PT2_FAILED;
    const qf_pt2_paging *paging = &call->import->paging;
    /* With a dependency on an update the rows are in the cache already. */
    const char *dependency = qf_pt2_role(call, "dependency"), *saves = qf_pt2_role(call, "saves");
    bool written = (*dependency && qf_pt2_has(call, dependency)) || (*saves && !qf_pt2_bool(call, saves, true));
    if (!written && !write_cache(call, layer, rows)) return qf_pt2_mapped_if(call, false);
    operands[QF_IN(paged_attention, q)] = rows[0];
    operands[QF_IN(paged_attention, k_cache)] = qf_pt2_read(call, layer->caches[0]);
    operands[QF_IN(paged_attention, v_cache)] = qf_pt2_read(call, layer->caches[1]);
    operands[QF_IN(paged_attention, block_table)] = paging->block_table;
    operands[QF_IN(paged_attention, kv_lens)] = paging->kv_lens;
    operands[QF_IN(paged_attention, q_start)] = paging->q_start;
    operands[QF_IN(paged_attention, q_scale)] = layer->q_scale;
    operands[QF_IN(paged_attention, k_scale)] = layer->scales[0];
    operands[QF_IN(paged_attention, v_scale)] = layer->scales[1];
    return give_result(
        call, qf_import_op(qf_pt2_target(call), QF_OP_paged_attention, operands, QF_COUNT_OF(operands), attributes));
}

static void say_unbound(qf_pt2_call *call) {
    if (call->import->said_unbound) return;
    call->import->said_unbound = true;
    qf_position position = {.location = call->where};
    qf_message(call->import->context, QF_SEVERITY_NOTE, &position,
               "the program does not hold this layer's KV cache: it attends, causally, to the tokens of the call; with "
               "kv_cache (--pt2-kv-cache=auto) the cache becomes inputs");
}

qf_pt2_outcome qf_pt2_map_layer_attention(qf_pt2_call *call) {
    qf_value rows[3];
    const char *reason = read_operands(call, 0, rows);
    if (reason) return call->import->failed ? QF_PT2_FAILED : qf_pt2_decline(call, reason);
    if (call->import->options.kv_cache) return over_cache(call, rows);
    say_unbound(call);
    return over_tokens(call, rows);
}

/* Writes the cache ahead of the attention, and gives an empty tensor, which only orders the two. */
qf_pt2_outcome qf_pt2_map_cache_update(qf_pt2_call *call) {
    qf_value rows[3] = {{0}};
    qf_context *context = call->import->context;
    if (call->import->options.kv_cache) {
        const char *reason = read_operands(call, 1, rows);
        if (reason) return call->import->failed ? QF_PT2_FAILED : qf_pt2_decline(call, reason);
        qf_pt2_layer *layer = layer_of(call, rows);
        if (!layer) return call->reason ? QF_PT2_DECLINED : QF_PT2_FAILED;
        if (!write_cache(call, layer, rows)) return qf_pt2_mapped_if(call, false);
    }
    qf_value key = qf_pt2_role_value(call, "key");
    qf_type type = key.id ? qf_type_tensor(context, qf_pt2_dtype_of(call, key), (qf_dim[]){qf_pt2_constant(call, 0)}, 1)
                          : (qf_type){0};
    qf_literal nothing = {.type = type, .data = ""};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_constant, attributes);
    attributes[QF_ATTR(constant, value)].literal = &nothing;
    return qf_pt2_done(call, type.id ? qf_import_op(qf_pt2_target(call), QF_OP_constant, NULL, 0, attributes)
                                     : (qf_value){0});
}

/* --- caches that the call is given --- */

/* The FP8 type of a cache that is stored as bytes, by its name. */
static bool stored_dtype(qf_pt2_call *call, qf_dtype own, qf_dtype *out) {
    const char *role = qf_pt2_role(call, "type"), *name = *role ? qf_pt2_string(call, role, "auto") : "auto";
    *out = own;
    if (qf_dtype_bits(own) > 8 || qf_dtype_is_float8(own)) return true;
    return qf_dtype_from_cache_string(name, out) == QF_OK && qf_dtype_is_float8(*out);
}

/* The rows of one of the two caches: roles, then what they hold. */
typedef struct cache_rows {
    const char *rows_role, *cache_role, *scale_role;
    qf_value rows, cache, scale;
    qf_dtype own, dtype; /* as it is stored; as it is read */
} cache_rows;

/* NULL, or why they are none that QFuse writes. */
static const char *read_rows(qf_pt2_call *call, cache_rows *out) {
    out->rows = qf_pt2_role_value(call, out->rows_role);
    out->cache = qf_pt2_role_value(call, out->cache_role);
    out->scale = qf_pt2_role_value(call, out->scale_role);
    out->own = qf_pt2_dtype_of(call, out->cache);
    if (qf_pt2_rank(call, out->rows) != 3 || qf_pt2_rank(call, out->cache) != 4 ||
        qf_pt2_rank(call, qf_pt2_role_value(call, "slots")) != 1)
        return "its rows are not [tokens, heads, head size], or its cache is not [pages, page size, heads, head size]";
    if (!stored_dtype(call, out->own, &out->dtype)) return "its cache is stored as bytes of an unknown type";
    if (!qf_dtype_is_float8(out->dtype)) return NULL;
    return qf_pt2_is_single(call, out->scale) ? NULL : qf_pt2_scale_shape;
}

/* An FP8 cache divides by its scale. */
static bool write_rows(qf_pt2_call *call, const cache_rows *in) {
    qf_value operands[] = {qf_pt2_bitcast(call, in->cache, in->dtype), in->rows, qf_pt2_role_value(call, "slots"), {0}};
    if (qf_dtype_is_float8(in->dtype))
        operands[3] = qf_pt2_single(call, in->scale);
    else
        operands[1] = qf_pt2_cast(call, in->rows, in->dtype);
    qf_value written = qf_import_op(qf_pt2_target(call), QF_OP_kv_cache_write, operands, 4, NULL);
    uint32_t tensor = qf_pt2_tensor_argument(call, qf_pt2_role(call, in->cache_role));
    return written.id && tensor && qf_pt2_write(call, tensor, qf_pt2_bitcast(call, written, in->own));
}

qf_pt2_outcome qf_pt2_map_cache_write(qf_pt2_call *call) {
    cache_rows caches[] = {{"key", "key_cache", "k_scale", {0}, {0}, {0}, QF_DTYPE_NONE, QF_DTYPE_NONE},
                           {"value", "value_cache", "v_scale", {0}, {0}, {0}, QF_DTYPE_NONE, QF_DTYPE_NONE}};
    for (uint32_t i = 0; i < 2; i++) {
        const char *reason = read_rows(call, &caches[i]);
        if (reason) return call->import->failed ? QF_PT2_FAILED : qf_pt2_decline(call, reason);
    }
    return qf_pt2_mapped_if(call, write_rows(call, &caches[0]) && write_rows(call, &caches[1]));
}
