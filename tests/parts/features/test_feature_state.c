/* Sums of features as a state against sums in double precision over all keys: any cut gives the same bits,
   levels of any range, given or found by the map, shards. The map is exp(x / 2). Bugs planted and caught: the
   first level not taken; sums not moved to a new level; a key's factor left out; keys of a tile beyond the
   first run from its beginning; queries of the second tile with features of the first; keys that no query
   sees left out; merged sums without their factors, or an empty state's level kept; the offset left out; the
   floor left out; levels that the map finds from those of this call's keys only, or not found for a call that
   reads.
   SPDX-License-Identifier: Apache-2.0 */
#include "parts/features/feature_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { N = 150, D = 5, D_V = 7, MAP_SCRATCH = 64 };

static size_t map_count(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return D;
}

static size_t map_scratch(const void *options, const struct problem_shape *shape)
{
    (void)options;
    (void)shape;
    return MAP_SCRATCH;
}

static void map_forward(const struct problem *problem, enum feature_side side, const float *x, size_t ld_x,
                        size_t rows, float *phi, void *scratch)
{
    (void)problem;
    (void)side;
    memset(scratch, 0xff, MAP_SCRATCH);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < D; c++)
            phi[i * D + c] = expf(x[i * ld_x + c] / 2);
}

/* In scratch, the rows that were read last. */
static void map_project(const struct problem *problem, const float *x, size_t ld_x, size_t rows, float *phi,
                        void *scratch)
{
    (void)problem;
    (void)ld_x;
    memset(phi, 0xff, rows * D * sizeof *phi);
    memcpy(scratch, &x, sizeof x);
}

/* The shared memory is the levels of all keys. */
static void map_levels(const struct problem *problem, size_t rows, const void *scratch, double *level)
{
    const float *x;
    memcpy(&x, scratch, sizeof x);
    memcpy(level, (const double *)problem->shared + (x - view_row(problem->key, 0)) / D,
           rows * sizeof *level);
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

static struct feature_attention attention_of(float floor)
{
    return (struct feature_attention){
        .map = {.count = map_count, .scratch = map_scratch, .forward = map_forward},
        .epsilon = 1e-30f,
        .floor = floor};
}

static struct problem_shape shape_of(size_t rows)
{
    return (struct problem_shape){
        .num_queries = rows, .num_keys = rows, .head_dim = D, .value_dim = D_V, .workers = 1};
}

/* A state in a block of its own, with guards. */
static void *state_new(const struct feature_attention *a)
{
    struct problem_shape shape = shape_of(0);
    size_t bytes = feature_state_size(NULL, &shape, a);
    float *state = guard_floats(bytes / sizeof(float));
    return memset(state, 0, bytes);
}

static void state_free(const struct feature_attention *a, void *state)
{
    struct problem_shape shape = shape_of(0);
    guard_free(state, feature_state_size(NULL, &shape, a) / sizeof(float));
}

static double level_of(const struct feature_attention *a, const void *state)
{
    struct problem_shape shape = shape_of(0);
    return feature_state_level(NULL, &shape, a, state, NAN);
}

static void merge(const struct feature_attention *a, void *into, const void *from, double offset)
{
    struct problem_shape shape = shape_of(0);
    feature_state_merge(NULL, &shape, a, into, from, offset);
}

enum use { ADD, READ, SCAN };

/* Keys, queries or both of rows [begin, end) meet the state. */
static void meet(const struct kernels *kernels, const struct feature_attention *attention, void *state,
                 enum use use, const struct rows *r, size_t begin, size_t end, bool levels, float *out)
{
    size_t rows = end - begin, visible[N];
    struct feature_attention a = *attention;
    struct problem problem = {.kernels = kernels, .shape = shape_of(rows), .visible = visible};
    size_t floats = feature_state_scratch_size(NULL, &problem.shape, &a) / sizeof(float);
    float *scratch = guard_floats(floats);
    memset(scratch, 0xff, floats * sizeof *scratch);
    for (size_t i = begin; i < end; i++)
        visible[i - begin] = r->visible[i] < begin ? 0 : r->visible[i] - begin;
    problem.scratch = scratch;
    problem.shape.causal = use == SCAN;
    if (use != ADD)
        problem.query = view_of(r->query + begin * D, rows, D);
    if (use != READ) {
        problem.key = view_of(r->key + begin * D, rows, D);
        problem.value = view_of(r->value + begin * D_V, rows, D_V);
    }
    if (levels && a.map.levels != NULL)
        problem.shared = r->level + begin;
    else if (levels)
        a.levels = (struct feature_levels){.key = r->level + begin, .after = r->after + begin};
    if (use == ADD)
        feature_state_add(&problem, &a, state);
    else
        feature_state_read(&problem, &a, state, view_of(out + begin * D_V, rows, D_V));
    guard_free(scratch, floats);
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
            struct feature_attention a = attention_of(floor);
            fill(&r, levels);
            for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
                void *s = state_new(&a);
                assert_true(isnan(level_of(&a, s)));
                for (size_t begin = 0; begin < N; begin += cuts[k])
                    meet(*kernels, &a, s, scan ? SCAN : ADD, &r, begin, size_min(begin + cuts[k], N), levels,
                         out);
                assert_true(level_of(&a, s) == r.after[N - 1] || (!levels && level_of(&a, s) == 0));
                if (!scan)
                    meet(*kernels, &a, s, READ, &r, 0, N, false, out);
                /* A cut after an odd key makes it visible a query early: only even cuts keep the scan. */
                if (!scan || cuts[k] % 2 == 0) {
                    check_rows(out, &r, scan, 0, N, levels, (double)floor, "out");
                    if (k == 0)
                        memcpy(first, out, sizeof out);
                    check_same_bits(out, first, sizeof out, "another cut");
                }
                state_free(&a, s);
            }
        }
}

static void shards_merge_at_the_larger_level(void **state)
{
    (void)state;
    static struct rows r;
    static float out[N * D_V];
    const struct kernels *kernels = kernels_all()[0];
    const struct feature_attention a = attention_of(0);
    static const size_t cuts[] = {0, 1, 101, N};
    for (int form = 0; form < 6; form++)
        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
            bool levels = form & 1, turned = form == 2 || form == 3, anew = form == 5;
            void *low = state_new(&a), *high = state_new(&a), *into = turned ? high : low;
            fill(&r, levels);
            double offset = anew && cuts[k] > 0 ? r.after[cuts[k] - 1] : 0;
            for (size_t j = cuts[k]; j < N; j++) { /* levels of the second shard from 0 on */
                r.level[j] -= offset;
                r.after[j] -= offset;
            }
            meet(kernels, &a, low, ADD, &r, 0, cuts[k], levels, NULL);
            meet(kernels, &a, high, ADD, &r, cuts[k], N, levels, NULL);
            merge(&a, into, turned ? low : high, offset);
            for (size_t j = cuts[k]; j < N; j++) {
                r.level[j] += offset;
                r.after[j] += offset;
            }
            assert_true(!levels || fabs(level_of(&a, into) - r.after[N - 1]) < 1e-9);
            meet(kernels, &a, into, READ, &r, 0, N, false, out);
            check_rows(out, &r, false, 0, N, levels, 0, "merged");
            state_free(&a, low);
            state_free(&a, high);
        }
}

static void the_map_finds_levels(void **state)
{
    (void)state;
    static struct rows r;
    static float out[N * D_V];
    static const size_t cuts[] = {N, 1, 100};
    struct feature_attention a = attention_of(0);
    double largest = -INFINITY;
    fill(&r, true);
    a.map.project = map_project;
    a.map.levels = map_levels;
    for (size_t j = 0; j < N; j++)
        largest = fmax(largest, r.level[j]);
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++)
        for (int scan = 0; scan < 2; scan++) {
            void *s = state_new(&a);
            for (size_t begin = 0; begin < N; begin += cuts[k])
                meet(kernels_all()[0], &a, s, scan ? SCAN : ADD, &r, begin, size_min(begin + cuts[k], N),
                     true, out);
            assert_true(level_of(&a, s) == largest);
            if (!scan)
                meet(kernels_all()[0], &a, s, READ, &r, 0, N, false, out);
            if (!scan || cuts[k] % 2 == 0)
                check_rows(out, &r, scan, 0, N, true, 0, "out with levels that the map finds");
            state_free(&a, s);
        }
}

static void an_empty_state_gives_zeros(void **state)
{
    (void)state;
    static struct rows r;
    static float out[N * D_V];
    const struct feature_attention a = attention_of(0);
    void *s = state_new(&a);
    fill(&r, false);
    meet(kernels_all()[0], &a, s, READ, &r, 0, N, false, out);
    for (size_t i = 0; i < N * D_V; i++)
        assert_true(out[i] == 0);
    state_free(&a, s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same_bits),
        cmocka_unit_test(shards_merge_at_the_larger_level),
        cmocka_unit_test(the_map_finds_levels),
        cmocka_unit_test(an_empty_state_gives_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
