/* Owns: `qfuse rules`: listing, checking, showing and testing rules.
 * Does not own: the language (docs/rules.md), the checks (patterns/rule_check.c).
 * Next: docs/howto/add-a-fusion.md. */
#include <string.h>

#include "patterns/rules.h"
#include "tools/rule_test.h"
#include "tools/tool.h"

static void print_rule(qf_tool *tool, const qf_rule *rule) {
    qf_context *context = tool->context;
    (void)printf("%-36s %-22s %-10s %s\n", qf_string_c(context, rule->name), qf_string_c(context, rule->phase),
                 qf_numerics_name(rule->numerics), qf_string_c(context, rule->doc));
}

static int list(qf_tool *tool) {
    const qf_rule_set *set = qf_rules_of(tool->context);
    for (uint32_t i = 0; set && i < set->rule_count; i++) print_rule(tool, set->rules[i]);
    return set ? TOOL_OK : TOOL_FAILED;
}

static int check(qf_tool *tool) {
    const qf_rule_set *set = qf_rules_of(tool->context);
    if (!set) return TOOL_FAILED;
    uint32_t built_in = set->rule_count;
    for (uint32_t i = 1; i < tool->options.file_count; i++)
        if (qf_rules_load_file(tool->context, tool->options.files[i]) != QF_OK) return TOOL_FAILED;
    for (uint32_t i = built_in; i < set->rule_count; i++) print_rule(tool, set->rules[i]);
    (void)printf("%u rules are well formed\n", set->rule_count - built_in);
    return TOOL_OK;
}

static int show(qf_tool *tool) {
    qf_rule_set *set = qf_rules_of(tool->context);
    for (uint32_t i = 1; set && i < tool->options.file_count; i++) {
        const qf_rule *rule = qf_rules_find(set, qf_text_of(tool->options.files[i]));
        if (!rule) {
            (void)qf_fail(tool->context, QF_ERROR_NOT_FOUND, NULL,
                          "no rule is called '%s'; `qfuse rules list` lists them", tool->options.files[i]);
            return TOOL_FAILED;
        }
        print_rule(tool, rule);
        (void)printf("  from %s:%u, benefit %u, %u nodes before, %u after\n", qf_string_c(tool->context, rule->file),
                     rule->line, rule->benefit, rule->before_count, rule->after_count);
    }
    return set ? TOOL_OK : TOOL_FAILED;
}

/* A rule's name, or a file whose rules are loaded and all tested; without either, every rule. */
static int test(qf_tool *tool) {
    qf_rule_set *set = qf_rules_of(tool->context);
    if (!set) return TOOL_FAILED;
    const char *what = tool->options.file_count > 1 ? tool->options.files[1] : NULL;
    qf_rule *only = what ? qf_rules_find(set, qf_text_of(what)) : NULL;
    uint32_t first = 0;
    if (only) return tool_test_rule(tool, only);
    if (what) {
        first = set->rule_count;
        if (qf_rules_load_file(tool->context, what) != QF_OK) return TOOL_FAILED;
    }
    int worst = TOOL_OK;
    for (uint32_t i = first; i < set->rule_count; i++) {
        int code = tool_test_rule(tool, set->rules[i]);
        if (code != TOOL_OK) worst = code;
        tool_progress(tool, "testing rules", i - first, set->rule_count - first);
    }
    return worst;
}

int tool_rules(qf_tool *tool) {
    const char *what = tool->options.file_count ? tool->options.files[0] : "list";
    if (strcmp(what, "list") == 0) return list(tool);
    if (strcmp(what, "check") == 0 && tool->options.file_count > 1) return check(tool);
    if (strcmp(what, "show") == 0 && tool->options.file_count > 1) return show(tool);
    if (strcmp(what, "test") == 0) return test(tool);
    (void)fprintf(stderr,
                  "error: expected list, check FILE, show NAME, or test [NAME|FILE]; see `qfuse rules --help`\n");
    return TOOL_USAGE;
}
