/* What holds for every mechanism of the table and for the two test mechanisms: layouts, threads, packing,
   padding, masks, empty input, allocation, on every instruction set. A new mechanism is included by its
   row. Bugs planted and caught: gradients of gathered keys not scattered, or gathered from the keys;
   gathered values laid over the keys; the mask read from the start of the batch; the number of kept keys
   not passed on, or the views not shortened; a unit without keys not zeroed; sequence_stride times the
   row; workers sharing one scratch (units or the blocks of one head); slices and losses at each other's
   place.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "support/attention_case.h"
#include "support/check.h"
#include "support/linear_mechanism.h"
#include "support/placed_mechanism.h"

struct subject {
    const struct mechanism *mechanism;
    void *options;
    const struct kernels *kernels;
};

static const struct mechanism *const test_mechanisms[] = {&linear_mechanism, &blind_mechanism,
                                                          &competing_mechanism, &placed_mechanism, NULL};

struct setting {
    const char *mechanism, *settings;
};

/* Options that keep the plain loops of table "ref" to seconds. */
static const struct setting smaller[] = {
    {"performer", "num_features=40"}, {"race", "num_tables=3"}, {"rfa", "num_features=21"}};

/* Options that lead through other code, as subjects of their own. */
static const struct setting further[] = {{"performer", "num_features=41 both_signs=true"},
                                         {"lha", "targets=features num_features=41 both_signs=true"},
                                         {"lha", "num_buckets=5 rounds=3"},
                                         {"lsh", "num_buckets=5 rounds=2"},
                                         {"lsh", "num_buckets=5 partition=true"}};

enum { SMALLER = sizeof smaller / sizeof *smaller, FURTHER = sizeof further / sizeof *further };

/* settings: "" or more options than the default ones. */
static struct subject subject_of(const struct mechanism *mechanism, const char *settings,
                                 const struct kernels *kernels)
{
    struct subject subject = {mechanism, calloc(1, mechanism->options_size + 1), kernels};
    assert_non_null(subject.options);
    options_preset(mechanism->options, subject.options);
    options_take(mechanism->options, subject.options, settings);
    return subject;
}

static const char *smaller_settings(const struct mechanism *mechanism)
{
    for (size_t i = 0; i < SMALLER; i++)
        if (strcmp(smaller[i].mechanism, mechanism->name) == 0)
            return smaller[i].settings;
    return "";
}

/* The test mechanisms, every row of the table with default or smaller options, and further options, each with
   every table of kernels. Ends with NULL. */
static struct subject *subjects_new(void)
{
    const struct mechanism *const *const mechanisms[] = {test_mechanisms, attention_mechanisms()};
    size_t rows = FURTHER, tables = 0;
    for (size_t i = 0; i < 2; i++)
        for (const struct mechanism *const *row = mechanisms[i]; *row != NULL; row++)
            rows++;
    while (kernels_all()[tables] != NULL)
        tables++;
    struct subject *subjects = calloc(rows * tables + 1, sizeof *subjects), *end = subjects;
    assert_non_null(subjects);
    for (size_t i = 0; i < tables; i++) {
        for (size_t j = 0; j < 2; j++)
            for (const struct mechanism *const *row = mechanisms[j]; *row != NULL; row++)
                *end++ = subject_of(*row, smaller_settings(*row), kernels_all()[i]);
        for (size_t k = 0; k < FURTHER; k++)
            *end++ = subject_of(attention_find(further[k].mechanism), further[k].settings, kernels_all()[i]);
    }
    return subjects;
}

static void subjects_free(struct subject *subjects)
{
    for (struct subject *subject = subjects; subject->mechanism != NULL; subject++)
        free(subject->options);
    free(subjects);
}

enum { LONGEST = 2400 }; /* longest sequence of all cases */

/* true if a sequence may have another number of keys than of queries. */
static bool does_cross(const struct subject *subject)
{
    struct problem_shape shape = {
        .num_queries = 2, .num_keys = 1, .head_dim = 19, .value_dim = 33, .max_len = LONGEST, .workers = 1};
    return subject->mechanism->mixes &&
           mechanism_refuses(subject->mechanism, subject->options, &shape) == NULL;
}

/* Lengths and widths that cross tiles and vectors and leave odd remainders; d and d_v differ. */
static struct attention_case case_of(const struct subject *subject)
{
    struct attention_case problem = {
        .mechanism = subject->mechanism,
        .options = subject->options,
        .kernels = subject->kernels,
        .num_sequences = 5,
        .num_heads = 2,
        .head_dim = 19,
        .value_dim = 33,
        .max_len = LONGEST,
        .queries = {33, 0, 100, 1, 70},
        .keys = {20, 3, 67, 0, 130},
        .call_key = 123,
        .start = 0.125f,
    };
    if (!does_cross(subject))
        memcpy(problem.keys, problem.queries, sizeof problem.keys);
    return problem;
}

static bool does_causal(const struct subject *subject)
{
    struct problem_shape shape = {
        .head_dim = 19, .value_dim = 33, .max_len = LONGEST, .causal = true, .workers = 1};
    return mechanism_refuses(subject->mechanism, subject->options, &shape) == NULL;
}

/* As many keys as queries. */
static void make_causal(struct attention_case *problem)
{
    problem->causal = true;
    memcpy(problem->keys, problem->queries, sizeof problem->keys);
}

static void layouts_do_not_change_a_bit(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++) {
        struct attention_case problem = case_of(subject);
        attention_case_fill(&problem, 1, true);
        problem.key_mask[1] = problem.key_mask[30] = 0;
        struct attention_result packed = attention_case_run(&problem);
        for (problem.layout = LAYOUT_INSIDE; problem.layout <= LAYOUT_APART; problem.layout++) {
            struct attention_result other = attention_case_run(&problem);
            attention_case_same_bits(&packed, &other, &problem, subject->mechanism->name);
            attention_result_free(&other);
        }
        attention_result_free(&packed);
        attention_case_free(&problem);
    }
    subjects_free(subjects);
}

static void check_threads(const struct subject *subject, bool causal)
{
    struct attention_case problem = case_of(subject);
    if (causal)
        make_causal(&problem);
    attention_case_fill(&problem, 1, true);
    problem.key_mask[1] = problem.key_mask[30] = 0;
    struct attention_result one = attention_case_run(&problem);
    static const int threads[] = {2, 5, 5, 40};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        problem.threads = threads[i];
        struct attention_result many = attention_case_run(&problem);
        attention_case_same_bits(&one, &many, &problem, subject->mechanism->name);
        attention_result_free(&many);
    }
    attention_result_free(&one);
    attention_case_free(&problem);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++) {
        check_threads(subject, false);
        if (does_causal(subject))
            check_threads(subject, true);
    }
    subjects_free(subjects);
}

/* The rows of one sequence in two results, `count` rows of `width` per head each. */
static void same_rows(const float *a, size_t first_a, const float *b, size_t first_b, size_t count,
                      size_t row, const char *what)
{
    check_same_bits(a + first_a * row, b + first_b * row, count * row * sizeof(float), what);
}

/* Sequence `s` of a (lengths of problem) equals sequence `t` of b (lengths of other), in the real rows of
   problem. */
static void same_sequence(const struct attention_case *problem, const struct attention_result *a, size_t s,
                          const struct attention_case *other, const struct attention_result *b, size_t t)
{
    const char *what = problem->mechanism->name;
    size_t query_a = attention_case_rows(problem->queries, s),
           query_b = attention_case_rows(other->queries, t);
    size_t key_a = attention_case_rows(problem->keys, s), key_b = attention_case_rows(other->keys, t);
    size_t d = problem->num_heads * problem->head_dim, d_v = problem->num_heads * problem->value_dim;
    same_rows(a->out, query_a, b->out, query_b, problem->queries[s], d_v, what);
    same_rows(a->dquery, query_a, b->dquery, query_b, problem->queries[s], d, what);
    same_rows(a->dkey, key_a, b->dkey, key_b, problem->keys[s], d, what);
    same_rows(a->dvalue, key_a, b->dvalue, key_b, problem->keys[s], d_v, what);
}

static void check_packed_alone_and_padded(const struct subject *subject, bool causal)
{
    static const uint64_t ids[] = {3, 1, 4, 15, 9};
    struct attention_case problem = case_of(subject), alone, padded;
    problem.sample_ids = ids;
    if (causal)
        make_causal(&problem);
    else if (subject->mechanism->competes) /* otherwise noise in the padding counts as queries */
        memcpy(problem.keys, problem.queries, sizeof problem.keys);
    attention_case_fill(&problem, 2, false);
    struct attention_result packed = attention_case_run(&problem);

    /* Padded: every sequence as long as the longest. The padding holds noise and contributes no gradient. */
    padded = problem;
    for (size_t s = 0; s < problem.num_sequences; s++) {
        padded.queries[s] = 100;
        padded.keys[s] = memcmp(problem.keys, problem.queries, sizeof problem.keys) == 0 ? 100 : 130;
    }
    attention_case_fill(&padded, 3, true);
    memset(padded.dout, 0, 5 * 100 * problem.num_heads * problem.value_dim * sizeof *padded.dout);
    memset(padded.key_mask, 0, attention_case_rows(padded.keys, 5));
    for (size_t s = 0; s < problem.num_sequences; s++) {
        attention_case_take_sequence(&padded, s, &problem, s);
        memset(padded.key_mask + attention_case_rows(padded.keys, s), 1, problem.keys[s]);
    }
    struct attention_result in_padding = attention_case_run(&padded);

    for (size_t s = 0; s < problem.num_sequences; s++) {
        same_sequence(&problem, &packed, s, &padded, &in_padding, s);
        alone = problem;
        alone.num_sequences = 1;
        alone.queries[0] = problem.queries[s];
        alone.keys[0] = problem.keys[s];
        alone.sample_ids = ids + s;
        attention_case_fill(&alone, 4, false);
        attention_case_take_sequence(&alone, 0, &problem, s);
        struct attention_result by_itself = attention_case_run(&alone);
        same_sequence(&problem, &packed, s, &alone, &by_itself, 0);
        attention_result_free(&by_itself);
        attention_case_free(&alone);
    }
    attention_result_free(&packed);
    attention_result_free(&in_padding);
    attention_case_free(&problem);
    attention_case_free(&padded);
}

/* One long sequence, which is spread over the threads (2,311 + 1,931 rows suffice), and two short ones,
   which are not; sizes without common divisors. few: only the last keys of the long one are kept. */
static void check_long_head(const struct subject *subject, bool causal, bool few)
{
    struct attention_case problem = case_of(subject);
    problem.num_sequences = 3;
    problem.num_heads = 1;
    problem.causal = causal;
    problem.queries[0] = 2311;
    problem.keys[0] = 1931;
    if (causal || !does_cross(subject))
        memcpy(problem.keys, problem.queries, sizeof problem.keys);
    problem.value_dim = 41;
    attention_case_fill(&problem, 8, true);
    memset(problem.key_mask + 7, 0, few ? problem.keys[0] - 11 : 1);
    struct attention_result one = attention_case_run(&problem);
    for (problem.threads = 2; problem.threads < 20; problem.threads += 3) {
        struct attention_result many = attention_case_run(&problem);
        attention_case_same_bits(&one, &many, &problem, subject->mechanism->name);
        attention_result_free(&many);
    }
    attention_result_free(&one);
    attention_case_free(&problem);
}

static void a_long_head_on_many_threads_is_the_same(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    const struct kernels *best =
        kernels_named(NULL, &(const char *){0}); /* the reference loops take a minute */
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++)
        for (int causal = 0; subject->kernels == best && causal <= does_causal(subject); causal++)
            for (int few = 0; few < 2; few++)
                check_long_head(subject, causal, few);
    subjects_free(subjects);
}

static void packed_alone_and_padded_are_the_same_bits(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++) {
        check_packed_alone_and_padded(subject, false);
        if (does_causal(subject))
            check_packed_alone_and_padded(subject, true);
    }
    subjects_free(subjects);
}

/* If queries compete and there are as many as keys, a masked token is absent as query and as key. */
static void a_masked_token_is_absent_where_queries_compete(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++) {
        if (!subject->mechanism->competes)
            continue;
        for (int causal = 0; causal <= does_causal(subject); causal++) {
            enum { LENGTH = 90 };
            struct attention_case masked = case_of(subject);
            masked.num_sequences = 1;
            masked.queries[0] = masked.keys[0] = LENGTH;
            masked.causal = causal != 0;
            struct attention_case absent = masked;
            attention_case_fill(&masked, 6, true);
            size_t d = masked.num_heads * masked.head_dim, d_v = masked.num_heads * masked.value_dim,
                   kept = 0;
            for (size_t i = 0; i < LENGTH; i++)
                kept += masked.key_mask[i] = i % 3 != 1;
            absent.queries[0] = absent.keys[0] = kept;
            attention_case_fill(&absent, 6, false);
            kept = 0;
            for (size_t i = 0; i < LENGTH; i++)
                if (masked.key_mask[i]) {
                    attention_case_take_rows(absent.query, kept, masked.query, i, 1, d);
                    attention_case_take_rows(absent.key, kept, masked.key, i, 1, d);
                    attention_case_take_rows(absent.value, kept, masked.value, i, 1, d_v);
                    attention_case_take_rows(absent.dout, kept++, masked.dout, i, 1, d_v);
                }
            struct attention_result with_mask = attention_case_run(&masked),
                                    without = attention_case_run(&absent);
            const char *what = subject->mechanism->name;
            size_t params = without.param_count * masked.num_heads * sizeof(float);
            check_same_bits(&with_mask.auxiliary, &without.auxiliary, sizeof(double), what);
            check_same_bits(with_mask.dparams, without.dparams, params, what);
            check_same_bits(with_mask.auxiliary_dparams, without.auxiliary_dparams, params, what);
            kept = 0;
            for (size_t i = 0; i < LENGTH; i++) {
                if (masked.key_mask[i]) {
                    same_rows(with_mask.out, i, without.out, kept, 1, d_v, what);
                    same_rows(with_mask.dquery, i, without.dquery, kept, 1, d, what);
                    same_rows(with_mask.dkey, i, without.dkey, kept, 1, d, what);
                    same_rows(with_mask.dvalue, i, without.dvalue, kept++, 1, d_v, what);
                    continue;
                }
                for (size_t c = 0; c < d_v; c++)
                    assert_true(with_mask.out[i * d_v + c] == 0);
                for (size_t c = 0; c < d; c++)
                    assert_true(with_mask.dquery[i * d + c] == masked.start);
            }
            attention_result_free(&with_mask);
            attention_result_free(&without);
            attention_case_free(&masked);
            attention_case_free(&absent);
        }
    }
    subjects_free(subjects);
}

/* Masks with holes, everything masked, and nothing masked. */
static void a_masked_key_is_an_absent_key(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++) {
        if (!does_cross(subject))
            continue;
        struct attention_case masked = case_of(subject), absent = masked;
        attention_case_fill(&masked, 6, true);
        size_t row = 0, d = masked.num_heads * masked.head_dim, d_v = masked.num_heads * masked.value_dim;
        for (size_t s = 0; s < masked.num_sequences; s++)
            for (size_t j = 0; j < masked.keys[s]; j++, row++)
                masked.key_mask[row] = s == 0 ? 0 : s == 1 ? 1 : j % 3 != 1;
        size_t rows = row;
        for (size_t s = row = 0; s < masked.num_sequences; s++) {
            absent.keys[s] = 0;
            for (size_t j = 0; j < masked.keys[s]; j++, row++)
                absent.keys[s] += masked.key_mask[row];
        }
        attention_case_fill(&absent, 6, false);
        size_t kept = 0;
        for (row = 0; row < rows; row++)
            if (masked.key_mask[row]) {
                attention_case_take_rows(absent.key, kept, masked.key, row, 1, d);
                attention_case_take_rows(absent.value, kept++, masked.value, row, 1, d_v);
            }
        struct attention_result with_mask = attention_case_run(&masked),
                                without = attention_case_run(&absent);
        const char *what = subject->mechanism->name;
        same_rows(with_mask.out, 0, without.out, 0, with_mask.query_rows, d_v, what);
        same_rows(with_mask.dquery, 0, without.dquery, 0, with_mask.query_rows, d, what);
        check_same_bits(&with_mask.auxiliary, &without.auxiliary, sizeof(double), what);
        for (row = kept = 0; row < rows; row++) {
            if (masked.key_mask[row]) {
                same_rows(with_mask.dkey, row, without.dkey, kept, 1, d, what);
                same_rows(with_mask.dvalue, row, without.dvalue, kept++, 1, d_v, what);
                continue;
            }
            for (size_t c = 0; c < d; c++)
                assert_true(with_mask.dkey[row * d + c] == masked.start);
            for (size_t c = 0; c < d_v; c++)
                assert_true(with_mask.dvalue[row * d_v + c] == masked.start);
        }
        attention_result_free(&with_mask);
        attention_result_free(&without);
        attention_case_free(&masked);
        attention_case_free(&absent);
    }
    subjects_free(subjects);
}

/* Output rows of the beginning keep their bits whatever follows, and gradients of these outputs do not
   reach later rows. */
static void the_future_is_not_seen(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++) {
        if (!does_causal(subject))
            continue;
        enum { LENGTH = 300, HEADS = 2, D = 19, D_V = 33 };
        static const size_t cuts[] = {3, 63, 64, 65, 96, 127, 130, 257, LENGTH - 1};
        struct attention_case problem = case_of(subject);
        problem.num_sequences = 1;
        problem.queries[0] = LENGTH;
        make_causal(&problem);
        for (int masked = 0; masked < 2; masked++) {
            attention_case_fill(&problem, 8, masked != 0);
            for (size_t j = 0; masked && j < LENGTH; j++)
                problem.key_mask[j] = j > 1 && j % 3 != 1; /* the first two queries see no key */
            struct attention_result whole = attention_case_run(&problem);
            for (size_t i = 0; masked && i < 2 * HEADS * D_V; i++)
                assert_true(whole.out[i] == 0);
            attention_result_free(&whole);
            memset(problem.dout + 64 * HEADS * D_V, 0, (LENGTH - 64) * HEADS * D_V * sizeof *problem.dout);
            whole = attention_case_run(&problem);
            for (size_t i = 64 * HEADS * D; i < LENGTH * HEADS * D; i++)
                assert_true(whole.dquery[i] == problem.start && whole.dkey[i] == problem.start);
            for (size_t i = 64 * HEADS * D_V; i < LENGTH * HEADS * D_V; i++)
                assert_true(whole.dvalue[i] == problem.start);
            for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
                size_t cut = cuts[c];
                struct attention_case other = problem;
                attention_case_fill(&other, 9, masked != 0);
                if (masked)
                    memcpy(other.key_mask, problem.key_mask, LENGTH);
                memcpy(other.query, problem.query, cut * HEADS * D * sizeof(float));
                memcpy(other.key, problem.key, cut * HEADS * D * sizeof(float));
                memcpy(other.value, problem.value, cut * HEADS * D_V * sizeof(float));
                memcpy(other.params, problem.params, whole.param_count * HEADS * sizeof(float));
                struct attention_result result = attention_case_run(&other);
                same_rows(result.out, 0, whole.out, 0, cut, HEADS * D_V, subject->mechanism->name);
                attention_result_free(&result);
                other.queries[0] = other.keys[0] = cut;
                result = attention_case_run(&other);
                same_rows(result.out, 0, whole.out, 0, cut, HEADS * D_V, subject->mechanism->name);
                attention_result_free(&result);
                attention_case_free(&other);
            }
            attention_result_free(&whole);
            attention_case_free(&problem);
        }
    }
    subjects_free(subjects);
}

static void a_query_that_meets_no_key_gives_zero_and_no_gradient(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++) {
        struct attention_case problem = case_of(subject);
        attention_case_fill(&problem, 7, true);
        memset(problem.key_mask, 0, attention_case_rows(problem.keys, problem.num_sequences));
        struct attention_result result = attention_case_run(&problem);
        size_t heads = problem.num_heads;
        for (size_t i = 0; i < result.query_rows * heads * problem.value_dim; i++)
            assert_true(result.out[i] == 0);
        for (size_t i = 0; i < result.query_rows * heads * problem.head_dim; i++)
            assert_true(result.dquery[i] == problem.start);
        for (size_t i = 0; i < result.key_rows * heads * problem.head_dim; i++)
            assert_true(result.dkey[i] == problem.start);
        for (size_t i = 0; i < result.key_rows * heads * problem.value_dim; i++)
            assert_true(result.dvalue[i] == problem.start);
        for (size_t i = 0; i < result.param_count * heads; i++)
            assert_true(result.dparams[i] == problem.start && result.auxiliary_dparams[i] == 0);
        assert_true(result.auxiliary == 0);
        attention_result_free(&result);
        attention_case_free(&problem);
    }
    subjects_free(subjects);
}

static void a_batch_of_nothing_is_nothing(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++) {
        struct attention_case problem = case_of(subject);
        memset(problem.queries, 0, sizeof problem.queries);
        memset(problem.keys, 0, sizeof problem.keys);
        for (size_t sequences = 0; sequences < 3; sequences++) {
            problem.num_sequences = sequences;
            attention_case_fill(&problem, 7, false);
            struct attention_result result = attention_case_run(&problem);
            assert_true(result.auxiliary == 0);
            for (size_t i = 0; i < result.param_count * problem.num_heads; i++)
                assert_true(result.dparams[i] == problem.start);
            attention_result_free(&result);
            attention_case_free(&problem);
        }
    }
    subjects_free(subjects);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Counts every malloc of this program, with glibc and without sanitizers, which replace malloc. */
extern void *__libc_malloc(size_t bytes);
static size_t mallocs;

void *malloc(size_t bytes)
{
    mallocs++;
    return __libc_malloc(bytes);
}

static void computing_allocates_nothing(void **state)
{
    (void)state;
    struct subject *subjects = subjects_new();
    struct host host;
    struct pool *pool;
    host_init(&host);
    check_status(&host, pool_new(&host, 1, &pool), HASHATTN_OK, NULL);
    for (const struct subject *subject = subjects; subject->mechanism != NULL; subject++) {
        struct attention_case problem = case_of(subject);
        attention_case_fill(&problem, 1, true);
        problem.key_mask[1] = 0;
        size_t offsets[2 * (CASE_SEQUENCES + 1)];
        struct case_call made = attention_case_call(&problem, pool, offsets);
        check_status(&host, case_plan(&host, &made), HASHATTN_OK, NULL);
        struct attention_call call = made.call;
        struct attention_result room = attention_case_run(&problem);
        size_t saved_floats = room.saved_bytes / 4, scratch_floats = room.scratch_bytes / 4;
        float *saved = guard_floats(saved_floats), *scratch = guard_floats(scratch_floats);
        call.saved = saved;
        call.scratch = scratch;
        struct packed out = call.query, dquery = call.query, dkey = call.key, dvalue = call.value;
        out.width = problem.value_dim;
        out.head_stride = problem.value_dim;
        out.row_stride = problem.num_heads * problem.value_dim;
        out.data = room.out;
        dquery.data = room.dquery;
        dkey.data = room.dkey;
        dvalue.data = room.dvalue;
        free(malloc(1));
        size_t before = mallocs;
        assert_true(before > 0);
        attention_forward(&call, out);
        attention_auxiliary(&call, room.auxiliary_dparams);
        if (subject->mechanism->host.backward != NULL)
            attention_backward(&call, out, out, dquery, dkey, dvalue, room.dparams);
        assert_int_equal(mallocs, before);
        guard_free(saved, saved_floats);
        guard_free(scratch, scratch_floats);
        attention_result_free(&room);
        attention_case_free(&problem);
    }
    pool_free(&host, pool);
    subjects_free(subjects);
}
#else
static void computing_allocates_nothing(void **state)
{
    (void)state;
    print_message("SKIPPED: counting allocations (under a sanitizer)\n");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_do_not_change_a_bit),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(a_long_head_on_many_threads_is_the_same),
        cmocka_unit_test(packed_alone_and_padded_are_the_same_bits),
        cmocka_unit_test(a_masked_key_is_an_absent_key),
        cmocka_unit_test(a_masked_token_is_absent_where_queries_compete),
        cmocka_unit_test(the_future_is_not_seen),
        cmocka_unit_test(a_query_that_meets_no_key_gives_zero_and_no_gradient),
        cmocka_unit_test(a_batch_of_nothing_is_nothing),
        cmocka_unit_test(computing_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
