/* Owns: docs/ops.md, made from the tables of spec/.
 * Does not own: the tables, the language that the signatures are written in (docs/ir.md).
 * Next: spec/ops.def. Usage: generate_ops > docs/ops.md, or generate_ops docs/ops.md to compare. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spec/spec.h"

static const char *kind_name(const qf_attribute_info *attribute) {
    static const char *const names[] = {"bool", "int", "float", "dtype", "", "dim", "dims", "ints", "string", "tensor"};
    return attribute->kind == QF_ATTRIBUTE_ENUM ? attribute->enumeration->name : names[attribute->kind];
}

static void print_signature(FILE *out, const qf_op_info *op) {
    (void)fprintf(out, "```\n");
    for (uint32_t i = 0; i < op->result_count; i++) {
        const qf_result_info *result = &op->results[i];
        const char *tail = result->kind == QF_RESULT_SEVERAL ? "..." : result->kind == QF_RESULT_OPTIONAL ? "?" : "";
        (void)fprintf(out, "%s%%%s%s", i ? ", " : "", result->name, tail);
    }
    (void)fprintf(out, "%s%s", op->result_count ? " = " : "", op->name);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const qf_operand_info *operand = &op->operands[i];
        const char *before = i ? ", " : " ";
        if (operand->kind == QF_OPERAND_OPTIONAL)
            (void)fprintf(out, "%s%s=%%%s?", before, operand->name, operand->name);
        else
            (void)fprintf(out, "%s%%%s%s", before, operand->name, operand->kind == QF_OPERAND_MANY ? "..." : "");
    }
    const char *before = " {";
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        if (op->attributes[i].default_text) continue;
        (void)fprintf(out, "%s%s=...", before, op->attributes[i].name);
        before = ", ";
    }
    (void)fprintf(out, "%s\n```\n", before[0] == ',' ? "}" : "");
}

static void print_traits(FILE *out, const qf_op_info *op) {
    static const struct {
        qf_trait trait;
        const char *name;
    } traits[] = {{QF_TRAIT_PURE, "pure"},
                  {QF_TRAIT_ELEMENTWISE, "elementwise"},
                  {QF_TRAIT_FLOATING, "of floats"},
                  {QF_TRAIT_TRUTH, "gives i1"},
                  {QF_TRAIT_COMMUTATIVE, "commutative"},
                  {QF_TRAIT_LAYOUT, "layout"},
                  {QF_TRAIT_QUANTISING, "quantising"},
                  {QF_TRAIT_SHAPE_ONLY, "reads the shape only"},
                  {QF_TRAIT_TERMINATOR, "terminator"}};
    (void)fprintf(out, "\nNumber %d", (int)op->op);
    for (size_t i = 0; i < QF_COUNT_OF(traits); i++)
        if (op->traits & (uint32_t)traits[i].trait) (void)fprintf(out, ", %s", traits[i].name);
    (void)fprintf(out, ".\n");
}

static void print_op(FILE *out, const qf_op_info *op) {
    (void)fprintf(out, "\n## %s\n\n%s\n\n", op->name, op->doc);
    print_signature(out, op);
    if (op->attribute_count) (void)fprintf(out, "\n| attribute | kind | default |\n|---|---|---|\n");
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        const qf_attribute_info *attribute = &op->attributes[i];
        const char *usual = attribute->default_text;
        (void)fprintf(out, "| `%s` | %s | %s%s%s |\n", attribute->name, kind_name(attribute), usual ? "`" : "",
                      usual ? usual : "required", usual ? "`" : "");
    }
    print_traits(out, op);
}

static void print_enum(FILE *out, const qf_enum_info *info) {
    (void)fprintf(out, "| %s |", info->name);
    for (uint32_t i = 0; i < info->value_count; i++)
        (void)fprintf(out, "%s `%s` (%d)", i ? "," : "", info->values[i].name, (int)info->values[i].number);
    (void)fprintf(out, " |\n");
}

static void print_all(FILE *out) {
    uint32_t count;
    const qf_op_info *ops = qf_op_table(&count);
    (void)fprintf(out,
                  "# Ops\n\nMade from `spec/ops.def` by `docs/generate/ops.c`; do not edit (`ninja generate_docs`). "
                  "How ops are written: [ir.md](ir.md).\nNumbers are for ever: plans and hosts store them.\n\n");
    for (uint32_t i = 0; i < count; i++) (void)fprintf(out, "%s[%s](#%s)", i ? ", " : "", ops[i].name, ops[i].name);
    (void)fprintf(out, "\n\n## Values of enumerations\n\n| kind | values (number) |\n|---|---|\n");
#define ENUM(name, values) print_enum(out, &qf_enum_##name);
#define VALUE(number, name)
#include "spec/enums.def"
#undef ENUM
#undef VALUE
    for (uint32_t i = 0; i < count; i++) print_op(out, &ops[i]);
}

/* True where the file holds exactly what would be written. */
static int is_in_sync(const char *path) {
    FILE *made = tmpfile(), *file = fopen(path, "rb");
    if (!made || !file) {
        (void)fprintf(stderr, "generate_ops: cannot open %s\n", path);
        return 0;
    }
    print_all(made);
    rewind(made);
    int a, b, line = 1;
    do {
        a = fgetc(made);
        b = fgetc(file);
        line += a == '\n' && a == b;
    } while (a == b && a != EOF);
    if (a != b) (void)fprintf(stderr, "%s differs from the tables in line %d; run `ninja generate_docs`\n", path, line);
    (void)fclose(made);
    (void)fclose(file);
    return a == b;
}

int main(int count, char **arguments) {
    if (count > 1) return is_in_sync(arguments[1]) ? 0 : 1;
    print_all(stdout);
    return 0;
}
