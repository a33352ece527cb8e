/* Owns: lines of `qfuse bench` for kernels that are limited by memory: their graphs, inputs and bytes.
 * Does not own: timing (bench_run.c), the ceiling (bench.c).
 * Next: bench.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"

#define HEADS     32
#define KV_HEADS  8
#define HEAD_DIM  128
#define PAGE      64
#define POSITIONS 131072
#define CHAIN     16 /* steps of a short launch in one graph, so that launches are timed and not the graph's start */

/* $R, $C: rows and columns of a large tensor; $H, $D: half of the rows, twice the columns. */
typedef struct stream {
    const char *name, *inputs, *body;
} stream;

static const stream streams[] = {
    {"neg f32", "%x: f32[$R, $C]", "%y = neg %x"},
    {"neg bf16", "%x: bf16[$R, $C]", "%y = neg %x"},
    {"add bf16", "%x: bf16[$R, $C], %z: bf16[$R, $C]", "%y = add %x, %z"},
    {"mul, add of a row, silu, bf16", "%x: bf16[$R, $C], %z: bf16[$R, $C], %b: bf16[$C]",
     "%1 = mul %x, %z\n  %2 = add %1, %b\n  %y = silu %2"},
    {"cast f32 to bf16", "%x: f32[$R, $C]", "%y = cast %x {dtype=bf16}"},
    {"cast bf16 to f8E4M3FN", "%x: bf16[$R, $C]", "%y = cast %x {dtype=f8E4M3FN}"},
    {"quantize bf16", "%x: bf16[$R, $C], %s: f32[]", "%y = quantize %x, %s {dtype=f8E4M3FN}"},
    {"quantize f32", "%x: f32[$R, $C], %s: f32[]", "%y = quantize %x, %s {dtype=f8E4M3FN}"},
    {"quantize bf16 by groups of 128", "%x: bf16[$R, 64, 128], %s: f32[$R, 64, 1]",
     "%y = quantize %x, %s {dtype=f8E4M3FN, axis=2, group=128}"},
    {"dequantize to bf16", "%x: f8E4M3FN[$R, $C], %s: f32[]", "%y = dequantize %x, %s {dtype=bf16}"},
    {"dynamic_quantize bf16 by token", "%x: bf16[$R, $C]",
     "%y, %t = dynamic_quantize %x {dtype=f8E4M3FN, granularity=token}"},
    {"rms_norm bf16", "%x: bf16[$R, $C], %w: bf16[$C]", "%y = rms_norm %x, weight=%w {axis=1}"},
    {"add_rms_norm bf16 to f8E4M3FN", "%x: bf16[$R, $C], %z: bf16[$R, $C], %w: bf16[$C], %s: f32[]",
     "%y, %t = add_rms_norm %x, %z, weight=%w, out_scale=%s {axis=1, out=f8E4M3FN}"},
    {"layer_norm bf16", "%x: bf16[$R, 4096], %w: bf16[4096], %b: bf16[4096]",
     "%y = layer_norm %x, weight=%w, bias=%b {axis=1}"},
    {"silu_mul bf16", "%x: bf16[$H, $D]", "%y = silu_mul %x"},
    {"silu_mul bf16 to f8E4M3FN", "%x: bf16[$H, $D], %s: f32[]", "%y = silu_mul %x, out_scale=%s {out=f8E4M3FN}"},
    {"softmax f32, rows of 4096", "%x: f32[$R, 4096]", "%y = softmax %x {axis=1}"},
    {"softmax bf16, rows of 4096", "%x: bf16[$R, 4096]", "%y = softmax %x {axis=1}"},
    {"permute bf16, tokens and heads", "%x: bf16[4, $R, 16, 128]", "%y = permute %x {order=[0, 2, 1, 3]}"},
    {"transpose bf16", "%x: bf16[$R, $C]", "%y = permute %x {order=[1, 0]}"},
    {"slice bf16, odd columns", "%x: bf16[$R, 8200]", "%y = slice %x {starts=[0, 8], ends=[$R, 8200], steps=[1, 1]}"},
};

static void replace_sizes(const char *text, uint64_t rows, uint64_t columns, char *out, size_t size) {
    size_t used = 0;
    for (; *text && used + 24 < size; text++) {
        uint64_t number = 0;
        if (*text == '$')
            number = text[1] == 'R' ? rows : text[1] == 'C' ? columns : text[1] == 'H' ? rows / 2 : 2 * columns;
        if (number)
            used += (size_t)snprintf(out + used, size - used, "%llu", (unsigned long long)number), text++;
        else
            out[used++] = *text;
    }
    out[used] = '\0';
}

/* Scales are positive: 0.05, or numbers around it. */
static bool fill_scales(bench *at, const qf_plan_tensor_info *info, qf_tensor *tensor) {
    *tensor = (qf_tensor){.dtype = info->dtype, .rank = info->rank};
    memcpy(tensor->dims, info->dims, sizeof info->dims);
    size_t count = (size_t)(qf_tensor_bytes(tensor) / sizeof(float));
    float *numbers = malloc((count + 1) * sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++) numbers[i] = 0.05f + (float)(i * 7919 % 64) * 0.001f;
    bool done = numbers && bench_upload(&at->device, tensor, numbers);
    free(numbers);
    return done;
}

static bool fill_stream(void *user, uint32_t index, uint32_t set, const qf_plan_tensor_info *info, qf_tensor *tensor) {
    if (strcmp(info->name, "s") == 0) return fill_scales(user, info, tensor);
    return bench_fill_random(user, index, set, info, tensor);
}

static bool stream_line(bench *at, const stream *line) {
    char inputs[400], body[400], text[1000];
    bench_times times;
    double bytes = 0;
    uint64_t rows = at->device.host ? 64 : 16384;
    replace_sizes(line->inputs, rows, 8192, inputs, sizeof inputs);
    replace_sizes(line->body, rows, 8192, body, sizeof body);
    const char *results = strncmp(body, "%y, %t", 6) == 0 ? "%y, %t" : "%y";
    (void)snprintf(text, sizeof text, "graph @stream(%s) {\n  %s\n  return %s\n}\n", inputs, body, results);
    if (!bench_text(at, text, 0, fill_stream, &times, &bytes)) return false;
    bench_print(at, line->name, &times, bytes, 0, BENCH_COPY, 0);
    return true;
}

/* --- rotation and cache write --- */

typedef struct cache_row {
    uint64_t tokens, steps;
} cache_row;

/* Rows in an order of their own, each with a place of its own. */
static bool fill_places(bench *at, const qf_plan_tensor_info *info, qf_tensor *tensor, bool mixed) {
    int64_t count = info->dims[0], *numbers = malloc(((size_t)count + 1) * sizeof *numbers);
    for (int64_t i = 0; numbers && i < count; i++) numbers[i] = mixed ? i * 7919 % count : i;
    bool done = numbers && bench_upload(&at->device, tensor, numbers);
    free(numbers);
    return done;
}

static bool fill_cache(void *user, uint32_t index, uint32_t set, const qf_plan_tensor_info *info, qf_tensor *tensor) {
    if (info->dtype != QF_I64) return fill_stream(user, index, set, info, tensor);
    *tensor = (qf_tensor){.dtype = info->dtype, .rank = info->rank};
    memcpy(tensor->dims, info->dims, sizeof info->dims);
    return fill_places(user, info, tensor, strcmp(info->name, "slots") == 0);
}

static bool cache_line(bench *at, const cache_row *row) {
    char text[8000], name[80];
    unsigned long long tokens = row->tokens, pages = (tokens + PAGE - 1) / PAGE;
    int used = snprintf(text, sizeof text,
                        "graph @write(%%q: bf16[%llu, %d, %d], %%k: bf16[%llu, %d, %d], %%v: bf16[%llu, %d, %d], "
                        "%%angles: f32[%d, %d], %%p: i64[%llu], %%slots: i64[%llu], %%k0: f8E4M3FN[%llu, %d, %d, %d], "
                        "%%v0: f8E4M3FN[%llu, %d, %d, %d], %%s: f32[]) {\n",
                        tokens, HEADS, HEAD_DIM, tokens, KV_HEADS, HEAD_DIM, tokens, KV_HEADS, HEAD_DIM, POSITIONS,
                        HEAD_DIM, tokens, tokens, pages, PAGE, KV_HEADS, HEAD_DIM, pages, PAGE, KV_HEADS, HEAD_DIM);
    for (uint64_t i = 1; i <= row->steps; i++)
        used +=
            snprintf(text + used, sizeof text - (size_t)used,
                     "  %%q%llu, %%k%llu, %%v%llu = rope_quantize_cache_write %%q, %%k, %%v, %%angles, %%p, %%slots, "
                     "%%k%llu, %%v%llu, q_scale=%%s, k_scale=%%s, v_scale=%%s {layout=nhd, q_dtype=f8E4M3FN}\n",
                     (unsigned long long)i, (unsigned long long)i, (unsigned long long)i, (unsigned long long)i - 1,
                     (unsigned long long)i - 1);
    used += snprintf(text + used, sizeof text - (size_t)used, "  return %%k%llu, %%v%llu",
                     (unsigned long long)row->steps, (unsigned long long)row->steps);
    for (uint64_t i = 1; i <= row->steps; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, ", %%q%llu", (unsigned long long)i);
    (void)snprintf(text + used, sizeof text - (size_t)used, "\n}\n");
    bench_times times;
    double elements = (double)row->tokens * (HEADS + 2 * KV_HEADS) * HEAD_DIM, ignored;
    /* Rows read, codes written, angles of each row, positions and slots. */
    double bytes = elements * 3 + (double)row->tokens * (HEAD_DIM * 4 + 16);
    if (!bench_text(at, text, 1, fill_cache, &times, &ignored)) return false;
    times.median /= (double)row->steps, times.least /= (double)row->steps, times.most /= (double)row->steps;
    (void)snprintf(name, sizeof name, "rope_quantize_cache_write, %llu tokens", tokens);
    bench_print(at, name, &times, bytes, 0, BENCH_COPY, 0);
    return true;
}

bool bench_streams(bench *at) {
    const cache_row rows[] = {{at->device.host ? 64 : 16384, 1}, {at->device.host ? 16 : 256, CHAIN}};
    for (size_t i = 0; i < QF_COUNT_OF(streams); i++)
        if (!stream_line(at, &streams[i])) return false;
    for (size_t i = 0; i < QF_COUNT_OF(rows); i++)
        if (!cache_line(at, &rows[i])) return false;
    return true;
}
