/* Owns: tests of spec/spec.h.
 * Does not own: kernel selection (kernels_test.c).
 * Next: spec/ops.def. */
#include "tests/check.h"

#include "spec/spec.h"

static void rows_are_complete(void **state) {
    (void)state;
    uint32_t count;
    const qf_op_info *table = qf_op_table(&count);
    assert_true(count > 80);
    for (uint32_t i = 0; i < count; i++) {
        assert_ptr_equal(qf_op_info_of(table[i].op), &table[i]);
        assert_int_equal(qf_op_from_name(qf_text_of(table[i].name)), table[i].op);
        assert_true(table[i].attribute_count <= 16);
        for (uint32_t a = 0; a < table[i].attribute_count; a++) {
            const qf_attribute_info *attribute = &table[i].attributes[a];
            assert_int_equal(qf_op_attribute_index(table[i].op, qf_text_of(attribute->name)), a);
            if (attribute->kind == QF_ATTRIBUTE_ENUM && attribute->default_text)
                assert_true(qf_enum_number(attribute->enumeration, qf_text_of(attribute->default_text)) >= 0);
        }
    }
    assert_null(qf_op_info_of((qf_op)255));
    assert_null(qf_op_info_of((qf_op)-1));
}

static void indices_follow_the_table(void **state) {
    (void)state;
    const qf_op_info *attention = qf_op_info_of(QF_OP_attention);
    assert_string_equal(attention->operands[QF_IN(attention, out_scale)].name, "out_scale");
    assert_string_equal(attention->attributes[QF_ATTR(attention, softcap)].name, "softcap");
    assert_string_equal(attention->attributes[QF_ATTR(attention, softcap)].default_text, "0.0");
    assert_string_equal(attention->attributes[QF_ATTR(attention, causal)].default_text, "false");
    assert_int_equal(attention->required_operands, 3);
    assert_int_equal(qf_enum_number(&qf_enum_layout, QF_TEXT("hnd")), QF_VALUE_hnd);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_complete), cmocka_unit_test(indices_follow_the_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
