/* Owns: tests of the host's choices for a prefill launch: refusals, variants, grids, shared memory, tensor maps.
 * Does not own: which steps get there (cuda_attention_test.c), numbers (tests/gpu/prefill).
 * Next: kernels/cuda/prefill/select.h. */
#include "tests/check.h"

#include "kernels/cuda/prefill/select.h"

#define MULTIPROCESSORS 132
#define SHARED_LIMIT    (227 * 1024)

static qf_prefill_problem usual(void) {
    return (qf_prefill_problem){.dtype = QF_PREFILL_E4M3,
                                .out_dtype = QF_PREFILL_E4M3,
                                .head_dim = 128,
                                .kv_heads = 8,
                                .group = 4,
                                .batch = 2,
                                .q_tokens = 1000,
                                .kv_tokens = 1500,
                                .softmax_scale = 0.1f,
                                .causal = 1,
                                .window_left = -1,
                                .window_right = -1};
}

static void fill(const qf_prefill_problem *problem, qf_prefill_params *params) {
    const qf_prefill_choice choice = qf_prefill_choose(problem, MULTIPROCESSORS);
    qf_prefill_fill(problem, &choice, params);
}

static void refuses(qf_prefill_problem problem, const char *reason) {
    const char *found = qf_prefill_refusal(&problem);
    assert_non_null(found);
    assert_non_null(strstr(found, reason));
}

static void test_what_is_refused_says_why(void **state) {
    (void)state;
    qf_prefill_problem p = usual();
    assert_null(qf_prefill_refusal(&p));
    p = usual(), p.dtype = QF_PREFILL_E5M2;
    refuses(p, "e4m3, bf16 or f16");
    p = usual(), p.head_dim = 96;
    refuses(p, "head dim");
    p = usual(), p.out_dtype = QF_PREFILL_NONE;
    refuses(p, "output");
    p = usual(), p.group = 0;
    refuses(p, "positive");
    p = usual(), p.group = 65;
    refuses(p, "64 query heads");
    p = usual(), p.packed = 1, p.batch = QF_PREFILL_MAX_BATCH + 1;
    refuses(p, "packed");
    p = usual(), p.page_size = 48;
    refuses(p, "page size");
    p = usual(), p.page_size = 256;
    refuses(p, "page size");
    p = usual(), p.kv_tokens = QF_PREFILL_UNLIMITED / 2;
    refuses(p, "2^28");
    p = usual(), p.batch = 1 << 24, p.q_tokens = 1 << 20;
    refuses(p, "tiles");
    p = usual(), p.softmax_scale = 0.0f;
    refuses(p, "softmax scale");
    p = usual(), p.softmax_scale = -0.1f;
    refuses(p, "softmax scale");
    const uint32_t nan_bits = 0x7FC00000u;
    p = usual(), memcpy(&p.softmax_scale, &nan_bits, sizeof nan_bits);
    refuses(p, "softmax scale");
    p = usual(), p.softcap = -1.0f;
    refuses(p, "soft cap");
}

static void test_a_soft_cap_takes_scores_in_f32(void **state) {
    (void)state;
    qf_prefill_problem p = usual();
    assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).form.scores, QF_PREFILL_SCORES_F16);
    p.softcap = 30.0f;
    assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).form.scores, QF_PREFILL_SCORES_F32);
    p.softcap = 0.0f, p.f32_scores = 1;
    assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).form.scores, QF_PREFILL_SCORES_F32);
    p = usual(), p.dtype = QF_PREFILL_BF16;
    assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).form.scores, QF_PREFILL_SCORES_F32);
}

/* The grid is never larger than the device or the work, and shared memory fits, for every variant and batch. */
static void test_launches_fit_the_device(void **state) {
    (void)state;
    for (int head_dim = 64; head_dim <= 256; head_dim *= 2) {
        for (int f32 = 0; f32 < 2; f32++) {
            for (int batch = 0; batch <= QF_PREFILL_MAX_BATCH; batch += 256) {
                qf_prefill_problem p = usual();
                p.head_dim = head_dim, p.f32_scores = f32, p.batch = batch, p.packed = 1;
                p.dtype = batch % 512 ? QF_PREFILL_E4M3 : batch % 1024 ? QF_PREFILL_BF16 : QF_PREFILL_F16;
                assert_null(qf_prefill_refusal(&p));
                qf_prefill_choice choice = qf_prefill_choose(&p, MULTIPROCESSORS);
                /* barriers and work descriptions are static */
                assert_true(choice.shared_bytes + 1024 <= SHARED_LIMIT);
                assert_true(choice.ctas >= 1 && choice.ctas <= MULTIPROCESSORS);
                assert_int_equal(choice.threads, qf_prefill_threads(choice.form));
            }
        }
    }
    qf_prefill_problem small = usual();
    small.batch = 1, small.kv_heads = 1, small.q_tokens = 100; /* tiles of 48 tokens */
    assert_int_equal(qf_prefill_choose(&small, MULTIPROCESSORS).ctas, 3);
    small.q_tokens = 0;
    assert_int_equal(qf_prefill_choose(&small, MULTIPROCESSORS).ctas, 1);
}

static void test_v_is_transposed_before_where_that_pays(void **state) {
    (void)state;
    static const struct {
        int head_dim, kv_heads, group, batch, tokens, causal, cluster; /* cluster 0: transposed inside */
    } all[] = {
        {128, 8, 4, 1, 16384, 1, 1}, {128, 8, 4, 1, 16384, 0, 2}, {128, 8, 4, 1, 1024, 1, 0},
        {128, 16, 1, 4, 4096, 0, 2}, {128, 16, 1, 4, 4096, 1, 0}, {128, 8, 4, 1, 2048, 0, 0},
        {128, 8, 4, 1, 4096, 1, 0},  {128, 8, 4, 1, 4096, 0, 1},  {256, 8, 1, 4, 4096, 1, 1},
        {256, 8, 1, 1, 16384, 1, 2}, {256, 8, 1, 1, 512, 1, 0},   {64, 32, 1, 1, 16384, 1, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        qf_prefill_problem p = usual();
        qf_prefill_params params;
        p.head_dim = all[i].head_dim, p.kv_heads = all[i].kv_heads, p.group = all[i].group, p.batch = all[i].batch;
        p.q_tokens = p.kv_tokens = all[i].tokens, p.causal = all[i].causal;
        assert_null(qf_prefill_refusal(&p));
        const qf_prefill_choice choice = qf_prefill_choose(&p, MULTIPROCESSORS);
        const int64_t blocks = (int64_t)p.batch * p.kv_heads * p.kv_tokens / QF_PREFILL_BLOCK_KEYS;
        const int before = all[i].cluster > 0;
        qf_prefill_fill(&p, &choice, &params);
        assert_int_equal(choice.form.transpose, before ? QF_PREFILL_TRANSPOSE_BEFORE : QF_PREFILL_TRANSPOSE_INSIDE);
        assert_int_equal(choice.cluster, before ? all[i].cluster : 1);
        assert_int_equal(choice.ctas % choice.cluster, 0);
        assert_int_equal(params.cluster, choice.cluster);
        assert_int_equal(params.span_tokens, choice.cluster * params.tile_tokens);
        assert_int_equal(choice.before_ctas, before ? blocks * (p.head_dim > 128 ? 2 : 1) : 0);
        if (choice.divide_from == INT32_MAX)
            assert_int_equal(choice.transposed_bytes, before ? blocks * QF_PREFILL_BLOCK_KEYS * p.head_dim : 0);
    }
}

/* Pairs of tiles that a last wave of at most half of the clusters takes, where all are equally long. */
static void test_the_keys_of_a_short_last_wave_are_divided(void **state) {
    (void)state;
    static const struct {
        int head_dim, kv_heads, group, batch, tokens, causal, from, pairs;
    } all[] = {
        {128, 16, 1, 1, 16384, 0, 660, 688},       {128, 8, 4, 1, 8192, 0, 660, 688},
        {128, 8, 5, 4, 4096, 0, 1716, 1728},       {128, 16, 1, 1, 16384, 1, INT32_MAX, 1376},
        {128, 8, 4, 1, 16384, 0, INT32_MAX, 1368}, {256, 8, 1, 4, 4096, 0, INT32_MAX, 512},
        {128, 16, 1, 4, 4096, 0, 640, 704},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        qf_prefill_problem p = usual();
        qf_prefill_params params;
        p.head_dim = all[i].head_dim, p.kv_heads = all[i].kv_heads, p.group = all[i].group, p.batch = all[i].batch;
        p.q_tokens = p.kv_tokens = all[i].tokens, p.causal = all[i].causal;
        const qf_prefill_choice choice = qf_prefill_choose(&p, MULTIPROCESSORS);
        qf_prefill_fill(&p, &choice, &params);
        assert_int_equal(choice.divide_from, all[i].from);
        assert_int_equal(params.divide_from, all[i].from);
        assert_int_equal(params.late_pairs, all[i].from == 640); /* a tile and a third are left of each head */
        assert_int_equal((p.q_tokens + params.span_tokens - 1) / params.span_tokens * p.batch * p.kv_heads,
                         all[i].pairs);
        if (all[i].from == INT32_MAX) continue;
        const int64_t v = (int64_t)p.batch * p.kv_heads * p.kv_tokens * p.head_dim;
        assert_int_equal(params.shares_offset, v);
        assert_int_equal(choice.transposed_bytes, v + (int64_t)qf_prefill_share_bytes(choice.form) * choice.ctas / 2);
        p.window_left = 4000; /* tiles at the beginning see fewer keys */
        assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).divide_from, INT32_MAX);
        p.window_left = -1, p.kv_tokens = 1024;
        assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).divide_from, INT32_MAX);
        p.kv_tokens = p.q_tokens, p.batch = 1, p.packed = 1;
        assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).divide_from, INT32_MAX);
    }
}

/* Of 16-bit elements nothing is transposed, and keys and values are shared sooner. */
static void test_wide_elements_share_where_that_pays(void **state) {
    (void)state;
    static const struct {
        int head_dim, kv_heads, group, batch, tokens, wish, cluster;
    } all[] = {
        {128, 8, 4, 1, 16384, QF_PREFILL_WISH_NONE, 2},   {128, 16, 1, 4, 4096, QF_PREFILL_WISH_NONE, 2},
        {128, 8, 4, 1, 4096, QF_PREFILL_WISH_NONE, 2},    {128, 8, 4, 1, 2048, QF_PREFILL_WISH_NONE, 1},
        {128, 16, 1, 16, 1024, QF_PREFILL_WISH_NONE, 1},  {256, 8, 1, 4, 4096, QF_PREFILL_WISH_NONE, 2},
        {64, 32, 1, 1, 16384, QF_PREFILL_WISH_NONE, 1},   {64, 32, 1, 1, 16384, QF_PREFILL_WISH_SHARED, 2},
        {128, 8, 4, 1, 16384, QF_PREFILL_WISH_INSIDE, 1}, {128, 8, 4, 1, 16384, QF_PREFILL_WISH_BEFORE, 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        qf_prefill_problem p = usual();
        qf_prefill_params params;
        p.dtype = i % 2 ? QF_PREFILL_F16 : QF_PREFILL_BF16, p.head_dim = all[i].head_dim;
        p.kv_heads = all[i].kv_heads, p.group = all[i].group, p.batch = all[i].batch, p.wish = all[i].wish;
        p.q_tokens = p.kv_tokens = all[i].tokens;
        const qf_prefill_choice choice = qf_prefill_choose(&p, MULTIPROCESSORS);
        qf_prefill_fill(&p, &choice, &params);
        assert_int_equal(choice.cluster, all[i].cluster);
        assert_int_equal(params.cluster, choice.cluster);
        assert_int_equal(params.span_tokens, choice.cluster * params.tile_tokens);
        assert_int_equal(choice.before_ctas, 0);
        assert_int_equal(choice.transposed_bytes, 0);
    }
}

/* Few rows over many keys, or more V^T than memory is taken for, stay inside; so do what has no such variant. */
static void test_v_is_transposed_inside_otherwise(void **state) {
    (void)state;
    qf_prefill_problem p = usual();
    p.batch = 1, p.q_tokens = 64, p.kv_tokens = 131072, p.causal = 0;
    assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).before_ctas, 0);
    p.q_tokens = 16384;
    assert_true(qf_prefill_choose(&p, MULTIPROCESSORS).before_ctas > 0);
    p.causal = 1, p.window_left = 100; /* a row sees few of the keys */
    assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).before_ctas, 0);
    p.causal = 0, p.window_left = -1, p.f32_scores = 1;
    assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).before_ctas, 0);
    p.f32_scores = 0, p.packed = 1, p.batch = 16; /* tables of 131072 tokens each: 2 GiB */
    assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).before_ctas, 0);
    p.dtype = QF_PREFILL_BF16, p.packed = 0, p.batch = 1;
    assert_int_equal(qf_prefill_choose(&p, MULTIPROCESSORS).form.transpose, QF_PREFILL_TRANSPOSE_NONE);
}

/* What the caller wishes, for tests: tiles of 256 keys are whole pairs of blocks, and fit the device in pairs. */
static void test_wishes_are_granted(void **state) {
    (void)state;
    qf_prefill_problem p = usual();
    p.head_dim = 64, p.kv_tokens = 300, p.wish = QF_PREFILL_WISH_BEFORE;
    qf_prefill_choice choice = qf_prefill_choose(&p, MULTIPROCESSORS);
    assert_int_equal(choice.before_ctas, 4 * 2 * 8);
    assert_int_equal(choice.cluster, 1);
    p.wish = QF_PREFILL_WISH_SHARED, p.q_tokens = 5, p.batch = 1;
    choice = qf_prefill_choose(&p, 7);
    assert_int_equal(choice.cluster, 2);
    assert_int_equal(choice.ctas, 6);
    qf_prefill_map map;
    const qf_prefill_tensor v = {(void *)(uintptr_t)4096, 512, 64, 512 * 300};
    qf_prefill_describe_values(&p, &v, &map);
    assert_int_equal(map.box[1], QF_PREFILL_BLOCK_KEYS);
    qf_prefill_describe_keys(&p, &v, &map);
    assert_int_equal(map.box[1], 256);
}

static void test_rows_are_divided_by_the_group_exactly(void **state) {
    (void)state;
    for (int group = 1; group <= 64; group++) {
        qf_prefill_problem p = usual();
        qf_prefill_params params;
        p.group = group;
        fill(&p, &params);
        assert_int_equal(params.tile_tokens, 192 / group);
        for (int row = 0; row < 192; row++) assert_int_equal(row * params.group_magic >> 16, row / group);
    }
}

static void test_windows_become_distances(void **state) {
    (void)state;
    qf_prefill_problem p = usual();
    qf_prefill_params params;
    fill(&p, &params);
    assert_int_equal(params.left, QF_PREFILL_UNLIMITED);
    assert_int_equal(params.right, 0); /* causal */
    p.causal = 0, p.window_left = 0, p.window_right = 7;
    fill(&p, &params);
    assert_int_equal(params.left, 0);
    assert_int_equal(params.right, 7);
    p.window_right = -1;
    fill(&p, &params);
    assert_int_equal(params.right, QF_PREFILL_UNLIMITED);
    assert_true(params.section_heads >= 1);
    p.kv_tokens = QF_PREFILL_UNLIMITED / 2 - 1;
    fill(&p, &params);
    assert_int_equal(params.section_heads, 1);
}

static void check_map(const qf_prefill_map *map) {
    assert_true(map->box[0] == map->swizzle_bytes && (map->box[0] == 64 || map->box[0] == 128));
    for (uint32_t i = 0; i < map->rank; i++) assert_true(map->extents[i] > 0 && map->box[i] >= 1 && map->box[i] <= 256);
    for (uint32_t i = 0; i + 1 < map->rank; i++) assert_int_equal(map->strides[i] % 16, 0);
}

static void test_tensor_maps_follow_layouts(void **state) {
    (void)state;
    qf_prefill_problem p = usual();
    const qf_prefill_tensor q = {(void *)(uintptr_t)4096, 4096, 128, 4096000};
    qf_prefill_map map;
    qf_prefill_describe_query(&p, &q, &map);
    check_map(&map);
    const uint64_t extents[5] = {128, 4, 8, 1000, 2}, strides[4] = {128, 512, 4096, 4096000};
    const uint32_t box[5] = {128, 4, 1, 48, 1};
    assert_memory_equal(map.extents, extents, sizeof extents);
    assert_memory_equal(map.strides, strides, sizeof strides);
    assert_memory_equal(map.box, box, sizeof box);
    const qf_prefill_tensor k = {(void *)(uintptr_t)8192, 1024, 128, 65536};
    for (int page = 16; page <= 128; page *= 2) {
        p.page_size = page, p.pages = 77;
        qf_prefill_describe_keys(&p, &k, &map);
        check_map(&map);
        assert_int_equal(map.extents[1], page);
        assert_int_equal(map.extents[3], 77);
        assert_int_equal(map.box[1], page);
    }
    p.page_size = 0, p.head_dim = 64;
    qf_prefill_describe_keys(&p, &k, &map);
    check_map(&map);
    assert_int_equal(map.extents[1], 1500);
    assert_int_equal(map.extents[3], 2);
    assert_int_equal(map.box[1], 256);
}

/* A box lies in one page and divides a tile, whatever the tile is. */
static void test_boxes_divide_tiles(void **state) {
    (void)state;
    static const int dtypes[] = {QF_PREFILL_E4M3, QF_PREFILL_BF16, QF_PREFILL_F16};
    for (int i = 0; i < 3; i++)
        for (int head_dim = 64; head_dim <= 256; head_dim *= 2)
            for (int page = 0; page <= 128; page = page ? 2 * page : 16) {
                qf_prefill_problem p = usual();
                p.dtype = dtypes[i], p.head_dim = head_dim, p.page_size = page, p.pages = 9;
                assert_null(qf_prefill_refusal(&p));
                const int bytes = qf_prefill_element_bytes(p.dtype);
                const qf_prefill_tensor k = {(void *)(uintptr_t)8192, 1024 * bytes, 256 * bytes, 65536 * bytes};
                qf_prefill_map map;
                qf_prefill_describe_keys(&p, &k, &map);
                check_map(&map);
                assert_int_equal(map.extents[0], head_dim * bytes);
                assert_int_equal(map.strides[0], 1024 * bytes);
                const int tile = qf_prefill_tile_keys(qf_prefill_form_of(&p)), box = (int)map.box[1];
                assert_int_equal(tile % box, 0);
                assert_true(tile / box <= 32); /* a lane each */
                if (page) assert_int_equal(page % box, 0);
            }
}

/* fault_46: dimensions of one element may have any stride. */
static void fault_46_strides_of_single_elements_are_replaced(void **state) {
    (void)state;
    qf_prefill_problem p = usual();
    p.kv_heads = p.group = p.batch = p.q_tokens = p.kv_tokens = 1;
    const qf_prefill_tensor odd = {(void *)(uintptr_t)4096, 7, -3, 5};
    qf_prefill_map map;
    qf_prefill_describe_query(&p, &odd, &map);
    check_map(&map);
    for (int i = 0; i < 4; i++) assert_int_equal(map.strides[i], 128);
    qf_prefill_describe_keys(&p, &odd, &map);
    check_map(&map);
    for (int i = 0; i < 3; i++) assert_int_equal(map.strides[i], 128);
}

/* Small launches: what decides is the longest tile, or a last wave of few tiles; large ones keep all rows. */
static void test_small_launches_take_tiles_of_fewer_rows(void **state) {
    (void)state;
    qf_prefill_problem p = usual();
    p.batch = 1, p.q_tokens = p.kv_tokens = 1024, p.causal = 0; /* 176 full tiles: two waves, the second a third full */
    assert_int_equal(qf_prefill_choose_rows(&p, MULTIPROCESSORS), 128);
    p.causal = 1;
    assert_int_equal(qf_prefill_choose_rows(&p, MULTIPROCESSORS), 192);
    p.q_tokens = p.kv_tokens = 256;
    assert_int_equal(qf_prefill_choose_rows(&p, MULTIPROCESSORS), 64);
    p.group = 64; /* a tile holds a token at least */
    assert_int_equal(qf_prefill_choose_rows(&p, MULTIPROCESSORS) % 64, 0);
    p = usual(), p.packed = 1; /* nothing is known of the sequences */
    assert_int_equal(qf_prefill_choose_rows(&p, MULTIPROCESSORS), 192);
    p = usual(), p.batch = 1 << 14;
    assert_int_equal(qf_prefill_choose_rows(&p, MULTIPROCESSORS), 192);
    p = usual(), p.head_dim = 256;
    assert_true(qf_prefill_choose_rows(&p, MULTIPROCESSORS) <= 128);
    p = usual(), p.q_tokens = 1;
    assert_int_equal(qf_prefill_choose_rows(&p, 0), 192); /* a device that is not known */
}

/* Fewer rows shrink the box of the queries and the tokens of a tile alike, and raise the number of tiles. */
static void test_rows_of_a_tile_reach_the_box_and_the_parameters(void **state) {
    (void)state;
    for (int group = 1; group <= 64; group++) {
        for (int rows = 0; rows <= 192; rows += 64) {
            qf_prefill_problem p = usual();
            qf_prefill_tensor q = {NULL, 128 * 256, 128, 0};
            qf_prefill_map map;
            qf_prefill_params params;
            p.group = group, p.tile_rows = rows;
            qf_prefill_describe_query(&p, &q, &map);
            fill(&p, &params);
            assert_int_equal(params.tile_tokens, (rows ? rows : 192) / group);
            assert_int_equal(map.box[3], params.tile_tokens);
            assert_true(qf_prefill_most_tiles(&p) * params.tile_tokens >= 1000.0 * 2 * 8);
        }
    }
}

/* What a tile sees, at the edges of tiles of 128 keys. */
static void test_key_tiles_of_a_tile(void **state) {
    (void)state;
    qf_prefill_problem p = usual();
    p.q_tokens = p.kv_tokens = 1024;
    assert_int_equal(qf_prefill_key_tiles(&p, 0, 47), 1);
    assert_int_equal(qf_prefill_key_tiles(&p, 96, 127), 1);
    assert_int_equal(qf_prefill_key_tiles(&p, 96, 128), 2);
    assert_int_equal(qf_prefill_key_tiles(&p, 1008, 1023), 8);
    p.kv_tokens = 2048; /* token 0 stands at key 1024 */
    assert_int_equal(qf_prefill_key_tiles(&p, 0, 47), 9);
    p.window_left = 100;
    assert_int_equal(qf_prefill_key_tiles(&p, 128, 175), 2);
    p.causal = 0, p.window_left = -1;
    assert_int_equal(qf_prefill_key_tiles(&p, 0, 47), 16);
    p.kv_tokens = 0;
    assert_int_equal(qf_prefill_key_tiles(&p, 0, 47), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_launches_take_tiles_of_fewer_rows),
        cmocka_unit_test(test_rows_of_a_tile_reach_the_box_and_the_parameters),
        cmocka_unit_test(test_key_tiles_of_a_tile),
        cmocka_unit_test(test_what_is_refused_says_why),
        cmocka_unit_test(test_a_soft_cap_takes_scores_in_f32),
        cmocka_unit_test(test_launches_fit_the_device),
        cmocka_unit_test(test_v_is_transposed_before_where_that_pays),
        cmocka_unit_test(test_the_keys_of_a_short_last_wave_are_divided),
        cmocka_unit_test(test_v_is_transposed_inside_otherwise),
        cmocka_unit_test(test_wide_elements_share_where_that_pays),
        cmocka_unit_test(test_wishes_are_granted),
        cmocka_unit_test(test_rows_are_divided_by_the_group_exactly),
        cmocka_unit_test(test_windows_become_distances),
        cmocka_unit_test(test_tensor_maps_follow_layouts),
        cmocka_unit_test(test_boxes_divide_tiles),
        cmocka_unit_test(fault_46_strides_of_single_elements_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
