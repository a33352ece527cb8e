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
bool qf_pt2_role_is(const qf_pt2_call *call, const char *role, const char *value);

#endif
