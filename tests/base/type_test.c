/* Owns: tests of base/type.h.
 * Does not own: dims (dim_test.c).
 * Next: base/type.h. */
#include "tests/check.h"

#include "base/type.h"

static void expect_normal(qf_context *context, const char *text, const char *normal) {
    qf_text rest = qf_text_of(text);
    qf_type type = qf_type_parse(context, &rest);
    assert_int_not_equal(type.id, 0);
    assert_int_equal(rest.size, 0);
    qf_buffer buffer = {.context = context};
    qf_type_print(&buffer, context, type);
    assert_string_equal(buffer.data, normal);
    qf_text again = {buffer.data, buffer.size};
    assert_int_equal(qf_type_parse(context, &again).id, type.id);
    qf_buffer_destroy(&buffer);
}

static void text_has_one_normal_form(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    expect_normal(context, "bf16[B,32,T,128]", "bf16[B, 32, T, 128]");
    expect_normal(context, "f32[]", "f32[]");
    expect_normal(context, " f32[ * ]", "f32[*]");
    expect_normal(context, "none[*]", "none[*]");
    expect_normal(context, "none[2]", "none[2]");
    expect_normal(context, "token", "token");
    expect_normal(context, "f8E4M3FN[past+new, min(T, 4)]", "f8E4M3FN[new + past, min(T, 4)]");
    static const char *const bad[] = {"",       "f33[]", "f32", "f32[", "f32[2", "f32[2,]", "f32[1,1,1,1,1,1,1,1,1]",
                                      "f32[T*]"};
    for (size_t i = 0; i < QF_COUNT_OF(bad); i++) {
        qf_text text = qf_text_of(bad[i]);
        assert_int_equal(qf_type_parse(context, &text).id, 0);
        assert_ptr_equal(text.data, bad[i]);
    }
    assert_int_equal(qf_context_status(context), QF_OK);
    check_destroy(context, &check);
}

static void types_are_interned(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_dim dims[] = {qf_dim_named(context, QF_TEXT("T")), qf_dim_constant(context, 4)};
    qf_type type = qf_type_tensor(context, QF_F32, dims, 2);
    assert_int_equal(qf_type_tensor(context, QF_F32, dims, 2).id, type.id);
    assert_int_not_equal(qf_type_tensor(context, QF_F32, dims, 1).id, type.id);
    assert_int_not_equal(qf_type_tensor(context, QF_F16, dims, 2).id, type.id);
    assert_int_equal(qf_type_with_dtype(context, qf_type_with_dtype(context, type, QF_F16), QF_F32).id, type.id);
    assert_int_equal(qf_type_dim(context, type, -1).id, dims[1].id);
    assert_int_equal(qf_type_dim(context, type, 0).id, dims[0].id);
    assert_int_equal(qf_type_dim(context, type, 2).id, 0);
    assert_int_equal(qf_type_dim(context, type, -3).id, 0);
    assert_int_equal(qf_type_element_count(context, type).id, qf_dim_multiply(context, dims[0], dims[1]).id);
    uint64_t count;
    assert_false(qf_type_static_count(context, type, &count));
    qf_dim constants[] = {dims[1], dims[1]};
    assert_true(qf_type_static_count(context, qf_type_tensor(context, QF_F32, constants, 2), &count));
    assert_int_equal(count, 16);
    qf_type unranked = qf_type_tensor(context, QF_F32, NULL, QF_UNRANKED);
    assert_false(qf_type_is_ranked(context, unranked));
    assert_int_equal(qf_type_element_count(context, unranked).id, 0);
    assert_int_equal(qf_type_dtype(context, (qf_type){0}), QF_DTYPE_NONE);
    assert_int_equal(qf_type_rank(context, (qf_type){0}), QF_UNRANKED);
    check_destroy(context, &check);
}

static void limits_are_statuses(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_dim huge = qf_dim_constant(context, INT64_MAX), zero = qf_dim_constant(context, 0);
    qf_dim nine[9];
    for (int i = 0; i < 9; i++) nine[i] = huge;
    assert_int_equal(qf_type_tensor(context, QF_F32, nine, 9).id, 0);
    assert_int_equal(qf_context_status(context), QF_ERROR_LIMIT);
    qf_context_clear_status(context);
    uint64_t count;
    assert_false(qf_type_static_count(context, qf_type_tensor(context, QF_F32, nine, 2), &count));
    nine[1] = zero;
    assert_true(qf_type_static_count(context, qf_type_tensor(context, QF_F32, nine, 3), &count));
    assert_int_equal(count, 0);
    check_destroy(context, &check);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_has_one_normal_form),
        cmocka_unit_test(types_are_interned),
        cmocka_unit_test(limits_are_statuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
