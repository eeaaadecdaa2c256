/* The CPU backend: what registry.c sees of it, and its own parts by file. */
#ifndef MOON_CPU_H
#define MOON_CPU_H

#include "../device.h"

extern const moon_backend moon_cpu_backend;
extern moon_device moon_cpu_device;

moon_status moon_cpu_copy(const moon_tensor *to, const moon_tensor *from);
moon_status moon_cpu_fill(const moon_tensor *to, const void *element);
moon_status moon_cpu_elementwise(moon_op_id op, moon_dtype compute, const moon_tensor *out, int n, const moon_tensor *const *in);
moon_status moon_cpu_reduce(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out);
moon_status moon_cpu_scan(moon_op_id op, const moon_tensor *in, int dim, const moon_tensor *out);
moon_status moon_cpu_matmul(const moon_tensor *a, const moon_tensor *b, const moon_tensor *out);

#endif
