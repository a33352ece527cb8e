/* Owns: random inputs of a graph: sizes that fit its facts and assumptions, integers that fit what reads them.
 * Does not own: random numbers and memory (tensors.c), the pipeline (pipeline.c).
 * Next: tensors.h. */
#include "tools/inputs.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_EXTENT 4
#define MAX_DEPTH      8

/* --- sizes --- */

/* "T=16,B=2": true where the name is in the list. */
static bool given_extent(const qf_tool *tool, const char *name, int64_t *out) {
    size_t size = strlen(name);
    for (const char *at = tool->options.dims; at && *at; at += *at == ',') {
        if (strncmp(at, name, size) == 0 && at[size] == '=') {
            *out = strtoll(at + size + 1, NULL, 10);
            return true;
        }
        at += strcspn(at, ",");
    }
    return false;
}

/* 4, or the nearest size that the facts allow. */
static int64_t usual_extent(const qf_graph *graph, qf_dim_symbol symbol) {
    int64_t extent = DEFAULT_EXTENT;
    for (uint32_t i = 0; graph && i < graph->fact_count; i++) {
        const qf_symbol_fact *fact = &graph->facts[i];
        if (fact->symbol.id != symbol.id) continue;
        if (extent < fact->minimum) extent = fact->minimum;
        if (fact->divisor > 1 && extent % fact->divisor) extent += fact->divisor - extent % fact->divisor;
        if (extent > fact->maximum) extent = fact->maximum - (fact->divisor > 1 ? fact->maximum % fact->divisor : 0);
    }
    return extent;
}

typedef struct sizing {
    qf_tool *tool;
    uint32_t depth;
} sizing;

static bool extent_at(void *user, qf_dim_symbol symbol, int64_t *out_value);

/* What an assumption of the graph makes of the symbol, from the sizes of the others. */
static bool assumed_extent(const sizing *s, qf_dim_symbol symbol, int64_t *out) {
    const qf_graph *graph = s->tool->sized;
    sizing deeper = {s->tool, s->depth + 1};
    for (uint32_t i = 0; graph && s->depth < MAX_DEPTH && i < graph->guard_count; i++) {
        qf_dim sides[2] = {graph->guards[i].left, graph->guards[i].right};
        for (uint32_t side = 0; side < 2; side++) {
            if (qf_dim_as_symbol(graph->context, sides[side]).id != symbol.id) continue;
            if (qf_dim_mentions(graph->context, sides[!side], symbol)) continue;
            /* Of two symbols the later one follows the earlier, so that neither waits for the other. */
            qf_dim_symbol other = qf_dim_as_symbol(graph->context, sides[!side]);
            int64_t ignored;
            bool known =
                other.id &&
                given_extent(s->tool, qf_string_c(graph->context, qf_dim_symbol_name(graph->context, other)), &ignored);
            if (other.id > symbol.id && !known) continue;
            if (qf_dim_evaluate(graph->context, sides[!side], extent_at, &deeper, out) && *out >= 0) return true;
        }
    }
    return false;
}

static bool extent_at(void *user, qf_dim_symbol symbol, int64_t *out_value) {
    const sizing *s = user;
    const char *name = qf_string_c(s->tool->context, qf_dim_symbol_name(s->tool->context, symbol));
    if (!given_extent(s->tool, name, out_value) && !assumed_extent(s, symbol, out_value))
        *out_value = usual_extent(s->tool->sized, symbol);
    return true;
}

bool tool_symbol_extent(void *user, qf_dim_symbol symbol, int64_t *out_value) {
    sizing s = {.tool = user};
    return extent_at(&s, symbol, out_value);
}

/* --- what integers are for --- */

typedef struct use {
    qf_tool *tool;
    const qf_graph *graph;
    bool *seen;      /* by value id */
    int64_t indices; /* everything below this is in range; -1: nothing indexes with it */
    int64_t lengths; /* at most this many items; -1: no length */
    int64_t rows;    /* starts of packed sequences: their total; -1: no starts */
} use;

static int64_t size_of(const use *u, qf_value value, int64_t axis) {
    int64_t size;
    uint32_t rank = qf_value_rank(u->graph, value);
    if (rank == QF_UNRANKED) return -1;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank ||
        !qf_dim_evaluate(u->graph->context, qf_value_dims(u->graph, value)[axis], tool_symbol_extent, u->tool, &size))
        return -1;
    return size;
}

static void at_most(int64_t *limit, int64_t size) {
    if (size >= 0 && (*limit < 0 || size < *limit)) *limit = size;
}

static int64_t attribute_of(const use *u, qf_node node, uint32_t index) {
    return qf_node_attribute(u->graph, node, index)->integer;
}

/* Pages and rows a page of a cache [pages, page, G, D] or [pages, G, page, D]. */
static int64_t slots_of(const use *u, qf_value cache, bool hnd) {
    int64_t pages = size_of(u, cache, 0), page = size_of(u, cache, hnd ? 2 : 1);
    return pages < 0 || page < 0 ? -1 : pages * page;
}

static void add_gather_nd(use *u, qf_node node) {
    qf_value x = qf_node_operand(u->graph, node, 0), indices = qf_node_operand(u->graph, node, 1);
    int64_t first = qf_node_op(u->graph, node) == QF_OP_gather_nd
                        ? attribute_of(u, node, QF_ATTR(gather_nd, batch_dims))
                        : 0,
            count = size_of(u, indices, -1);
    for (int64_t axis = first; axis < first + count && axis < QF_MAX_RANK; axis++)
        at_most(&u->indices, size_of(u, x, axis));
}

static void add_attention(use *u, qf_node node, uint32_t index) {
    qf_value q = qf_node_operand(u->graph, node, QF_IN(attention, q));
    qf_value k = qf_node_operand(u->graph, node, QF_IN(attention, k));
    bool bshd = attribute_of(u, node, QF_ATTR(attention, layout)) == QF_VALUE_bshd;
    if (index == QF_IN(attention, kv_lens)) at_most(&u->lengths, size_of(u, k, bshd ? 1 : 2));
    if (index == QF_IN(attention, q_start)) at_most(&u->rows, size_of(u, q, 0));
}

static void add_paged(use *u, qf_node node, uint32_t index) {
    qf_value cache = qf_node_operand(u->graph, node, QF_IN(paged_attention, k_cache));
    bool hnd = attribute_of(u, node, QF_ATTR(paged_attention, layout)) == QF_VALUE_hnd;
    int64_t pages = size_of(u, qf_node_operand(u->graph, node, QF_IN(paged_attention, block_table)), 1);
    int64_t page = size_of(u, cache, hnd ? 2 : 1);
    if (index == QF_IN(paged_attention, block_table)) at_most(&u->indices, size_of(u, cache, 0));
    if (index == QF_IN(paged_attention, kv_lens) && pages >= 0 && page >= 0) at_most(&u->lengths, pages * page);
    if (index == QF_IN(paged_attention, q_start))
        at_most(&u->rows, size_of(u, qf_node_operand(u->graph, node, QF_IN(paged_attention, q)), 0));
}

static void add_fused_write(use *u, qf_node node, uint32_t index) {
    bool hnd = attribute_of(u, node, QF_ATTR(rope_quantize_cache_write, layout)) == QF_VALUE_hnd;
    if (index == QF_IN(rope_quantize_cache_write, positions))
        at_most(&u->indices, size_of(u, qf_node_operand(u->graph, node, QF_IN(rope_quantize_cache_write, cos_sin)), 0));
    if (index == QF_IN(rope_quantize_cache_write, slots))
        at_most(&u->indices,
                slots_of(u, qf_node_operand(u->graph, node, QF_IN(rope_quantize_cache_write, k_cache)), hnd));
}

static void add_use(use *u, qf_node node, uint32_t index) {
    qf_value first = qf_node_operand(u->graph, node, 0);
    switch (qf_node_op(u->graph, node)) {
    case QF_OP_gather:
        if (index == 1) at_most(&u->indices, size_of(u, first, attribute_of(u, node, QF_ATTR(gather, axis))));
        break;
    case QF_OP_gather_elements:
        if (index == 1) at_most(&u->indices, size_of(u, first, attribute_of(u, node, QF_ATTR(gather_elements, axis))));
        break;
    case QF_OP_scatter_elements:
        if (index == 1) at_most(&u->indices, size_of(u, first, attribute_of(u, node, QF_ATTR(scatter_elements, axis))));
        break;
    case QF_OP_gather_nd:
    case QF_OP_scatter_nd:
        if (index == 1) add_gather_nd(u, node);
        break;
    case QF_OP_kv_cache_write:
        if (index == QF_IN(kv_cache_write, slots))
            at_most(&u->indices,
                    slots_of(u, first, attribute_of(u, node, QF_ATTR(kv_cache_write, layout)) == QF_VALUE_hnd));
        break;
    case QF_OP_rope:
        if (index == QF_IN(rope, positions))
            at_most(&u->indices, size_of(u, qf_node_operand(u->graph, node, QF_IN(rope, cos_sin)), 0));
        break;
    case QF_OP_rope_quantize_cache_write: add_fused_write(u, node, index); break;
    case QF_OP_attention: add_attention(u, node, index); break;
    case QF_OP_paged_attention: add_paged(u, node, index); break;
    default: break;
    }
}

/* The same integers under another shape or type. */
static bool passes_on(const qf_graph *graph, qf_node node) {
    qf_op op = qf_node_op(graph, node);
    return op == QF_OP_concat || op == QF_OP_cast || qf_op_has_trait(op, QF_TRAIT_LAYOUT);
}

static void follow(use *u, qf_value value, uint32_t depth) {
    if (depth == 4 * MAX_DEPTH || u->seen[value.id]) return;
    u->seen[value.id] = true;
    QF_FOR_EACH_USE(u->graph, value, at) {
        add_use(u, at->user, qf_use_index(u->graph, at));
        const qf_node_data *data = qf_node_at(u->graph, at->user);
        for (uint32_t i = 0; passes_on(u->graph, at->user) && i < data->result_count; i++)
            if (!qf_dtype_is_float(qf_value_dtype(u->graph, qf_result_at(data, i))))
                follow(u, qf_result_at(data, i), depth + 1);
    }
}

/* Row numbers that rise from 0 to the total. */
static void fill_starts(qf_tensor *tensor, int64_t rows) {
    for (int64_t i = 0; i < tensor->dims[0]; i++) {
        int64_t last = tensor->dims[0] > 1 ? tensor->dims[0] - 1 : 1;
        tensor_set_integer(tensor, i, rows * i / last);
    }
}

static void fill(use *u, qf_tensor *tensor, uint64_t seed) {
    if (qf_dtype_is_float(tensor->dtype) || tensor->dtype == QF_I1 ||
        (u->indices < 0 && u->lengths < 0 && u->rows < 0)) {
        tensor_randomise(tensor, seed);
    } else if (u->rows >= 0 && tensor->rank == 1) {
        fill_starts(tensor, u->rows);
    } else {
        int64_t limit = tensor->dtype == QF_I8 || tensor->dtype == QF_U8 ? 128 : (int64_t)1 << 31;
        if (u->indices >= 0 && u->indices < limit) limit = u->indices;
        bool length = u->indices < 0 && u->lengths >= 0;
        if (length && u->lengths < limit) limit = u->lengths;
        tensor_randomise_integers(tensor, seed, length && limit > 0, length ? limit + 1 : limit);
    }
}

bool random_input(qf_tool *tool, const qf_graph *graph, uint32_t index, qf_tensor *out) {
    qf_value value = graph->inputs[index];
    const char *name = qf_string_c(tool->context, qf_value_at(graph, value)->name);
    *out = (qf_tensor){.dtype = qf_value_dtype(graph, value), .rank = qf_value_rank(graph, value)};
    if (out->rank > QF_TENSOR_MAX_RANK) {
        (void)qf_fail(tool->context, QF_ERROR_UNSUPPORTED, NULL,
                      "input %u \"%s\" has no known shape: a plan with it cannot run", index, name);
        return false;
    }
    for (uint32_t axis = 0; axis < out->rank; axis++)
        if (!qf_dim_evaluate(tool->context, qf_value_dims(graph, value)[axis], tool_symbol_extent, tool,
                             &out->dims[axis]) ||
            out->dims[axis] < 0) {
            (void)qf_fail(tool->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                          "input %u \"%s\": axis %u has no size of 0 or more; give --dims", index, name, axis);
            return false;
        }
    if (!tensor_allocate(tool, out)) return false;
    use u = {.tool = tool, .graph = graph, .indices = -1, .lengths = -1, .rows = -1};
    u.seen = calloc(graph->value_count, sizeof *u.seen);
    if (!u.seen) {
        (void)qf_record(tool->context, QF_ERROR_OUT_OF_MEMORY);
        return false;
    }
    if (!qf_dtype_is_float(out->dtype)) follow(&u, value, 0);
    fill(&u, out, tool->options.seed * 1000003u + index);
    free(u.seen);
    return true;
}

/* --- when it fails nevertheless --- */

static void add_size(qf_tool *tool, qf_buffer *text, qf_dim dim) {
    qf_dim_symbol symbol = qf_dim_as_symbol(tool->context, dim);
    int64_t size;
    if (!symbol.id || qf_dim_symbol_kind(tool->context, symbol) != QF_SYMBOL_NAMED) return;
    const char *name = qf_string_c(tool->context, qf_dim_symbol_name(tool->context, symbol));
    char entry[256];
    (void)tool_symbol_extent(tool, symbol, &size);
    (void)snprintf(entry, sizeof entry, "%s%s=%lld", text->size ? "," : "", name, (long long)size);
    if (!text->data || !strstr(text->data, entry + (entry[0] == ','))) qf_buffer_text(text, qf_text_of(entry));
}

void random_inputs_note(qf_tool *tool, const qf_graph *graph) {
    qf_buffer sizes = {.context = tool->context};
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_type type = qf_input_type(graph, i);
        uint32_t rank = qf_type_rank(tool->context, type);
        for (uint32_t axis = 0; rank != QF_UNRANKED && axis < rank; axis++)
            add_size(tool, &sizes, qf_type_dims(tool->context, type)[axis]);
    }
    if (sizes.size)
        qf_message(tool->context, QF_SEVERITY_NOTE, NULL,
                   "the inputs were random, with --dims=%s; other sizes or real tensors (--input, --expect) may fit",
                   sizes.data);
    else
        qf_message(tool->context, QF_SEVERITY_NOTE, NULL,
                   "the inputs were random; real tensors (--input, --expect) may fit");
    qf_buffer_destroy(&sizes);
}
