/* Owns: the expanded kernel and target tables, and selection by limits.
 * Does not own: the rows (kernels.def, target.def).
 * Next: kernels.def. */
#include "kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const qf_target_info targets[] = {
#define TARGET(number, name, text, is_gpu, float8_query, shared_bytes) {QF_TARGET_##name, text, is_gpu, float8_query, shared_bytes},
#include "target.def"
#undef TARGET
};

#define ON(target) (1u << QF_TARGET_##target)
#define D(dtype) (1u << QF_##dtype)
#define ANY UINT32_MAX
#define DTYPES(x, kv, out) x, kv, out
#define HEADS(least, most, multiple) {least, most, multiple}
#define PAGES(least, most) {least, most, 0}
#define GROUP(most) most
#define FEATURES(...) (__VA_ARGS__)
#define LAUNCH(threads, tile_rows, tile_keys, shared_bytes) threads, tile_rows, tile_keys, shared_bytes
#define KERNEL(number, name, op, ...) {number, name, QF_OP_##op, __VA_ARGS__},
#define IN_PLACE(op, operand, result)
static const qf_kernel_row kernel_rows[] = {
#include "kernels.def"
};
#undef ON
#undef D
#undef ANY
#undef DTYPES
#undef HEADS
#undef PAGES
#undef GROUP
#undef FEATURES
#undef LAUNCH

static const struct {
    qf_op op;
    uint32_t operand, result;
} in_place_rows[] = {
#define CPU(op)
#define CUDA(number, op, builder)
#define KERNEL(...)
#define IN_PLACE(op, operand, result) {QF_OP_##op, QF_IN(op, operand), QF_OUT(op, result)},
#include "kernels.def"
};
/* clang-format on */

const qf_target_info *qf_target_info_of(uint32_t target) {
    for (uint32_t i = 0; i < QF_COUNT_OF(targets); i++)
        if ((uint32_t)targets[i].target == target) return &targets[i];
    return NULL;
}

const qf_target_info *qf_target_from_name(qf_text name) {
    for (uint32_t i = 0; i < QF_COUNT_OF(targets); i++)
        if (qf_text_is(name, targets[i].name)) return &targets[i];
    return NULL;
}

const qf_target_info *qf_target_table(uint32_t *out_count) {
    *out_count = QF_COUNT_OF(targets);
    return targets;
}

const qf_kernel_row *qf_kernel_table(uint32_t *out_count) {
    *out_count = QF_COUNT_OF(kernel_rows);
    return kernel_rows;
}

const qf_kernel_row *qf_kernel_row_of(uint32_t number) {
    for (uint32_t i = 0; i < QF_COUNT_OF(kernel_rows); i++)
        if (kernel_rows[i].number == number) return &kernel_rows[i];
    return NULL;
}

int32_t qf_kernel_in_place_operand(qf_op op, uint32_t result) {
    for (uint32_t i = 0; i < QF_COUNT_OF(in_place_rows); i++)
        if (in_place_rows[i].op == op && in_place_rows[i].result == result) return (int32_t)in_place_rows[i].operand;
    return -1;
}

/* What an attention asks of a kernel, read once; -1: depends on symbols. */
typedef struct demands {
    int64_t head_dim, value_dim, page, query_heads, key_heads;
    uint32_t features;
    qf_dtype cache[2];
    bool is_attention;
} demands;

static bool given(const qf_kernel_query *query, uint32_t index) {
    return index < query->operand_count && query->operands[index].present;
}

static int64_t dim_of(const qf_kernel_query *query, uint32_t operand, uint32_t axis, uint32_t rank) {
    if (!given(query, operand) || query->operands[operand].rank != rank) return -1;
    return query->operands[operand].dims[axis];
}

static bool by_head(const qf_kernel_query *query, uint32_t scale) {
    if (!given(query, scale)) return false;
    const qf_kernel_tensor *tensor = &query->operands[scale];
    return tensor->rank == QF_UNRANKED || (tensor->rank > 0 && tensor->dims[tensor->rank - 1] != 1);
}

/* attention and paged_attention have the same attributes in the same places. */
#define SAME(attribute)                                                                                                \
    _Static_assert(QF_ATTR(attention, attribute) == QF_ATTR(paged_attention, attribute),                               \
                   #attribute " stands elsewhere in paged_attention")
SAME(causal);
SAME(align);
SAME(window_left);
SAME(window_right);
SAME(softcap);
SAME(layout);
SAME(empty_row);
SAME(via);
SAME(p);

static uint32_t attribute_features(const qf_kernel_value *values) {
    uint32_t features = 0;
    bool window =
        values[QF_ATTR(attention, window_left)].integer >= 0 || values[QF_ATTR(attention, window_right)].integer >= 0;
    if (window) features |= QF_KERNEL_WINDOW;
    if (values[QF_ATTR(attention, softcap)].number != 0) features |= QF_KERNEL_SOFTCAP;
    if ((window || values[QF_ATTR(attention, causal)].integer) &&
        values[QF_ATTR(attention, align)].integer == QF_VALUE_top_left)
        features |= QF_KERNEL_TOP_LEFT;
    if (values[QF_ATTR(attention, p)].integer == QF_VALUE_graph) features |= QF_KERNEL_P_GRAPH;
    if (values[QF_ATTR(attention, p)].integer == QF_VALUE_kernel) features |= QF_KERNEL_P_KERNEL;
    if (values[QF_ATTR(attention, via)].integer != QF_DTYPE_NONE) features |= QF_KERNEL_VIA;
    if (values[QF_ATTR(attention, empty_row)].integer == QF_VALUE_nan) features |= QF_KERNEL_NAN_ROWS;
    return features;
}

static void read_dense(const qf_kernel_query *query, demands *out) {
    uint32_t heads = query->attributes[QF_ATTR(attention, layout)].integer == QF_VALUE_bshd ? 2 : 1;
    bool packed = given(query, QF_IN(attention, q)) && query->operands[QF_IN(attention, q)].rank == 3;
    out->head_dim = packed ? dim_of(query, QF_IN(attention, q), 2, 3) : dim_of(query, QF_IN(attention, q), 3, 4);
    out->query_heads = packed ? dim_of(query, QF_IN(attention, q), 1, 3) : dim_of(query, QF_IN(attention, q), heads, 4);
    out->key_heads = dim_of(query, QF_IN(attention, k), heads, 4);
    out->value_dim = dim_of(query, QF_IN(attention, v), 3, 4);
    if (given(query, QF_IN(attention, bias))) out->features |= QF_KERNEL_BIAS;
    if (given(query, QF_IN(attention, mask))) out->features |= QF_KERNEL_MASK;
    if (given(query, QF_IN(attention, kv_lens))) out->features |= QF_KERNEL_LENGTHS;
    if (given(query, QF_IN(attention, q_start))) out->features |= QF_KERNEL_PACKED;
    if (given(query, QF_IN(attention, sinks))) out->features |= QF_KERNEL_SINKS;
    if (by_head(query, QF_IN(attention, q_scale)) || by_head(query, QF_IN(attention, k_scale)) ||
        by_head(query, QF_IN(attention, v_scale)))
        out->features |= QF_KERNEL_HEAD_SCALES;
    if (given(query, QF_IN(attention, k))) out->cache[0] = query->operands[QF_IN(attention, k)].dtype;
    if (given(query, QF_IN(attention, v))) out->cache[1] = query->operands[QF_IN(attention, v)].dtype;
}

static void read_paged(const qf_kernel_query *query, demands *out) {
    bool hnd = query->attributes[QF_ATTR(paged_attention, layout)].integer == QF_VALUE_hnd;
    out->head_dim = dim_of(query, QF_IN(paged_attention, q), 2, 3);
    out->query_heads = dim_of(query, QF_IN(paged_attention, q), 1, 3);
    out->key_heads = dim_of(query, QF_IN(paged_attention, k_cache), hnd ? 1 : 2, 4);
    out->page = dim_of(query, QF_IN(paged_attention, k_cache), hnd ? 2 : 1, 4);
    out->value_dim = dim_of(query, QF_IN(paged_attention, v_cache), 3, 4);
    if (given(query, QF_IN(paged_attention, q_start))) out->features |= QF_KERNEL_PACKED;
    if (given(query, QF_IN(paged_attention, sinks))) out->features |= QF_KERNEL_SINKS;
    if (by_head(query, QF_IN(paged_attention, q_scale)) || by_head(query, QF_IN(paged_attention, k_scale)) ||
        by_head(query, QF_IN(paged_attention, v_scale)))
        out->features |= QF_KERNEL_HEAD_SCALES;
    if (given(query, QF_IN(paged_attention, k_cache)))
        out->cache[0] = query->operands[QF_IN(paged_attention, k_cache)].dtype;
    if (given(query, QF_IN(paged_attention, v_cache)))
        out->cache[1] = query->operands[QF_IN(paged_attention, v_cache)].dtype;
}

static demands demands_of(const qf_kernel_query *query) {
    demands out = {.head_dim = -1, .value_dim = -1, .page = -1, .query_heads = -1, .key_heads = -1};
    out.is_attention = query->op == QF_OP_attention || query->op == QF_OP_paged_attention;
    if (!out.is_attention) return out;
    if (query->op == QF_OP_attention)
        read_dense(query, &out);
    else
        read_paged(query, &out);
    out.features |= attribute_features(query->attributes);
    if (query->result_count > QF_OUT(attention, lse) && query->results[QF_OUT(attention, lse)].present)
        out.features |= QF_KERNEL_LSE;
    return out;
}

static const char *feature_name(uint32_t features) {
    static const struct {
        uint32_t feature;
        const char *name;
    } names[] = {{QF_KERNEL_BIAS, "an additive bias"},
                 {QF_KERNEL_MASK, "a boolean mask"},
                 {QF_KERNEL_LENGTHS, "kv_lens"},
                 {QF_KERNEL_PACKED, "packed sequences (q_start)"},
                 {QF_KERNEL_SINKS, "sinks"},
                 {QF_KERNEL_WINDOW, "a sliding window"},
                 {QF_KERNEL_SOFTCAP, "a soft cap"},
                 {QF_KERNEL_TOP_LEFT, "align top_left"},
                 {QF_KERNEL_LSE, "the lse result"},
                 {QF_KERNEL_P_GRAPH, "p=graph"},
                 {QF_KERNEL_P_KERNEL, "p=kernel"},
                 {QF_KERNEL_VIA, "a rounding before the output quantisation (via)"},
                 {QF_KERNEL_HEAD_SCALES, "scales by head"},
                 {QF_KERNEL_NAN_ROWS, "empty_row=nan"}};
    for (uint32_t i = 0; i < QF_COUNT_OF(names); i++)
        if (features & names[i].feature) return names[i].name;
    return "nothing";
}

#define REFUSE(...) ((void)(size ? snprintf(reason, size, __VA_ARGS__) : 0), false)

static bool in_set(uint32_t set, qf_dtype dtype) {
    return (unsigned)dtype < 32 && (set >> (unsigned)dtype & 1u);
}

static bool within(const qf_kernel_row *row, const qf_kernel_limit *limit, int64_t value, const char *what,
                   char *reason, size_t size) {
    if (!limit->most) return true;
    if (value < 0) return REFUSE("kernel %s needs a %s that is known at compile time", row->name, what);
    if (value >= limit->least && value <= limit->most && (!limit->multiple || value % limit->multiple == 0))
        return true;
    return REFUSE("%s is %" PRId64 "; kernel %s takes %u to %u%s", what, value, row->name, limit->least, limit->most,
                  limit->multiple > 1 ? " in its steps" : "");
}

static bool group_fits(const qf_kernel_row *row, const demands *wanted, char *reason, size_t size) {
    if (!row->group_most) return true;
    if (wanted->query_heads < 0 || wanted->key_heads <= 0)
        return REFUSE("kernel %s needs head counts that are known at compile time", row->name);
    int64_t group = wanted->query_heads / wanted->key_heads;
    if (group <= row->group_most) return true;
    return REFUSE("%" PRId64 " query heads share a KV head; kernel %s takes up to %u", group, row->name,
                  row->group_most);
}

static bool accepts(const qf_kernel_row *row, const qf_kernel_query *query, const demands *wanted, char *reason,
                    size_t size) {
    if (query->operand_count && query->operands[0].present && !in_set(row->operand_dtypes, query->operands[0].dtype))
        return REFUSE("kernel %s does not take %s operands", row->name, qf_dtype_name(query->operands[0].dtype));
    if (query->result_count && !in_set(row->result_dtypes, query->results[0].dtype))
        return REFUSE("kernel %s does not give %s results", row->name, qf_dtype_name(query->results[0].dtype));
    if (!wanted->is_attention) return true;
    for (int i = 0; i < 2; i++)
        if (!in_set(row->cache_dtypes, wanted->cache[i]))
            return REFUSE("kernel %s does not take %s keys and values", row->name, qf_dtype_name(wanted->cache[i]));
    uint32_t missing = wanted->features & ~row->features;
    if (missing) return REFUSE("kernel %s does not honour %s", row->name, feature_name(missing));
    return within(row, &row->head_dim, wanted->head_dim, "head dim", reason, size) &&
           within(row, &row->head_dim, wanted->value_dim, "head dim of v", reason, size) &&
           within(row, &row->page, wanted->page, "page size", reason, size) && group_fits(row, wanted, reason, size);
}

/* Refused by the target whatever kernels there are. */
static bool target_refuses(const qf_target_info *info, const qf_kernel_query *query, const demands *wanted,
                           char *reason, size_t size) {
    if (!wanted->is_attention || info->float8_query || !given(query, QF_IN(attention, q))) return false;
    if (!qf_dtype_is_float8(query->operands[QF_IN(attention, q)].dtype)) return false;
    (void)REFUSE("target %s has no FP8 query: q is %s", info->name,
                 qf_dtype_name(query->operands[QF_IN(attention, q)].dtype));
    return true;
}

const qf_kernel_row *qf_kernel_select_from(const qf_kernel_row *rows, uint32_t row_count, qf_target target,
                                           const qf_kernel_query *query, char *reason, size_t size) {
    const qf_target_info *info = qf_target_info_of(target);
    if (!info) {
        (void)REFUSE("target number %d is not in the table", (int)target);
        return NULL;
    }
    if (query->op == QF_OP_opaque) {
        (void)REFUSE("an opaque op has no kernel");
        return NULL;
    }
    demands wanted = demands_of(query);
    if (target_refuses(info, query, &wanted, reason, size)) return NULL;
    bool any = false;
    for (uint32_t i = 0; i < row_count; i++) {
        if (rows[i].op != query->op || !(rows[i].targets >> target & 1u)) continue;
        any = true;
        if (accepts(&rows[i], query, &wanted, reason, size)) return &rows[i];
    }
    if (!any) (void)REFUSE("target %s has no kernel for %s", info->name, qf_op_name(query->op));
    return NULL;
}

const qf_kernel_row *qf_kernel_select(qf_target target, const qf_kernel_query *query, char *reason,
                                      size_t reason_size) {
    return qf_kernel_select_from(kernel_rows, QF_COUNT_OF(kernel_rows), target, query, reason, reason_size);
}
