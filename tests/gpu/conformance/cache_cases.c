/* Owns: cases of rope, kv_cache_write, rope_quantize_cache_write.
 * Does not own: attention over caches (paged_cases.c).
 * Next: cases.h. */
#include <math.h>
#include <string.h>

#include "tests/gpu/conformance/cases.h"

/* cos | sin halves of a row for each position. */
static fill angles(test_case *test, int64_t positions, int64_t rotary) {
    double *numbers = case_numbers(test, (size_t)(positions * rotary));
    for (int64_t i = 0; i < positions && !test->failed_to_build; i++)
        for (int64_t j = 0; j < rotary / 2; j++) {
            double angle = (double)i * pow(10000, -2.0 * (double)j / (double)rotary);
            numbers[i * rotary + j] = cos(angle);
            numbers[i * rotary + rotary / 2 + j] = sin(angle);
        }
    return (fill){FILL_LIST, 0, 0, numbers, (size_t)(positions * rotary)};
}

static void ropes(suite *to) {
    static const struct {
        shape x;
        int64_t rotary; /* 0: the whole head */
        bool positions;
    } all[] = {{{3, {5, 3, 8}}, 0, true},       {{4, {2, 5, 3, 32}}, 16, true},    {{3, {17, 8, 128}}, 0, true},
               {{4, {2, 6, 2, 64}}, 0, false},  {{3, {0, 2, 8}}, 0, true},         {{3, {1, 1, 2}}, 0, true},
               {{3, {300, 32, 128}}, 64, true}, {{4, {1, 128, 40, 80}}, 0, false}, {{3, {7, 3, 96}}, 90, true}};
    static const qf_dtype dtypes[] = {QF_F32, QF_F16, QF_BF16};
    for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
        for (uint32_t k = 0; k < QF_COUNT_OF(all); k++)
            for (int form = 0; form < 4; form++) {
                test_case *test = &to->test;
                shape x = all[k].x, tokens = {x.rank - 2, {0}};
                memcpy(tokens.dims, x.dims, (x.rank - 2) * sizeof *x.dims);
                int64_t rotary = all[k].rotary ? all[k].rotary : x.dims[x.rank - 1],
                        rows = all[k].positions ? 50 : tokens.dims[tokens.rank - 1];
                case_begin(to, test, QF_OP_rope, "%s_%s_rotary%d%s%s%s", qf_dtype_name(dtypes[j]), shape_text(x),
                           (int)all[k].rotary, form & 1 ? "_interleaved" : "", form & 2 ? "_f32_angles" : "",
                           all[k].positions ? "_positions" : "");
                (void)case_add_input(test, "x", dtypes[j], x, NORMAL(1, 0));
                (void)case_add_input(test, "cs", form & 2 ? QF_F32 : dtypes[j], SHAPE(rows, rotary),
                                     angles(test, rows, rotary));
                (void)case_add_input(test, "p", k % 2 ? QF_I64 : QF_I32, tokens, INTEGERS(0, 49));
                case_node(test, "  %%y = rope %%x, %%cs%s {interleaved=%s, rotary_dim=%d}",
                          all[k].positions ? ", positions=%p" : "", form & 1 ? "true" : "false", (int)all[k].rotary);
                case_output(test, "y", bound_of(QF_OP_rope, dtypes[j], dtypes[j]));
                test->small = k < 6;
                case_end(test);
            }
}

typedef struct cache {
    const char *layout;
    int64_t pages, page, heads, head_dim, rows;
} cache;

static const cache caches[] = {{"nhd", 3, 16, 2, 64, 20},   {"hnd", 3, 16, 2, 64, 20}, {"nhd", 5, 64, 1, 128, 70},
                               {"hnd", 2, 128, 4, 32, 99},  {"nhd", 4, 32, 8, 96, 1},  {"hnd", 2, 32, 3, 80, 0},
                               {"nhd", 12, 64, 8, 128, 600}};

static shape cache_shape(const cache *at) {
    return at->layout[0] == 'n' ? SHAPE(at->pages, at->page, at->heads, at->head_dim)
                                : SHAPE(at->pages, at->heads, at->page, at->head_dim);
}

/* Slots in random order, some -1, some twice (the later row stays). */
static fill slots(test_case *test, const cache *at) {
    double *numbers = case_numbers(test, (size_t)at->rows + 1);
    random_state random = {(uint64_t)at->rows * 77 + (uint64_t)at->page};
    int64_t count = at->pages * at->page;
    for (int64_t i = 0; i < at->rows; i++) {
        numbers[i] = (double)random_between(&random, 0, count - 1);
        if (i % 7 == 3) numbers[i] = -1;
        if (i % 11 == 10) numbers[i] = numbers[i - 4];
    }
    return (fill){FILL_LIST, 0, 0, numbers, (size_t)(at->rows ? at->rows : 1)};
}

static void writes(suite *to) {
    static const struct {
        qf_dtype cache, row;
        int scales; /* 0: none, 1: one, 2: one a head */
    } types[] = {{QF_F8E4M3FN, QF_BF16, 1},     {QF_F8E4M3FN, QF_F16, 2},   {QF_F8E5M2, QF_F32, 1},
                 {QF_F8E4M3FN, QF_F8E4M3FN, 0}, {QF_BF16, QF_BF16, 0},      {QF_F16, QF_F16, 0},
                 {QF_F32, QF_F32, 0},           {QF_F8E4M3FNUZ, QF_BF16, 1}};
    for (uint32_t i = 0; i < QF_COUNT_OF(types); i++)
        for (uint32_t k = 0; k < QF_COUNT_OF(caches); k++)
            for (int in_place = 0; in_place < 2; in_place++) {
                test_case *test = &to->test;
                const cache *at = &caches[k];
                case_begin(to, test, QF_OP_kv_cache_write, "%s_from_%s_%s_%s_rows%d%s%s", qf_dtype_name(types[i].cache),
                           qf_dtype_name(types[i].row), at->layout, shape_text(cache_shape(at)), (int)at->rows,
                           types[i].scales > 1 ? "_head_scales" : "", in_place ? "_in_place" : "");
                (void)case_add_input(test, "cache", types[i].cache, cache_shape(at), ODD);
                (void)case_add_input(test, "new", types[i].row, SHAPE(at->rows, at->heads, at->head_dim),
                                     types[i].scales ? NORMAL(4, 0) : ODD);
                (void)case_add_input(test, "slots", k % 2 ? QF_I32 : QF_I64, SHAPE(at->rows), slots(test, at));
                (void)case_add_input(test, "s", QF_F32, types[i].scales > 1 ? SHAPE(at->heads) : SCALAR,
                                     UNIFORM(0.01, 0.05));
                case_node(test, "  %%y = kv_cache_write %%cache, %%new, %%slots%s {layout=%s}",
                          types[i].scales ? ", scale=%s" : "", at->layout);
                case_output(test, "y", (bound){.kind = BOUND_BYTES});
                test->in_place[0] = in_place ? 0 : -1;
                test->small = k < 2;
                case_end(test);
            }
}

/* Fault 48 and slots past the cache: neither may write. */
static void far_slots(suite *to) {
    static const double far[] = {3, -1, 48, 1000000, 5, -7, 47, 2147483000}, near[] = {3, -1, -1, -1, 5, -1, 47, -1};
    test_case *test = &to->test;
    if (strcmp(to->options.device, "cpu") == 0) return; /* the CPU refuses them */
    case_begin(to, test, QF_OP_kv_cache_write, "slots_out_of_range_fault_48");
    (void)case_add_input(test, "cache", QF_F8E4M3FN, SHAPE(3, 16, 2, 64), ODD);
    (void)case_add_input(test, "new", QF_BF16, SHAPE(8, 2, 64), NORMAL(1, 0));
    (void)case_add_input(test, "slots", QF_I64, SHAPE(8), (fill){FILL_LIST, 0, 0, far, 8});
    (void)case_add_input(test, "near", QF_I64, SHAPE(8), (fill){FILL_LIST, 0, 0, near, 8});
    (void)case_add_input(test, "s", QF_F32, SCALAR, CONSTANT(0.02));
    case_node(test, "  %%y = kv_cache_write %%cache, %%new, %%slots, scale=%%s {layout=nhd}");
    case_other_node(test, "  %%y = kv_cache_write %%cache, %%new, %%near, scale=%%s {layout=nhd}");
    case_output(test, "y", (bound){.kind = BOUND_BYTES});
    test->small = true;
    case_end(test);
}

static void combined(suite *to) {
    static const struct {
        qf_dtype x, cache, q;
        bool interleaved, head_scales;
        int64_t rotary;
    } forms[] = {{QF_BF16, QF_F8E4M3FN, QF_F8E4M3FN, false, false, 0},
                 {QF_F16, QF_F8E4M3FN, QF_F8E4M3FN, true, true, 0},
                 {QF_BF16, QF_BF16, QF_F8E4M3FN, false, false, 16},
                 {QF_F16, QF_F16, QF_F16, false, false, 0},
                 {QF_F32, QF_F8E5M2, QF_F8E5M2, false, false, 32}};
    for (uint32_t i = 0; i < QF_COUNT_OF(forms); i++)
        for (uint32_t k = 0; k < QF_COUNT_OF(caches); k++)
            for (int in_place = 0; in_place < 2; in_place++) {
                test_case *test = &to->test;
                const cache *at = &caches[k];
                bool narrow = qf_dtype_is_float8(forms[i].cache), q_narrow = qf_dtype_is_float8(forms[i].q);
                int64_t rotary = forms[i].rotary ? forms[i].rotary : at->head_dim;
                shape scale = forms[i].head_scales ? SHAPE(at->heads) : SCALAR;
                case_begin(to, test, QF_OP_rope_quantize_cache_write, "%s_%s_%s_rotary%d_%s_%s_rows%d%s",
                           qf_dtype_name(forms[i].x), qf_dtype_name(forms[i].cache), qf_dtype_name(forms[i].q),
                           (int)forms[i].rotary, at->layout, shape_text(cache_shape(at)), (int)at->rows,
                           in_place ? "_in_place" : "");
                (void)case_add_input(test, "q", forms[i].x, SHAPE(at->rows, 4 * at->heads, at->head_dim), NORMAL(1, 0));
                (void)case_add_input(test, "k", forms[i].x, SHAPE(at->rows, at->heads, at->head_dim), NORMAL(1, 0));
                (void)case_add_input(test, "v", forms[i].x, SHAPE(at->rows, at->heads, at->head_dim), NORMAL(1, 0.2));
                (void)case_add_input(test, "cs", k % 2 ? QF_F32 : forms[i].x, SHAPE(60, rotary),
                                     angles(test, 60, rotary));
                (void)case_add_input(test, "p", QF_I64, SHAPE(at->rows), INTEGERS(0, 59));
                (void)case_add_input(test, "slots", QF_I64, SHAPE(at->rows), slots(test, at));
                (void)case_add_input(test, "kc", forms[i].cache, cache_shape(at), ODD);
                (void)case_add_input(test, "vc", forms[i].cache, cache_shape(at), ODD);
                (void)case_add_input(test, "qs", QF_F32, SCALAR, UNIFORM(0.01, 0.02));
                (void)case_add_input(test, "ks", QF_F32, scale, UNIFORM(0.005, 0.01));
                (void)case_add_input(test, "vs", QF_F32, scale, UNIFORM(0.02, 0.04));
                case_node(
                    test,
                    "  %%qo, %%ko, %%vo = rope_quantize_cache_write %%q, %%k, %%v, %%cs, %%p, %%slots, %%kc, %%vc%s%s "
                    "{interleaved=%s, rotary_dim=%d, layout=%s, q_dtype=%s}",
                    q_narrow ? ", q_scale=%qs" : "", narrow ? ", k_scale=%ks, v_scale=%vs" : "",
                    forms[i].interleaved ? "true" : "false", (int)forms[i].rotary, at->layout,
                    qf_dtype_name(forms[i].q));
                case_output(test, "qo", bound_of(QF_OP_rope_quantize_cache_write, forms[i].x, forms[i].q));
                case_output(test, "ko", (bound){.kind = BOUND_BYTES});
                case_output(test, "vo", (bound){.kind = BOUND_BYTES});
                if (in_place) test->in_place[1] = 6, test->in_place[2] = 7;
                test->small = k < 2;
                case_end(test);
            }
}

void cache_cases(suite *to) {
    ropes(to);
    writes(to);
    far_slots(to);
    combined(to);
}
