/* Owns: mappings of what mixtures of experts are exported as: histograms of expert ids, products of groups of rows.
 * Does not own: routing (map_reduce.c), adding results up (map_scatter.c).
 * Next: map_quantise.c. */
#include <string.h>

#include "frontends/pt2/maps.h"

static const char no_shape[] = "the shape of its input is unknown";

/* --- histograms --- */
/* Which of `bins` equal parts of [low, high] an element lies in; `bins` where it lies outside, or is NaN. In torch's
 * order of operations, and of floats in their own type. */
static qf_value bin_of(qf_pt2_call *call, qf_value x, qf_dtype dtype, double low, double high, int64_t bins) {
    qf_value least = qf_pt2_scalar(call, dtype, low), most = qf_pt2_scalar(call, dtype, high);
    qf_value inside = qf_pt2_binary(call, QF_OP_and, qf_pt2_binary(call, QF_OP_greater_equal, x, least),
                                    qf_pt2_binary(call, QF_OP_less_equal, x, most));
    qf_value clean = qf_import_where(qf_pt2_target(call), inside, x, least); /* so that the cast is defined */
    qf_value part = qf_pt2_binary(call, QF_OP_mul, qf_pt2_binary(call, QF_OP_sub, clean, least),
                                  qf_pt2_scalar(call, dtype, (double)bins));
    part = qf_pt2_binary(call, QF_OP_div, part, qf_pt2_binary(call, QF_OP_sub, most, least));
    qf_value last = qf_pt2_scalar(call, QF_I64, (double)bins - 1);
    part = qf_pt2_binary(call, QF_OP_minimum, qf_pt2_cast(call, part, QF_I64), last);
    return qf_import_where(qf_pt2_target(call), inside, part, qf_pt2_scalar(call, QF_I64, (double)bins));
}

qf_pt2_outcome qf_pt2_map_histogram(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x);
    qf_dtype own = qf_pt2_dtype_of(call, x), dtype = qf_dtype_is_float(own) ? own : QF_I64;
    int64_t bins = qf_pt2_int(call, "bins", 100), axes[] = {0};
    double low = qf_pt2_number(call, "min", 0), high = qf_pt2_number(call, "max", 0);
    if (rank > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (own != QF_F32 && own != QF_F64 && own != QF_I32 && own != QF_I64)
        return qf_pt2_decline(call, "it counts elements of a type that torch counts otherwise");
    if (low >= high || bins < 1 || bins > 65536)
        return qf_pt2_decline(call, "its bounds are read from its data, or its bins are too many");
    x = qf_pt2_vector(call, qf_pt2_cast(call, x, dtype));
    qf_value places = qf_import_iota(qf_pt2_target(call), QF_I64, qf_pt2_constant(call, bins), qf_pt2_constant(call, 0),
                                     qf_pt2_constant(call, 1));
    qf_value hits =
        qf_pt2_binary(call, QF_OP_equal, qf_pt2_unsqueeze(call, bin_of(call, x, dtype, low, high, bins), 1), places);
    return qf_pt2_done(call, qf_pt2_reduce(call, QF_OP_reduce_sum, qf_pt2_cast(call, hits, own), axes, 1, false));
}

/* How many boundaries lie below (right: not above) each element; NaN lies above all. Row argument 1: searchsorted. */
qf_pt2_outcome qf_pt2_map_bucketize(qf_pt2_call *call) {
    qf_pt2_pair pair;
    const char *sorted = call->row->argument ? "sorted_sequence" : "boundaries";
    const char *side = qf_pt2_string(call, "side", "");
    bool right = qf_pt2_bool(call, "right", false) || strcmp(side, "right") == 0;
    if (qf_pt2_rank(call, qf_pt2_in(call, sorted)) != 1 || qf_pt2_rank(call, qf_pt2_in(call, "self")) >= QF_MAX_RANK)
        return qf_pt2_decline(call, "its boundaries are not one vector");
    if (!qf_pt2_promote(call, "self", sorted, false, &pair))
        return qf_pt2_decline(call, "it mixes element types, or reads some, that QFuse does not have");
    uint32_t rank = qf_pt2_rank(call, pair.a);
    qf_value above =
        qf_pt2_binary(call, right ? QF_OP_greater : QF_OP_greater_equal, pair.b, qf_pt2_unsqueeze(call, pair.a, rank));
    qf_value below = qf_import_unary(qf_pt2_target(call), QF_OP_not, above);
    int64_t axes[] = {rank};
    qf_dtype dtype = qf_pt2_bool(call, "out_int32", false) ? QF_I32 : QF_I64;
    return qf_pt2_done(call, qf_pt2_reduce(call, QF_OP_reduce_sum, qf_pt2_cast(call, below, dtype), axes, 1, false));
}

/* Whether each element is one of the others. */
qf_pt2_outcome qf_pt2_map_is_in(qf_pt2_call *call) {
    qf_pt2_pair pair;
    if (qf_pt2_rank(call, qf_pt2_in(call, "elements")) >= QF_MAX_RANK ||
        qf_pt2_rank(call, qf_pt2_in(call, "test_elements")) > QF_MAX_RANK)
        return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_promote(call, "elements", "test_elements", false, &pair) || pair.result == QF_I1)
        return qf_pt2_decline(call, "it mixes element types, or reads some, that QFuse does not have");
    uint32_t rank = qf_pt2_rank(call, pair.a);
    int64_t axes[] = {rank};
    qf_value others = qf_pt2_vector(call, pair.b);
    qf_value equal = qf_pt2_binary(call, QF_OP_equal, qf_pt2_unsqueeze(call, pair.a, rank), others);
    qf_value found = qf_pt2_reduce(call, QF_OP_reduce_sum, qf_pt2_cast(call, equal, QF_I64), axes, 1, false);
    found = qf_pt2_cast(call, found, QF_I1);
    if (qf_pt2_bool(call, "invert", false)) found = qf_import_unary(qf_pt2_target(call), QF_OP_not, found);
    return qf_pt2_done(call, found);
}

/* --- groups of rows --- */
/* For each of `rows` how many of the groups, which end at `ends`, lie before it: [rows, 1]. */
static qf_value group_of(qf_pt2_call *call, qf_value ends, qf_dim rows) {
    qf_value row = qf_import_iota(qf_pt2_target(call), qf_pt2_dtype_of(call, ends), rows, qf_pt2_constant(call, 0),
                                  qf_pt2_constant(call, 1));
    qf_value passed = qf_pt2_binary(call, QF_OP_less_equal, ends, qf_pt2_unsqueeze(call, row, 1));
    int64_t axes[] = {1};
    return qf_pt2_reduce(call, QF_OP_reduce_sum, qf_pt2_cast(call, passed, QF_I64), axes, 1, true);
}

/* x [S, K] by w [E, K, N]: rows of group e, which end at ends[e], by w[e]; zeros for rows behind the last group. Every
 * row is multiplied by every matrix and the one product kept, since no op has groups whose sizes are data. */
static qf_value multiply_groups(qf_pt2_call *call, qf_value x, qf_value w, qf_value ends) {
    qf_import_target to = qf_pt2_target(call);
    qf_dim groups = qf_pt2_dim_of(call, w, 0);
    qf_value group = group_of(call, ends, qf_pt2_dim_of(call, x, 0)), count = qf_pt2_symbolic(call, groups);
    qf_value inside = qf_pt2_binary(call, QF_OP_less, group, count);
    qf_value last = qf_pt2_symbolic(call, qf_dim_add_constant(call->import->context, groups, -1));
    group = qf_pt2_binary(call, QF_OP_minimum, group, last);
    qf_value all = qf_import_contract(to, "sk,ekn->sen", x, w);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_gather_nd, attributes);
    attributes[QF_ATTR(gather_nd, batch_dims)].integer = 1;
    qf_value y = qf_import_op(to, QF_OP_gather_nd, (qf_value[]){all, group}, 2, attributes);
    return qf_import_where(to, inside, y, qf_pt2_scalar(call, qf_pt2_dtype_of(call, x), 0));
}

/* Row argument 1: the names of transformers' operator. */
qf_pt2_outcome qf_pt2_map_grouped_matmul(qf_pt2_call *call) {
    bool named = call->row->argument == 1;
    qf_value x = qf_pt2_in(call, named ? "input" : "self"), w = qf_pt2_in(call, named ? "weight" : "mat2");
    qf_value ends = qf_pt2_in(call, "offs");
    qf_dtype dtype = qf_pt2_dtype_of(call, x), wanted;
    uint32_t rank = qf_pt2_rank(call, x);
    if (!qf_dtype_is_float(dtype) || qf_dtype_bits(dtype) < 16 || qf_pt2_dtype_of(call, w) != dtype ||
        !qf_pt2_dtype_argument(call, "out_dtype", dtype, &wanted) || wanted != dtype)
        return qf_pt2_decline(call, "its element types are not those of a plain product");
    if (rank == 3 && qf_pt2_rank(call, w) == 3 && !ends.id) return qf_pt2_done(call, qf_pt2_matmul(call, x, w, false));
    qf_dtype counted = qf_pt2_dtype_of(call, ends);
    if (rank != 2 || qf_pt2_rank(call, w) != 3 || qf_pt2_rank(call, ends) != 1 ||
        (counted != QF_I32 && counted != QF_I64))
        return qf_pt2_decline(call, "its groups are not groups of rows");
    return qf_pt2_done(call, multiply_groups(call, x, w, ends));
}

/* The graph has no sizes that its data tells. */
qf_pt2_outcome qf_pt2_map_sized_by_data(qf_pt2_call *call) {
    return qf_pt2_decline(call, "only its data tells the size of its result");
}
