/* Owns: the rules of a context, and the loop that runs the rules of a phase over a graph.
 * Does not own: matching (match.c), rewriting (rewrite.c), the text of the rules (rules/, embedded by the build).
 * Next: match.c, rewrite.c. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "patterns/embedded.h"
#include "patterns/rewrite.h"

/* Termination is proved when rules are loaded (rule_check.c); this bounds time if many rewrites enable each other. */
#define MAX_ROUNDS     64
#define MAX_FILE_BYTES ((uint64_t)16 << 20)

/* --- the set --- */

static void destroy_set(qf_context *context, void *object) {
    qf_rule_set *set = object;
    for (uint32_t i = 0; i < set->rule_count; i++)
        QF_FREE_ITEMS(context, set->rules[i]->samples, set->rules[i]->sample_capacity);
    QF_FREE_ITEMS(context, set->rules, set->rule_capacity);
    QF_FREE_ITEMS(context, set->phases, set->phase_capacity);
    qf_arena_destroy(&set->arena);
    qf_release(context, set, sizeof *set);
}

static int compare_rules(const void *left, const void *right) {
    const qf_rule *a = *(qf_rule *const *)left, *b = *(qf_rule *const *)right;
    qf_op x = a->before[a->anchor].op, y = b->before[b->anchor].op;
    if (x != y) return x < y ? -1 : 1;
    if (a->benefit != b->benefit) return a->benefit > b->benefit ? -1 : 1;
    return a->name.id < b->name.id ? -1 : a->name.id > b->name.id;
}

static bool build_phase(qf_rule_set *set, qf_string name) {
    qf_rule_phase *phase = QF_ARENA_NEW(&set->arena, qf_rule_phase, 1);
    if (!phase || !QF_GROW(set->context, set->phases, set->phase_capacity, (uint64_t)set->phase_count + 1))
        return false;
    phase->name = name;
    for (uint32_t i = 0; i < set->rule_count; i++) phase->rule_count += set->rules[i]->phase.id == name.id;
    phase->rules = QF_ARENA_NEW(&set->arena, qf_rule *, phase->rule_count);
    if (!phase->rules) return false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->rule_count; i++)
        if (set->rules[i]->phase.id == name.id) phase->rules[count++] = set->rules[i];
    if (count) qsort(phase->rules, count, sizeof *phase->rules, compare_rules);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t op = (uint32_t)phase->rules[i]->before[phase->rules[i]->anchor].op;
        if (!phase->count[op]++) phase->first[op] = i;
    }
    set->phases[set->phase_count++] = phase;
    return true;
}

static bool build_phases(qf_rule_set *set) {
    set->phase_count = 0;
    for (uint32_t i = 0; i < set->rule_count; i++) {
        bool known = false;
        for (uint32_t p = 0; p < set->phase_count; p++) known |= set->phases[p]->name.id == set->rules[i]->phase.id;
        if (!known && !build_phase(set, set->rules[i]->phase)) return false;
    }
    return true;
}

static qf_status load(qf_rule_set *set, qf_text text, const char *file_name) {
    uint32_t first_new = set->rule_count;
    qf_status status = qf_rules_parse(set, text, file_name);
    for (uint32_t i = first_new; status == QF_OK && i < set->rule_count; i++) {
        qf_status checked = qf_rule_check(set, set->rules[i]);
        if (checked != QF_OK) status = checked;
    }
    if (status == QF_OK) status = qf_rules_check_overlap(set, first_new);
    if (status == QF_OK && !build_phases(set)) status = QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK) {
        set->hash = qf_hash_bytes(text.data, text.size, set->hash);
        return QF_OK;
    }
    while (set->rule_count > first_new) {
        qf_rule *rule = set->rules[--set->rule_count];
        QF_FREE_ITEMS(set->context, rule->samples, rule->sample_capacity);
    }
    if (!build_phases(set)) (void)qf_record(set->context, QF_ERROR_OUT_OF_MEMORY);
    return status;
}

qf_rule_set *qf_rules_of(qf_context *context) {
    if (context->rules.object) return context->rules.object;
    qf_rule_set *set = qf_allocate(context, sizeof *set);
    if (!set) return NULL;
    set->context = context;
    set->arena.context = context;
    for (size_t i = 0; i < qf_embedded_rule_file_count; i++) {
        const qf_embedded_rule_file *file = &qf_embedded_rule_files[i];
        if (load(set, (qf_text){file->text, file->size}, file->name) == QF_OK) continue;
        destroy_set(context, set);
        return NULL;
    }
    context->rules.object = set;
    context->rules.release = destroy_set;
    return set;
}

qf_status qf_rules_load(qf_context *context, qf_text text, const char *file_name) {
    qf_rule_set *set = qf_rules_of(context);
    return set ? load(set, text, file_name) : qf_context_status(context);
}

qf_status qf_rules_load_file(qf_context *context, const char *path) {
    qf_mapping text;
    qf_status status = qf_map_file(context, path, MAX_FILE_BYTES, path, &text);
    if (status == QF_OK)
        status = qf_rules_load(context, text.data ? (qf_text){(const char *)text.data, (size_t)text.size} : QF_TEXT(""),
                               path);
    qf_unmap_file(&text);
    return status;
}

qf_rule *qf_rules_find(qf_rule_set *set, qf_text name) {
    for (uint32_t i = 0; i < set->rule_count; i++)
        if (qf_text_equal(qf_string_text(set->context, set->rules[i]->name), name)) return set->rules[i];
    return NULL;
}

qf_rule_phase *qf_rules_phase(qf_rule_set *set, qf_text name) {
    for (uint32_t i = 0; i < set->phase_count; i++)
        if (qf_text_equal(qf_string_text(set->context, set->phases[i]->name), name)) return set->phases[i];
    return NULL;
}

/* --- the loop --- */

typedef struct refusal {
    uint64_t tag;
    qf_reason reason;
    qf_node at;
    qf_string detail;
} refusal;

typedef struct runner {
    qf_graph *graph;
    const qf_rules_options *options;
    qf_report *report;
    qf_rule_phase *phase;
    qf_match match;
    bool changed;      /* in this round */
    refusal *refusals; /* of this round */
    uint32_t refusal_count, refusal_capacity;
} runner;

static bool refused(runner *r, qf_rule *rule, qf_reason reason, qf_node at, qf_string detail) {
    if (reason != QF_REASON_none && (size_t)reason < QF_COUNT_OF(rule->statistics.refused))
        rule->statistics.refused[reason]++;
    if (!r->match.attention.id || reason == QF_REASON_none) return true;
    if (!QF_GROW(r->graph->context, r->refusals, r->refusal_capacity, (uint64_t)r->refusal_count + 1)) return false;
    r->refusals[r->refusal_count++] = (refusal){qf_node_at(r->graph, r->match.attention)->tag, reason, at, detail};
    return true;
}

/* Tries the rules that start at the node's op. *next: where to go on. False on failure. */
static bool visit(runner *r, qf_node node, qf_node *next) {
    uint32_t op = (uint32_t)qf_node_op(r->graph, node);
    *next = qf_node_at(r->graph, node)->next;
    for (uint32_t i = 0; op < QF_COUNT_OF(r->phase->count) && i < r->phase->count[op]; i++) {
        qf_rule *rule = r->phase->rules[r->phase->first[op] + i];
        if (r->options->only && r->options->only->id != rule->name.id) continue;
        rule->statistics.tried++;
        if (!qf_match_at(&r->match, r->graph, rule, node)) {
            if (!refused(r, rule, r->match.refusal, r->match.refused_at, (qf_string){0})) return false;
            continue;
        }
        rule->statistics.matched++;
        qf_rewrite_result result = qf_rewrite_match(&r->match, r->options, r->report);
        if (result.outcome == QF_REWRITE_FAILED) return false;
        if (result.outcome == QF_REWRITE_DONE) {
            r->changed = true;
            *next = result.next;
            return true;
        }
        if (!refused(r, rule, result.reason, result.at, result.detail)) return false;
    }
    return true;
}

static bool run_round(runner *r) {
    r->changed = false;
    r->refusal_count = 0;
    qf_node node = r->graph->first;
    while (node.id) {
        qf_node next;
        if (!visit(r, node, &next)) return false;
        node = next;
    }
    return true;
}

/* What the last round refused, when nothing changed any more. */
static bool keep_refusals(runner *r) {
    qf_report *report = r->report;
    report->refusal_count = 0;
    if (!QF_GROW(r->graph->context, report->refusals, report->refusal_capacity, r->refusal_count)) return false;
    for (uint32_t i = 0; i < r->refusal_count; i++) {
        const refusal *found = &r->refusals[i];
        report->refusals[report->refusal_count++] =
            (qf_miss){.reason = found->reason, .tag = found->tag, .node = found->at, .detail = found->detail};
    }
    return true;
}

qf_status qf_rules_run(qf_graph *graph, const char *phase, const qf_rules_options *options, qf_report *report,
                       bool *out_changed) {
    qf_rule_set *set = qf_rules_of(graph->context);
    if (!set) return qf_context_status(graph->context);
    bool fuses = strcmp(phase, "fuse_attention_quant") == 0;
    qf_rules_options given = *options;
    if (!fuses) given.supports = NULL;
    runner r = {.graph = graph, .options = &given, .report = report, .phase = qf_rules_phase(set, qf_text_of(phase))};
    if (!r.phase) return QF_OK;
    bool good = true;
    for (uint32_t round = 0; round < MAX_ROUNDS && good; round++) {
        good = run_round(&r);
        *out_changed |= r.changed;
        if (!r.changed) break;
    }
    if (good && fuses) good = keep_refusals(&r);
    QF_FREE_ITEMS(graph->context, r.refusals, r.refusal_capacity);
    if (good) return QF_OK;
    qf_status status = qf_context_status(graph->context);
    return status != QF_OK ? status : qf_record(graph->context, QF_ERROR_INTERNAL);
}

qf_numerics qf_numerics_at(const qf_graph *graph, qf_node node, qf_numerics numerics) {
    if (numerics != QF_NUMERICS_DEFAULT) return numerics;
    qf_op op = qf_node_op(graph, node);
    uint32_t k = op == QF_OP_attention ? QF_IN(attention, k) : QF_IN(paged_attention, k_cache);
    uint32_t v = op == QF_OP_attention ? QF_IN(attention, v) : QF_IN(paged_attention, v_cache);
    if (op != QF_OP_attention && op != QF_OP_paged_attention) return QF_NUMERICS_ROUNDING;
    bool stored = qf_dtype_is_float8(qf_value_dtype(graph, qf_node_operand(graph, node, k))) &&
                  qf_dtype_is_float8(qf_value_dtype(graph, qf_node_operand(graph, node, v)));
    return stored ? QF_NUMERICS_QUANTISING : QF_NUMERICS_ROUNDING;
}
