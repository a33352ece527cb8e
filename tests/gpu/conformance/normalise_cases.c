/* Owns: cases of softmax, norms, silu_mul, with quantised results too.
 * Does not own: reductions (reduce_cases.c).
 * Next: cases.h. */
#include <math.h>
#include <string.h>

#include "tests/gpu/conformance/cases.h"

static const qf_dtype dtypes[] = {QF_F32, QF_F16, QF_BF16, QF_F64};

/* Rows along the last of two axes. */
#define ROWS(count, size)                                                                                              \
    { {2, {count, size}}, 1 }

/* Around the sizes that a team of threads holds in registers on a GPU (kernels/cuda/held_row.h): a run, lanes that have
 * none, a warp, one more run, parts of a warp, the longest row, one that is longer; enough that blocks take several. */
#define HELD_ROWS ROWS(300, 8), ROWS(41, 24), ROWS(9, 512), ROWS(9001, 520), ROWS(5, 5128), ROWS(3, 8192), ROWS(3, 8200)

static bool is_left_out(qf_dtype dtype, const shape *dims) {
    return shape_count(*dims) > 1000000 && (dtype == QF_F64 || dtype == QF_F16);
}

/* A row that several warps share: one case of it goes to compute-sanitizer. */
static bool is_shared_by_warps(const shape *dims) {
    return dims->rank == 2 && dims->dims[1] == 5128;
}

static void softmaxes(suite *to) {
    static const qf_op ops[] = {QF_OP_softmax, QF_OP_log_softmax};
    static const struct {
        shape dims;
        int axis;
    } all[] = {{{2, {5, 33}}, 1}, {{3, {4, 9, 5}}, 1},      {{2, {70, 2049}}, 1}, {{2, {3, 1}}, 1}, {{2, {0, 4}}, 1},
               {{1, {30000}}, 0}, {{4, {2, 3, 17, 64}}, 3}, {{2, {300, 40}}, 0},  HELD_ROWS};
    for (uint32_t i = 0; i < QF_COUNT_OF(ops); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
            for (uint32_t k = 0; k < QF_COUNT_OF(all); k++) {
                test_case *test = &to->test;
                if (is_left_out(dtypes[j], &all[k].dims)) continue;
                case_begin(to, test, ops[i], "%s_%s_axis%d", qf_dtype_name(dtypes[j]), shape_text(all[k].dims),
                           all[k].axis);
                (void)case_add_input(test, "x", dtypes[j], all[k].dims, NORMAL(3, 1));
                case_node(test, "  %%y = %s %%x {axis=%d}", qf_op_name(ops[i]), all[k].axis);
                case_output(test, "y", bound_of(ops[i], dtypes[j], dtypes[j]));
                test->small = k < 2 || is_shared_by_warps(&all[k].dims);
                case_end(test);
            }
    /* A row of -inf is NaN; one key left gets all; NaN spreads. */
    for (uint32_t i = 0; i < QF_COUNT_OF(ops); i++) {
        test_case *test = &to->test;
        static const double rows[] = {
            -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, 2, -INFINITY, -INFINITY, 1,     NAN,   2,     3,
            1e30,      -1e30,     1e30,      0,         INFINITY,  1, 2,         3,         -1e30, -1e30, -1e30, -1e30};
        case_begin(to, test, ops[i], "odd_rows");
        (void)case_add_input(test, "x", QF_F32, SHAPE(6, 4), (fill){FILL_LIST, 0, 0, rows, QF_COUNT_OF(rows)});
        case_node(test, "  %%y = %s %%x {axis=1}", qf_op_name(ops[i]));
        case_output(test, "y", bound_of(ops[i], QF_F32, QF_F32));
        test->small = true;
        case_end(test);
    }
}

/* The ways in which an op with out_scale may end. */
static const char *const endings[] = {"",
                                      ", out=f8E4M3FN",
                                      ", out=f8E4M3FN, out_mode=mul_recip",
                                      ", out=f8E5M2, out_mode=mul, out_compute=bf16",
                                      ", out=f8E4M3FN, via=bf16",
                                      ", out=f8E4M3FN, out_compute=f16, via=f16"};

static qf_dtype ending_dtype(uint32_t ending, qf_dtype own) {
    return ending == 0 ? own : ending == 3 ? QF_F8E5M2 : QF_F8E4M3FN;
}

static void norms(suite *to) {
    static const struct {
        shape dims;
        int axis;
    } all[] = {{{2, {5, 33}}, 1}, {{3, {4, 3, 64}}, 2}, {{3, {2, 5, 24}}, 1}, {{2, {67, 4096}}, 1},
               {{2, {0, 16}}, 1}, {{2, {3, 1}}, 1},     {{2, {9, 5000}}, 1},  HELD_ROWS};
    for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
        for (uint32_t k = 0; k < QF_COUNT_OF(all); k++) {
            shape weights = {0, {0}};
            test_case *test = &to->test;
            qf_dtype dtype = dtypes[j];
            bool many = shape_count(all[k].dims) > 1000000;
            if (is_left_out(dtype, &all[k].dims)) continue;
            for (uint32_t i = (uint32_t)all[k].axis; i < all[k].dims.rank; i++)
                weights.dims[weights.rank++] = all[k].dims.dims[i];
            for (int form = many ? 2 : 0; form < 3; form++) {
                case_begin(to, test, QF_OP_layer_norm, "%s_%s%s%s", qf_dtype_name(dtype), shape_text(all[k].dims),
                           form > 0 ? "_weight" : "", form > 1 ? "_bias" : "");
                (void)case_add_input(test, "x", dtype, all[k].dims, NORMAL(2, 1));
                (void)case_add_input(test, "w", dtype, weights, NORMAL(1, 1));
                (void)case_add_input(test, "b", dtype, weights, NORMAL(1, 0));
                case_node(test, "  %%y = layer_norm %%x%s%s {axis=%d, epsilon=0.001}", form > 0 ? ", weight=%w" : "",
                          form > 1 ? ", bias=%b" : "", all[k].axis);
                case_output(test, "y", bound_of(QF_OP_layer_norm, dtype, dtype));
                test->small = k < 2 || (form == 2 && is_shared_by_warps(&all[k].dims));
                case_end(test);
            }
            for (uint32_t ending = 0; ending < QF_COUNT_OF(endings); ending++) {
                if ((dtype == QF_F64 || many) && ending) continue;
                qf_dtype out = ending_dtype(ending, dtype);
                for (int form = many; form < 2; form++) {
                    case_begin(to, test, QF_OP_rms_norm, "%s_%s%s%s", qf_dtype_name(dtype), shape_text(all[k].dims),
                               form ? "_weight" : "", endings[ending]);
                    (void)case_add_input(test, "x", dtype, all[k].dims, NORMAL(2, 0));
                    (void)case_add_input(test, "w", dtype, weights, NORMAL(1, 1));
                    (void)case_add_input(test, "s", QF_F32, SCALAR, UNIFORM(0.02, 0.04));
                    case_node(test, "  %%y = rms_norm %%x%s%s {axis=%d%s}", form ? ", weight=%w" : "",
                              ending ? ", out_scale=%s" : "", all[k].axis, endings[ending]);
                    case_output(test, "y", bound_of(QF_OP_rms_norm, dtype, out));
                    test->small = k < 2 || (form && ending == 1 && is_shared_by_warps(&all[k].dims));
                    case_end(test);
                    case_begin(to, test, QF_OP_add_rms_norm, "%s_%s%s%s", qf_dtype_name(dtype), shape_text(all[k].dims),
                               form ? "_weight" : "", endings[ending]);
                    (void)case_add_input(test, "x", dtype, all[k].dims, NORMAL(2, 0));
                    (void)case_add_input(test, "r", dtype, all[k].dims, NORMAL(1, 0));
                    (void)case_add_input(test, "w", dtype, weights, NORMAL(1, 1));
                    (void)case_add_input(test, "s", QF_F32, SCALAR, UNIFORM(0.02, 0.04));
                    case_node(test, "  %%y, %%sum = add_rms_norm %%x, %%r%s%s {axis=%d%s}", form ? ", weight=%w" : "",
                              ending ? ", out_scale=%s" : "", all[k].axis, endings[ending]);
                    case_output(test, "y", bound_of(QF_OP_add_rms_norm, dtype, out));
                    case_output(test, "sum", (bound){.kind = BOUND_VALUES});
                    test->small = k < 2 || (form && ending == 1 && is_shared_by_warps(&all[k].dims));
                    case_end(test);
                }
            }
        }
}

static void gates(suite *to) {
    static const shape all[] = {{2, {5, 34}}, {3, {4, 3, 128}}, {2, {67, 8192}},
                                {2, {0, 16}}, {2, {3, 2}},      {2, {1, 22016}}};
    for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
        for (uint32_t k = 0; k < QF_COUNT_OF(all); k++)
            for (uint32_t ending = 0; ending < QF_COUNT_OF(endings); ending++) {
                test_case *test = &to->test;
                qf_dtype dtype = dtypes[j];
                if (dtype == QF_F64 && ending) continue;
                case_begin(to, test, QF_OP_silu_mul, "%s_%s%s", qf_dtype_name(dtype), shape_text(all[k]),
                           endings[ending]);
                (void)case_add_input(test, "x", dtype, all[k], NORMAL(3, 0));
                (void)case_add_input(test, "s", QF_F32, SCALAR, UNIFORM(0.02, 0.04));
                case_node(test, "  %%y = silu_mul %%x%s {%s}", ending ? ", out_scale=%s" : "",
                          ending ? endings[ending] + 2 : "");
                case_output(test, "y", bound_of(QF_OP_silu_mul, dtype, ending_dtype(ending, dtype)));
                test->small = k < 2;
                case_end(test);
            }
}

/* Weights of another width than the rows. */
static void mixed_norms(suite *to) {
    static const qf_dtype pairs[][2] = {{QF_BF16, QF_F32}, {QF_F32, QF_BF16}, {QF_F16, QF_BF16}, {QF_F16, QF_F32}};
    static const int64_t sizes[] = {24, 520, 8192};
    for (uint32_t i = 0; i < QF_COUNT_OF(pairs); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(sizes); j++) {
            test_case *test = &to->test;
            shape rows = {2, {5, sizes[j]}}, weights = {1, {sizes[j]}};
            for (int op = 0; op < 2; op++) {
                const char *name = op ? "layer_norm" : "rms_norm";
                qf_op of = op ? QF_OP_layer_norm : QF_OP_rms_norm;
                case_begin(to, test, of, "weights_%s_%s_%s", qf_dtype_name(pairs[i][0]), qf_dtype_name(pairs[i][1]),
                           shape_text(rows));
                (void)case_add_input(test, "x", pairs[i][0], rows, NORMAL(2, 1));
                (void)case_add_input(test, "w", pairs[i][1], weights, NORMAL(1, 1));
                case_node(test, "  %%y = %s %%x, weight=%%w {axis=1}", name);
                case_output(test, "y", bound_of(of, pairs[i][0], pairs[i][0]));
                test->small = j < 2;
                case_end(test);
            }
        }
}

void normalise_cases(suite *to) {
    softmaxes(to);
    norms(to);
    mixed_norms(to);
    gates(to);
}
