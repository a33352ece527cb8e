/* Owns: allocation failures while torch.export archives are read.
 * Label: oom
 * Next: tests/oom.h. */
#include "tests/oom.h"

#include "tests/frontends/pt2_builder.h"

typedef struct archive {
    void *data;
    size_t size;
} archive;

static bool read_archive(qf_context *context, void *user) {
    const archive *bytes = user;
    qf_graph *graph = NULL;
    qf_pt2_import_options options = {.struct_size = sizeof options, .kv_cache = "fp8"};
    bool worked = qf_pt2_import_memory(context, bytes->data, bytes->size, &options, &graph) == QF_OK;
    assert_int_equal(worked, graph != NULL);
    qf_graph_destroy(graph);
    return worked;
}

/* Complex tensors, views, writes, a buffer that is written (two attempts), custom operators, a layer's cache, guards,
 * an opaque node. */
static void a_program_with_everything(void **unused) {
    (void)unused;
    static const float cache[8] = {1};
    for (int stored = 0; stored < 2; stored++) {
        program *p = p_program("buffer b 7[2,4]\ninput x 7[s0,4]\ninput w 7[4]\ninput s 7[1]\ninput q 7[s0,2,2]\n"
                               "input k 7[s0,2]\nguard L['x'].size()[0] <= 2*L['q'].size()[1]\n"
                               "guard L['x'].size()[0] != 3 and L['k'].size()[0] // 2 == L['x'].size()[0] - 1\n"
                               "guard L['z'] is None\nr 7[s0,4] = aten.view.default self=%q size=[-1,4]\n"
                               "n $ = aten.sym_size.int self=%x dim=0\n"
                               "t 7[4,2] = aten.t.default self=%b\n"
                               "z 7[4,2] = aten.add_.Tensor self=%t other=0.1\n"
                               "e 29[s0,4] = aten.empty.memory_format size=[$n,4] dtype=dtype:29\n"
                               "y 7[s0,4] = aten.empty_like.default self=%x\n"
                               "- = _C.rms_norm.default result=%y input=%x weight=%w epsilon=0.001\n"
                               "- = _C.static_scaled_fp8_quant.default result=%e input=%y scale=%s\n"
                               "v 10[s0,2] = aten.view_as_complex.default self=%q\n"
                               "u 10[s0,2] = aten.mul.Tensor self=%v other=1.0j\n"
                               "g 10[s0,2] = aten.polar.default abs=%k angle=%k\n"
                               "i 10[s0,2] = aten.mul_.Tensor self=%u other=%g\n"
                               "j 10[s0] = aten.sum.dim_IntList self=%i dim=[1]\n"
                               "f 7[s0] = aten.select.int self=%k dim=1 index=0\n"
                               "ll 5[s0] = aten.argsort.default self=%f\n"
                               "m 7[s0,2] = aten.index_add.default self=%k dim=0 index=%ll source=%k\n"
                               "o 7[s0,2] = aten.index_put_.default self=%m indices=[%ll] values=%k accumulate=true\n"
                               "a 7[s0,4] = vllm.unified_attention.default query=%r key=%k value=%k layer_name='L\n"
                               "h 7[s0,4] = vendor.strange.default a=%y\n"
                               "- = vendor.scribble.default a=%y\n"
                               "l 7[s0,2] = aten.linear.default input=%y weight=%b\n"
                               "output e\noutput h\noutput l\noutput a\n");
        p_weight(p, "b", cache, 8 * sizeof(float));
        archive bytes = {0};
        bytes.data = p_archive(p, stored, &bytes.size);
        oom_sweep(read_archive, &bytes, 1);
        free(bytes.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_program_with_everything)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
