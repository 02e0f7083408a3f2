/* Sums of features as a state against sums in double precision over all keys: any cut gives the same bits,
   levels of any range, shards. The map is exp(x / 2). Bugs planted and caught: the first level not taken;
   sums not moved to a new level; a key's factor left out; keys of a tile beyond the first run from its
   beginning; queries of the second tile with features of the first; keys that no query sees left out; merged
   sums without their factors, or an empty state's level kept; the offset left out; the floor left out.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { N = 150, D = 5, D_V = 7, SCRATCH = 1 << 18 };

static void map_forward(const struct feature_map *map, enum feature_side side, const float *x, size_t ld_x,
                        size_t rows, float *phi, void *scratch)
{
    (void)side;
    memset(scratch, 0xff, map->scratch);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < D; c++)
            phi[i * D + c] = expf(x[i * ld_x + c] / 2);
}

struct rows {
    float query[N * D], key[N * D], value[N * D_V];
    double level[N], after[N];
    size_t visible[N];
};

static void fill(struct rows *r, bool levels)
{
    struct random random = random_open(3);
    double level = -2000;
    random_normals(1, 0, r->query, N * D);
    random_normals(2, 0, r->key, N * D);
    random_normals(3, 0, r->value, N * D_V);
    for (size_t j = 0; j < N; j++) {
        level += !levels ? 0 : j == 100 ? 150 : j % 5 == 2 ? (double)random_unit(&random) : 0;
        r->after[j] = level;
        r->level[j] = level - (levels ? 3 * (double)random_unit(&random) : 0);
        r->visible[j] = j / 2 * 2; /* the last query does not see the last two keys */
    }
}

/* A state in a block of its own, with guards. */
static struct feature_state state_new(const struct kernels *kernels, float floor)
{
    struct feature_state s = {
        .map = {.kernels = kernels, .count = D, .dim = D, .scratch = 64, .forward = map_forward},
        .value_dim = D_V,
        .epsilon = 1e-30f,
        .floor = floor};
    s.block = guard_floats(feature_state_size(&s) / sizeof(float));
    memset(s.block, 0, feature_state_size(&s));
    return s;
}

static void state_free(const struct feature_state *s)
{
    guard_free(s->block, feature_state_size(s) / sizeof(float));
}

static struct feature_keys keys_of(const struct rows *r, size_t begin, size_t end, bool levels)
{
    return (struct feature_keys){.key = view_of(r->key + begin * D, end - begin, D),
                                 .value = view_of(r->value + begin * D_V, end - begin, D_V),
                                 .level = levels ? r->level + begin : NULL,
                                 .level_after = levels ? r->after + begin : NULL};
}

/* The output of query i over keys [begin, end), whose sums have the level of key end - 1. */
static void direct(const struct rows *r, size_t i, size_t begin, size_t end, bool levels, double floor,
                   double *out)
{
    double bottom = 0;
    memset(out, 0, D_V * sizeof *out);
    for (size_t j = begin; j < end; j++) {
        double score = 0;
        for (size_t c = 0; c < D; c++)
            score += exp(((double)r->query[i * D + c] + (double)r->key[j * D + c]) / 2);
        score *= levels ? exp(r->level[j] - r->after[end - 1]) : 1;
        bottom += score;
        for (size_t c = 0; c < D_V; c++)
            out[c] += score * (double)r->value[j * D_V + c];
    }
    for (size_t c = 0; c < D_V; c++)
        out[c] /= fmax(bottom, floor) + (end == begin);
}

/* Sums of 150 positive terms of float32 and a division. */
static void check_rows(const float *got, const struct rows *r, bool scan, size_t begin, size_t end,
                       bool levels, double floor, const char *what)
{
    for (size_t i = 0; i < N; i++) {
        double want[D_V];
        direct(r, i, begin, scan ? r->visible[i] : end, levels, floor, want);
        for (size_t c = 0; c < D_V; c++)
            check_near((double)got[i * D_V + c], want[c], 2e-5, what);
    }
}

static void every_cut_gives_the_same_bits(void **state)
{
    (void)state;
    static struct rows r;
    static float first[N * D_V], out[N * D_V];
    static const size_t cuts[] = {N, 1, 7, 64, 100};
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (int form = 0; form < 8; form++) {
            bool levels = form & 1, scan = form >> 1 & 1;
            float floor = form >> 2 & 1 ? 40 : 0;
            fill(&r, levels);
            for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
                struct feature_state s = state_new(*kernels, floor);
                size_t floats = feature_state_scratch_size(&s) / sizeof(float);
                float *scratch = guard_floats(floats);
                assert_true(feature_state_is_empty(&s));
                for (size_t begin = 0; begin < N; begin += cuts[k]) {
                    size_t end = size_min(begin + cuts[k], N), visible[N];
                    struct feature_keys keys = keys_of(&r, begin, end, levels);
                    struct view query = view_of(r.query + begin * D, end - begin, D);
                    memset(scratch, 0xff, floats * sizeof *scratch);
                    for (size_t i = begin; i < end; i++)
                        visible[i - begin] = r.visible[i] < begin ? 0 : r.visible[i] - begin;
                    if (!scan)
                        feature_state_add(&s, &keys, scratch);
                    else
                        feature_state_scan(&s, &keys, query, visible,
                                           view_of(out + begin * D_V, end - begin, D_V), scratch);
                }
                assert_false(feature_state_is_empty(&s));
                assert_true(!levels || feature_state_level(&s) == r.after[N - 1]);
                if (!scan)
                    feature_state_read(&s, view_of(r.query, N, D), view_of(out, N, D_V), scratch);
                /* A cut after an odd key makes it visible a query early: only even cuts keep the scan. */
                if (!scan || cuts[k] % 2 == 0) {
                    check_rows(out, &r, scan, 0, N, levels, (double)floor, "out");
                    if (k == 0)
                        memcpy(first, out, sizeof out);
                    check_same_bits(out, first, sizeof out, "another cut");
                }
                guard_free(scratch, floats);
                state_free(&s);
            }
        }
}

static void shards_merge_at_the_larger_level(void **state)
{
    (void)state;
    static struct rows r;
    static float out[N * D_V], scratch[SCRATCH];
    const struct kernels *kernels = kernels_all()[0];
    static const size_t cuts[] = {0, 1, 101, N};
    for (int form = 0; form < 6; form++)
        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
            bool levels = form & 1, turned = form == 2 || form == 3, anew = form == 5;
            struct feature_state low = state_new(kernels, 0), high = state_new(kernels, 0);
            fill(&r, levels);
            struct feature_keys before = keys_of(&r, 0, cuts[k], levels),
                                after = keys_of(&r, cuts[k], N, levels);
            double offset = anew && cuts[k] > 0 ? r.after[cuts[k] - 1] : 0;
            for (size_t j = cuts[k]; j < N; j++) { /* levels of the second shard from 0 on */
                r.level[j] -= offset;
                r.after[j] -= offset;
            }
            assert_true(feature_state_scratch_size(&low) <= sizeof scratch);
            feature_state_add(&low, &before, scratch);
            feature_state_add(&high, &after, scratch);
            const struct feature_state *into = turned ? &high : &low;
            feature_state_merge(into, turned ? &low : &high, offset);
            for (size_t j = cuts[k]; j < N; j++) {
                r.level[j] += offset;
                r.after[j] += offset;
            }
            assert_true(!levels || fabs(feature_state_level(into) - r.after[N - 1]) < 1e-9);
            feature_state_read(into, view_of(r.query, N, D), view_of(out, N, D_V), scratch);
            check_rows(out, &r, false, 0, N, levels, 0, "merged");
            state_free(&low);
            state_free(&high);
        }
}

static void an_empty_state_gives_zeros(void **state)
{
    (void)state;
    static struct rows r;
    static float out[N * D_V], scratch[SCRATCH];
    struct feature_state s = state_new(kernels_all()[0], 0);
    fill(&r, false);
    feature_state_read(&s, view_of(r.query, N, D), view_of(out, N, D_V), scratch);
    for (size_t i = 0; i < N * D_V; i++)
        assert_true(out[i] == 0);
    state_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same_bits),
        cmocka_unit_test(shards_merge_at_the_larger_level),
        cmocka_unit_test(an_empty_state_gives_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
