/* Owns: the engine's guarantees, and building, checking and committing the right side of a rule.
 * Does not own: matching (match.c), moving users that stand too early (reorder.c).
 * Next: engine.c. */
#include "patterns/rewrite.h"

#include <string.h>

#include "base/convert.h"
#include "patterns/reorder.h"

#define MAX_LOCATIONS      32
#define MAX_LOCATION_DEPTH 8
#define MAX_BUILT          (QF_RULE_MAX_NODES * 4 + QF_RULE_MAX_CHAINS * QF_CHAIN_MAX)

typedef struct rewriter {
    const qf_match *match;
    qf_graph *graph;
    const qf_rule *rule;
    const qf_rules_options *options;
    qf_report *report;
    qf_node root;                      /* the last matched node; new nodes go before it */
    qf_value made[QF_RULE_MAX_VALUES]; /* what the right side defined so far */
    qf_node built[MAX_BUILT];
    uint32_t built_count;
    qf_location location;
    bool tag_given[QF_RULE_MAX_NODES]; /* the tag of this before-node went to a new node */
    bool root_tag_given;
    qf_rewrite_result result;
} rewriter;

static bool refuse(rewriter *r, qf_reason reason, qf_node at) {
    r->result.outcome = QF_REWRITE_REFUSED;
    r->result.reason = reason;
    r->result.at = at;
    return false;
}

static bool failed(rewriter *r) {
    r->result.outcome = QF_REWRITE_FAILED;
    return false;
}

/* --- guarantees --- */

static bool in_match(const qf_match *match, qf_node node) {
    for (uint32_t i = 0; i < match->rule->before_count; i++)
        if (match->nodes[i].id == node.id) return true;
    for (uint32_t c = 0; c < match->rule->chain_count; c++)
        for (uint32_t i = 0; i < match->chains[c].count; i++)
            if (match->chains[c].nodes[i].id == node.id) return true;
    return false;
}

/* Users looked at after the first one outside, for the graph's return. */
#define MAX_MORE_USERS 64

static bool only_used_inside(rewriter *r, qf_value value, qf_node producer) {
    bool output = false, other = false;
    uint32_t more = 0;
    QF_FOR_EACH_USE(r->graph, value, use) {
        if (in_match(r->match, use->user)) continue;
        *(qf_node_op(r->graph, use->user) == QF_OP_return ? &output : &other) = true;
        if (output || ++more > MAX_MORE_USERS) break;
    }
    if (output) return refuse(r, QF_REASON_graph_output, producer);
    return other ? refuse(r, QF_REASON_other_users, producer) : true;
}

static bool is_replaced(const qf_rule *rule, uint32_t node, uint32_t result) {
    const qf_rule_node *before = &rule->before[node];
    return result < before->result_count && rule->values[before->results[result]].after != QF_NO_INDEX;
}

static bool nothing_leaves_the_match(rewriter *r) {
    const qf_rule *rule = r->rule;
    for (uint32_t n = 0; n < rule->before_count; n++) {
        if (rule->before[n].keep) continue;
        const qf_node_data *data = qf_node_at(r->graph, r->match->nodes[n]);
        for (uint32_t i = 0; i < data->result_count; i++)
            if (!is_replaced(rule, n, i) && !only_used_inside(r, qf_result_at(data, i), r->match->nodes[n]))
                return false;
    }
    for (uint32_t c = 0; c < rule->chain_count; c++) {
        uint32_t producer = rule->values[rule->chains[c].value].before;
        if (producer == QF_NO_INDEX || rule->before[producer].keep) continue;
        for (uint32_t i = 0; i < r->match->chains[c].count; i++) {
            qf_node node = r->match->chains[c].nodes[i];
            if (!only_used_inside(r, qf_node_result(r->graph, node, 0), node)) return false;
        }
    }
    return true;
}

/* A rewrite that replaces values without uses would repeat for ever. */
static bool replaces_something(const rewriter *r) {
    for (uint32_t v = 0; v < r->rule->value_count; v++)
        if (r->rule->values[v].after != QF_NO_INDEX && r->rule->values[v].before != QF_NO_INDEX &&
            r->match->values[v].id && qf_value_at(r->graph, r->match->values[v])->use_count)
            return true;
    return false;
}

/* --- building --- */

static bool keep_built(rewriter *r, qf_node node) {
    if (!node.id) return failed(r);
    if (r->built_count == MAX_BUILT) return failed(r);
    r->built[r->built_count++] = node;
    return true;
}

static qf_value scalar_constant(rewriter *r, qf_dtype dtype, double number) {
    unsigned char bytes[8] = {0};
    qf_context *context = r->graph->context;
    qf_literal literal = {qf_type_tensor(context, dtype, NULL, 0), qf_dtype_bytes(dtype, 1), bytes};
    if (!literal.type.id || !literal.size) {
        (void)failed(r);
        return (qf_value){0};
    }
    qf_store_f64(dtype, bytes, 0, number, true);
    qf_attribute attribute = {.literal = &literal};
    qf_node_spec spec = {
        .op = QF_OP_constant, .attributes = &attribute, .result_types = &literal.type, .location = r->location};
    qf_node node = qf_graph_insert(r->graph, r->root, &spec);
    return keep_built(r, node) ? qf_node_result(r->graph, node, 0) : (qf_value){0};
}

static qf_value current(const rewriter *r, uint32_t value) {
    return r->rule->values[value].after != QF_NO_INDEX ? r->made[value] : r->match->values[value];
}

/* `value` through copies of the chain's nodes, from the producer's end; `name` goes to the last. */
static qf_value replay(rewriter *r, uint32_t chain, qf_value value, qf_string name) {
    for (uint32_t i = r->match->chains[chain].count; i-- > 0 && value.id;) {
        qf_node old = r->match->chains[chain].nodes[i];
        const qf_node_data *data = qf_node_at(r->graph, old);
        qf_string none = {0};
        qf_node_spec spec = {.op = data->op,
                             .operands = &value,
                             .operand_count = 1,
                             .attributes = data->attributes,
                             .result_names = i == 0 ? &name : &none,
                             .location = data->location,
                             .tag = data->tag};
        qf_node node = qf_graph_insert(r->graph, r->root, &spec);
        value = keep_built(r, node) ? qf_node_result(r->graph, node, 0) : (qf_value){0};
    }
    return value;
}

static bool build_operand(rewriter *r, const qf_rule_node *node, uint32_t index, qf_dtype dtype, qf_value *out) {
    const qf_operand_pattern *pattern = &node->operands[index];
    *out = (qf_value){0};
    switch (pattern->kind) {
    case QF_PATTERN_ABSENT: return true;
    case QF_PATTERN_VALUE: *out = current(r, pattern->value); return true;
    case QF_PATTERN_REST: *out = qf_node_operand(r->graph, r->match->nodes[node->source], index); return true;
    case QF_PATTERN_REPLAY: *out = replay(r, pattern->chain, current(r, pattern->value), (qf_string){0}); break;
    case QF_PATTERN_UNIFORM: *out = scalar_constant(r, dtype, r->match->variables[pattern->variable].number); break;
    case QF_PATTERN_NUMBER: *out = scalar_constant(r, dtype, pattern->number); break;
    }
    return out->id || failed(r);
}

static void build_attributes(rewriter *r, const qf_rule_node *node, qf_attribute *out) {
    qf_attributes_default(r->graph, node->op, out);
    for (uint32_t i = 0; i < node->info->attribute_count; i++) {
        const qf_attribute_pattern *pattern = &node->attributes[i];
        if (pattern->kind == QF_PATTERN_LITERAL) out[i] = pattern->literal;
        if (pattern->kind == QF_PATTERN_VARIABLE) out[i] = r->match->variables[pattern->variable];
        if (pattern->kind == QF_PATTERN_REST_ATTRIBUTE)
            out[i] = *qf_node_attribute(r->graph, r->match->nodes[node->source], i);
    }
}

static qf_string name_of_replaced(const rewriter *r, uint32_t value) {
    bool replaces = r->rule->values[value].before != QF_NO_INDEX && r->match->values[value].id;
    return replaces ? qf_value_at(r->graph, r->match->values[value])->name : (qf_string){0};
}

/* The new node stands for the old one of the same op (an attention stays the host's attention); else the one that
 * defines the anchor's result stands for the anchor. */
static uint64_t choose_tag(rewriter *r, const qf_rule_node *node) {
    for (uint32_t n = 0; n < r->rule->before_count; n++)
        if (r->rule->before[n].op == node->op && !r->rule->before[n].keep && !r->tag_given[n]) {
            r->tag_given[n] = true;
            return qf_node_at(r->graph, r->match->nodes[n])->tag;
        }
    uint32_t anchor = r->rule->anchor;
    for (uint32_t i = 0; i < node->result_count; i++)
        if (r->rule->values[node->results[i]].before == anchor && !r->tag_given[anchor] &&
            !r->rule->before[anchor].keep) {
            r->tag_given[anchor] = true;
            return qf_node_at(r->graph, r->match->nodes[anchor])->tag;
        }
    return 0;
}

/* A new value without a name takes that of what it replaces. */
static void inherit_name(rewriter *r, uint32_t replaced, qf_value value) {
    qf_value_data *data = qf_value_at(r->graph, value);
    for (uint32_t i = 0; i < r->built_count; i++)
        if (data->producer.id == r->built[i].id && !data->name.id) data->name = name_of_replaced(r, replaced);
}

static bool build_alias(rewriter *r, const qf_rule_node *node) {
    const qf_operand_pattern *from = &node->operands[0];
    qf_value value = current(r, from->value);
    if (from->kind == QF_PATTERN_REPLAY) value = replay(r, from->chain, value, name_of_replaced(r, node->results[0]));
    r->made[node->results[0]] = value;
    if (value.id) inherit_name(r, node->results[0], value);
    return value.id || failed(r);
}

#define MAX_OPERANDS 24

static bool build_node(rewriter *r, const qf_rule_node *node) {
    if (!node->op) return build_alias(r, node);
    qf_value operands[MAX_OPERANDS];
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_string names[QF_RULE_MAX_RESULTS];
    qf_dtype dtype = QF_F32; /* of constants that the node reads: that of its first tensor */
    for (uint32_t i = 0; i < node->operand_count; i++) {
        if (!build_operand(r, node, i, dtype, &operands[i])) return false;
        if (i == 0 && operands[0].id) dtype = qf_value_dtype(r->graph, operands[0]);
    }
    build_attributes(r, node, attributes);
    qf_node_spec spec = {.op = node->op,
                         .operands = operands,
                         .operand_count = node->operand_count,
                         .attributes = attributes,
                         .result_names = names,
                         .location = r->location,
                         .tag = choose_tag(r, node)};
    for (uint32_t i = 0; i < node->result_count; i++) {
        if (node->result_optional[i] && !r->match->values[node->results[i]].id) break;
        names[spec.result_count++] = name_of_replaced(r, node->results[i]);
    }
    qf_node built = qf_graph_insert(r->graph, r->root, &spec);
    if (!keep_built(r, built)) return false;
    for (uint32_t i = 0; i < spec.result_count; i++) r->made[node->results[i]] = qf_node_result(r->graph, built, i);
    return true;
}

/* The source places that a location stands for, each once; what earlier rewrites fused is taken apart again. */
static void add_leaves(const qf_graph *graph, qf_location location, qf_location *leaves, uint32_t *count,
                       uint32_t depth) {
    const qf_location_data *data = &graph->locations[location.id];
    if (!location.id || depth > MAX_LOCATION_DEPTH) return;
    for (uint32_t i = 0; i < data->part_count; i++) add_leaves(graph, data->parts[i], leaves, count, depth + 1);
    if (data->part_count) return;
    for (uint32_t i = 0; i < *count; i++)
        if (leaves[i].id == location.id) return;
    if (*count < MAX_LOCATIONS) leaves[(*count)++] = location;
}

static bool fuse_locations(rewriter *r) {
    qf_location parts[MAX_LOCATIONS];
    uint32_t count = 0;
    for (uint32_t n = 0; n < r->rule->before_count; n++)
        if (!r->rule->before[n].keep)
            add_leaves(r->graph, qf_node_at(r->graph, r->match->nodes[n])->location, parts, &count, 0);
    if (count) r->location = qf_location_fuse(r->graph, r->rule->name, parts, count);
    return !count || r->location.id || failed(r);
}

/* --- checking what was built --- */

static bool types_agree(rewriter *r) {
    for (uint32_t v = 0; v < r->rule->value_count; v++) {
        if (r->rule->values[v].before == QF_NO_INDEX || r->rule->values[v].after == QF_NO_INDEX) continue;
        if (!r->match->values[v].id) continue;
        if (!qf_type_equal(qf_value_type(r->graph, r->match->values[v]), qf_value_type(r->graph, r->made[v])))
            return refuse(r, r->match->attention.id ? QF_REASON_layout_between : QF_REASON_none,
                          r->match->nodes[r->rule->anchor]);
    }
    return true;
}

static bool target_runs_it(rewriter *r) {
    char reason[256] = "";
    for (uint32_t i = 0; r->options->supports && i < r->built_count; i++) {
        if (r->options->supports(r->options->supports_user, r->graph, r->built[i], reason, sizeof reason)) continue;
        if (reason[0]) r->result.detail = qf_intern_c(r->graph->context, reason);
        return refuse(r, QF_REASON_target, r->match->nodes[r->rule->anchor]);
    }
    return true;
}

static void undo(rewriter *r) {
    while (r->built_count) qf_graph_erase(r->graph, r->built[--r->built_count]);
}

/* --- committing --- */

static bool is_dead(const qf_graph *graph, qf_node node) {
    const qf_node_data *data = qf_node_at(graph, node);
    if (data->erased || !qf_op_has_trait(data->op, QF_TRAIT_PURE)) return false;
    for (uint32_t i = 0; i < data->result_count; i++)
        if (qf_value_at(graph, qf_result_at(data, i))->use_count) return false;
    return true;
}

#define MAX_PENDING 256

/* Erases the node if it is dead, then what only it used. What does not fit in the list is left to dce. */
static void erase_dead(qf_graph *graph, qf_node node) {
    qf_node pending[MAX_PENDING] = {node};
    uint32_t count = 1;
    while (count) {
        qf_node dead = pending[--count];
        if (!is_dead(graph, dead)) continue;
        const qf_node_data *data = qf_node_at(graph, dead);
        for (uint32_t i = 0; i < data->operand_count && count < MAX_PENDING; i++) {
            qf_node producer = qf_value_producer(graph, data->operands[i].value);
            if (producer.id) pending[count++] = producer;
        }
        qf_graph_erase(graph, dead);
    }
}

static void replace_uses(rewriter *r) {
    for (uint32_t v = 0; v < r->rule->value_count; v++)
        if (r->rule->values[v].before != QF_NO_INDEX && r->rule->values[v].after != QF_NO_INDEX &&
            r->match->values[v].id)
            qf_graph_replace_all_uses(r->graph, r->match->values[v], r->made[v]);
}

static void erase_matched(rewriter *r) {
    qf_node next = qf_node_at(r->graph, r->root)->next;
    r->result.next = r->built_count ? r->built[0] : next;
    for (uint32_t c = 0; c < r->rule->chain_count; c++)
        for (uint32_t i = 0; i < r->match->chains[c].count; i++) erase_dead(r->graph, r->match->chains[c].nodes[i]);
    erase_dead(r->graph, r->root);
    for (uint32_t n = 0; n < r->rule->before_count; n++)
        if (!qf_node_at(r->graph, r->match->nodes[n])->erased) erase_dead(r->graph, r->match->nodes[n]);
    for (uint32_t c = 0; c < r->rule->chain_count; c++)
        for (uint32_t i = 0; i < r->match->chains[c].count; i++) erase_dead(r->graph, r->match->chains[c].nodes[i]);
    if (qf_node_at(r->graph, r->result.next)->erased) r->result.next = next;
}

static bool record(rewriter *r, uint32_t number, uint64_t tag) {
    r->match->rule->statistics.rewritten++;
    qf_rewrite rewrite = {.number = number,
                          .rule = r->rule->name,
                          .numerics = r->rule->numerics,
                          .tag = tag,
                          .location = r->location,
                          .note = r->rule->doc};
    return qf_report_rewrite(r->report, &rewrite) || failed(r);
}

static uint64_t tag_of_site(const rewriter *r) {
    qf_node node = r->match->attention.id ? r->match->attention : r->match->nodes[r->rule->anchor];
    return qf_node_at(r->graph, node)->tag;
}

static bool run(rewriter *r) {
    if (!replaces_something(r) || !nothing_leaves_the_match(r)) return false;
    qf_numerics allowed = qf_numerics_at(r->graph, r->match->attention, r->options->numerics);
    if (r->rule->numerics > allowed) return refuse(r, QF_REASON_numerics_class, r->match->nodes[r->rule->anchor]);
    if (!fuse_locations(r)) return false;
    for (uint32_t n = 0; n < r->rule->after_count; n++)
        if (!build_node(r, &r->rule->after[n])) return false;
    qf_reorder order = {.graph = r->graph, .match = r->match, .after = r->root, .made = r->made};
    if (!types_agree(r) || !target_runs_it(r)) return false;
    if (!qf_reorder_plan(&order)) return order.failed ? failed(r) : refuse(r, QF_REASON_other_users, order.blocking);
    uint64_t tag = tag_of_site(r);
    uint32_t number = r->report->next_number;
    if (!qf_report_may_rewrite(r->report)) {
        qf_reorder_destroy(&order);
        return refuse(r, QF_REASON_rewrite_limit, r->match->nodes[r->rule->anchor]);
    }
    qf_reorder_commit(&order);
    replace_uses(r);
    erase_matched(r);
    return record(r, number, tag);
}

qf_rewrite_result qf_rewrite_match(const qf_match *match, const qf_rules_options *options, qf_report *report) {
    rewriter r = {.match = match,
                  .graph = match->graph,
                  .rule = match->rule,
                  .options = options,
                  .report = report,
                  .root = match->nodes[match->rule->anchor],
                  .result = {.outcome = QF_REWRITE_DONE}};
    r.result.at = r.root;
    for (uint32_t n = 0; n < match->rule->before_count; n++)
        if (qf_node_before(match->graph, r.root, match->nodes[n])) r.root = match->nodes[n];
    if (!run(&r)) {
        if (r.result.outcome == QF_REWRITE_DONE) r.result.outcome = QF_REWRITE_REFUSED;
        undo(&r);
    }
    return r.result;
}
