/* Owns: cases of paged attention: decode and short queries over pages in random order, pages nobody uses full of NaN.
 * Does not own: how one is written (attention_site.c), dense attention (attention_cases.c).
 * Next: attention_site.h. */
#include <string.h>

#include "tests/gpu/conformance/attention_site.h"

static const struct {
    qf_dtype type, out;
    uint32_t flags;
} kinds[] = {{QF_F8E4M3FN, QF_F8E4M3FN, SITE_P_KERNEL | SITE_Q_WIDE},
             {QF_F8E4M3FN, QF_BF16, SITE_P_KERNEL},
             {QF_BF16, QF_DTYPE_NONE, 0},
             {QF_F16, QF_F8E4M3FN, 0},
             {QF_F8E5M2, QF_BF16, SITE_P_KERNEL | SITE_Q_WIDE},
             {QF_F8E4M3FN, QF_F8E4M3FN, SITE_P_KERNEL},
             {QF_F32, QF_DTYPE_NONE, 0}};
#define KINDS 7

/* `lengths` of `batch` sequences, a row each. */
static site of_kind(uint32_t kind, const char *name, int64_t batch, const double *lengths) {
    site at = {.name = name,
               .batch = batch,
               .heads = 8,
               .kv_heads = 2,
               .rows = batch,
               .depth = 128,
               .page = 64,
               .type = kinds[kind].type,
               .out = kinds[kind].out,
               .flags = kinds[kind].flags,
               .attributes = ""};
    for (int64_t i = 0; i < batch; i++) {
        at.lengths[i] = lengths[i];
        if ((int64_t)lengths[i] > at.keys) at.keys = (int64_t)lengths[i];
    }
    return at;
}

static const double mixed[] = {300, 0, 1, 64, 65, 127}, even[] = {200, 200, 200};

static void pages_and_layouts(suite *to) {
    static const int64_t pages[] = {16, 32, 64, 128};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(pages); i++)
            for (int form = 0; form < 4; form++) {
                char name[60];
                site at = of_kind(kind, name, 6, mixed);
                (void)snprintf(name, sizeof name, "fault_47_51_53_page%d", (int)pages[i]);
                at.page = pages[i];
                at.flags |=
                    (form & 1 ? SITE_ROWS_FIRST : 0) | (form & 2 ? SITE_LSE | SITE_HEAD_SCALES | SITE_BAD_TABLE : 0);
                if (i == 0 && form != 2) at.flags |= SITE_SMALL;
                if (i == 2) at.flags |= SITE_REPLAYS;
                site_paged(to, &at);
            }
}

static void head_dims_and_groups(suite *to) {
    static const int64_t depths[] = {32, 64, 80, 96, 112, 128, 192, 256}, groups[] = {1, 2, 4, 5, 8, 16};
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        for (uint32_t i = 0; i < QF_COUNT_OF(depths); i++)
            for (int form = 0; form < 2; form++) {
                site at = of_kind(kind, "fault_59_head_dim", 6, mixed);
                at.depth = depths[i];
                at.flags |= form ? SITE_ROWS_FIRST : 0;
                site_paged(to, &at);
            }
        for (uint32_t i = 0; i < QF_COUNT_OF(groups); i++)
            for (int64_t kv_heads = 1; kv_heads <= 3; kv_heads += 2) {
                site at = of_kind(kind, "fault_46_60_group", 3, even);
                at.heads = groups[i] * kv_heads;
                at.kv_heads = kv_heads;
                at.depth = i % 2 ? 64 : 128;
                at.flags |= i % 3 == 0 ? SITE_SINKS | SITE_LSE : 0;
                site_paged(to, &at);
            }
    }
}

static void attributes(suite *to) {
    static const char *const ways[] = {"causal=false",
                                       "window_left=33",
                                       "window_left=0",
                                       "softcap=2",
                                       "softcap=25, window_left=100",
                                       "align=top_left",
                                       "empty_row=nan",
                                       "window_left=64, window_right=3, causal=false"};
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        for (uint32_t i = 0; i < QF_COUNT_OF(ways); i++)
            for (int form = 0; form < 2; form++) {
                site at = of_kind(kind, "attribute", 6, mixed);
                at.attributes = ways[i];
                at.flags |= form ? SITE_SINKS | SITE_ROWS_FIRST : 0;
                at.depth = i % 2 ? 64 : 128;
                site_paged(to, &at);
            }
        static const char *const endings[] = {"via=bf16", "out_mode=mul", "out_mode=mul_recip",
                                              "out_compute=bf16, via=bf16"};
        for (uint32_t i = 0; i < QF_COUNT_OF(endings); i++) {
            site at = of_kind(kind, "fault_56_ending", 6, mixed);
            at.out = i % 2 ? QF_F8E5M2 : QF_F8E4M3FN;
            at.attributes = endings[i];
            site_paged(to, &at);
        }
    }
    for (uint32_t mode = 0; mode < 3; mode++) {
        static const qf_dtype types[] = {QF_BF16, QF_F8E4M3FN, QF_F8E5M2};
        for (uint32_t i = 0; i < QF_COUNT_OF(types); i++) {
            site at = of_kind(2, "p_mode", 6, mixed);
            at.type = types[i];
            at.out = QF_BF16;
            at.flags = mode == 1 ? SITE_P_KERNEL : mode == 2 ? SITE_P_GRAPH : 0;
            site_paged(to, &at);
        }
    }
}

/* More rows than sequences: chunked prefill, speculative decoding. */
static void several_rows(suite *to) {
    static const struct {
        const char *name;
        double starts[5], lengths[4];
    } all[] = {{"fault_54_four_rows", {0, 4, 8, 12, 16}, {1000, 4, 513, 64}},
               {"uneven_rows", {0, 1, 1, 40, 43}, {257, 9, 300, 128}},
               {"rows_before_and_after", {2, 3, 5, 5, 9}, {65, 66, 0, 600}},
               {"prefill", {0, 128, 300, 301, 500}, {128, 1000, 333, 199}}};
    static const char *const ways[] = {"", "window_left=50", "softcap=4, causal=false", "align=top_left"};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(all); i++)
            for (uint32_t j = 0; j < QF_COUNT_OF(ways); j++) {
                site at = of_kind(kind, all[i].name, 4, all[i].lengths);
                at.has_starts = true;
                memcpy(at.starts, all[i].starts, sizeof all[i].starts);
                at.rows = (int64_t)all[i].starts[4] + (i == 2 ? 3 : 0);
                at.attributes = ways[j];
                at.depth = i == 1 ? 64 : 128;
                at.flags |= j % 2 ? SITE_ROWS_FIRST : SITE_LSE;
                if (i == 3 && j) continue;
                site_paged(to, &at);
            }
}

static void values(suite *to) {
    static const struct {
        const char *name;
        uint32_t flags;
    } all[] = {{"outliers", SITE_OUTLIERS},
               {"equal_scores", SITE_EQUAL},
               {"dominated", SITE_DOMINATED},
               {"tiny_scales", SITE_TINY_SCALES},
               {"huge_scales", SITE_HUGE_SCALES}};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(all); i++) {
            static const double long_ones[] = {2000, 700, 130};
            site at = of_kind(kind, all[i].name, 3, long_ones);
            at.flags |= all[i].flags;
            site_paged(to, &at);
        }
}

static void long_contexts(suite *to) {
    static const double keys[] = {1024, 4096, 16384, 65536, 131072};
    for (uint32_t kind = 0; kind < 3; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(keys); i++)
            for (int form = 0; form < 2; form++) {
                site at = of_kind(kind, form ? "fault_50_mean_v" : "fault_50_flat_v", 1, &keys[i]);
                at.flags |= form ? SITE_MEAN_V : SITE_FLAT_V;
                at.heads = 4;
                at.kv_heads = 1;
                at.out = kind == 0 ? QF_BF16 : at.out;
                site_paged(to, &at);
            }
}

static void batches(suite *to) {
    static const struct {
        const char *name;
        int64_t heads, kv_heads;
        double lengths[8];
    } all[] = {{"decode_32_8", 32, 8, {1025, 4096, 77, 63, 2048, 1, 900, 333}},
               {"fault_60_one_kv_head", 8, 1, {4096, 4096, 1, 77, 500, 64, 128, 3000}},
               {"one_long", 16, 4, {9000, 60, 61, 62, 63, 64, 65, 66}}};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(all); i++) {
            site at = of_kind(kind, all[i].name, 8, all[i].lengths);
            at.heads = all[i].heads;
            at.kv_heads = all[i].kv_heads;
            at.flags |= SITE_REPLAYS;
            if (kind > 2) at.page = 16;
            site_paged(to, &at);
        }
}

void paged_cases(suite *to) {
    pages_and_layouts(to);
    head_dims_and_groups(to);
    attributes(to);
    several_rows(to);
    values(to);
    long_contexts(to);
    batches(to);
}
