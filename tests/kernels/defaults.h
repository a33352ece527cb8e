/* Owns: an attribute of a kernel call as its default says.
 * Does not own: calls (kernel_check.h, cuda_check.h).
 * Next: spec/spec.h. */
#ifndef QF_TESTS_KERNELS_DEFAULTS_H
#define QF_TESTS_KERNELS_DEFAULTS_H

#include "tests/check.h"

#include "kernels/kernel.h"

static inline void kernel_default(qf_kernel_attribute *attribute, const qf_attribute_info *info) {
    const char *text = info->default_text;
    if (!text) return;
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: attribute->integer = strcmp(text, "true") == 0; return;
    case QF_ATTRIBUTE_FLOAT: attribute->number = strtod(text, NULL); return;
    case QF_ATTRIBUTE_DTYPE: attribute->integer = qf_dtype_from_name(text); return;
    case QF_ATTRIBUTE_ENUM: attribute->integer = qf_enum_number(info->enumeration, qf_text_of(text)); return;
    case QF_ATTRIBUTE_STRING: attribute->string = ""; return;
    default: attribute->integer = strtoll(text, NULL, 10); return;
    }
}

#endif
