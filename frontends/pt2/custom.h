/* Owns: families of custom operators, and reading arguments by role.
 * Does not own: the table (customs.def).
 * Next: customs.c, map_custom.c. */
#ifndef QF_FRONTENDS_PT2_CUSTOM_H
#define QF_FRONTENDS_PT2_CUSTOM_H

#include "frontends/pt2/build.h"

typedef struct qf_pt2_family {
    const char *name;
    qf_pt2_map map;
} qf_pt2_family;

const qf_pt2_family *qf_pt2_family_of(const char *name); /* NULL: none */
/* The argument that plays the role; "" where the table's line names none. */
const char *qf_pt2_role(qf_pt2_call *call, const char *role);
/* Its value now; 0: absent. */
qf_value qf_pt2_role_value(qf_pt2_call *call, const char *role);
/* Writes `value` into the argument of the role, or returns it as result `output` where there is none. */
bool qf_pt2_role_give(qf_pt2_call *call, const char *role, uint32_t output, qf_value value);
/* Mapped, or failed. */
qf_pt2_outcome qf_pt2_mapped_if(qf_pt2_call *call, bool good);
/* FP8 results where the line names a scale: the scale as f32[], and the columns out, out_mode, out_compute and via of
 * an op, which begin at `out`. False: qf_pt2_scale_shape says why. */
bool qf_pt2_role_quantised(qf_pt2_call *call, qf_value *out_scale, qf_attribute *out);
extern const char qf_pt2_scale_shape[];
bool qf_pt2_role_is(const qf_pt2_call *call, const char *role, const char *value);

/* map_layer.c */
qf_pt2_outcome qf_pt2_map_layer_attention(qf_pt2_call *call);
qf_pt2_outcome qf_pt2_map_cache_update(qf_pt2_call *call);
qf_pt2_outcome qf_pt2_map_cache_write(qf_pt2_call *call);

#endif
