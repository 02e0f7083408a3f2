/* pairs.equal_codes on every table against plain loops, bit for bit: narrow and wide codes, numbers of hashes
   around the vectors, indexed rows, codes at the end of a page. Bugs planted and caught: the hashes after the
   last whole vector dropped; those beyond the last one counted as common; rows of keys taken in order; the
   row of wide codes half as long; the count itself for of_count.
   SPDX-License-Identifier: Apache-2.0 */
#include "kernels/slots.h"

enum { ROWS = 40 };

/* Codes with few values, so that pairs meet in some hashes only; they end at an unmapped page. */
static void *made_codes(uint64_t seed, bool wide, size_t num_hashes)
{
    size_t count = ROWS * num_hashes;
    struct random random = random_open(seed);
    /* Guarded memory is measured in floats, two narrow codes each. An odd number of codes starts half a float
       in. */
    char *memory = (char *)guard_floats(wide ? count : (count + 1) / 2) + (wide || count % 2 == 0 ? 0 : 2);
    for (size_t i = 0; i < count; i++) {
        uint32_t code = random_below(&random, 3) * (wide ? 70001 : 21001);
        if (wide)
            ((uint32_t *)(void *)memory)[i] = code;
        else
            ((uint16_t *)(void *)memory)[i] = (uint16_t)code;
    }
    return memory;
}

static void free_codes(void *codes, bool wide, size_t num_hashes)
{
    size_t count = ROWS * num_hashes;
    guard_free((float *)(void *)((char *)codes - (wide || count % 2 == 0 ? 0 : 2)),
               wide ? count : (count + 1) / 2);
}

static void check(const struct kernels *kernels, bool wide, size_t num_hashes, size_t a, size_t b)
{
    const size_t ld = ROWS + 3;
    void *query_codes = made_codes(1, wide, num_hashes), *key_codes = made_codes(2, wide, num_hashes);
    float *of_count = normals(3, num_hashes + 1), *times = normals(4, ROWS * ld),
          *want = copy_of(times, ROWS * ld);
    uint32_t queries[ROWS], keys[ROWS];
    random_permutation(5, queries, ROWS);
    random_permutation(6, keys, ROWS);
    for (size_t i = 0; i < a; i++)
        for (size_t j = 0; j < b; j++) {
            size_t count = 0, q = queries[i] * num_hashes, k = keys[j] * num_hashes;
            for (size_t h = 0; h < num_hashes; h++)
                count += wide ? ((uint32_t *)query_codes)[q + h] == ((uint32_t *)key_codes)[k + h]
                              : ((uint16_t *)query_codes)[q + h] == ((uint16_t *)key_codes)[k + h];
            want[i * ld + j] = of_count[count];
        }
    kernels->pairs.equal_codes(times, ld, query_codes, key_codes, wide, num_hashes, of_count, queries, a,
                               keys, b);
    char text[128];
    check_same_bits(times, want, ROWS * ld * sizeof(float),
                    of(text, "meetings", kernels, num_hashes, a * 100 + b));
    guard_free(of_count, num_hashes + 1);
    guard_free(times, ROWS * ld);
    guard_free(want, ROWS * ld);
    free_codes(query_codes, wide, num_hashes);
    free_codes(key_codes, wide, num_hashes);
}

static void counts_what_rows_have_in_common(void **state)
{
    (void)state;
    static const size_t hashes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100};
    FOR_EACH_TABLE(kernels)
    for (int wide = 0; wide < 2; wide++)
        for (size_t h = 0; h < sizeof hashes / sizeof *hashes; h++) {
            check(kernels, wide, hashes[h], ROWS, ROWS);
            check(kernels, wide, hashes[h], 1, 5);
            check(kernels, wide, hashes[h], 3, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_what_rows_have_in_common)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
