/* The CPU backend: what registry.c sees of it, and its own parts by file. */
#ifndef MOON_CPU_H
#define MOON_CPU_H

#include "../device.h"

extern const moon_backend moon_cpu_backend;
extern moon_device moon_cpu_device;

/* the table of inner loops, once; an error where MOONTENSOR_ISA names a level that is not there: the best one is used then */
moon_status moon_kernels_choose(void);

moon_status moon_cpu_copy(const moon_tensor *to, const moon_tensor *from);
moon_status moon_cpu_fill(const moon_tensor *to, const void *element);
bool moon_cpu_few(moon_op_id op, moon_dtype compute, void *out, const void *a, const void *b, int sb, int64_t n);
moon_status moon_cpu_elementwise(moon_op_id op, moon_dtype compute, const moon_tensor *out, int n, const moon_tensor *const *in);
moon_status moon_cpu_where(const moon_tensor *mask, const moon_tensor *a, const moon_tensor *b, const moon_tensor *out);
moon_status moon_cpu_reduce(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out);
moon_status moon_cpu_scan(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out);
moon_status moon_cpu_matmul(const moon_tensor *a, const moon_tensor *b, const moon_tensor *out);
moon_status moon_cpu_index_get(const moon_tensor *out, const moon_tensor *from, int at, const int64_t *offsets);
moon_status moon_cpu_index_put(const moon_tensor *to, int at, const int64_t *offsets, const moon_tensor *value);

#endif
