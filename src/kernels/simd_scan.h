/* Adding to tables and reading them in token order, one token of each side at a time, for prefix sums. The
   table rows that one token adds to and another reads are fetched hash by hash, so that neither waits for the
   other. Memory traffic is that of tables.add and tables.read. Measured: a causal stream of yoso (hashing
   included) takes 0.76 of the time of separate calls per row; causal forward at n 4096 takes 0.97 of the
   bidirectional one.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNELS_SIMD_SCAN_H
#define KERNELS_SIMD_SCAN_H

#include "kernels/simd_tables.h"
#include "kernels/slots_tables.h"

/* One step for columns [c, c + VLEN * vectors); `left` of the last vector exist. */
INLINE void table_step_part(const size_t vectors, const size_t left, const struct table_scan *scan,
                            const bool wide, size_t row, size_t c)
{
    const float *value = scan->values + row * scan->ld_values + c;
    float *out = scan->out + row * scan->ld_out + c, *table = scan->tables + c;
    size_t at = row * scan->num_hashes + scan->first, stride = scan->buckets * scan->dim;
    vf each[TABLE_VECTORS], sum[TABLE_VECTORS];
    UNROLLED
    for (size_t v = 0; v < vectors; v++) {
        each[v] = v_get(value + v * VLEN, left);
        sum[v] = v_get(out + v * VLEN, left);
    }
    for (size_t h = 0; h < scan->count; h++, table += stride) {
        float *to = table + code_at(scan->from, wide, at + h) * scan->dim;
        const float *from = table + code_at(scan->to, wide, at + h) * scan->dim;
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            v_put(to + v * VLEN, v_add(v_get(to + v * VLEN, left), each[v]), left);
        UNROLLED
        for (size_t v = 0; v < vectors; v++)
            sum[v] = v_add(sum[v], v_get(from + v * VLEN, left));
    }
    UNROLLED
    for (size_t v = 0; v < vectors; v++)
        v_put(out + v * VLEN, sum[v], left);
}

INLINE void table_scan_all(const struct table_scan *scan, const bool wide)
{
    for (size_t i = 0; i < scan->n; i++) {
        size_t row = scan->backwards ? scan->n - 1 - i : i, c = 0, dim = scan->dim;
        for (; c + TABLE_FLOATS <= dim; c += TABLE_FLOATS)
            table_step_part(TABLE_VECTORS, VLEN, scan, wide, row, c);
        for (; c + TABLE_FLOATS / 2 <= dim; c += TABLE_FLOATS / 2)
            table_step_part(TABLE_VECTORS / 2, VLEN, scan, wide, row, c);
        for (; c + VLEN <= dim; c += VLEN)
            table_step_part(1, VLEN, scan, wide, row, c);
        if (c < dim)
            table_step_part(1, dim - c, scan, wide, row, c);
    }
}

static void tables_scan(const struct table_scan *scan)
{
    if (scan->wide)
        table_scan_all(scan, true);
    else
        table_scan_all(scan, false);
}

#define SIMD_SCAN .tables.scan = tables_scan

#endif
