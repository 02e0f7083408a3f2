/* Adds then reads, token by token: the tables are prefix sums forward, suffix sums backward. Nearly every
   step adds one row and reads one; slot tables.scan does runs of them in one pass. Other steps, which masks
   create, add or read rows separately. Cost: the additions and reads of tables that are not causal.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/collisions/causal_tables.h"

/* Adds rows [row, row + n) of one side. */
static void add(const struct kernels *kernels, const struct causal_pass *pass, const struct codes *codes,
                size_t row, size_t n)
{
    const struct table_hashes hashes = codes_hashes(codes, row, pass->first, pass->count, pass->buckets);
    kernels->tables.add(pass->table, &hashes, pass->values + row * pass->ld_values, pass->ld_values, n,
                        pass->dim);
}

static void read(const struct kernels *kernels, const struct causal_pass *pass, const struct codes *codes,
                 size_t row, size_t n)
{
    const struct table_hashes hashes = codes_hashes(codes, row, pass->first, pass->count, pass->buckets);
    kernels->tables.read(pass->out + row * pass->ld_out, pass->ld_out, pass->table, &hashes, n, pass->dim);
}

/* n steps: adds row `from` of one side, then reads row `to` of the other, in rising order; or from the last
   rows to the first. */
static void scan(const struct kernels *kernels, const struct causal_pass *pass, bool to_queries, size_t from,
                 size_t to, size_t n)
{
    const struct codes *giving = to_queries ? pass->keys : pass->queries,
                       *taking = to_queries ? pass->queries : pass->keys;
    const struct table_scan steps = {
        .tables = pass->table,
        .buckets = pass->buckets,
        .from = codes_row(giving, from),
        .to = codes_row(taking, to),
        .wide = giving->wide,
        .backwards = !to_queries,
        .num_hashes = giving->num_hashes,
        .first = pass->first,
        .count = pass->count,
        .values = pass->values + from * pass->ld_values,
        .ld_values = pass->ld_values,
        .out = pass->out + to * pass->ld_out,
        .ld_out = pass->ld_out,
        .n = n,
        .dim = pass->dim,
    };
    kernels->tables.scan(&steps);
}

void causal_keys_to_queries(const struct kernels *kernels, const struct causal_pass *pass)
{
    const size_t *visible = pass->visible;
    size_t n = pass->queries->n, added = 0, run;
    for (size_t i = 0; i < n; i += run) {
        run = 1;
        if (visible[i] == added) {
            while (i + run < n && visible[i + run] == added)
                run++;
            read(kernels, pass, pass->queries, i, run);
            continue;
        }
        if (visible[i] > added + 1)
            add(kernels, pass, pass->keys, added, visible[i] - 1 - added);
        added = visible[i] - 1;
        while (i + run < n && visible[i + run] == visible[i] + run)
            run++;
        scan(kernels, pass, true, added, i, run);
        added += run;
    }
}

void causal_queries_to_keys(const struct kernels *kernels, const struct causal_pass *pass)
{
    const size_t *visible = pass->visible;
    size_t left = pass->queries->n; /* queries not added yet */
    for (size_t j = pass->keys->n, run; j > 0; j -= run) {
        /* Key j - 1 is next. All new queries, those with visible[i] >= j, are added here except the
           last. */
        size_t first = left;
        while (first > 0 && visible[first - 1] >= j)
            first--;
        for (; left > first + 1; left--)
            add(kernels, pass, pass->queries, left - 1, 1);
        run = 1;
        if (left == first) {
            read(kernels, pass, pass->keys, j - 1, 1);
            continue;
        }
        /* Extends the run while each earlier key has exactly one new query, the preceding one. */
        while (run < j && run < left && visible[left - 1 - run] == j - run &&
               (run + 1 == left || visible[left - 2 - run] < j - run))
            run++;
        scan(kernels, pass, false, left - run, j - run, run);
        left -= run;
    }
}
