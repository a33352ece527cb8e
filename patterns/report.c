/* Owns: recording rewrites and misses, names of reasons and numerics classes.
 * Does not own: the reasons (reasons.def), printing (tools).
 * Next: report.h. */
#include "patterns/report.h"

#include <string.h>

static const struct {
    qf_reason reason;
    const char *code, *text;
} reasons[] = {
#define REASON(number, code, text) {QF_REASON_##code, #code, text},
#include "patterns/reasons.def"
#undef REASON
};

const char *qf_reason_code(qf_reason reason) {
    for (size_t i = 0; i < QF_COUNT_OF(reasons); i++)
        if (reasons[i].reason == reason) return reasons[i].code;
    return "none";
}

const char *qf_reason_text(qf_reason reason) {
    for (size_t i = 0; i < QF_COUNT_OF(reasons); i++)
        if (reasons[i].reason == reason) return reasons[i].text;
    return "";
}

const char *qf_numerics_name(qf_numerics numerics) {
    switch (numerics) {
    case QF_NUMERICS_DEFAULT: return "default";
    case QF_NUMERICS_EXACT: return "exact";
    case QF_NUMERICS_ROUNDING: return "rounding";
    case QF_NUMERICS_QUANTISING: return "quantising";
    case QF_NUMERICS_RELAXED: return "relaxed";
    }
    return "invalid";
}

void qf_report_init(qf_report *report, qf_context *context) {
    memset(report, 0, sizeof *report);
    report->context = context;
    report->rewrite_limit = UINT32_MAX;
    report->next_number = 1;
}

void qf_report_destroy(qf_report *report) {
    QF_FREE_ITEMS(report->context, report->rewrites, report->rewrite_capacity);
    QF_FREE_ITEMS(report->context, report->misses, report->miss_capacity);
    QF_FREE_ITEMS(report->context, report->refusals, report->refusal_capacity);
    qf_index_destroy(report->context, &report->miss_index);
    report->rewrite_count = report->miss_count = report->refusal_count = 0;
}

bool qf_report_may_rewrite(qf_report *report) {
    if (report->next_number > report->rewrite_limit) return false;
    report->next_number++;
    return true;
}

bool qf_report_rewrite(qf_report *report, const qf_rewrite *rewrite) {
    if (!QF_GROW(report->context, report->rewrites, report->rewrite_capacity, (uint64_t)report->rewrite_count + 1))
        return false;
    report->rewrites[report->rewrite_count++] = *rewrite;
    return true;
}

static bool miss_equal(const void *owner, uint32_t id, const void *key) {
    const qf_miss *kept = &((const qf_report *)owner)->misses[id - 1], *miss = key;
    return kept->tag == miss->tag && kept->reason == miss->reason;
}

bool qf_report_miss(qf_report *report, const qf_miss *miss) {
    uint64_t hash = qf_hash_mix(qf_hash_mix(7, miss->tag), miss->reason);
    if (qf_index_find(&report->miss_index, hash, miss_equal, report, miss)) return true;
    if (!QF_GROW(report->context, report->misses, report->miss_capacity, (uint64_t)report->miss_count + 1))
        return false;
    if (!qf_index_add(report->context, &report->miss_index, hash, report->miss_count + 1)) return false;
    report->misses[report->miss_count++] = *miss;
    return true;
}
