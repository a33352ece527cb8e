/* Owns: inputs of rule instances, and the comparison of results.
 * Does not own: the graphs (instance.c).
 * Next: instance.h. */
#include <math.h>
#include <stdio.h>

#include "base/convert.h"
#include "patterns/instance.h"
#include "patterns/instance_random.h"

static bool is_pointwise(const qf_rule *rule) {
    for (uint32_t n = 0; n < rule->before_count; n++) {
        uint32_t traits = rule->before[n].info->traits;
        bool pointwise = (traits & (QF_TRAIT_ELEMENTWISE | QF_TRAIT_QUANTISING | QF_TRAIT_LAYOUT)) != 0 ||
                         rule->before[n].op == QF_OP_dequantize;
        if (!pointwise) return false;
    }
    return true;
}

void qf_rule_instance_fill(qf_rule_instance *instance, uint32_t index, void *data, uint64_t count) {
    qf_value value = instance->graph->inputs[index];
    qf_dtype dtype = qf_value_dtype(instance->graph, value);
    uint64_t *state = &instance->random;
    int64_t limit = instance->limits[value.id];
    /* Infinities and NaN belong into elementwise rules: through a sum they would hide everything else. Large scores
     * make a softmax so steep that a rounding of one of them changes everything. */
    bool exact = instance->rule->numerics == QF_NUMERICS_EXACT, pointwise = is_pointwise(instance->rule);
    bool wild = exact && pointwise, large = exact || pointwise;
    for (uint64_t i = 0; i < count; i++) {
        double number = qf_random_unit(state) + qf_random_unit(state) + qf_random_unit(state);
        uint32_t dice = qf_random_below(state, 40);
        if (large && dice == 0) number *= 1000;
        if (wild && dice == 1) number = number > 0 ? (double)NAN : number < -1 ? -(double)INFINITY : (double)INFINITY;
        if (wild && dice == 2) number *= 0.0;
        if (count == 1 || limit == 0) number = exp2(qf_random_unit(state) * 4 - 2);
        if (!qf_dtype_is_float(dtype)) number = limit > 0 ? qf_random_below(state, (uint32_t)limit) : 0;
        qf_store_f64(dtype, data, (int64_t)i, number, true);
    }
}

static bool equal_bits(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

/* Neighbouring codes of an FP8 type differ by at most this share of the larger, or by the smallest number. */
static bool neighbours(qf_dtype dtype, double a, double b) {
    double step = dtype == QF_F8E5M2 || dtype == QF_F8E5M2FNUZ ? 0.26 : 0.13;
    return fabs(a - b) <= step * fmax(fabs(a), fabs(b)) + 0.002;
}

bool qf_rule_results_agree(const qf_rule_instance *instance, qf_dtype dtype, const void *before, const void *after,
                           uint64_t count, char *message, size_t message_size) {
    double difference = 0, size = 0;
    for (uint64_t i = 0; i < count; i++) {
        double a = qf_load_f64(dtype, before, (int64_t)i), b = qf_load_f64(dtype, after, (int64_t)i);
        bool exact = instance->rule->numerics == QF_NUMERICS_EXACT;
        if (isfinite(a)) size += a * a;
        if (exact ? equal_bits(a, b) : a == b || (isnan(a) && isnan(b))) continue;
        if (exact || (qf_dtype_is_float8(dtype) && !neighbours(dtype, a, b))) {
            (void)snprintf(message, message_size, "element %u: %.9g before, %.9g after", (unsigned)i, a, b);
            return false;
        }
        difference += (a - b) * (a - b);
    }
    double bound = instance->coarsest == QF_F32 ? 1e-5 : instance->coarsest == QF_F16 ? 4e-3 : 3e-2;
    if (qf_dtype_is_float8(dtype) || sqrt(difference) <= bound * sqrt(size) + 1e-30) return true;
    (void)snprintf(message, message_size, "relative difference %.3g, allowed %.3g", sqrt(difference / size), bound);
    return false;
}
