/* Owns: tests of base/context.h: memory, arenas, indices, strings, text buffers, failures and diagnostics.
 * Does not own: dims (dim_test.c), types (type_test.c).
 * Next: base/context.h. */
#include "tests/check.h"

#include <math.h>

#include "base/dim.h"
#include "base/type.h"

static void strings_are_interned(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_string first = qf_intern_c(context, "alpha");
    assert_int_not_equal(first.id, 0);
    assert_int_equal(qf_intern(context, QF_TEXT("alpha")).id, first.id);
    assert_int_not_equal(qf_intern_c(context, "alpha2").id, first.id);
    assert_string_equal(qf_string_c(context, first), "alpha");
    qf_string inner = qf_intern(context, (qf_text){"a\0b", 3});
    assert_int_equal(qf_string_text(context, inner).size, 3);
    assert_int_not_equal(inner.id, qf_intern_c(context, "a").id);
    assert_string_equal(qf_string_c(context, (qf_string){0}), "");
    assert_int_equal(qf_string_text(context, (qf_string){12345}).size, 0);
    /* Pointers stay valid while the table grows. */
    const char *kept = qf_string_c(context, first);
    char name[32];
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "name%d", i);
        assert_int_not_equal(qf_intern_c(context, name).id, 0);
    }
    assert_ptr_equal(qf_string_c(context, first), kept);
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "name%d", i);
        assert_string_equal(qf_string_c(context, qf_intern_c(context, name)), name);
    }
    check_destroy(context, &check);
}

static void texts_compare_by_bytes(void **state) {
    (void)state;
    assert_true(qf_text_equal(QF_TEXT(""), qf_text_of(NULL)));
    assert_true(qf_text_is(QF_TEXT("abc"), "abc"));
    assert_false(qf_text_is(QF_TEXT("abc"), "abd"));
    assert_false(qf_text_is(QF_TEXT("abc"), "ab"));
}

static void arenas_give_zeroed_aligned_memory(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    size_t before = check.live_bytes;
    qf_arena arena = {.context = context};
    for (size_t size = 0; size < 100000; size = size * 3 + 1) {
        unsigned char *bytes = qf_arena_allocate(&arena, size);
        assert_non_null(bytes);
        assert_int_equal((uintptr_t)bytes % 16, 0);
        for (size_t i = 0; i < size; i++) assert_int_equal(bytes[i], 0);
        memset(bytes, 0xFF, size);
    }
    assert_memory_equal(qf_arena_copy(&arena, "text", 5), "text", 5);
    assert_null(qf_arena_array(&arena, 16, UINT64_MAX / 2));
    assert_int_equal(qf_context_status(context), QF_ERROR_OUT_OF_MEMORY);
    assert_null(qf_arena_allocate(&arena, SIZE_MAX - 4));
    qf_arena_destroy(&arena);
    assert_int_equal(check.live_bytes, before);
    check_destroy(context, &check);
}

static void growth_is_checked(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    uint64_t *items = NULL;
    uint32_t capacity = 0;
    assert_true(QF_GROW(context, items, capacity, 1));
    assert_true(capacity >= 1);
    items[0] = 77;
    assert_true(QF_GROW(context, items, capacity, 1000));
    assert_int_equal(items[0], 77);
    uint32_t held = capacity;
    assert_false(QF_GROW(context, items, capacity, (uint64_t)UINT32_MAX + 1));
    assert_int_equal(capacity, held);
    assert_int_equal(qf_context_status(context), QF_ERROR_OUT_OF_MEMORY);
    QF_FREE_ITEMS(context, items, capacity);
    assert_null(items);
    assert_int_equal(capacity, 0);
    check_destroy(context, &check);
}

static bool number_equal(const void *owner, uint32_t id, const void *key) {
    return ((const uint64_t *)owner)[id] == *(const uint64_t *)key;
}

static void indices_find_what_was_added(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    check_state check;
    qf_context *context = check_context(&check);
    static uint64_t numbers[COUNT + 1];
    qf_index index = {NULL, 0, 0};
    uint64_t absent = 1;
    assert_int_equal(qf_index_find(&index, 5, number_equal, numbers, &absent), 0);
    /* Few hashes, so that most lookups meet collisions. */
    for (uint32_t id = 1; id <= COUNT; id++) {
        numbers[id] = (uint64_t)id * 2;
        assert_true(qf_index_add(context, &index, numbers[id] % 64, id));
    }
    for (uint32_t id = 1; id <= COUNT; id++)
        assert_int_equal(qf_index_find(&index, numbers[id] % 64, number_equal, numbers, &numbers[id]), id);
    assert_int_equal(qf_index_find(&index, absent % 64, number_equal, numbers, &absent), 0);
    qf_index_destroy(context, &index);
    check_destroy(context, &check);
}

static void buffers_spell_numbers_and_strings(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    static const struct {
        double number;
        const char *text;
    } doubles[] = {{0.0, "0.0"},
                   {-0.0, "-0.0"},
                   {1.0, "1.0"},
                   {0.125, "0.125"},
                   {1e-5, "1e-05"},
                   {448.0, "448.0"},
                   {0.1, "0.1"},
                   {1.0 / 3, "0.3333333333333333"},
                   {1e300, "1e+300"},
                   {INFINITY, "inf"},
                   {-INFINITY, "-inf"},
                   {NAN, "nan"},
                   {16777217.0, "16777217.0"},
                   {0x1p-1074, NULL},
                   {-0x1.fffffffffffffp1023, NULL}};
    for (size_t i = 0; i < QF_COUNT_OF(doubles); i++) {
        qf_buffer buffer = {.context = context};
        qf_buffer_double(&buffer, doubles[i].number);
        if (doubles[i].text) assert_string_equal(buffer.data, doubles[i].text);
        double back = strtod(buffer.data, NULL);
        assert_true(isnan(doubles[i].number) ? isnan(back) : memcmp(&back, &doubles[i].number, sizeof back) == 0);
        qf_buffer_destroy(&buffer);
    }
    qf_buffer buffer = {.context = context};
    qf_buffer_quoted(&buffer, (qf_text){"a\"b\\c\nd\te\x01\x7F\0f", 13});
    assert_string_equal(buffer.data, "\"a\\\"b\\\\c\\nd\\te\\x01\\x7F\\x00f\"");
    for (int i = 0; i < 1000; i++) qf_buffer_print(&buffer, "%d,", i);
    assert_int_equal(buffer.data[buffer.size], 0);
    assert_false(buffer.failed);
    qf_buffer_destroy(&buffer);
    check_destroy(context, &check);
}

static void a_failed_append_keeps_the_text(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_buffer buffer = {.context = context};
    qf_buffer_text(&buffer, QF_TEXT("kept"));
    check.fail_at = check.allocations + 1;
    for (int i = 0; i < 100; i++) qf_buffer_text(&buffer, QF_TEXT("0123456789"));
    assert_true(buffer.failed);
    assert_memory_equal(buffer.data, "kept", 4);
    assert_int_equal(strlen(buffer.data), buffer.size);
    assert_int_equal(qf_context_status(context), QF_ERROR_OUT_OF_MEMORY);
    qf_buffer_destroy(&buffer);
    check_destroy(context, &check);
}

static void the_first_failure_is_kept(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_position position = {.location = "file.qf:3:7", .source_line = QF_TEXT("%y = add"), .column = 7};
    assert_int_equal(qf_fail(context, QF_ERROR_PARSE, &position, "expected %s, found %d", "a name", 7), QF_ERROR_PARSE);
    assert_int_equal(qf_fail(context, QF_ERROR_VERIFY, NULL, "later"), QF_ERROR_VERIFY);
    qf_message(context, QF_SEVERITY_REMARK, NULL, "by the way");
    assert_int_equal(qf_context_status(context), QF_ERROR_PARSE);
    assert_string_equal(check.messages,
                        "error file.qf:3:7: expected a name, found 7\nerror : later\nremark : by the way\n");
    qf_context_clear_status(context);
    assert_int_equal(qf_context_status(context), QF_OK);
    assert_int_equal(qf_record(context, QF_ERROR_LIMIT), QF_ERROR_LIMIT);
    assert_int_equal(qf_context_status(context), QF_ERROR_LIMIT);
    check_destroy(context, &check);
}

static void long_messages_are_cut(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    static char text[6000];
    memset(text, 'x', sizeof text - 1);
    (void)qf_fail(context, QF_ERROR_VERIFY, NULL, "%s", text);
    size_t size = strlen(check.messages);
    assert_true(size < 4000);
    assert_string_equal(check.messages + size - 4, "...\n");
    check_destroy(context, &check);
}

/* An option struct of an older caller is shorter; what it lacks takes the default. */
static void options_are_read_by_their_size(void **state) {
    (void)state;
    qf_context *context = NULL;
    assert_int_equal(qf_context_create(NULL, &context), QF_OK);
    qf_context_destroy(context);
    qf_context_options options = {.struct_size = offsetof(qf_context_options, handler)};
    options.handler = check_message; /* beyond the size: must not be used */
    options.handler_user = NULL;
    assert_int_equal(qf_context_create(&options, &context), QF_OK);
    (void)qf_fail(context, QF_ERROR_IO, NULL, "nobody listens");
    assert_int_equal(qf_context_status(context), QF_ERROR_IO);
    qf_context_destroy(context);
    qf_context_destroy(NULL);
    assert_int_equal(qf_context_create(NULL, NULL), QF_ERROR_INVALID_ARGUMENT);
}

static bool use_everything(qf_context *context) {
    char name[16];
    for (int i = 0; i < 70; i++) {
        (void)snprintf(name, sizeof name, "s%d", i);
        qf_dim a = qf_dim_named(context, qf_text_of(name)), b = qf_dim_constant(context, i + 2);
        qf_dim dims[] = {qf_dim_floor_divide(context, a, b), qf_dim_maximum(context, a, b),
                         qf_dim_multiply(context, a, a)};
        if (!qf_type_tensor(context, QF_F32, dims, 3).id) return false;
    }
    return true;
}

/* The n-th allocation fails, for every n: a status, no leak. */
static void memory_may_run_out(void **state) {
    (void)state;
    bool finished = false;
    for (uint64_t at = 1; !finished && at < 500; at++) {
        check_state check = {.fail_at = at};
        qf_context_options options = {.struct_size = sizeof options, .allocator = {check_reallocate, &check}};
        qf_context *context = NULL;
        qf_status status = qf_context_create(&options, &context);
        if (status == QF_OK) {
            bool done = use_everything(context);
            finished = check.allocations < at;
            assert_true(done == finished);
            assert_int_equal(qf_context_status(context), finished ? QF_OK : QF_ERROR_OUT_OF_MEMORY);
            if (!done) {
                /* What failed once works when there is memory again. */
                qf_context_clear_status(context);
                assert_true(use_everything(context));
            }
        } else {
            assert_int_equal(status, QF_ERROR_OUT_OF_MEMORY);
            assert_null(context);
        }
        qf_context_destroy(context);
        assert_int_equal(check.live_bytes, 0);
    }
    assert_true(finished);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_interned),
        cmocka_unit_test(texts_compare_by_bytes),
        cmocka_unit_test(arenas_give_zeroed_aligned_memory),
        cmocka_unit_test(growth_is_checked),
        cmocka_unit_test(indices_find_what_was_added),
        cmocka_unit_test(buffers_spell_numbers_and_strings),
        cmocka_unit_test(a_failed_append_keeps_the_text),
        cmocka_unit_test(the_first_failure_is_kept),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(options_are_read_by_their_size),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
