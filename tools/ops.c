/* Owns: `qfuse ops`: the op table on a terminal.
 * Does not own: the table (spec/ops.def).
 * Next: docs/ops.md. */
#include "tools/tool.h"

static const char *attribute_kind_name(const qf_attribute_info *info) {
    static const char *const names[] = {"bool", "int", "float", "dtype", "", "dim", "dims", "ints", "string", "tensor"};
    return info->kind == QF_ATTRIBUTE_ENUM ? info->enumeration->name : names[info->kind];
}

static void print_op(const qf_op_info *info) {
    (void)printf("%s: %s\n", info->name, info->doc);
    for (uint32_t i = 0; i < info->operand_count; i++) {
        static const char *const kinds[] = {"", " (optional)", " (any number)"};
        (void)printf("  operand   %s%s\n", info->operands[i].name, kinds[info->operands[i].kind]);
    }
    for (uint32_t i = 0; i < info->result_count; i++) {
        static const char *const kinds[] = {"", " (optional)", " (any number)"};
        (void)printf("  result    %s%s\n", info->results[i].name, kinds[info->results[i].kind]);
    }
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        const qf_attribute_info *attribute = &info->attributes[i];
        (void)printf("  attribute %s: %s", attribute->name, attribute_kind_name(attribute));
        for (uint32_t v = 0; attribute->enumeration && v < attribute->enumeration->value_count; v++)
            (void)printf("%s%s", v ? "|" : " ", attribute->enumeration->values[v].name);
        if (attribute->default_text)
            (void)printf(" = %s\n", *attribute->default_text ? attribute->default_text : "\"\"");
        else
            (void)printf(" (required)\n");
    }
}

int tool_ops(qf_tool *tool) {
    uint32_t count;
    const qf_op_info *table = qf_op_table(&count);
    if (!tool->options.file_count) {
        for (uint32_t i = 0; i < count; i++) (void)printf("%-28s %s\n", table[i].name, table[i].doc);
        return TOOL_OK;
    }
    for (uint32_t i = 0; i < tool->options.file_count; i++) {
        const qf_op_info *info = qf_op_info_of(qf_op_from_name(qf_text_of(tool->options.files[i])));
        if (!info) {
            (void)qf_fail(tool->context, QF_ERROR_NOT_FOUND, NULL, "no op is called '%s'; `qfuse ops` lists them",
                          tool->options.files[i]);
            return TOOL_FAILED;
        }
        print_op(info);
    }
    return TOOL_OK;
}
