/* Owns: tests of the ONNX frontend on bytes and files that nobody means well with: bounds, memory, external data.
 * Does not own: random bytes (tests/fuzz), models that are right (onnx_ops_test.c).
 * Next: tests/fuzz/onnx_fuzz.c. */
#include "tests/folder.h"
#include "tests/frontends/model_builder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The import fails with this status and exactly one error that holds `text`; memory stays within the documented bound.
 */
static void refused(const uint8_t *data, size_t size, qf_status expected, const char *text) {
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = (qf_graph *)&state;
    assert_int_equal(qf_onnx_import_memory(context, data, size, NULL, &graph), expected);
    assert_null(graph);
    if (!strstr(state.messages, text)) fail_msg("expected '%s' in: %s", text, state.messages);
    const char *first = strstr(state.messages, "error ");
    assert_non_null(first);
    assert_null(strstr(first + 1, "\nerror "));
    assert_true(state.highest_bytes <= size * 32 + ((size_t)16 << 20) + ((size_t)1 << 20));
    check_destroy(context, &state);
}

static size_t put_varint(uint8_t *out, uint64_t value) {
    size_t count = 0;
    for (; value > 0x7F; value >>= 7) out[count++] = (uint8_t)(value | 0x80);
    out[count++] = (uint8_t)value;
    return count;
}

static void fault_78_ten_thousand_nested_messages(void **unused) {
    (void)unused;
    /* type_protos.sequence_type.elem_type ... : graph(7) > input(11) > type(2) > [sequence_type(4) > elem_type(1)]* */
    enum { DEPTH = 10000 };
    uint8_t *buffer = calloc(1, 16 * DEPTH);
    size_t begin = 16 * DEPTH - 64, end = begin;
    assert_non_null(buffer);
    for (int level = 0; level < DEPTH + 3; level++) {
        static const uint8_t outer[] = {2 << 3 | 2, 11 << 3 | 2, 7 << 3 | 2};
        uint8_t tag = level >= DEPTH ? outer[level - DEPTH] : level % 2 ? 4 << 3 | 2 : 1 << 3 | 2, length[10];
        size_t size = put_varint(length, end - begin);
        begin -= size;
        memcpy(buffer + begin, length, size);
        buffer[--begin] = tag;
    }
    assert_true(end - begin < 60000);
    refused(buffer + begin, end - begin, QF_ERROR_LIMIT, "more than 64 deep");
    free(buffer);
}

static void fault_78_a_length_of_two_to_the_63(void **unused) {
    (void)unused;
    uint8_t bytes[16] = {7 << 3 | 2};
    size_t size = 1 + put_varint(bytes + 1, (uint64_t)1 << 63);
    refused(bytes, size, QF_ERROR_PARSE, "reaches past the end");
    memset(bytes + 1, 0xFF, 11);
    refused(bytes, 12, QF_ERROR_PARSE, "more than ten bytes");
}

static void fault_78_ten_million_empty_nodes(void **unused) {
    (void)unused;
    enum { COUNT = 10000000 };
    uint8_t *data = malloc(2 * COUNT + 16);
    assert_non_null(data);
    data[0] = 7 << 3 | 2;
    size_t size = 1 + put_varint(data + 1, 2 * (uint64_t)COUNT);
    for (size_t i = 0; i < COUNT; i++, size += 2) data[size] = 1 << 3 | 2, data[size + 1] = 0;
    refused(data, size, QF_ERROR_LIMIT, "");
    free(data);
}

static void other_bytes_are_no_model(void **unused) {
    (void)unused;
    refused((const uint8_t *)"", 0, QF_ERROR_PARSE, "no graph");
    static const uint8_t text[] = "graph @main() {}";
    refused(text, sizeof text - 1, QF_ERROR_PARSE, "byte ");
    static const uint8_t groups[] = {7 << 3 | 3, 7 << 3 | 4};
    refused(groups, sizeof groups, QF_ERROR_PARSE, "wire type");
    static const uint8_t twice[] = {7 << 3 | 2, 2, 2 << 3 | 2, 0, 7 << 3 | 2, 2, 2 << 3 | 2, 0};
    refused(twice, sizeof twice, QF_ERROR_PARSE, "second graph");
}

/* Every prefix of a good model is refused or is a model, without a crash or a leak. */
static void truncated_models(void **unused) {
    (void)unused;
    builder *b = b_begin(20);
    float weights[64] = {1};
    b_input(b, "x", 1, "2,64");
    (void)b_initializer(b, "w", 1, (int64_t[]){64}, 1, weights, sizeof weights);
    (void)b_node(b, "", "Add", "x w", "y");
    b_output(b, "y");
    size_t size;
    const uint8_t *data = b_pack(b, &size);
    for (size_t length = 0; length < size; length++) {
        check_state state;
        qf_context *context = check_context(&state);
        uint8_t *copy = malloc(length + 1); /* its own block, so that a read past the end is seen */
        memcpy(copy, data, length);
        qf_graph *graph;
        if (qf_onnx_import_memory(context, copy, length, NULL, &graph) == QF_OK)
            qf_graph_destroy(graph);
        else
            assert_non_null(strstr(state.messages, "error "));
        free(copy);
        check_destroy(context, &state);
    }
    b_end(b);
}

/* Functions that double at each level. */
static void function_bombs_are_bounded(void **unused) {
    (void)unused;
    builder *b = b_begin(20);
    b_opset(b, "f", 1);
    b_input(b, "x", 1, "2");
    (void)b_node(b, "f", "F0", "x", "y");
    b_output(b, "y");
    enum { LEVELS = 7 };
    for (int level = 0; level < LEVELS; level++) {
        char name[8], next[8];
        (void)snprintf(name, sizeof name, "F%d", level);
        (void)snprintf(next, sizeof next, "F%d", level + 1);
        Onnx__FunctionProto *function = b_function(b, "f", name, "a", "t19");
        for (int i = 0; i < 20; i++) {
            char from[8] = "a", to[8];
            if (i) (void)snprintf(from, sizeof from, "t%d", i - 1);
            (void)snprintf(to, sizeof to, "t%d", i);
            bool last = level == LEVELS - 1;
            function->node[function->n_node++] = b_make(b, last ? "" : "f", last ? "Neg" : next, from, to);
        }
    }
    check_state state;
    qf_context *context = check_context(&state);
    size_t size;
    const uint8_t *data = b_pack(b, &size);
    qf_onnx_import_options options = {.struct_size = sizeof options, .max_nodes = 10000};
    qf_graph *graph;
    assert_int_equal(qf_onnx_import_memory(context, data, size, &options, &graph), QF_ERROR_LIMIT);
    assert_non_null(strstr(state.messages, "more than 10000 nodes"));
    check_destroy(context, &state);
    b_end(b);
}

/* A big constant in a function is copied by each call; calls are bounded by what they copy. */
static void constants_in_functions_are_bounded(void **unused) {
    (void)unused;
    static float numbers[4096];
    builder *b = b_begin(20);
    b_opset(b, "f", 1);
    b_input(b, "x0", 1, "4096");
    for (int i = 0; i < 40; i++) {
        char from[8], to[8];
        (void)snprintf(from, sizeof from, "x%d", i);
        (void)snprintf(to, sizeof to, "x%d", i + 1);
        (void)b_node(b, "f", "F", from, to);
    }
    b_output(b, "x40");
    Onnx__FunctionProto *function = b_function(b, "f", "F", "a", "r");
    function->node[function->n_node++] = b_make(b, "", "Constant", "", "c");
    Onnx__TensorProto *tensor = b_initializer(b, "", 1, (int64_t[]){4096}, 1, numbers, sizeof numbers);
    b->graph.n_initializer = 0;
    b_attribute(b, function->node[0], "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = tensor;
    function->node[function->n_node++] = b_make(b, "", "Add", "a c", "r");
    check_state state;
    qf_context *context = check_context(&state);
    size_t size;
    const uint8_t *data = b_pack(b, &size);
    qf_onnx_import_options options = {.struct_size = sizeof options, .max_nodes = 5000};
    qf_graph *graph;
    assert_int_equal(qf_onnx_import_memory(context, data, size, &options, &graph), QF_ERROR_LIMIT);
    check_destroy(context, &state);
    context = check_context(&state);
    options.max_nodes = 0;
    assert_int_equal(qf_onnx_import_memory(context, data, size, &options, &graph), QF_OK);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
    b_end(b);
}

static void a_function_that_calls_itself(void **unused) {
    (void)unused;
    builder *b = b_begin(20);
    b_opset(b, "f", 1);
    b_input(b, "x", 1, "2");
    (void)b_node(b, "f", "F", "x", "y");
    b_output(b, "y");
    Onnx__FunctionProto *function = b_function(b, "f", "F", "a", "r");
    function->node[function->n_node++] = b_make(b, "f", "F", "a", "r");
    size_t size;
    const uint8_t *data = b_pack(b, &size);
    refused(data, size, QF_ERROR_LIMIT, "calls itself");
    b_end(b);
}

/* --- structure --- */
static void broken_graphs_are_named(void **unused) {
    (void)unused;
    size_t size;
    builder *b = b_begin(20);
    b_input(b, "x", 1, "2");
    (void)b_node(b, "", "Add", "x z", "y");
    (void)b_node(b, "", "Neg", "y", "z");
    b_output(b, "z");
    const uint8_t *data = b_pack(b, &size);
    refused(data, size, QF_ERROR_VERIFY, "input 'z' of Add is not defined before it");
    b_end(b);

    b = b_begin(20);
    b_input(b, "x", 1, "2");
    (void)b_node(b, "", "Neg", "x", "x");
    b_output(b, "x");
    data = b_pack(b, &size);
    refused(data, size, QF_ERROR_VERIFY, "value 'x' is defined twice");
    b_end(b);

    b = b_begin(20);
    b_input(b, "x", 1, "2");
    b_output(b, "nothing");
    data = b_pack(b, &size);
    refused(data, size, QF_ERROR_VERIFY, "graph output 'nothing' is not defined");
    b_end(b);

    b = b_begin(11);
    b_input(b, "x", 1, "2");
    b_output(b, "x");
    data = b_pack(b, &size);
    refused(data, size, QF_ERROR_UNSUPPORTED, "opset 11; expected 13 to 25");
    b_end(b);

    b = b_begin(20);
    b_input(b, "x", 1, "2,3");
    b_input(b, "y", 1, "2,4");
    (void)b_node(b, "", "Add", "x y", "z");
    b_output(b, "z");
    data = b_pack(b, &size);
    refused(data, size, QF_ERROR_VERIFY, "error z");
    b_end(b);

    b = b_begin(20);
    (void)b_initializer(b, "w", 1, (int64_t[]){1 << 20, 1 << 20, 1 << 20}, 3, "abcd", 4);
    b_output(b, "w");
    data = b_pack(b, &size);
    refused(data, size, QF_ERROR_LIMIT, "more than any memory");
    b_end(b);

    b = b_begin(20);
    (void)b_initializer(b, "w", 1, (int64_t[]){3}, 1, "abcd", 4);
    b_output(b, "w");
    data = b_pack(b, &size);
    refused(data, size, QF_ERROR_PARSE, "expected 12 bytes of raw data, found 4");
    b_end(b);

    b = b_begin(20); /* the first axis fails, the second must not be read of nothing */
    b_input(b, "x", 1, "1,1,4,4");
    (void)b_initializer(b, "factors", 1, (int64_t[]){2}, 1, (float[]){2, 2}, 2 * sizeof(float));
    Onnx__NodeProto *node = b_node(b, "", "Resize", "x - factors", "y");
    b_ints(b, node, "axes", (int64_t[]){2, 3}, 2);
    b_int(b, node, "mode", 1);
    b_output(b, "y");
    data = b_pack(b, &size);
    refused(data, size, QF_ERROR_PARSE, "attribute 'mode' of Resize: expected a string");
    b_end(b);
}

/* What is given twice is refused, and one fault is told once although q, k and v share it. */
static void repeated_names_and_shared_faults(void **unused) {
    (void)unused;
    size_t size;
    builder *b = b_begin(20);
    b_input(b, "x", 1, "2");
    b_input(b, "x", 1, "2");
    (void)b_node(b, "", "Neg", "x", "y");
    b_output(b, "y");
    const uint8_t *data = b_pack(b, &size);
    refused(data, size, QF_ERROR_VERIFY, "value 'x' is defined twice");
    b_end(b);

    b = b_begin(20);
    b_input(b, "x", 1, "2,3");
    Onnx__NodeProto *node = b_node(b, "", "Softmax", "x", "y");
    b_int(b, node, "axis", 0);
    b_int(b, node, "axis", 1);
    b_output(b, "y");
    data = b_pack(b, &size);
    refused(data, size, QF_ERROR_PARSE, "attribute 'axis' of Softmax is given twice");
    b_end(b);

    static const int64_t heads[] = {0, -1, 5, (int64_t)1 << 40};
    for (size_t i = 0; i < QF_COUNT_OF(heads); i++) {
        b = b_begin(23);
        b_input(b, "x", 1, "1,4,12");
        node = b_node(b, "", "Attention", "x x x", "y");
        b_int(b, node, "q_num_heads", heads[i]);
        b_int(b, node, "kv_num_heads", heads[i]);
        b_output(b, "y");
        data = b_pack(b, &size);
        refused(data, size, QF_ERROR_VERIFY, "heads");
        b_end(b);
    }

    static const int64_t sizes[] = {INT64_MIN, INT64_MIN + 1, -5};
    for (size_t i = 0; i < QF_COUNT_OF(sizes); i++) {
        b = b_begin(20);
        b_input(b, "x", 1, "T,4");
        (void)b_initializer(b, "s", 7, (int64_t[]){1}, 1, &sizes[i], sizeof sizes[i]);
        (void)b_node(b, "", "Reshape", "x s", "y");
        b_output(b, "y");
        data = b_pack(b, &size);
        refused(data, size, QF_ERROR_VERIFY, "view");
        b_end(b);
    }
}

/* --- external data --- */
static char folder[FOLDER_PATH];

static int make_folder(void **unused) {
    (void)unused;
    char path[FOLDER_PATH];
    return folder_make(folder) ? mkdir(folder_path(path, folder, "model"), 0700) : -1;
}

static void write_file(const char *name, const void *data, size_t size) {
    char path[FOLDER_PATH];
    (void)folder_path(path, folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int remove_folder(void **unused) {
    (void)unused;
    static const char *const names[] = {"model/model.onnx", "model/weights", "model/fifo",
                                        "model/link",       "outside",       "model"};
    for (size_t i = 0; i < QF_COUNT_OF(names); i++) {
        char path[FOLDER_PATH];
        (void)folder_path(path, folder, names[i]);
        (void)remove(path);
    }
    return rmdir(folder);
}

/* Writes model/model.onnx, whose weight w f32[4] lies at `location`, and imports it. */
static qf_status import_external(qf_context *context, const char *location, const char *offset, const char *length,
                                 const char *root, qf_graph **out) {
    builder *b = b_begin(20);
    Onnx__TensorProto *tensor = b_initializer(b, "w", 1, (int64_t[]){4}, 1, "", 0);
    tensor->has_raw_data = 0;
    tensor->has_data_location = 1;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    const char *pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    tensor->external_data = b_new(b, 3 * sizeof *tensor->external_data);
    for (int i = 0; i < 3; i++) {
        if (!pairs[i][1]) continue;
        Onnx__StringStringEntryProto *entry = b_new(b, sizeof *entry);
        onnx__string_string_entry_proto__init(entry);
        entry->key = b_text(b, pairs[i][0]);
        entry->value = b_text(b, pairs[i][1]);
        tensor->external_data[tensor->n_external_data++] = entry;
    }
    b_output(b, "w");
    size_t size;
    const uint8_t *data = b_pack(b, &size);
    write_file("model/model.onnx", data, size);
    b_end(b);
    char path[FOLDER_PATH];
    (void)folder_path(path, folder, "model/model.onnx");
    qf_onnx_import_options options = {.struct_size = sizeof options, .external_root = root};
    return qf_onnx_import_file(context, path, &options, out);
}

static void refuse_external(const char *location, const char *offset, const char *length, const char *text) {
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph;
    assert_true(import_external(context, location, offset, length, NULL, &graph) != QF_OK);
    assert_null(graph);
    if (!strstr(state.messages, text)) fail_msg("expected '%s' in: %s", text, state.messages);
    check_destroy(context, &state);
}

static void external_data_is_read_in_place(void **unused) {
    (void)unused;
    const float data[] = {9, 9, 1, 2, 3, 4};
    write_file("model/weights", data, sizeof data);
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph;
    assert_int_equal(import_external(context, "weights", "8", "16", NULL, &graph), QF_OK);
    const qf_literal *literal = qf_value_literal(graph, qf_node_operand(graph, graph->last, 0));
    assert_non_null(literal);
    assert_memory_equal(literal->data, data + 2, 16);
    qf_graph_destroy(graph);
    /* A second folder, on request only. */
    write_file("outside", data, sizeof data);
    assert_int_equal(import_external(context, "outside", "0", NULL, folder, &graph), QF_OK);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void external_data_stays_in_its_folder(void **unused) {
    (void)unused;
    char absolute[FOLDER_PATH], path[FOLDER_PATH];
    const float data[] = {1, 2, 3, 4};
    write_file("outside", data, sizeof data);
    write_file("model/weights", data, sizeof data);
    (void)folder_path(absolute, folder, "outside");
    refuse_external("../outside", NULL, NULL, "expected a path below the model's folder");
    refuse_external("sub/../../outside", NULL, NULL, "expected a path below the model's folder");
    refuse_external(absolute, NULL, NULL, "expected a path below the model's folder");
    refuse_external("missing", NULL, NULL, "no file 'missing'");
    refuse_external("", NULL, NULL, "names no file");
    refuse_external("weights", "4", NULL, "but 'weights' has 16");
    refuse_external("weights", "99999999999999999", NULL, "but 'weights' has 16");
    refuse_external("weights", "-4", NULL, "expected a number of bytes as offset");
    refuse_external("weights", "0", "15", "its length is 15");
    refuse_external(".", NULL, NULL, "no file '.'");
    (void)folder_path(path, folder, "model/link");
    assert_int_equal(symlink("../outside", path), 0);
    refuse_external("link", NULL, NULL, "no file 'link'");
    (void)folder_path(path, folder, "model/fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    refuse_external("fifo", NULL, NULL, "is not a regular file");
}

static void files_that_are_none(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph;
    assert_int_equal(qf_onnx_import_file(context, "/nonexistent/model.onnx", NULL, &graph), QF_ERROR_NOT_FOUND);
    qf_context_clear_status(context);
    assert_int_equal(qf_onnx_import_file(context, "/", NULL, &graph), QF_ERROR_IO);
    qf_context_clear_status(context);
    assert_int_equal(qf_onnx_import_file(context, "/dev/null", NULL, &graph), QF_ERROR_IO);
    qf_context_clear_status(context);
    qf_onnx_import_options options = {.struct_size = sizeof options, .max_bytes = 16};
    const float data[8] = {0};
    write_file("model/model.onnx", data, sizeof data);
    char path[FOLDER_PATH];
    (void)folder_path(path, folder, "model/model.onnx");
    assert_int_equal(qf_onnx_import_file(context, path, &options, &graph), QF_ERROR_LIMIT);
    check_destroy(context, &state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_78_ten_thousand_nested_messages),
        cmocka_unit_test(fault_78_a_length_of_two_to_the_63),
        cmocka_unit_test(fault_78_ten_million_empty_nodes),
        cmocka_unit_test(other_bytes_are_no_model),
        cmocka_unit_test(truncated_models),
        cmocka_unit_test(function_bombs_are_bounded),
        cmocka_unit_test(constants_in_functions_are_bounded),
        cmocka_unit_test(a_function_that_calls_itself),
        cmocka_unit_test(broken_graphs_are_named),
        cmocka_unit_test(repeated_names_and_shared_faults),
        cmocka_unit_test_setup_teardown(external_data_is_read_in_place, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(external_data_stays_in_its_folder, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(files_that_are_none, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
