/* Owns: tests of plans as files: round trip, dump, versions, damage, hostile records.
 * Does not own: random damage (tests/fuzz), lowering (tests/codegen).
 * Next: plan/read.c, plan/validate.c. */

#include "tests/folder.h"
#include "tests/runtime/running.h"

#include "plan/format.h"

static const char graph[] = "(%x: f32[B, T, 8], %cache: f32[2, 16, 1, 8], %slots: i64[B*T], %m: f32[16]) symbols(T min "
                            "1 max 64 div 2) assume(B == 1) {\n"
                            "  %c = constant {value=f32[8] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]}\n"
                            "  %w = parameter {name=\"weight \\\"0\\\"\", file=\"w.bin\", offset=64, hash=7} : f32[8]\n"
                            "  %y = mul %x, %c\n  %z = add %y, %w\n"
                            "  %r = view %z {shape=[B*T, 1, 8]}\n"
                            "  %k = kv_cache_write %cache, %r, %slots\n"
                            "  %s = softmax %z {axis=2}\n"
                            "  %g = slice %s {starts=[0, 0, 0], ends=[B, floordiv(T, 2), 8], steps=[1, 1, 1]}\n"
                            "  return %g as \"out\", %k\n}\n";

static qf_buffer bytes_of(running *r) {
    qf_buffer bytes = {.context = r->context};
    assert_int_equal(qf_plan_to_bytes(r->context, r->plan, running_append, &bytes), QF_OK);
    return bytes;
}

/* A plan that was read prints and writes as the one that was written. */
static void reads_what_it_writes(void **state) {
    (void)state;
    running r;
    running_compile(&r, graph);
    qf_buffer bytes = bytes_of(&r), text = running_dump(&r);
    qf_plan *made = r.plan;
    if (qf_plan_from_bytes(r.context, bytes.data, bytes.size, &r.plan) != QF_OK) fail_msg("%s", r.check.messages);
    qf_buffer again = running_dump(&r), rewritten = bytes_of(&r);
    assert_string_equal(text.data, again.data);
    assert_int_equal(bytes.size, rewritten.size);
    assert_memory_equal(bytes.data, rewritten.data, bytes.size);
    qf_fingerprint a = qf_plan_fingerprint(made), b = qf_plan_fingerprint(r.plan);
    assert_memory_equal(&a, &b, sizeof a);
    qf_plan_destroy(made);
    qf_buffer_destroy(&bytes), qf_buffer_destroy(&text), qf_buffer_destroy(&again), qf_buffer_destroy(&rewritten);
    running_close(&r);
}

static void the_interface_reads_back(void **state) {
    (void)state;
    running r;
    running_compile(&r, graph);
    qf_plan_tensor_info info;
    assert_string_equal(qf_plan_target(r.plan), "cpu");
    assert_int_equal(qf_plan_input_count(r.plan), 4);
    assert_true(qf_plan_input(r.plan, 1, &info));
    assert_string_equal(info.name, "cache");
    assert_int_equal(info.dims[1], 16);
    assert_true(qf_plan_input(r.plan, 0, &info));
    assert_int_equal(info.dims[0], -1);
    assert_int_equal(qf_plan_find_output(r.plan, "out"), 0);
    assert_int_equal(qf_plan_find_input(r.plan, "nothing"), -1);
    assert_true(qf_plan_parameter(r.plan, 0, &info));
    assert_string_equal(info.name, "weight \"0\"");
    assert_string_equal(info.file, "w.bin");
    assert_int_equal(info.size, 32);
    assert_false(qf_plan_parameter(r.plan, 1, &info));
    qf_plan_step_info step;
    assert_true(qf_plan_step(r.plan, 0, &step));
    assert_int_equal(step.op, QF_OP_mul);
    assert_string_equal(step.kernel, "cpu_mul");
    assert_false(qf_plan_step(r.plan, 99, &step));
    running_dump_has(&r, "symbol floordiv(T, 2) = floordiv(T, 2)");
    running_dump_has(&r, "guard B == 1");
    running_close(&r);
}

static void saves_by_way_of_a_temporary_file(void **state) {
    (void)state;
    char folder[FOLDER_PATH], path[FOLDER_PATH];
    assert_true(folder_make(folder));
    (void)folder_path(path, folder, "a.plan");
    running r;
    running_compile(&r, graph);
    assert_int_equal(qf_plan_save(r.context, r.plan, path), QF_OK);
    assert_int_equal(qf_plan_save(r.context, r.plan, path), QF_OK);
    qf_plan *read = NULL;
    assert_int_equal(qf_plan_load(r.context, path, &read), QF_OK);
    qf_plan_destroy(read);
    assert_int_equal(qf_plan_load(r.context, folder, &read), QF_ERROR_IO);
    assert_null(read);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(qf_plan_load(r.context, path, &read), QF_ERROR_NOT_FOUND);
    assert_int_equal(rmdir(folder), 0); /* no temporary file stayed */
    assert_int_equal(qf_plan_save(r.context, r.plan, path), QF_ERROR_IO);
    running_close(&r);
}

static void expect_refused(running *r, const qf_buffer *bytes, size_t size, qf_status status, const char *part) {
    qf_plan *plan = NULL;
    r->check.messages[0] = '\0';
    assert_int_equal(qf_plan_from_bytes(r->context, bytes->data, size, &plan), status);
    assert_null(plan);
    if (!strstr(r->check.messages, part)) fail_msg("\"%s\" lacks \"%s\"", r->check.messages, part);
}

static void versions_and_damage_are_refused(void **state) {
    (void)state;
    running r;
    running_compile(&r, graph);
    qf_buffer bytes = bytes_of(&r);
    expect_refused(&r, &bytes, 0, QF_ERROR_PARSE, "not a QFuse plan");
    expect_refused(&r, &bytes, bytes.size - 1, QF_ERROR_PARSE, "it was cut or extended");
    bytes.data[bytes.size - 1] ^= 1;
    expect_refused(&r, &bytes, bytes.size, QF_ERROR_PARSE, "checksum");
    bytes.data[bytes.size - 1] ^= 1;
    bytes.data[8] = QF_PLAN_MAJOR + 1;
    expect_refused(&r, &bytes, bytes.size, QF_ERROR_VERSION, "plan format 2.0; this library reads 1.x");
    bytes.data[8] = QF_PLAN_MAJOR;
    bytes.data[12] = QF_PLAN_MINOR + 1; /* a later minor version of the same major loads */
    qf_plan *plan = NULL;
    assert_int_equal(qf_plan_from_bytes(r.context, bytes.data, bytes.size, &plan), QF_OK);
    qf_plan_destroy(plan);
    qf_buffer_destroy(&bytes);
    running_close(&r);
}

/* One record of a valid plan changed by hand; validation names section and index. */
typedef void (*spoiler)(qf_plan *plan);

static void expect_spoilt(spoiler spoil, qf_status status, const char *part) {
    running r;
    running_compile(&r, graph);
    spoil(r.plan);
    qf_buffer bytes = bytes_of(&r);
    expect_refused(&r, &bytes, bytes.size, status, part);
    qf_buffer_destroy(&bytes);
    running_close(&r);
}

static uint32_t step_of(const qf_plan *plan, qf_op op) {
    uint32_t i = 0;
    while (plan->steps[i].op != (uint32_t)op) i++;
    return i;
}

static uint32_t *operand(const qf_plan *plan, qf_op op) {
    return &plan->references[plan->steps[step_of(plan, op)].first_operand].tensor;
}

static uint32_t *result(const qf_plan *plan, qf_op op) {
    return &plan->references[plan->steps[step_of(plan, op)].first_result].tensor;
}

static qf_plan_buffer_record *result_buffer(const qf_plan *plan, qf_op op) {
    return &plan->buffers[qf_plan_tensor_at(plan, *result(plan, op))->buffer - 1];
}

/* SPOILER(name, what is changed, what the message says) */
#define SPOILERS(X)                                                                                                    \
    X(tensor_buffer, plan->tensors[2].buffer = 999, "tensors[2]: buffer 999")                                          \
    X(tensor_dtype, plan->tensors[0].dtype = 77, "tensors[0]: dtype 77")                                               \
    X(tensor_rank, plan->tensors[0].rank = 9, "tensors[0]: rank 9")                                                    \
    X(tensor_dims, plan->tensors[0].first_dim = 0xFFFFFFF0, "tensors[0]: dims from")                                   \
    X(dim_zero, plan->dims[1].expression = 0, "dims[1]: expression 0")                                                 \
    X(factor_symbol, plan->factors[0].symbol = 50, "factors[0]: symbol 50")                                            \
    X(term_factors, plan->terms[0].factor_count = 1000, "terms[0]: 1000 factors")                                      \
    X(expression_terms, plan->expressions[0].term_count = 100000, "expressions[0]: 100000 terms")                      \
    X(expression_shared, plan->expressions[1].first_term = 0, "expressions[1]: parts 0")                               \
    X(symbol_operands, plan->symbols[0].kind = QF_PLAN_MINIMUM, "symbols[0]: expression 0")                            \
    X(symbol_kind, plan->symbols[0].kind = 6, "symbols[0]: kind 6")                                                    \
    X(symbol_axis, plan->symbols[0].axis = 3, "symbols[0]: axis 3 of input 0")                                         \
    X(symbol_input, plan->symbols[0].input = 30, "symbols[0]: input 30")                                               \
    X(symbol_divisor, plan->symbols[0].divisor = 0, "symbols[0]: minimum")                                             \
    X(step_op, plan->steps[0].op = 200, "steps[0]: op 200")                                                            \
    X(step_return, plan->steps[0].op = QF_OP_return, "steps[0]: op 1")                                                 \
    X(step_kernel, plan->steps[0].kernel = QF_OP_add, "steps[0]: kernel 50 does not run mul")                          \
    X(step_operands, plan->steps[0].operand_count = 1, "steps[0]: mul has 1 operands")                                 \
    X(step_absent, plan->references[0].tensor = 0, "steps[0]: mul lacks operand 0")                                    \
    X(step_tensor, plan->references[0].tensor = 1000, "steps[0]: tensor 1000")                                         \
    X(step_location, plan->steps[1].location = 0x7FFFFFFF, "steps[1]: string")                                         \
    X(attribute_kind, plan->attributes[0].kind = QF_ATTRIBUTE_STRING, "attributes[0]: layout has kind 8")              \
    X(attribute_value, plan->attributes[0].value = 9, "attributes[0]: layout has value 9")                             \
    X(constant_size, plan->constants[0].size = 1 << 30, "constants[0]")                                                \
    X(constant_offset, plan->constants[0].offset = 4, "constants[0]")                                                  \
    X(parameter_size, plan->parameters[0].size = 31, "parameters[0]")                                                  \
    X(parameter_offset, plan->parameters[0].offset = UINT64_MAX, "parameters[0]")                                      \
    X(guard_side, plan->guards[0].right = 0, "guards[0]: expression 0")                                                \
    X(origin_target, plan->origins[0].target = 0, "origins[0]: target")                                                \
    X(origin_slots, plan->origins[0].slot_count = 1000, "origins[0]: 1000 slots")                                      \
    X(buffer_kind, plan->buffers[0].kind = 17, "buffers[0]: kind 17")                                                  \
    X(buffer_index, plan->buffers[0].index = 3, "buffers[0]")                                                          \
    X(buffer_slot, result_buffer(plan, QF_OP_mul)->index = 40, "index 40 is out of range")                             \
    X(output_claim, plan->outputs[0].in_place = 2, "outputs[0]: it may not lie in input 1")                            \
    X(output_input, plan->outputs[0].in_place = 9, "outputs[0]: in place of input 8 of 4")                             \
    X(input_tensor, plan->inputs[1].tensor = plan->inputs[0].tensor, "its owner has another tensor")                   \
    X(writes_input, *result(plan, QF_OP_add) = plan->inputs[0].tensor, "writes to memory that is only read")           \
    X(reads_early, *operand(plan, QF_OP_mul) = *result(plan, QF_OP_add), "operand 0 is read before it is written")     \
    X(shares_slot, result_buffer(plan, QF_OP_mul)->index = result_buffer(plan, QF_OP_add)->index,                      \
      "whose tenant is used until")                                                                                    \
    X(overwrites, *result(plan, QF_OP_add) = *operand(plan, QF_OP_add), "lies in the memory of operand 0")

#define X(name, change, part)                                                                                          \
    static void spoil_##name(qf_plan *plan) {                                                                          \
        change;                                                                                                        \
    }
SPOILERS(X)
#undef X

/* A symbol that depends on itself would be read before it has a value. */
static void spoil_symbol_order(qf_plan *plan) {
    plan->symbols[0].kind = QF_PLAN_MINIMUM;
    plan->symbols[0].a = plan->symbols[0].b = plan->symbols[1].kind == QF_PLAN_BOUND ? 2 : 1;
    for (uint32_t i = 0; i < plan->factor_count; i++) plan->factors[i].symbol = 1;
}

static void spoil_last_string(qf_plan *plan) {
    plan->strings[plan->string_size - 1] = 'x';
}

static void hostile_records_are_refused(void **state) {
    (void)state;
#define X(name, change, part) expect_spoilt(spoil_##name, QF_ERROR_VERIFY, part);
    SPOILERS(X)
#undef X
    expect_spoilt(spoil_symbol_order, QF_ERROR_VERIFY, "symbols[0]: depends on symbol 1");
    expect_spoilt(spoil_last_string, QF_ERROR_PARSE, "a NUL last");
}

/* A plan whose update has another element type than what it updates loads (the tables allow it) and is refused before
 * it runs. */
static void element_types_are_checked_before_a_run(void **state) {
    (void)state;
    running r;
    running_open(&r, "(%x: i64[4], %i: i64[2, 1], %u: i64[2]) {\n  %y = scatter_nd %x, %i, %u\n  return %y\n}\n", NULL);
    int64_t x[4] = {0}, indices[2] = {0, 1};
    int8_t updates[2] = {1, 2};
    r.plan->tensors[qf_plan_find_input(r.plan, "u")].dtype = QF_I8; /* inputs' tensors come first */
    assert_int_equal(qf_plan_validate(r.context, r.plan, "test"), QF_OK);
    running_bind(&r, "x", TENSOR(QF_I64, x, 4));
    running_bind(&r, "i", TENSOR(QF_I64, indices, 2, 1));
    running_bind(&r, "u", TENSOR(QF_I8, updates, 2));
    running_refused(&r, QF_ERROR_VERIFY, "operands and results have different element types");
    running_close(&r);
}

/* Memory while loading stays within 8 bytes a byte of input and 64 KiB, also for inputs that claim more than they hold.
 */
static void loading_is_bounded_by_the_size(void **state) {
    (void)state;
    running r;
    running_compile(&r, graph);
    qf_buffer bytes = bytes_of(&r);
    size_t before = r.check.live_bytes;
    qf_plan *plan = NULL;
    assert_int_equal(qf_plan_from_bytes(r.context, bytes.data, bytes.size, &plan), QF_OK);
    assert_true(r.check.live_bytes - before <= 8 * bytes.size + 65536);
    qf_plan_destroy(plan);
    for (uint32_t section = 0; section < QF_PLAN_SECTION_COUNT; section++) {
        qf_buffer copy = {.context = r.context};
        qf_buffer_append(&copy, bytes.data, bytes.size);
        memset(copy.data + QF_PLAN_HEADER + section * QF_PLAN_SECTION_ENTRY + 8, 0x7F, 8); /* a count of 2^63 */
        uint64_t sum = qf_plan_checksum(copy.data + QF_PLAN_CHECKED_FROM, copy.size - QF_PLAN_CHECKED_FROM);
        for (int i = 0; i < 8; i++) copy.data[24 + i] = (char)(sum >> (8 * i));
        expect_refused(&r, &copy, copy.size, QF_ERROR_PARSE, "section");
        qf_buffer_destroy(&copy);
    }
    qf_buffer_destroy(&bytes);
    running_close(&r);
}

static qf_status read_again(running *r, void *user, qf_plan **out_plan) {
    const qf_buffer *bytes = user;
    return qf_plan_from_bytes(r->context, bytes->data, bytes->size, out_plan);
}

static void fails_at_every_allocation(void **state) {
    (void)state;
    running r;
    running_compile(&r, graph);
    qf_buffer bytes = bytes_of(&r);
    running_sweep(&r, read_again, &bytes);
    qf_buffer_destroy(&bytes);
    running_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_what_it_writes),
                                       cmocka_unit_test(the_interface_reads_back),
                                       cmocka_unit_test(saves_by_way_of_a_temporary_file),
                                       cmocka_unit_test(versions_and_damage_are_refused),
                                       cmocka_unit_test(hostile_records_are_refused),
                                       cmocka_unit_test(element_types_are_checked_before_a_run),
                                       cmocka_unit_test(loading_is_bounded_by_the_size),
                                       cmocka_unit_test(fails_at_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
