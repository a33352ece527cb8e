/* Owns: element types and tensor types of MLIR as QFuse's, and back.
 * Does not own: what a value is (operations.c).
 * Next: import.h. */
#include <stdio.h>
#include <string.h>

#include "frontends/mlir/build.h"

typedef struct short_text {
    char data[64];
    size_t size;
    bool overflow;
} short_text;

static void append_short(MlirStringRef part, void *user) {
    short_text *text = user;
    if (part.length >= sizeof text->data - text->size) {
        text->overflow = true;
        return;
    }
    memcpy(text->data + text->size, part.data, part.length);
    text->size += part.length;
    text->data[text->size] = '\0';
}

typedef struct dtype_name {
    const char *name;
    qf_dtype dtype;
} dtype_name;

/* The first row of a dtype is how it is written back. */
static const dtype_name names[] = {{"f32", QF_F32},
                                   {"f16", QF_F16},
                                   {"bf16", QF_BF16},
                                   {"f64", QF_F64},
                                   {"f8E4M3FN", QF_F8E4M3FN},
                                   {"f8E5M2", QF_F8E5M2},
                                   {"f8E4M3FNUZ", QF_F8E4M3FNUZ},
                                   {"f8E5M2FNUZ", QF_F8E5M2FNUZ},
                                   {"f8E8M0FNU", QF_F8E8M0FNU},
                                   {"f4E2M1FN", QF_F4E2M1FN},
                                   {"i1", QF_I1},
                                   {"i8", QF_I8},
                                   {"ui8", QF_U8},
                                   {"i32", QF_I32},
                                   {"i64", QF_I64},
                                   {"si8", QF_I8},
                                   {"si32", QF_I32},
                                   {"si64", QF_I64},
                                   {"index", QF_I64}};

qf_dtype qf_mlir_dtype(MlirType element) {
    short_text text = {{0}, 0, false};
    mlirTypePrint(element, append_short, &text);
    for (size_t i = 0; !text.overflow && i < QF_COUNT_OF(names); i++)
        if (strcmp(names[i].name, text.data) == 0) return names[i].dtype;
    return QF_DTYPE_NONE;
}

static qf_type unknown_type(qf_context *context) {
    return qf_type_tensor(context, QF_DTYPE_NONE, NULL, QF_UNRANKED);
}

/* Bounds of dynamic dims change nothing; sparse and other encodings change what the elements are. */
static bool plain_encoding(MlirType type) {
    MlirAttribute encoding = mlirRankedTensorTypeGetEncoding(type);
    if (mlirAttributeIsNull(encoding)) return true;
    short_text text = {{0}, 0, false};
    mlirAttributePrint(encoding, append_short, &text);
    return strncmp(text.data, "#stablehlo.bounds", 17) == 0;
}

static qf_type tensor_type(qf_mlir_import_state *import, MlirType type, bool *out_fixed) {
    qf_context *context = import->context;
    qf_dtype dtype = qf_mlir_dtype(mlirShapedTypeGetElementType(type));
    if (!plain_encoding(type)) return unknown_type(context);
    int64_t rank = mlirShapedTypeGetRank(type);
    if (rank > QF_MAX_RANK) return qf_type_tensor(context, dtype, NULL, QF_UNRANKED);
    qf_dim dims[QF_MAX_RANK];
    for (int64_t i = 0; i < rank; i++) {
        bool dynamic = mlirShapedTypeIsDynamicDim(type, i);
        *out_fixed &= !dynamic;
        dims[i] = dynamic ? qf_dim_fresh(context, "d") : qf_dim_constant(context, mlirShapedTypeGetDimSize(type, i));
        if (!dims[i].id) return (qf_type){0};
    }
    return qf_type_tensor(context, dtype, dims, (uint32_t)rank);
}

static bool same_key(const void *owner, uint32_t id, const void *key) {
    return ((const qf_mlir_import_state *)owner)->types[id].key == key;
}

qf_type qf_mlir_type(qf_mlir_import_state *import, MlirType type) {
    uint64_t hash = qf_hash_mix(0x7e57, (uint64_t)(uintptr_t)type.ptr);
    uint32_t known = qf_index_find(&import->type_index, hash, same_key, import, type.ptr);
    if (known) return import->types[known].type;
    bool fixed = true; /* a dim that is not known is another one each time */
    qf_type made;
    if (mlirTypeIsARankedTensor(type))
        made = tensor_type(import, type, &fixed);
    else if (mlirTypeIsAUnrankedTensor(type))
        made = qf_type_tensor(import->context, qf_mlir_dtype(mlirShapedTypeGetElementType(type)), NULL, QF_UNRANKED);
    else if (qf_mlir_dtype(type) != QF_DTYPE_NONE)
        made = qf_type_tensor(import->context, qf_mlir_dtype(type), NULL, 0);
    else
        made = unknown_type(import->context);
    if (!made.id || !fixed) return made;
    uint32_t id = import->type_count ? import->type_count : 1;
    if (!QF_GROW(import->context, import->types, import->type_capacity, (uint64_t)id + 1)) return (qf_type){0};
    import->types[id] = (struct qf_mlir_typed){type.ptr, made};
    import->type_count = id + 1;
    return qf_index_add(import->context, &import->type_index, hash, id) ? made : (qf_type){0};
}

MlirType qf_mlir_type_back(MlirContext context, const qf_context *qfuse, qf_type type) {
    MlirType none = {NULL};
    char text[512];
    uint32_t rank = qf_type_rank(qfuse, type);
    const char *name = NULL;
    for (size_t i = 0; !name && i < QF_COUNT_OF(names); i++)
        if (names[i].dtype == qf_type_dtype(qfuse, type)) name = names[i].name;
    if (!name) return none;
    size_t used = (size_t)snprintf(text, sizeof text, rank == QF_UNRANKED ? "tensor<*x" : "tensor<");
    for (uint32_t i = 0; rank != QF_UNRANKED && i < rank; i++) {
        int64_t size;
        bool fixed = qf_dim_is_constant(qfuse, qf_type_dims(qfuse, type)[i], &size);
        used += (size_t)(fixed ? snprintf(text + used, sizeof text - used, "%lldx", (long long)size)
                               : snprintf(text + used, sizeof text - used, "?x"));
    }
    (void)snprintf(text + used, sizeof text - used, "%s>", name);
    return mlirTypeParseGet(context, qf_mlir_string(text));
}
