/* Owns: cases of dense attention: the grid that every GPU kernel of the op must get right.
 * Does not own: how one is written (attention_site.c), paged attention (paged_cases.c).
 * Next: attention_site.h. */
#include <string.h>

#include "tests/gpu/conformance/attention_site.h"

#define NONE QF_DTYPE_NONE

/* Element types in and out that are asked for again and again. */
static const struct {
    qf_dtype type, out;
    uint32_t flags;
} kinds[] = {{QF_F8E4M3FN, QF_F8E4M3FN, SITE_P_KERNEL},
             {QF_F8E4M3FN, QF_BF16, SITE_P_KERNEL},
             {QF_BF16, NONE, 0},
             {QF_F16, NONE, 0},
             {QF_F32, NONE, 0},
             {QF_BF16, QF_F8E4M3FN, 0},
             {QF_F8E4M3FN, QF_F8E4M3FN, SITE_P_KERNEL | SITE_Q_WIDE}};
#define KINDS 7

static site of_kind(uint32_t kind, const char *name) {
    return (site){.name = name,
                  .batch = 1,
                  .heads = 4,
                  .kv_heads = 2,
                  .rows = 33,
                  .keys = 70,
                  .depth = 64,
                  .type = kinds[kind].type,
                  .out = kinds[kind].out,
                  .flags = kinds[kind].flags,
                  .attributes = "causal=true"};
}

static void head_dims(suite *to) {
    static const int64_t depths[] = {32, 64, 80, 96, 112, 128, 192, 256}, odd[] = {1, 8, 40, 72, 100};
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        for (uint32_t i = 0; i < QF_COUNT_OF(depths); i++) {
            site at = of_kind(kind, "fault_59_head_dim");
            at.depth = depths[i];
            at.batch = 2;
            if (i % 3 == 0) at.flags |= SITE_SMALL;
            site_dense(to, &at);
        }
        for (uint32_t i = 0; i < QF_COUNT_OF(odd); i++) {
            site at = of_kind(kind, "odd_head_dim");
            at.depth = odd[i];
            site_dense(to, &at);
        }
    }
    static const int64_t pairs[][2] = {{192, 128}, {64, 128}, {128, 64}, {96, 80}, {256, 64}, {32, 256}};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(pairs); i++) {
            site at = of_kind(kind, "value_dim");
            at.depth = pairs[i][0];
            at.value_depth = pairs[i][1];
            site_dense(to, &at);
        }
}

static void shapes_and_causality(suite *to) {
    static const int64_t sizes[][2] = {{1, 1},    {1, 300},   {17, 17}, {64, 200},
                                       {200, 64}, {129, 257}, {4, 128}, {128, 128}};
    static const char *const ways[] = {"",
                                       "causal=true",
                                       "causal=true, align=top_left",
                                       "window_left=16",
                                       "window_left=5, window_right=3",
                                       "causal=true, window_left=31, align=top_left",
                                       "causal=true, window_left=0",
                                       "window_right=2, align=top_left"};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(sizes); i++)
            for (uint32_t j = 0; j < QF_COUNT_OF(ways); j++) {
                site at = of_kind(kind, "causal");
                at.rows = sizes[i][0];
                at.keys = sizes[i][1];
                at.attributes = ways[j];
                at.depth = j % 2 ? 64 : 128;
                if (i < 3 && j < 3) at.flags |= SITE_SMALL;
                site_dense(to, &at);
            }
}

/* Fault 52: windows against lengths, at and around every tile edge. */
static void windows(suite *to) {
    static const int lengths[] = {1,   2,   15,  63,  64,  65,  127, 128, 129, 191, 192, 193,
                                  255, 256, 257, 258, 300, 383, 385, 511, 512, 513, 600};
    static const int sizes[] = {0, 1, 15, 64, 127, 128, 255, 256, 257};
    char attributes[80];
    for (uint32_t kind = 0; kind < 3; kind += 2)
        for (uint32_t i = 0; i < QF_COUNT_OF(lengths); i++)
            for (uint32_t j = 0; j < QF_COUNT_OF(sizes); j++) {
                site at = of_kind(kind, "fault_52_window");
                (void)snprintf(attributes, sizeof attributes, "causal=true, window_left=%d", sizes[j]);
                at.heads = at.kv_heads = 1;
                at.rows = at.keys = lengths[i];
                at.depth = j % 2 ? 128 : 64;
                at.attributes = attributes;
                site_dense(to, &at);
            }
}

static void caps_sinks_groups(suite *to) {
    static const int64_t groups[] = {1, 2, 4, 5, 8, 16};
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        static const char *const caps[] = {"softcap=0.5", "softcap=30, causal=true",
                                           "softcap=2, causal=true, window_left=20"};
        for (uint32_t i = 0; i < QF_COUNT_OF(caps); i++) {
            site at = of_kind(kind, "fault_49_soft_cap");
            at.attributes = caps[i];
            at.depth = i == 1 ? 128 : 64;
            if (i == 2) at.flags |= SITE_SINKS;
            if (i == 0) at.flags |= SITE_SMALL;
            site_dense(to, &at);
        }
        for (uint32_t i = 0; i < QF_COUNT_OF(groups); i++)
            for (int64_t kv_heads = 1; kv_heads <= 2; kv_heads++) {
                site at = of_kind(kind, "group");
                at.heads = groups[i] * kv_heads;
                at.kv_heads = kv_heads;
                at.rows = 40;
                at.keys = 140;
                at.depth = 128;
                if (i % 2) at.flags |= SITE_SINKS | SITE_LSE;
                if (i > 2) at.flags |= SITE_HEAD_SCALES;
                site_dense(to, &at);
            }
        for (int form = 0; form < 4; form++) {
            site at = of_kind(kind, form & 1 ? "layout_lse" : "layout");
            at.batch = 2;
            at.flags |= SITE_ROWS_FIRST | (form & 1 ? SITE_LSE : 0) | (form & 2 ? SITE_SINKS | SITE_HEAD_SCALES : 0);
            at.depth = form & 1 ? 128 : 96;
            at.flags |= SITE_SMALL;
            site_dense(to, &at);
        }
    }
}

static void masks(suite *to) {
    static const shape forms[] = {{2, {33, 70}}, {4, {1, 1, 33, 70}}, {4, {2, 1, 1, 70}}, {4, {2, 4, 33, 70}},
                                  {1, {70}},     {4, {1, 4, 1, 70}},  {4, {2, 4, 33, 1}}, {0, {0}}};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i + 1 < QF_COUNT_OF(forms); i++)
            for (int form = 1; form < 4; form++) {
                char name[40];
                site at = of_kind(kind, name);
                (void)snprintf(name, sizeof name, "%s%s_%u", form & 1 ? "mask" : "", form & 2 ? "bias" : "", i);
                at.batch = 2;
                at.attributes = i % 2 ? "causal=true" : i == 4 ? "softcap=3" : "";
                if (form & 1) at.mask = forms[i];
                if (form & 2) at.bias = forms[form == 3 ? (i + 2) % 7 : i];
                at.bias_type = i % 2 && qf_dtype_bits(at.type) == 16 ? at.type : QF_F32;
                if (i == 0) at.flags |= SITE_SMALL;
                site_dense(to, &at);
            }
}

static void lengths(suite *to) {
    static const char *const ways[] = {"", "causal=true", "causal=true, align=top_left", "causal=true, window_left=20",
                                       "empty_row=nan, causal=true"};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t j = 0; j < QF_COUNT_OF(ways); j++) {
            site at = of_kind(kind, "fault_51_53_lengths");
            at.batch = 5;
            at.keys = 200;
            at.rows = j == 3 ? 1 : 20;
            at.attributes = ways[j];
            at.has_lengths = true;
            memcpy(at.lengths, (const double[]){200, 0, 1, 129, 64}, 5 * sizeof(double));
            at.flags |= j == 1 ? SITE_LSE | SITE_REPLAYS : j == 2 ? SITE_SINKS : 0;
            if (j < 2) at.flags |= SITE_SMALL;
            at.depth = j == 2 ? 64 : 128;
            site_dense(to, &at);
            site packed = of_kind(kind, "packed");
            packed.batch = 4;
            packed.rows = 75;
            packed.keys = 150;
            packed.attributes = ways[j];
            packed.has_starts = true;
            memcpy(packed.starts, (const double[]){2, 9, 9, 70, 74}, 5 * sizeof(double));
            packed.has_lengths = j % 2;
            memcpy(packed.lengths, (const double[]){150, 3, 99, 0}, 4 * sizeof(double));
            packed.flags |= j == 3 ? SITE_LSE : 0;
            packed.depth = j % 2 ? 128 : 64;
            site_dense(to, &packed);
        }
}

static void p_modes_and_endings(suite *to) {
    static const qf_dtype types[] = {QF_F32, QF_F16, QF_BF16, QF_F8E4M3FN, QF_F8E5M2, QF_F8E4M3FNUZ};
    for (uint32_t i = 0; i < QF_COUNT_OF(types); i++)
        for (uint32_t mode = 0; mode < 4; mode++) {
            site at = of_kind(2, "p_mode");
            at.type = types[i];
            at.flags = mode == 1 ? SITE_P_KERNEL : mode == 2 ? SITE_P_GRAPH : mode == 3 ? SITE_P_KERNEL : 0;
            at.attributes = mode == 3 ? "causal=true, p_dtype=f8E5M2" : "causal=true";
            at.flags |= SITE_LSE;
            site_dense(to, &at);
        }
    static const char *const endings[] = {"via=bf16",
                                          "via=f16",
                                          "out_mode=mul",
                                          "out_mode=mul_recip",
                                          "out_compute=bf16, via=bf16",
                                          "out_compute=f16, out_mode=mul"};
    static const qf_dtype outs[] = {QF_F8E4M3FN, QF_F8E5M2};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(endings); i++)
            for (uint32_t j = 0; j < QF_COUNT_OF(outs); j++) {
                site at = of_kind(kind, "fault_56_ending");
                if (j && i % 2) continue;
                at.out = outs[j];
                at.attributes = endings[i];
                at.depth = 128;
                site_dense(to, &at);
            }
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < 3; i++) {
            static const qf_dtype wide[] = {QF_F32, QF_F16, QF_BF16};
            site at = of_kind(kind, "wide_result");
            at.out = wide[i];
            site_dense(to, &at);
        }
}

/* Values that show a fault in the arithmetic of P and of the running maximum. */
static void values(suite *to) {
    static const struct {
        const char *name;
        uint32_t flags;
    } all[] = {{"outliers", SITE_OUTLIERS},
               {"equal_scores", SITE_EQUAL},
               {"fault_55_rising", SITE_RISING},
               {"tiny_scales", SITE_TINY_SCALES},
               {"huge_scales", SITE_HUGE_SCALES},
               {"dominated", SITE_DOMINATED},
               {"fault_29_head_scales", SITE_HEAD_SCALES}};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(all); i++)
            for (uint32_t j = 0; j < 2; j++) {
                site at = of_kind(kind, all[i].name);
                at.flags |= all[i].flags;
                at.rows = j ? 130 : 1;
                at.keys = j ? 300 : 1000;
                at.depth = i % 2 ? 128 : 64;
                site_dense(to, &at);
            }
}

/* Fault 50: no bias toward zero, however many keys. */
static void long_contexts(suite *to) {
    static const int64_t keys[] = {1024, 4096, 16384, 65536, 131072};
    for (uint32_t kind = 0; kind < 3; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(keys); i++)
            for (int form = 0; form < 3; form++) {
                site at = of_kind(kind, form == 0 ? "fault_50_flat_v" : form == 1 ? "fault_50_mean_v" : "needle");
                at.flags |= form == 0 ? SITE_FLAT_V : form == 1 ? SITE_MEAN_V : SITE_NEEDLE;
                at.rows = keys[i] > 20000 ? 1 : 16;
                at.heads = 2;
                at.kv_heads = 1;
                at.keys = keys[i];
                at.depth = 128;
                at.attributes = "causal=true";
                if (form == 2 && kind == 2) continue;
                site_dense(to, &at);
            }
}

static void sizes_of_models(suite *to) {
    static const struct {
        const char *name;
        int64_t batch, heads, kv_heads, rows, keys, depth;
    } all[] = {{"fault_57_533_tokens", 1, 40, 8, 533, 533, 128},
               {"fault_54_four_of_4096", 2, 32, 8, 4, 4096, 128},
               {"fault_46_one_of_all", 1, 1, 1, 1, 1, 128},
               {"fault_46_one_kv_head", 3, 8, 1, 1, 65, 64},
               {"prefill", 1, 8, 2, 1024, 1024, 128},
               {"prefill", 2, 4, 4, 700, 700, 64},
               {"prefill", 1, 2, 1, 600, 600, 256},
               {"prefill_v_transposed_before", 1, 16, 1, 900, 640, 256},
               {"prefill_keys_shared", 1, 1, 1, 98400, 96, 256},
               {"no_rows", 2, 4, 2, 0, 33, 64},
               {"no_keys", 2, 4, 2, 5, 0, 64},
               {"no_sequences", 0, 4, 2, 5, 7, 64}};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < QF_COUNT_OF(all); i++) {
            site at = of_kind(kind, all[i].name);
            at.batch = all[i].batch, at.heads = all[i].heads, at.kv_heads = all[i].kv_heads;
            at.rows = all[i].rows, at.keys = all[i].keys, at.depth = all[i].depth;
            if (i < 5) at.flags |= SITE_REPLAYS;
            if (all[i].rows > 500 && kind > 2) continue;
            if (strstr(all[i].name, "prefill_") == all[i].name) { /* as much work as makes a launch of its own pay */
                if (kind > 0) continue;
                at.attributes = "";
            }
            site_dense(to, &at);
        }
}

void attention_cases(suite *to) {
    head_dims(to);
    shapes_and_causality(to);
    windows(to);
    caps_sinks_groups(to);
    masks(to);
    lengths(to);
    p_modes_and_endings(to);
    values(to);
    long_contexts(to);
    sizes_of_models(to);
}
