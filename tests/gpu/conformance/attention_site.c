/* Owns: writing one attention as a case: text, inputs, hidden keys filled with NaN.
 * Does not own: which are tried.
 * Next: attention_site.h. */
#include "tests/gpu/conformance/attention_site.h"

#include <math.h>
#include <string.h>

#include "base/convert.h"

static bool has(const site *at, uint32_t flag) {
    return (at->flags & flag) != 0;
}

static qf_dtype q_type(const site *at) {
    return has(at, SITE_Q_WIDE) ? QF_BF16 : at->type;
}

static bool narrow(qf_dtype dtype) {
    return qf_dtype_is_float8(dtype);
}

static qf_dtype result_type(const site *at) {
    if (at->out != QF_DTYPE_NONE) return at->out;
    return narrow(q_type(at)) ? QF_F32 : q_type(at);
}

/* --- values --- */

static double stored_deviation(const site *at) {
    return narrow(at->type) ? 16 : 1;
}

static fill q_values(const site *at) {
    if (has(at, SITE_EQUAL)) return CONSTANT(0);
    if (has(at, SITE_OUTLIERS)) return OUTLIERS;
    if (has(at, SITE_RISING)) return CONSTANT(stored_deviation(at) / 4);
    double wide = has(at, SITE_DOMINATED) ? 8 : 1;
    return narrow(q_type(at)) ? NORMAL(16 * wide, 0) : NORMAL(wide, 0);
}

static fill k_values(const site *at) {
    if (has(at, SITE_OUTLIERS)) return OUTLIERS;
    double wide = has(at, SITE_DOMINATED) ? 8 : 1;
    return NORMAL(stored_deviation(at) * wide, 0);
}

static fill v_values(const site *at) {
    if (has(at, SITE_FLAT_V)) return CONSTANT(stored_deviation(at));
    if (has(at, SITE_OUTLIERS)) return OUTLIERS;
    return NORMAL(stored_deviation(at), 0.25 * stored_deviation(at));
}

static double scale_factor(const site *at) {
    return has(at, SITE_TINY_SCALES) ? 1e-3 : has(at, SITE_HUGE_SCALES) ? 1e3 : 1;
}

/* --- scales and attributes --- */

static void add_scales(test_case *test, const site *at, char *operands, size_t size) {
    shape by_head = has(at, SITE_HEAD_SCALES) ? SHAPE(at->kv_heads) : SCALAR;
    double factor = scale_factor(at);
    size_t used = strlen(operands);
    /* Unlike scales, so that a swap or a second application shows; powers of two apart from rounding. */
    if (narrow(q_type(at))) {
        (void)case_add_input(test, "qs", QF_F32, by_head, UNIFORM(0.05 * factor, 0.07 * factor));
        used += (size_t)snprintf(operands + used, size - used, ", q_scale=%%qs");
    }
    if (narrow(at->type)) {
        double v_scale = has(at, SITE_FLAT_V) ? 1.0 / 16 : 0.11 * factor;
        (void)case_add_input(test, "ks", QF_F32, by_head, UNIFORM(0.06 / factor, 0.08 / factor));
        (void)case_add_input(test, "vs", QF_F32, has(at, SITE_FLAT_V) ? SCALAR : by_head,
                             UNIFORM(v_scale, has(at, SITE_FLAT_V) ? v_scale : 1.3 * v_scale));
        used += (size_t)snprintf(operands + used, size - used, ", k_scale=%%ks, v_scale=%%vs");
    }
    if (has(at, SITE_P_GRAPH)) {
        (void)case_add_input(test, "ps", QF_F32, SCALAR, CONSTANT(1.0 / 448));
        used += (size_t)snprintf(operands + used, size - used, ", p_scale=%%ps");
    }
    if (at->out != QF_DTYPE_NONE && narrow(at->out)) {
        double out_scale = 0.004 * (narrow(at->type) ? 1.8 * factor : 1);
        if (strstr(at->attributes, "out_mode=mul") && !strstr(at->attributes, "out_mode=mul_recip"))
            out_scale = 1 / out_scale;
        (void)case_add_input(test, "os", QF_F32, SCALAR, CONSTANT(out_scale));
        (void)snprintf(operands + used, size - used, ", out_scale=%%os");
    }
}

static void write_attributes(const site *at, char *text, size_t size, bool paged) {
    double scale = 1 / sqrt((double)at->depth);
    size_t used = (size_t)snprintf(text, size, "scale=%.9g", scale);
    if (paged && has(at, SITE_ROWS_FIRST)) used += (size_t)snprintf(text + used, size - used, ", layout=hnd");
    if (!paged && has(at, SITE_ROWS_FIRST)) used += (size_t)snprintf(text + used, size - used, ", layout=bshd");
    if (at->out != QF_DTYPE_NONE)
        used += (size_t)snprintf(text + used, size - used, ", out=%s", qf_dtype_name(at->out));
    if (has(at, SITE_P_KERNEL)) used += (size_t)snprintf(text + used, size - used, ", p=kernel");
    if (has(at, SITE_P_GRAPH)) used += (size_t)snprintf(text + used, size - used, ", p=graph");
    (void)snprintf(text + used, size - used, "%s%s", at->attributes[0] ? ", " : "", at->attributes);
}

/* docs/numerics.md, "What GPU kernels may differ by". */
static bound out_bound(const site *at) {
    qf_dtype out = result_type(at);
    bool rounds = has(at, SITE_P_KERNEL | SITE_P_GRAPH);
    double relative = narrow(at->type) || rounds ? 1e-2 : at->type == QF_BF16 ? 4e-3 : at->type == QF_F16 ? 1e-3 : 2e-5;
    bound within = {
        .kind = narrow(out) ? BOUND_CODES : BOUND_NEAR, .ulps = 2, .relative = relative, .share = 0.97, .most_off = 1};
    if (narrow(at->type) || rounds) {
        within.share = 0.93;
        within.outliers = 0.005;
    }
    /* Scores of hundreds, whose last bits move the exponentials. */
    if (has(at, SITE_DOMINATED) && at->type == QF_F32) within.relative = 2e-4;
    if (has(at, SITE_FLAT_V | SITE_MEAN_V)) within.bias = 0.005;
    return within;
}

static void add_outputs(test_case *test, const site *at) {
    case_output(test, "y", out_bound(at));
    bool rounds = has(at, SITE_P_KERNEL | SITE_P_GRAPH) || narrow(at->type);
    if (has(at, SITE_LSE))
        case_output(test, "lse",
                    (bound){.kind = BOUND_NEAR,
                            .ulps = 4,
                            .relative = rounds               ? 3e-3
                                        : at->type == QF_F32 ? 1e-5
                                                             : 5e-4});
    test->rounds_p = narrow(at->type) && !has(at, SITE_P_KERNEL | SITE_P_GRAPH);
    test->kernel_p = has(at, SITE_P_KERNEL);
    test->keys = at->keys;
    test->small = has(at, SITE_SMALL);
    test->replays = has(at, SITE_REPLAYS);
}

static void begin(suite *to, test_case *test, const site *at, bool paged) {
    char attributes[400];
    write_attributes(at, attributes, sizeof attributes, paged);
    const char *extra = at->attributes;
    case_begin(to, test, paged ? QF_OP_paged_attention : QF_OP_attention,
               "%s_%s_b%d_h%d_%d_t%d_s%d_d%d_%d%s%s%s%s%s%s%s%s%s%s%s", at->name, qf_dtype_name(at->type),
               (int)at->batch, (int)at->heads, (int)at->kv_heads, (int)at->rows, (int)at->keys, (int)at->depth,
               (int)at->value_depth, at->out ? "_to_" : "", at->out ? qf_dtype_name(at->out) : "",
               has(at, SITE_Q_WIDE) ? "_bf16_q" : "",
               has(at, SITE_P_KERNEL)  ? "_p_kernel"
               : has(at, SITE_P_GRAPH) ? "_p_graph"
                                       : "",
               has(at, SITE_ROWS_FIRST) ? (paged ? "_hnd" : "_bshd") : "", has(at, SITE_SINKS) ? "_sinks" : "",
               has(at, SITE_HEAD_SCALES) ? "_head_scales" : "", has(at, SITE_LSE) ? "_lse" : "", extra[0] ? "_{" : "",
               extra, extra[0] ? "}" : "");
}

/* --- keys that nobody may see --- */

static void poison(qf_tensor *tensor, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++) qf_store_f64(tensor->dtype, tensor->data, i, NAN, false);
}

/* Dense: keys from kv_lens on. numbers: [0] rows first, [1] index of kv_lens, [2] batch, [3] heads, [4] keys */
static void hide_dense(const test_case *test, qf_tensor *inputs) {
    const int32_t *lengths = inputs[test->numbers[1]].data;
    int64_t batch = test->numbers[2], heads = test->numbers[3], keys = test->numbers[4];
    for (int side = 1; side <= 2; side++) {
        int64_t depth = inputs[side].dims[3];
        for (int64_t b = 0; b < batch; b++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t s = lengths[b]; s < keys; s++)
                    poison(&inputs[side],
                           (test->numbers[0] ? (b * keys + s) * heads + h : (b * heads + h) * keys + s) * depth, depth);
    }
}

/* Key s becomes s times a small step along every axis, so that the maximum rises with every key. numbers as above. */
static void rise(const test_case *test, qf_tensor *inputs) {
    int64_t batch = test->numbers[2], heads = test->numbers[3], keys = test->numbers[4], depth = inputs[1].dims[3];
    double top = narrow(inputs[1].dtype) ? 400 : 25;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t s = 0; s < keys; s++)
                for (int64_t d = 0; d < depth; d++)
                    qf_store_f64(inputs[1].dtype, inputs[1].data,
                                 (test->numbers[0] ? (b * keys + s) * heads + h : (b * heads + h) * keys + s) * depth +
                                     d,
                                 top * (double)(s + 1) / (double)keys, true);
}

/* Every key points away from q, but one. */
static void hide_needle(const test_case *test, qf_tensor *inputs) {
    int64_t heads = test->numbers[3], keys = test->numbers[4], depth = inputs[1].dims[3], place = keys * 5 / 7;
    double unit = narrow(inputs[1].dtype) ? 64 : 2;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t d = 0; d < depth; d++) {
            int64_t at = (test->numbers[0] ? place * heads + h : h * keys + place) * depth + d;
            qf_store_f64(inputs[1].dtype, inputs[1].data, at, unit, true);
        }
    int64_t count = 1;
    for (uint32_t i = 0; i < inputs[0].rank; i++) count *= inputs[0].dims[i];
    for (int64_t i = 0; i < count; i++) qf_store_f64(inputs[0].dtype, inputs[0].data, i, unit, true);
}

/* Paged: slots that no sequence's keys use, pages of no table included. */
static void hide_paged(const test_case *test, qf_tensor *inputs) {
    static bool used[1 << 21];
    bool heads_first = test->numbers[0] != 0;
    const int32_t *table = inputs[3].data, *lengths = inputs[4].data;
    int64_t pages = inputs[1].dims[0], page = inputs[1].dims[heads_first ? 2 : 1],
            heads = inputs[1].dims[heads_first ? 1 : 2];
    if (pages * page > (int64_t)QF_COUNT_OF(used)) return;
    memset(used, 0, sizeof used);
    for (int64_t b = 0; b < inputs[3].dims[0]; b++)
        for (int64_t s = 0; s < lengths[b]; s++) used[table[b * inputs[3].dims[1] + s / page] * page + s % page] = true;
    for (int side = 1; side <= 2; side++) {
        int64_t depth = inputs[side].dims[3];
        for (int64_t slot = 0; slot < pages * page; slot++)
            for (int64_t h = 0; !used[slot] && h < heads; h++) {
                int64_t p = slot / page, t = slot % page;
                poison(&inputs[side], (heads_first ? (p * heads + h) * page + t : (p * page + t) * heads + h) * depth,
                       depth);
            }
    }
}

/* --- the two ops --- */

static shape arrange(const site *at, int64_t heads, int64_t tokens, int64_t depth) {
    return has(at, SITE_ROWS_FIRST) ? SHAPE(at->batch, tokens, heads, depth) : SHAPE(at->batch, heads, tokens, depth);
}

void site_dense(suite *to, const site *given) {
    test_case *test = &to->test;
    site own = *given;
    const site *at = &own;
    char operands[300] = "", attributes[400];
    if (!own.value_depth) own.value_depth = own.depth;
    begin(to, test, at, false);
    (void)case_add_input(test, "q", q_type(at),
                         at->has_starts ? SHAPE(at->rows, at->heads, at->depth)
                                        : arrange(at, at->heads, at->rows, at->depth),
                         q_values(at));
    (void)case_add_input(test, "k", at->type, arrange(at, at->kv_heads, at->keys, at->depth), k_values(at));
    (void)case_add_input(test, "v", at->type, arrange(at, at->kv_heads, at->keys, at->value_depth), v_values(at));
    test->numbers[0] = has(at, SITE_ROWS_FIRST);
    test->numbers[2] = at->batch, test->numbers[3] = at->kv_heads, test->numbers[4] = at->keys;
    if (at->bias.rank) {
        (void)case_add_input(test, "bias", at->bias_type ? at->bias_type : QF_F32, at->bias, NORMAL(1.5, 0));
        (void)strcat(operands, ", bias=%bias");
    }
    if (at->mask.rank) {
        (void)case_add_input(test, "mask", QF_I1, at->mask, MOSTLY(0.7));
        (void)strcat(operands, ", mask=%mask");
    }
    if (at->has_lengths) {
        test->numbers[1] = case_add_input(test, "lens", QF_I32, SHAPE(at->batch),
                                          (fill){FILL_LIST, 0, 0, given->lengths, (size_t)at->batch});
        (void)strcat(operands, ", kv_lens=%lens");
        test->adjust = hide_dense;
    }
    if (at->has_starts) {
        (void)case_add_input(test, "start", QF_I32, SHAPE(at->batch + 1),
                             (fill){FILL_LIST, 0, 0, given->starts, (size_t)at->batch + 1});
        (void)strcat(operands, ", q_start=%start");
    }
    if (has(at, SITE_RISING)) test->adjust = rise;
    if (has(at, SITE_NEEDLE)) test->adjust = hide_needle;
    if (has(at, SITE_SINKS)) {
        (void)case_add_input(test, "sinks", QF_F32, SHAPE(at->heads), NORMAL(2, 0));
        (void)strcat(operands, ", sinks=%sinks");
    }
    add_scales(test, at, operands, sizeof operands);
    write_attributes(at, attributes, sizeof attributes, false);
    case_node(test, "  %%y%s = attention %%q, %%k, %%v%s {%s}", has(at, SITE_LSE) ? ", %lse" : "", operands,
              attributes);
    add_outputs(test, at);
    case_end(test);
}

/* Pages of all sequences in random order, a few left over. */
static fill page_table(test_case *test, const site *at, int64_t most, int64_t pages) {
    double *numbers = case_numbers(test, (size_t)(at->batch * most + pages));
    if (test->failed_to_build) return CONSTANT(0);
    double *order = numbers + at->batch * most;
    random_state random = {(uint64_t)(at->keys * 31 + at->page)};
    for (int64_t i = 0; i < pages; i++) order[i] = (double)i;
    for (int64_t i = pages - 1; i > 0; i--) {
        int64_t other = random_between(&random, 0, i);
        double kept = order[i];
        order[i] = order[other], order[other] = kept;
    }
    for (int64_t b = 0; b < at->batch; b++) {
        int64_t needed = ((int64_t)at->lengths[b] + at->page - 1) / at->page;
        for (int64_t i = 0; i < most; i++) {
            bool hidden = i >= needed && has(at, SITE_BAD_TABLE);
            numbers[b * most + i] = hidden ? (i % 2 ? -1 : 2147483647) : order[b * most + i];
        }
    }
    return (fill){FILL_LIST, 0, 0, numbers, (size_t)(at->batch * most)};
}

static shape cache_shape(const site *at, int64_t pages, int64_t depth) {
    return has(at, SITE_ROWS_FIRST) ? SHAPE(pages, at->kv_heads, at->page, depth)
                                    : SHAPE(pages, at->page, at->kv_heads, depth);
}

void site_paged(suite *to, const site *given) {
    test_case *test = &to->test;
    site own = *given;
    const site *at = &own;
    char operands[300] = "", attributes[400];
    if (!own.value_depth) own.value_depth = own.depth;
    int64_t most = (at->keys + at->page - 1) / at->page + 1, pages = at->batch * most + 3;
    begin(to, test, at, true);
    (void)case_add_input(test, "q", q_type(at), SHAPE(at->rows, at->heads, at->depth), q_values(at));
    (void)case_add_input(test, "k", at->type, cache_shape(at, pages, at->depth), k_values(at));
    (void)case_add_input(test, "v", at->type, cache_shape(at, pages, at->value_depth), v_values(at));
    (void)case_add_input(test, "table", QF_I32, SHAPE(at->batch, most), page_table(test, at, most, pages));
    (void)case_add_input(test, "lens", QF_I32, SHAPE(at->batch),
                         (fill){FILL_LIST, 0, 0, given->lengths, (size_t)at->batch});
    test->numbers[0] = has(at, SITE_ROWS_FIRST);
    test->adjust = hide_paged;
    if (at->has_starts) {
        (void)case_add_input(test, "start", QF_I32, SHAPE(at->batch + 1),
                             (fill){FILL_LIST, 0, 0, given->starts, (size_t)at->batch + 1});
        (void)strcat(operands, ", q_start=%start");
    }
    if (has(at, SITE_SINKS)) {
        (void)case_add_input(test, "sinks", QF_F32, SHAPE(at->heads), NORMAL(2, 0));
        (void)strcat(operands, ", sinks=%sinks");
    }
    add_scales(test, at, operands, sizeof operands);
    write_attributes(at, attributes, sizeof attributes, true);
    case_node(test, "  %%y%s = paged_attention %%q, %%k, %%v, %%table, %%lens%s {%s}",
              has(at, SITE_LSE) ? ", %lse" : "", operands, attributes);
    add_outputs(test, at);
    case_end(test);
}
