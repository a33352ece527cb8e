/* Owns: damaged and malicious torch.export archives: each ends in one located error, or in a graph that verifies.
 * Does not own: what good ones become (pt2_ops_test.c).
 * Next: tests/fuzz/pt2_fuzz.c. */
#include "tests/frontends/pt2_reading.h"

#define PROGRAM                                                                                                        \
    "buffer b 7[2,2]\ninput x 7[2,2]\ny 7[2,2] = aten.add.Tensor self=%x other=%b\n"                                   \
    "z 7[4] = aten.view.default self=%y size=[4]\noutput z\n"

static float weight[] = {1, 2, 3, 4};

static program *with_weight(size_t size) {
    program *p = p_program(PROGRAM);
    p_weight(p, "b", weight, size);
    return p;
}

static void refuse(const void *data, size_t size, qf_status wanted, const char *message) {
    qf_context *context = check_context(&state);
    qf_graph *graph = NULL;
    qf_status status = qf_pt2_import_memory(context, data, size, NULL, &graph);
    assert_null(graph);
    if (status != wanted || !strstr(state.messages, message))
        fail_msg("status %d, wanted %d with '%s': %s", (int)status, (int)wanted, message, state.messages);
    check_destroy(context, &state);
}

static void refuse_program(program *p, qf_status wanted, const char *message) {
    size_t size;
    void *data = p_archive(p, true, &size);
    refuse(data, size, wanted, message);
    free(data);
}

static void refuse_json(const char *json, qf_status wanted, const char *message) {
    size_t size;
    program *p = p_begin();
    void *data = p_pack(json, p, true, &size);
    refuse(data, size, wanted, message);
    free(data);
    p_end(p);
}

static void what_is_no_archive(void **unused) {
    (void)unused;
    static const char text[] = "graph @main() {\n  return\n}\n and more bytes than the end of an archive has\n";
    refuse("", 0, QF_ERROR_PARSE, "too short");
    refuse(text, sizeof text, QF_ERROR_PARSE, "no end of central directory");
    qf_context *context = check_context(&state);
    qf_graph *graph = NULL;
    assert_int_equal(qf_pt2_import_file(context, "/nowhere/model.pt2", NULL, &graph), QF_ERROR_NOT_FOUND);
    qf_context_clear_status(context);
    assert_int_equal(qf_pt2_import_file(context, "/dev/null", NULL, &graph), QF_ERROR_IO);
    assert_null(graph);
    check_destroy(context, &state);
}

static void every_truncation_is_an_error(void **unused) {
    (void)unused;
    size_t size;
    uint8_t *data = p_archive(with_weight(sizeof weight), true, &size);
    for (size_t cut = 0; cut < size; cut += 7) refuse(data, cut, QF_ERROR_PARSE, "not a zip archive");
    free(data);
}

/* Each byte in turn: an error, or a graph that verifies. */
static void every_damaged_byte_is_survived(void **unused) {
    (void)unused;
    for (int stored = 0; stored < 2; stored++) {
        size_t size;
        uint8_t *data = p_archive(with_weight(sizeof weight), stored, &size);
        for (size_t at = 0; at < size; at += 3) {
            uint8_t was = data[at];
            data[at] = (uint8_t)(was ^ (0x11 << (at % 4)));
            qf_context *context = check_context(&state);
            qf_graph *graph = NULL;
            qf_status status = qf_pt2_import_memory(context, data, size, NULL, &graph);
            assert_int_equal(status == QF_OK, graph != NULL);
            assert_int_equal(status, qf_context_status(context));
            if (graph) assert_int_equal(qf_graph_verify(graph), QF_OK);
            qf_graph_destroy(graph);
            check_destroy(context, &state);
            data[at] = was;
        }
        free(data);
    }
}

static void versions_and_missing_parts(void **unused) {
    (void)unused;
    program *p = with_weight(sizeof weight);
    p->major = 9;
    refuse_program(p, QF_ERROR_VERSION, "export schema 9; expected 8");
    refuse_json("{}", QF_ERROR_VERSION, "expected a schema version");
    refuse_json("{\"schema_version\":{\"major\":8}}", QF_ERROR_PARSE, "the program has no graph");
    refuse_json("{\"schema_version\":", QF_ERROR_PARSE, "line 1");
    refuse_json("{\"from_node\":\"", QF_ERROR_PARSE, "line 1");
    refuse_json("{\"from_node\": \"x", QF_ERROR_PARSE, "line 1");
    refuse_json("{\"from_node\":\"a\\\"b\", \"torch_fn\" : \"\", \"x\": ]", QF_ERROR_PARSE, "byte 44");
    refuse_json("[1, 2]", QF_ERROR_VERSION, "expected a schema version");
}

static void depth_is_checked_before_json_is_read(void **unused) {
    (void)unused;
    char deep[4096];
    memset(deep, '[', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    refuse_json(deep, QF_ERROR_LIMIT, "byte 128: nested deeper than 128");
}

static void weights_that_reach_outside(void **unused) {
    (void)unused;
    refuse_program(with_weight(8), QF_ERROR_PARSE, "reach past the bytes");
    program *p = with_weight(sizeof weight);
    json_t *meta = json_object_get(json_object_get(p->config, "b"), "tensor_meta");
    (void)json_object_set_new(meta, "storage_offset", json_pack("{s:I}", "as_int", (json_int_t)1 << 60));
    refuse_program(p, QF_ERROR_PARSE, "too large");
    p = with_weight(sizeof weight);
    meta = json_object_get(json_object_get(p->config, "b"), "tensor_meta");
    (void)json_array_set_new(json_object_get(meta, "strides"), 0, json_pack("{s:I}", "as_int", (json_int_t)-2));
    refuse_program(p, QF_ERROR_PARSE, "negative");
    p = with_weight(sizeof weight);
    (void)json_object_set_new(json_object_get(p->config, "b"), "path_name", json_string("../../etc/passwd"));
    refuse_program(p, QF_ERROR_PARSE, "no entry of the name");
}

/* Nothing is unpickled: the weight stays without bytes, whatever its entry holds. */
static void pickles_are_not_read(void **unused) {
    (void)unused;
    program *p = with_weight(sizeof weight);
    (void)json_object_set_new(json_object_get(p->config, "b"), "use_pickle", json_true());
    reading r = r_program(p, NULL);
    r_has(&r, "parameter {name=\"b\"}");
    assert_non_null(strstr(state.messages, "warning b: the archive stores this weight as a pickle, which is not read"));
    size_t size;
    assert_null(qf_graph_weight(r.graph, "b", &size));
    r_end(&r);
}

static void names_that_nothing_defines(void **unused) {
    (void)unused;
    refuse_program(p_program("input x 7[2]\ny 7[2] = aten.neg.default self=%z\noutput y\n"), QF_ERROR_VERIFY,
                   "y (torch.ops.aten.neg.default, model.py:7): aten.neg.default reads the tensor 'z'");
    refuse_program(p_program("input x 7[2]\ny 7[2] = aten.view.default self=%x size=[$n]\noutput y\n"), QF_ERROR_VERIFY,
                   "reads the number 'n'");
    refuse_program(p_program("input x 7[2]\noutput y\n"), QF_ERROR_VERIFY, "output 'y' is not defined");
    refuse_program(p_program("input x 7[2]\nx 7[2] = aten.neg.default self=%x\noutput x\n"), QF_ERROR_VERIFY,
                   "defined twice");
}

static void arguments_that_do_not_fit(void **unused) {
    (void)unused;
    refuse_program(p_program("input x 7[2,3]\ny 7[3,2] = aten.transpose.int self=%x dim0=0 dim1=5\noutput y\n"),
                   QF_ERROR_VERIFY, "expected an axis from -2 to 1, found 5");
    refuse_program(p_program("input x 7[2,3]\ny 7[3,2] = aten.permute.default self=%x dims=[0]\noutput y\n"),
                   QF_ERROR_VERIFY, "expected 2 axes");
    refuse_program(p_program("input x 7[2,3]\ne 7[4,2,3] = aten.expand.default self=%x size=[4,2,3]\n"
                             "z 7[4,2,3] = aten.zero_.default self=%e\noutput x\n"),
                   QF_ERROR_UNSUPPORTED, "elements share memory");
}

static void limits_on_nodes(void **unused) {
    (void)unused;
    qf_pt2_import_options options = {.struct_size = sizeof options, .max_nodes = 3};
    reading r = r_try(with_weight(sizeof weight), &options);
    assert_null(r.graph);
    assert_non_null(strstr(state.messages, "more than 3 nodes"));
    r_end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_archive),
        cmocka_unit_test(every_truncation_is_an_error),
        cmocka_unit_test(every_damaged_byte_is_survived),
        cmocka_unit_test(versions_and_missing_parts),
        cmocka_unit_test(depth_is_checked_before_json_is_read),
        cmocka_unit_test(weights_that_reach_outside),
        cmocka_unit_test(pickles_are_not_read),
        cmocka_unit_test(names_that_nothing_defines),
        cmocka_unit_test(arguments_that_do_not_fit),
        cmocka_unit_test(limits_on_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
