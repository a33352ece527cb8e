/* Owns: cases of reductions, running sums, sorting.
 * Does not own: normalisations (normalise_cases.c).
 * Next: cases.h. */
#include <string.h>

#include "tests/gpu/conformance/cases.h"

static const qf_dtype dtypes[] = {QF_F32, QF_F16, QF_BF16, QF_F64, QF_F8E4M3FN, QF_I32, QF_I64};

static bool is_whole(qf_dtype dtype) {
    return qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER;
}

static void reduce(suite *to, qf_op op, qf_dtype dtype, shape dims, const char *axes, fill values, const char *name) {
    test_case *test = &to->test;
    for (int keep = 0; keep < 2; keep++) {
        case_begin(to, test, op, "%s_%s_over_[%s]%s%s", qf_dtype_name(dtype), shape_text(dims), axes,
                   keep ? "_keep" : "", name);
        (void)case_add_input(test, "x", dtype, dims, values);
        case_node(test, "  %%y = %s %%x {axes=[%s], keep=%s}", qf_op_name(op), axes, keep ? "true" : "false");
        case_output(test, "y", bound_of(op, dtype, dtype));
        test->small = shape_count(dims) < 3000;
        if (!keep || test->small) case_end(test);
    }
}

static void reductions(suite *to) {
    static const qf_op ops[] = {QF_OP_reduce_sum, QF_OP_reduce_max, QF_OP_reduce_min, QF_OP_reduce_mean,
                                QF_OP_reduce_prod};
    static const struct {
        shape dims;
        const char *axes;
    } all[] = {{{2, {7, 65}}, "1"},     {{2, {65, 7}}, "0"},          {{3, {3, 9, 5}}, "0, 2"},
               {{1, {1}}, "0"},         {{3, {4, 3, 33}}, "0, 1, 2"}, {{2, {5, 0}}, "1"},
               {{2, {0, 5}}, "1"},      {{2, {4, 1}}, "1"},           {{2, {300, 4097}}, "1"},
               {{2, {4097, 300}}, "0"}, {{1, {1000000}}, "0"},        {{4, {2, 8, 65, 129}}, "1, 3"}};
    for (uint32_t i = 0; i < QF_COUNT_OF(ops); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
            for (uint32_t k = 0; k < QF_COUNT_OF(all); k++) {
                bool product = ops[i] == QF_OP_reduce_prod,
                     order = ops[i] == QF_OP_reduce_max || ops[i] == QF_OP_reduce_min;
                int64_t count = shape_count(all[k].dims);
                if (count > 100000 && (product || j > 2)) continue;
                fill values = order                 ? ODD
                              : is_whole(dtypes[j]) ? INTEGERS(-100, 100)
                              : product             ? UNIFORM(0.9, 1.1)
                                                    : NORMAL(1, 0.5);
                if (dtypes[j] == QF_F8E4M3FN && !order) values = UNIFORM(0, 0.25);
                reduce(to, ops[i], dtypes[j], all[k].dims, all[k].axes, values, "");
            }
    for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
        reduce(to, QF_OP_reduce_max, dtypes[j], SHAPE(9, 70), "1", NORMAL(5, 0), "_plain");
}

static void running_sums(suite *to) {
    static const struct {
        shape dims;
        int axis;
    } all[] = {{{2, {5, 33}}, 1}, {{3, {4, 9, 5}}, 1}, {{1, {3000}}, 0}, {{2, {0, 4}}, 0}, {{2, {70, 600}}, 0}};
    for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
        for (uint32_t k = 0; k < QF_COUNT_OF(all); k++)
            for (int form = 0; form < 4; form++) {
                test_case *test = &to->test;
                if (form && k > 1) continue;
                case_begin(to, test, QF_OP_cumulative_sum, "%s_%s_axis%d%s%s", qf_dtype_name(dtypes[j]),
                           shape_text(all[k].dims), all[k].axis, form & 1 ? "_exclusive" : "",
                           form & 2 ? "_reverse" : "");
                (void)case_add_input(test, "x", dtypes[j], all[k].dims,
                                     is_whole(dtypes[j]) ? INTEGERS(-9, 9) : UNIFORM(0, 0.5));
                case_node(test, "  %%y = cumulative_sum %%x {axis=%d, exclusive=%s, reverse=%s}", all[k].axis,
                          form & 1 ? "true" : "false", form & 2 ? "true" : "false");
                case_output(test, "y", bound_of(QF_OP_cumulative_sum, dtypes[j], dtypes[j]));
                test->small = k < 2;
                case_end(test);
            }
}

static void orders(suite *to) {
    static const struct {
        shape dims;
        int axis, k;
    } all[] = {{{2, {5, 33}}, 1, 7}, {{3, {4, 19, 5}}, 1, 19}, {{1, {5000}}, 0, 50},
               {{2, {3, 1}}, 1, 1},  {{2, {130, 8}}, 0, 2},    {{2, {2, 300}}, 1, 0}};
    for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
        for (uint32_t k = 0; k < QF_COUNT_OF(all); k++)
            for (int form = 0; form < 4; form++) {
                test_case *test = &to->test;
                qf_dtype dtype = dtypes[j];
                /* Few different values, so that ties decide. */
                fill values = form & 2 ? INTEGERS(-3, 3) : ODD;
                if (form & 2 && !is_whole(dtype)) values = INTEGERS(-2, 2);
                case_begin(to, test, QF_OP_arg_max, "%s_%s_axis%d%s%s", qf_dtype_name(dtype), shape_text(all[k].dims),
                           all[k].axis, form & 1 ? "_last" : "", form & 2 ? "_ties" : "");
                (void)case_add_input(test, "x", dtype, all[k].dims, values);
                case_node(test, "  %%y = arg_max %%x {axis=%d, keep=%s, last=%s}", all[k].axis,
                          k % 2 ? "true" : "false", form & 1 ? "true" : "false");
                case_output(test, "y", bound_of(QF_OP_arg_max, dtype, QF_I64));
                test->small = k < 2;
                if (all[k].k) case_end(test);
                case_begin(to, test, QF_OP_top_k, "%s_%s_axis%d_%d%s%s", qf_dtype_name(dtype), shape_text(all[k].dims),
                           all[k].axis, all[k].k, form & 1 ? "_smallest" : "", form & 2 ? "_ties" : "");
                (void)case_add_input(test, "x", dtype, all[k].dims, values);
                case_node(test, "  %%y, %%i = top_k %%x {axis=%d, k=%d, largest=%s}", all[k].axis, all[k].k,
                          form & 1 ? "false" : "true");
                case_output(test, "y", bound_of(QF_OP_top_k, dtype, dtype));
                case_output(test, "i", bound_of(QF_OP_top_k, dtype, QF_I64));
                test->small = k < 2;
                case_end(test);
            }
}

void reduce_cases(suite *to) {
    reductions(to);
    running_sums(to);
    orders(to);
}
