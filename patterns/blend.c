/* Owns: the proof that factor and addend of a blend belong together.
 * Does not own: the steps (scores.c), abstract values (mask_value.h).
 * Next: mask_value.h. */
#include "patterns/blend.h"

#include "patterns/mask_value.h"

/* The condition under which a value of two numbers is `number`. */
static bool condition_of_number(qf_labelling *labels, const qf_abstract *value, double number, qf_condition *out) {
    if (value->kind != QF_ABSTRACT_SELECT || (value->a != number && value->b != number)) return false;
    *out = value->a == number ? value->condition : qf_condition_not(labels, value->condition);
    return true;
}

bool qf_blend_read(qf_labelling *labels, const qf_score_step *add, const qf_score_step *scale, double *out_fill) {
    qf_abstract factor, addend = {.kind = QF_ABSTRACT_UNKNOWN};
    qf_condition kept, added;
    if (add->kind != QF_SCORE_ADD || scale->kind != QF_SCORE_SCALE || scale->number != 1.0) return false;
    qf_mask_evaluate(labels, scale->value, &scale->axes, &factor);
    if (!qf_abstract_is_binary(&factor)) return false;
    qf_mask_evaluate(labels, add->value, &add->axes, &addend);
    double fill = addend.a == 0.0 ? addend.b : addend.a;
    bool found = condition_of_number(labels, &factor, 1.0, &kept) &&
                 condition_of_number(labels, &addend, 0.0, &added) && qf_condition_equal(labels, &kept, &added);
    if (!found) /* constants in no band: every element is compared */
        found = qf_constants_blend(labels, scale->value, &scale->axes, add->value, &add->axes, &fill);
    *out_fill = found ? fill * add->number : 0.0;
    return found;
}
