/* Importance of rows against its definition in double precision, for every instruction set: a pilot of all
   pages, of which the importance of all rows sums to the number of heads, and of every eighth or ninth page;
   rows that are no candidates have none; rows that share a byte with the query have 1.
   Planted and caught: a pilot of the first pages, in place of every eighth; every eighth of a long sequence;
   the last page left out; rows after the last candidate.
   Covers: kv_importance.c, kv_hashed_page.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decoding/kv_importance.h"
#include "support/cache_case.h"

/* Scores deviate by 4, so that pages differ much. The kernel's power lies up to 6.2 % above 2^x, in the pilot
   too. */
static const float SCALE = 0.7f;
static const double POWER_ERROR = 0.063;
enum { GROUP = 2, MOST_PAGES = 144, MOST_ROWS = MOST_PAGES * KV_PAGE_ROWS, BITS = 128, D = 32 };

struct ranked {
    struct cache_case c;
    struct kv_hashed_page at;
    float *query, turned[GROUP * BITS];
    uint8_t tables[GROUP * BITS / 4 * DECODE_TABLE];
    struct decode_query known[GROUP];
    float found[MOST_ROWS], most[MOST_PAGES * GROUP], sum[MOST_PAGES * GROUP], shift[GROUP];
    float scores[2][GROUP * KV_PAGE_ROWS];
    struct decode_query scored[2][GROUP];
    float base[2][GROUP * KV_PAGE_BLOCKS];
    struct kv_importance_scratch scratch[2];
    struct kv_importance of;
};

/* The second key-value head's two query heads over `rows` rows; rows before `first` and from `last` on are no
   candidates. Two threads. */
static void rank(struct ranked *t, const char *isa, size_t rows, size_t first, size_t last)
{
    struct kv_options options = cache_case_options();
    options.head_dim = D;
    options.scale = SCALE;
    cache_case_new(&t->c, isa, 2, "hashed", &options);
    cache_case_append(&t->c, rows, NULL);
    t->query = cache_case_query(&t->c, 1);
    t->at = kv_hashed_page_of(&options);
    for (size_t w = 0; w < 2; w++)
        t->scratch[w] = (struct kv_importance_scratch){t->scores[w], t->base[w], t->scored[w]};
    t->of = (struct kv_importance){
        .cache = &t->c.cache,
        .at = &t->at,
        .kv_head = 1,
        .first_block = first / KV_BLOCK,
        .last_block = rows / KV_BLOCK,
        .first = first,
        .last = last,
        .pages = (rows / KV_BLOCK + KV_PAGE_BLOCKS - 1) / KV_PAGE_BLOCKS,
        .queries = {GROUP, t->query + GROUP * (size_t)D, t->turned, t->tables, t->known},
        .pool = t->c.pool,
        .scratch = t->scratch,
        .importance = t->found,
        .most = t->most,
        .sum = t->sum,
        .shift = t->shift,
    };
    kv_codes_query(&t->c.cache, &t->of.queries, false);
    kv_importance_find(&t->of);
}

static void forget(struct ranked *t)
{
    free(t->query);
    cache_case_free(&t->c);
}

/* scores (GROUP, KV_BLOCK) of a block. */
static void scores_of(struct ranked *t, size_t block, float *scores)
{
    const struct kv_codes codes = kv_hashed_codes(&t->c.cache, &t->at, 0, 1, block / KV_PAGE_BLOCKS);
    kv_codes_bases(&t->c.cache, &t->of.queries, &codes, t->base[0]);
    kv_codes_scores(&t->c.cache, &t->of.queries, &codes, t->base[0], block % KV_PAGE_BLOCKS, scores,
                    KV_BLOCK);
}

static bool candidate(const struct ranked *t, size_t j)
{
    return j >= t->of.first && j < t->of.last && j / KV_BLOCK < t->of.last_block;
}

static void importance_is_a_share_of_the_pilot(void **state)
{
    (void)state;
    static struct ranked t;
    static double share[GROUP][MOST_ROWS];
    static const struct {
        size_t rows, step;
    } cases[] = {{700, 1}, {4096, 4}, {8960, 8}, {8960 - 150, 8}, {MOST_ROWS, 9}};
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++)
        for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
            double pilot[GROUP] = {0}, all = 0, worst = 0, exponent = (double)SCALE * (double)0.8f;
            rank(&t, (*table)->name, cases[n].rows, 70, cases[n].rows - 100);
            for (size_t j = 0; j < t.of.pages * KV_PAGE_ROWS; j++) {
                float scores[GROUP * KV_BLOCK];
                if (candidate(&t, j))
                    scores_of(&t, j / KV_BLOCK, scores);
                for (size_t i = 0; i < GROUP; i++) {
                    double score = scores[i * KV_BLOCK + j % KV_BLOCK];
                    share[i][j] = candidate(&t, j) ? exp(exponent * score) : 0;
                    pilot[i] += j / KV_PAGE_ROWS % cases[n].step == 0 ? share[i][j] : 0;
                }
            }
            for (size_t j = 0; j < t.of.pages * KV_PAGE_ROWS; j++) {
                double want = share[0][j] / pilot[0] + share[1][j] / pilot[1], got = t.found[j];
                all += got;
                if (!candidate(&t, j))
                    assert_true(t.found[j] == 0);
                else
                    worst = fmax(worst, fabs(got - want) / want);
            }
            if (worst > POWER_ERROR)
                print_message("%s, %zu rows: %g\n", (*table)->name, cases[n].rows, worst);
            assert_true(worst < POWER_ERROR);
            assert_true(cases[n].step > 1 || fabs(all - GROUP) < POWER_ERROR * GROUP);
            forget(&t);
        }
}

/* Every head of lsh has a choice of its own. */
static void equal_bytes_are_found(void **state)
{
    (void)state;
    static struct ranked t;
    for (const struct kernels *const *table = kernels_all(); *table != NULL; table++) {
        size_t rows = 1000, found = 0;
        rank(&t, (*table)->name, rows, 10, 900);
        for (size_t i = 0; i < GROUP; i++) {
            t.of.collides = true;
            t.of.queries.count = 1;
            t.of.queries.turned = t.turned + i * BITS;
            kv_importance_find(&t.of);
            for (size_t j = 0; j < t.of.pages * KV_PAGE_ROWS; j++) {
                const struct kv_codes codes = kv_hashed_codes(&t.c.cache, &t.at, 0, 1, j / KV_PAGE_ROWS);
                size_t block = j % KV_PAGE_ROWS / KV_BLOCK;
                bool equal = false;
                for (size_t b = 0; b < BITS / 8 && candidate(&t, j); b++) {
                    unsigned byte = 0;
                    for (size_t k = 0; k < 8; k++)
                        byte |= (unsigned)(t.turned[i * BITS + 8 * b + k] > 0) << k;
                    equal |=
                        codes.codes[(block * BITS / 8 + b) * KV_BLOCK + decode_place(j % KV_BLOCK)] == byte;
                }
                assert_true(t.found[j] == (equal ? 1.0f : 0.0f));
                found += equal;
            }
        }
        assert_true(found > 20 && found < rows);
        forget(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(importance_is_a_share_of_the_pilot),
        cmocka_unit_test(equal_bytes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
