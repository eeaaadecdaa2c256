/* Operators. ops.def is their single source: each line becomes an enum entry, a row of moon_ops, kernels, docs and annotations.
   An operator runs in three steps: plan (promotion, broadcasting: fills the draft of the result), home and memory for the
   result by the caller, run. In-place forms and out= skip the second step. */
#ifndef MOON_OPS_H
#define MOON_OPS_H

#include "copy.h"

typedef enum moon_op_class { MOON_UNARY, MOON_BINARY, MOON_COMPARE, MOON_LOGICAL, MOON_REDUCE } moon_op_class;

typedef enum moon_op_id {
#define OP(class, name, kinds, doc, ...) MOON_OP_##name,
#include "ops.def"
#undef OP
    MOON_OP_COUNT
} moon_op_id;

typedef struct moon_op {
    const char *name;
    uint8_t class;     /* moon_op_class */
    uint8_t arity;     /* operands: 1 or 2 */
    const char *kinds; /* dtype kinds it computes in: B bool, I signed, U unsigned, F float, C complex; f: others as floats */
    const char *doc;
} moon_op;
extern const moon_op moon_ops[MOON_OP_COUNT];

/* a tensor, or a weak scalar when tensor is NULL */
typedef struct moon_operand {
    const moon_tensor *tensor;
    moon_value value;
} moon_operand;

/* elementwise: n operands (1 or 2) */
moon_status moon_op_plan(moon_op_id op, int n, const moon_operand *in, moon_draft *result);
moon_status moon_op_run(moon_op_id op, int n, const moon_operand *in, const moon_tensor *out);

/* The frequent case in one step: a packed first operand whose own layout the result has, a second one like it or a scalar that
   keeps its dtype. Tells whether this is it, and the result's dtype; then out is a fresh tensor of in[0]'s layout. */
bool moon_op_is_plain(moon_op_id op, int n, const moon_operand *in, moon_dtype *result);
moon_status moon_op_run_plain(moon_op_id op, int n, const moon_operand *in, const moon_tensor *out);

/* out = mask ? a : b, broadcast to out, a fresh tensor; values are cast to its dtype */
moon_status moon_where_run(const moon_tensor *mask, const moon_operand *ab, const moon_tensor *out);

/* reductions: over dimension dim (0-based), or all when dim < 0 */
moon_status moon_reduce_plan(moon_op_id op, const moon_tensor *in, int dim, bool keepdim, moon_draft *result);
moon_status moon_reduce_run(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out);

/* running sums (MOON_OP_sum) and products (MOON_OP_prod) along dimension dim; dtypes as the reductions' */
moon_status moon_scan_plan(moon_op_id op, const moon_tensor *in, int dim, moon_draft *result);
moon_status moon_scan_run(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out);

moon_status moon_matmul_plan(const moon_tensor *a, const moon_tensor *b, moon_draft *result);
moon_status moon_matmul_run(const moon_tensor *a, const moon_tensor *b, const moon_tensor *out);

/* creation helpers */
moon_status moon_arange(const moon_tensor *out, double first, double step); /* out[i] = first + i*step */
moon_status moon_arange_int(const moon_tensor *out, int64_t first, int64_t step);
moon_status moon_linspace(const moon_tensor *out, double first, double last);

#endif
