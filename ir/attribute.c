/* Owns: whether attributes are the same bit for bit, hashes that agree with it, and copies into an arena.
 * Does not own: equality as numbers or sizes (patterns/facts.c), what attributes mean (spec/ops.def).
 * Next: graph.h. */
#include <string.h>

#include "ir/graph.h"

uint64_t qf_attribute_hash(qf_attribute_kind kind, const qf_attribute *attribute, uint64_t hash) {
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: return qf_hash_bytes(&attribute->number, sizeof attribute->number, hash);
    case QF_ATTRIBUTE_DIM: return qf_hash_mix(hash, attribute->dim.id);
    case QF_ATTRIBUTE_STRING: return qf_hash_mix(hash, attribute->string.id);
    case QF_ATTRIBUTE_DIMS: return qf_hash_bytes(attribute->dims, attribute->count * sizeof(qf_dim), hash);
    case QF_ATTRIBUTE_INTS: return qf_hash_bytes(attribute->ints, attribute->count * sizeof(int64_t), hash);
    case QF_ATTRIBUTE_LITERAL:
        return qf_hash_bytes(attribute->literal->data, attribute->literal->size,
                             qf_hash_mix(hash, attribute->literal->type.id));
    default: return qf_hash_mix(hash, (uint64_t)attribute->integer);
    }
}

bool qf_attribute_same(qf_attribute_kind kind, const qf_attribute *a, const qf_attribute *b) {
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: return memcmp(&a->number, &b->number, sizeof a->number) == 0;
    case QF_ATTRIBUTE_DIM: return a->dim.id == b->dim.id;
    case QF_ATTRIBUTE_STRING: return a->string.id == b->string.id;
    case QF_ATTRIBUTE_DIMS:
        return a->count == b->count && (!a->count || memcmp(a->dims, b->dims, a->count * sizeof(qf_dim)) == 0);
    case QF_ATTRIBUTE_INTS:
        return a->count == b->count && (!a->count || memcmp(a->ints, b->ints, a->count * sizeof(int64_t)) == 0);
    case QF_ATTRIBUTE_LITERAL:
        return a->literal->type.id == b->literal->type.id && a->literal->size == b->literal->size &&
               (!a->literal->size || memcmp(a->literal->data, b->literal->data, a->literal->size) == 0);
    default: return a->integer == b->integer;
    }
}

bool qf_attribute_own(qf_arena *arena, qf_attribute_kind kind, qf_attribute *attribute) {
    switch (kind) {
    case QF_ATTRIBUTE_DIMS:
        attribute->dims = qf_arena_copy(arena, attribute->dims, attribute->count * sizeof(qf_dim));
        return attribute->dims != NULL;
    case QF_ATTRIBUTE_INTS:
        attribute->ints = qf_arena_copy(arena, attribute->ints, attribute->count * sizeof(int64_t));
        return attribute->ints != NULL;
    case QF_ATTRIBUTE_LITERAL: {
        if (!attribute->literal) return true;
        qf_literal *copy = qf_arena_copy(arena, attribute->literal, sizeof *copy);
        if (!copy) return false;
        copy->data = qf_arena_copy(arena, copy->data, copy->size);
        attribute->literal = copy;
        return copy->data != NULL;
    }
    default: return true;
    }
}
