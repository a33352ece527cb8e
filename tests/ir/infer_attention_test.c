/* Owns: tests of the shape rules of attention, caches and rotary embedding.
 * Does not own: the other ops' rules (infer_test.c).
 * Next: ir/infer_attention.c. */
#include "tests/ir/inferring.h"

static void attention(void **state) {
    (void)state;
    EXPECT_TYPES({"attention",
                  "scale=0.125",
                  {"f16[B, 8, T, 64]", "f16[B, 2, S, 64]", "f16[B, 2, S, 32]"},
                  "f16[B, 8, T, 32]",
                  0},
                 {"attention",
                  "scale=0.125;layout=bshd",
                  {"f16[B, T, 8, 64]", "f16[B, S, 2, 64]", "f16[B, S, 2, 32]"},
                  "f16[B, T, 8, 32]; f32[B, 8, T]",
                  2},
                 {"attention",
                  "scale=1;out=f8E4M3FN",
                  {"f8E4M3FN[B, 8, T, 64]", "f8E4M3FN[B, 8, S, 64]", "f8E4M3FN[B, 8, S, 64]", "f32[1, T, S]",
                   "i1[T, S]", "i32[B]"},
                  "f8E4M3FN[B, 8, T, 64]",
                  0},
                 {"attention",
                  "scale=1",
                  {"f8E4M3FN[B, 8, T, 64]", "f8E4M3FN[B, 8, S, 64]", "f8E4M3FN[B, 8, S, 64]"},
                  "f32[B, 8, T, 64]",
                  0},
                 {"attention",
                  "scale=1",
                  {"f16[N, 8, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]", "", "", "i32[B]", "i32[B + 1]", "f32[8]"},
                  "f16[N, 8, 64]; f32[N, 8]",
                  2},
                 {"paged_attention",
                  "scale=1",
                  {"bf16[B, 8, 64]", "bf16[P, 16, 2, 64]", "bf16[P, 16, 2, 64]", "i32[B, M]", "i32[B]"},
                  "bf16[B, 8, 64]",
                  0},
                 {"paged_attention",
                  "scale=1;layout=hnd",
                  {"bf16[N, 8, 64]", "bf16[P, 2, 16, 64]", "bf16[P, 2, 16, 48]", "i32[B, M]", "i32[B]", "i32[B + 1]"},
                  "bf16[N, 8, 48]; f32[N, 8]",
                  2},
                 {"kv_cache_write",
                  "",
                  {"f8E4M3FN[P, 16, 2, 64]", "bf16[N, 2, 64]", "i64[N]", "f32[]"},
                  "f8E4M3FN[P, 16, 2, 64]",
                  0},
                 {"rope", "", {"f16[B, T, 8, 64]", "f32[4096, 64]", "i64[B, T]"}, "f16[B, T, 8, 64]", 0},
                 {"rope", "rotary_dim=32", {"f16[B, T, 8, 64]", "f32[T, 32]"}, "f16[B, T, 8, 64]", 0},
                 {"rope_quantize_cache_write",
                  "",
                  {"f16[N, 8, 64]", "f16[N, 2, 64]", "f16[N, 2, 64]", "f32[4096, 64]", "i64[N]", "i64[N]",
                   "f8E4M3FN[P, 16, 2, 64]", "f8E4M3FN[P, 16, 2, 64]"},
                  "f8E4M3FN[N, 8, 64]; f8E4M3FN[P, 16, 2, 64]; f8E4M3FN[P, 16, 2, 64]",
                  0});
    EXPECT_FAULTS(
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 3, S, 64]", "f16[B, 3, S, 64]"},
         "operand q has type f16[B, 8, T, 64], expected a head count that is a multiple of 3 KV heads, found 8",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 32]", "f16[B, 8, S, 64]"},
         "operand k has 32 elements a head, expected 64",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, 9, 64]", "f16[B, 8, 8, 64]"},
         "operand v has 8 keys, expected 9",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 4, S, 64]"},
         "operand v has 4 KV heads, expected 8",
         0},
        {"attention",
         "scale=1",
         {"f16[8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]"},
         "operand q has type f16[8, T, 64], expected rank 4, found rank 3",
         0},
        {"attention",
         "scale=1;layout=nhd",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]"},
         "attribute layout is nhd, expected bhsd or bshd",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]", "f16[7, T, S]"},
         "operand bias has 7 elements on axis 0, expected 8",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]", "", "f16[T, S]"},
         "operand mask has type f16[T, S], expected element type i1",
         0},
        {"paged_attention",
         "scale=1",
         {"bf16[B, 8, 64]", "bf16[P, 16, 2, 64]", "bf16[P, 32, 2, 64]", "i32[B, M]", "i32[B]"},
         "operand v_cache has 32 slots a page, expected 16",
         0},
        {"paged_attention",
         "scale=1",
         {"bf16[B, 8, 64]", "bf16[P, 16, 2, 64]", "bf16[P, 16, 2, 64]", "i64[B, M]", "i32[B]"},
         "operand block_table has type i64[B, M], expected element type i32",
         0},
        {"kv_cache_write",
         "layout=bhsd",
         {"f16[P, 16, 2, 64]", "bf16[N, 2, 64]", "i64[N]"},
         "attribute layout is bhsd, expected nhd or hnd",
         0},
        {"kv_cache_write",
         "layout=hnd",
         {"f16[P, 16, 2, 64]", "bf16[N, 2, 64]", "i64[N]"},
         "operand new has 2 KV heads, expected 16",
         0},
        {"rope",
         "",
         {"f16[B, T, 8, 63]", "f32[4096, 63]", "i64[B, T]"},
         "expected an even count of rotated elements",
         0},
        {"rope",
         "",
         {"f16[B, T, 8, 64]", "f32[4096, 32]", "i64[B, T]"},
         "operand cos_sin has 32 elements on the last axis, expected 64",
         0});
}

/* FAULTS 23: ranks 2 to 6 give a type or a message. */
static void fault_23_every_rank_is_answered(void **state) {
    (void)state;
    static const char *const types[] = {"f16[8, 64]", "f16[B, 8, 64]", "f16[B, 8, 8, 64]", "f16[B, 1, 8, 8, 64]",
                                        "f16[B, 1, 1, 8, 8, 64]"};
    for (int q = 0; q < 5; q++)
        for (int k = 0; k < 5; k++) {
            bench b;
            bench_open(&b);
            rule_case c = {"attention", "scale=1", {types[q], types[k], types[k]}, "", 0};
            qf_node node = run_case(&b, &c);
            assert_true(node.id ? q == 2 && k == 2 : strstr(b.check.messages, "expected rank") != NULL);
            bench_close(&b);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention),
        cmocka_unit_test(fault_23_every_rank_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
