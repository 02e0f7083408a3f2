/* tables.scan on every table of slots: the same bits as plain loops, forwards and backwards.
   Bugs planted and caught: both sides by the codes of one; `first` forgotten; rows in rising order backwards;
   the tail of a row dropped; reading begun at 0 instead of out.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

enum { BUCKETS = 3, MOST = 40 };

struct codes {
    uint16_t narrow[MOST * MOST];
    uint32_t wide[MOST * MOST];
};

static void draw(struct codes *codes, size_t count, uint64_t key)
{
    struct random random = random_open(key);
    for (size_t i = 0; i < count; i++)
        codes->narrow[i] = (uint16_t)(codes->wide[i] = random_below(&random, BUCKETS));
}

static void check_scan(const struct kernels *kernels, struct table_scan scan)
{
    static struct codes from, to;
    char text[128];
    draw(&from, scan.n * scan.num_hashes, scan.n * 100 + scan.dim);
    draw(&to, scan.n * scan.num_hashes, scan.n * 100 + scan.dim + 50);
    size_t size = scan.count * BUCKETS * scan.dim, last = scan.n == 0 ? 0 : scan.n - 1;
    size_t rows = scan.n == 0 ? 0 : last * scan.ld_values + scan.dim;
    size_t out_size = scan.n == 0 ? 0 : last * scan.ld_out + scan.dim;
    float *tables = oddities(1, size), *values = oddities(2, rows), *out = oddities(3, out_size);
    float *want_tables = copy_of(tables, size), *want = copy_of(out, out_size);
    scan.tables = tables;
    scan.buckets = BUCKETS;
    scan.from = scan.wide ? (const void *)from.wide : from.narrow;
    scan.to = scan.wide ? (const void *)to.wide : to.narrow;
    scan.values = values;
    scan.out = out;
    kernels->tables.scan(&scan);
    for (size_t step = 0; step < scan.n; step++) {
        size_t i = scan.backwards ? last - step : step;
        for (size_t h = 0; h < scan.count; h++) {
            size_t at = i * scan.num_hashes + scan.first + h;
            for (size_t c = 0; c < scan.dim; c++)
                want_tables[(h * BUCKETS + from.wide[at]) * scan.dim + c] += values[i * scan.ld_values + c];
            for (size_t c = 0; c < scan.dim; c++)
                want[i * scan.ld_out + c] += want_tables[(h * BUCKETS + to.wide[at]) * scan.dim + c];
        }
    }
    check_same_bits(tables, want_tables, size * sizeof *tables,
                    of(text, "tables", kernels, scan.n, scan.dim));
    check_same_bits(out, want, out_size * sizeof *out, of(text, "tables.scan", kernels, scan.n, scan.dim));
    guard_free(tables, size);
    guard_free(want_tables, size);
    guard_free(values, rows);
    guard_free(out, out_size);
    guard_free(want, out_size);
}

static void scans_are_exact(void **state)
{
    (void)state;
    static const size_t tokens[] = {0, 1, 2, 33};
    static const size_t hashes[][3] = {{1, 0, 1}, {8, 0, 8}, {9, 1, 3}, {17, 9, 8}, {6, 5, 0}};
    FOR_EACH_TABLE(kernels)
    for (size_t w = 0; w < NUM_WIDTHS; w++)
        for (size_t t = 0; t < 4; t++)
            for (size_t h = 0; h < 5; h++)
                for (int form = 0; form < 4; form++)
                    check_scan(kernels, (struct table_scan){.wide = (w + t + h) % 2,
                                                            .backwards = form % 2,
                                                            .num_hashes = hashes[h][0],
                                                            .first = hashes[h][1],
                                                            .count = hashes[h][2],
                                                            .ld_values = form < 2 ? widths[w] + 3 : 0,
                                                            .ld_out = widths[w] + 2,
                                                            .n = tokens[t],
                                                            .dim = widths[w]});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scans_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
