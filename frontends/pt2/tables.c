/* Owns: the expanded table of operators.
 * Does not own: the rows (ops.def).
 * Next: ops.def. */
#include "frontends/pt2/maps.h"

/* clang-format off */
#define OP(target, arguments, mapping, argument) {target, arguments, qf_pt2_map_##mapping, (uint32_t)(argument), QF_PT2_FRESH},
#define VIEW(target, arguments, mapping, argument) {target, arguments, qf_pt2_map_##mapping, (uint32_t)(argument), QF_PT2_ALIAS},
#define SAME(target, arguments, mapping, argument) {target, arguments, qf_pt2_map_##mapping, (uint32_t)(argument), QF_PT2_SAME},
static const qf_pt2_row rows[] = {
#include "frontends/pt2/ops.def"
};
/* clang-format on */

const qf_pt2_row *qf_pt2_rows(uint32_t *out_count) {
    *out_count = QF_COUNT_OF(rows);
    return rows;
}
