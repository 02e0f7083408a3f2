/* lha against double precision, starting from its parameters: every mode, hash and mask; and the
   properties of lha itself. test_grouped.c tests the attention below the scores, test_every_mechanism.c
   what holds for every mechanism. Bugs planted and caught: the hash of keys for queries; shared and
   private weights swapped; the mean for the sum of a joint score and the sum for the mean; a mode without
   its norm; the second matrix of queries for keys; the members in the targets of mode paper by lists, in
   those of released by the best group, in those of strict membership by the tokens' choice; lists too
   short for one group each; gradients of a group of rows added again with the next; of a sample: the mean
   over all queries, rows for attention, for either hash or groups of the first rows, the same draw always;
   of its weights: those of other rows, none in the gradient, none in the loss; of rounds: one softmax over
   the groups of all, the sum of their losses for the mean, the best group of the first round for all.
   Covers: lha_hashes.c, lha_loss.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "support/check.h"
#include "support/group_case.h"

enum { D = 20, D_V = 12 };

/* z (n, groups) += weight * H(x): one matrix, or two with a relu between them; the last row of each is a
   bias. */
static void add_scores(double *z, const float *x, size_t n, size_t groups, double weight, const float *first,
                       const float *second, size_t width)
{
    double *hidden = calloc(width + 1, sizeof *hidden);
    for (size_t i = 0; i < n; i++, x += D, z += groups) {
        for (size_t h = 0; h < width; h++) {
            hidden[h] = (double)first[D * width + h];
            for (size_t c = 0; c < D; c++)
                hidden[h] += (double)x[c] * (double)first[c * width + h];
            hidden[h] = hidden[h] > 0 ? hidden[h] : 0;
        }
        for (size_t b = 0; b < groups; b++) {
            double sum = width == 0 ? 0 : (double)second[width * groups + b];
            for (size_t h = 0; h < width; h++)
                sum += hidden[h] * (double)second[h * groups + b];
            for (size_t c = 0; c < D && width == 0; c++)
                sum += (double)x[c] * (double)first[c * groups + b];
            z[b] += weight * sum;
        }
    }
    free(hidden);
}

struct variant {
    const char *settings;
    size_t n_q, n_k, groups, width; /* width 0: linear */
    bool paper, shared, joint, causal, strict;
    size_t more_rounds;
};

/* Columns of the scores. */
static size_t lists_of(const struct variant *v)
{
    return v->groups * (1 + v->more_rounds);
}

/* The scores of the variant, from the parameters of the case. */
static void fill_scores(const struct attention_case *data, const struct variant *v, struct oracle_groups *o)
{
    size_t n_q = v->n_q, n_k = v->n_k, groups = lists_of(v), matrix = D * groups;
    double half = o->joint && !v->paper ? 0.5 : 1;
    double *z_query = o->z_query, *z_key = o->joint ? o->z_query : o->z_key;
    const float *p = data->params, *query = data->query, *key = data->key;
    size_t first = (D + 1) * v->width, second = (v->width + 1) * groups;
    if (v->width > 0) {
        add_scores(z_query, query, n_q, groups, half, p, p + first, v->width);
        add_scores(z_key, key, n_k, groups, half, p + first + second, p + 2 * first + second, v->width);
    } else if (v->shared) {
        add_scores(z_query, query, n_q, groups, 0.9 * half, p, NULL, 0);
        add_scores(z_query, query, n_q, groups, 0.1 * half, p + matrix, NULL, 0);
        add_scores(z_key, key, n_k, groups, 0.9 * half, p, NULL, 0);
        add_scores(z_key, key, n_k, groups, 0.1 * half, p + 2 * matrix, NULL, 0);
    } else {
        add_scores(z_query, query, n_q, groups, half, p, NULL, 0);
        add_scores(z_key, key, n_k, groups, half, p + matrix, NULL, 0);
    }
}

static void check_variant(const struct variant *v, const struct kernels *kernels)
{
    void *options = group_case_options("lha", v->settings);
    struct attention_case data = group_case_new("lha", options, v->n_q, v->n_k, D, D_V, v->causal);
    data.kernels = kernels;
    struct oracle_groups o = group_case_oracle(&data, v->groups, v->paper, v->joint, v->strict);
    fill_scores(&data, v, &o);
    group_case_check(&data, &o, v->settings);
    attention_case_free(&data);
    free(options);
}

static void scores_come_from_the_parameters(void **state)
{
    (void)state;
    static const struct variant variants[] = {
        {"num_buckets=6", 150, 131, 6, .shared = true},
        {"num_buckets=6 mode=paper", 150, 131, 6, .paper = true},
        {"num_buckets=6 hash=linear", 150, 131, 6, .width = 0},
        {"num_buckets=6 mode=paper hash=shared", 150, 131, 6, .paper = true, .shared = true},
        {"num_buckets=6 hash=mlp hash_width=9", 150, 131, 6, .width = 9},
        {"num_buckets=6 mode=paper hash=mlp hash_width=9 joint=true", 131, 131, 6, 9, .paper = true,
         .joint = true},
        {"num_buckets=6 joint=true", 131, 131, 6, .shared = true, .joint = true},
        {"num_buckets=4 membership=whole", 131, 131, 4, .shared = true, .causal = true},
        {"num_buckets=4 membership=whole mode=paper", 131, 131, 4, .paper = true, .causal = true},
        {"num_buckets=4", 131, 131, 4, .shared = true, .causal = true, .strict = true},
        {"num_buckets=4 hash=mlp hash_width=9", 131, 131, 4, 9, .causal = true, .strict = true},
        {"num_buckets=6 balance=0", 150, 131, 6, .shared = true},
        {"num_buckets=2 balance=9", 150, 131, 2, .shared = true},
        {"num_buckets=6 rounds=2", 150, 131, 6, .shared = true, .more_rounds = 1},
        {"num_buckets=5 rounds=3 mode=paper hash=mlp hash_width=9", 150, 131, 5, 9, .paper = true,
         .more_rounds = 2},
        {"num_buckets=4 rounds=2", 131, 131, 4, .shared = true, .causal = true, .strict = true,
         .more_rounds = 1},
        {"num_buckets=4 rounds=2 membership=whole", 131, 131, 4, .shared = true, .causal = true,
         .more_rounds = 1},
        {"num_buckets=6 partition=true", 150, 131, 6, .shared = true},
        {"num_buckets=4 partition=true membership=whole", 131, 131, 4, .shared = true, .causal = true},
        {"num_buckets=50", 20, 30, 50, .shared = true}, /* more groups than tokens */
        {"num_buckets=50", 1, 1, 50, .shared = true},
        {"num_buckets=50 mode=paper", 1, 1, 50, .paper = true, .causal = true, .strict = true},
    };
    size_t count = sizeof variants / sizeof *variants;
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++)
        for (size_t i = 0; i < count; i++)
            check_variant(&variants[i], *kernels);
}

/* ---- the loss ------------------------------------------------------------------------------------------ */

/* Members of each group in the targets, (n, lists): over the whole sequence, whatever attention does. */
static bool *groups_of(const struct oracle_groups *o, const struct variant *v, const double *z, size_t n)
{
    bool *home = calloc(n * lists_of(v), 1);
    for (size_t round = 0; round < o->rounds; round++) {
        double *own = oracle_round(o, z, n, round), *shares = oracle_shares(o, own, n);
        bool *members = oracle_members(o, own, n);
        for (size_t i = 0; i < n; i++)
            for (size_t b = 0; b < o->groups; b++)
                home[i * lists_of(v) + round * o->groups + b] = v->paper ? oracle_is_best(o, shares, i, b)
                                                                : o->partition
                                                                    ? members[i * o->groups + b]
                                                                    : oracle_is_taken(o, shares, n, i, b);
        free(members);
        free(shares);
        free(own);
    }
    return home;
}

/* psi (n_q + n_k, rounds, groups), from all pairs of the rows that attend. */
static double *targets_of(const struct oracle_groups *o, const struct variant *v)
{
    size_t lists = lists_of(v);
    double *psi = calloc((o->n_q + o->n_k) * lists, sizeof *psi), *a = calloc(o->n_k, sizeof *a);
    bool *query_groups = groups_of(o, v, o->z_query, o->n_q);
    bool *key_groups = groups_of(o, v, o->joint ? o->z_query : o->z_key, o->n_k);
    for (size_t i = 0; i < o->n_q; i++) {
        double sum = 0;
        for (size_t j = 0; j < o->n_k; j++) {
            double dot = 0;
            for (size_t c = 0; c < D; c++)
                dot += o->softmax.query[i * D + c] * o->softmax.key[j * D + c];
            sum += a[j] = exp(dot / sqrt(D));
        }
        for (size_t j = 0; j < o->n_k; j++)
            for (size_t b = 0; b < lists; b++) {
                psi[i * lists + b] += key_groups[j * lists + b] ? a[j] / sum : 0;
                psi[(o->n_q + j) * lists + b] += query_groups[i * lists + b] ? a[j] / sum : 0;
            }
    }
    for (size_t i = 0; i < (o->n_q + o->n_k) * o->rounds; i++) {
        double sum = 0;
        for (size_t b = 0; b < v->groups; b++)
            sum += psi[i * v->groups + b];
        for (size_t b = 0; b < v->groups; b++)
            psi[i * v->groups + b] /= sum;
    }
    free(query_groups);
    free(key_groups);
    free(a);
    return psi;
}

static double mean_divergence(const double *psi, const double *z, size_t n, size_t groups)
{
    double total = 0;
    for (size_t i = 0; i < n; i++, psi += groups, z += groups) {
        double sum = 0;
        for (size_t b = 0; b < groups; b++)
            sum += exp(z[b]);
        for (size_t b = 0; b < groups; b++)
            total += psi[b] > 0 ? psi[b] * (log(psi[b]) - z[b] + log(sum)) : 0;
    }
    return total / (double)n;
}

/* The loss for fixed targets. */
static double loss_at(const struct attention_case *data, const struct variant *v, const double *psi)
{
    struct oracle_groups o = group_case_oracle(data, v->groups, v->paper, v->joint, v->strict);
    fill_scores(data, v, &o);
    double loss = mean_divergence(psi, o.z_query, v->n_q * o.rounds, v->groups) +
                  mean_divergence(psi + v->n_q * lists_of(v), o.joint ? o.z_query : o.z_key,
                                  v->n_k * o.rounds, v->groups);
    oracle_groups_free(&o);
    return loss;
}

static void check_loss(const struct variant *v)
{
    char settings[200];
    snprintf(settings, sizeof settings, "%s targets=exact", v->settings);
    void *options = group_case_options("lha", settings);
    struct attention_case data = group_case_new("lha", options, v->n_q, v->n_k, D, D_V, v->causal);
    size_t params = attention_param_count(data.mechanism, options, &(struct parameter_sizes){D, D_V, 0});
    for (size_t i = 0; i < params; i++)
        data.params[i] *= 0.3f; /* scores of a few units */
    struct oracle_groups o = group_case_oracle(&data, v->groups, v->paper, v->joint, v->strict);
    fill_scores(&data, v, &o);
    oracle_groups_run(&o);
    double *psi = targets_of(&o, v), loss = loss_at(&data, v, psi);
    assert_true(loss > 0);
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        data.kernels = *kernels;
        struct attention_result result = attention_case_run(&data);
        /* Targets have an error of 2e-5, scores (below 10) of 1e-5. */
        check_near(result.auxiliary, loss, 1e-4 * (1 + loss), v->settings);
        for (size_t i = 0; i < params; i++) {
            float before = data.params[i], step = 2e-5f;
            double width;
            data.params[i] = before + step;
            width = (double)data.params[i];
            double want = loss_at(&data, v, psi);
            data.params[i] = before - step;
            width -= (double)data.params[i];
            want = (want - loss_at(&data, v, psi)) / width;
            data.params[i] = before;
            /* With so short a step few relus change sign; targets and scores have the errors above. */
            check_near((double)result.auxiliary_dparams[i], want, 2e-4, v->settings);
        }
        attention_result_free(&result);
    }
    free(psi);
    oracle_groups_free(&o);
    attention_case_free(&data);
    free(options);
}

static void hashes_learn_the_shares_of_attention(void **state)
{
    (void)state;
    static const struct variant variants[] = {
        {"num_buckets=5", 90, 71, 5, .shared = true},
        {"num_buckets=5 mode=paper", 90, 71, 5, .paper = true},
        {"num_buckets=5 hash=mlp hash_width=7", 70, 71, 5, .width = 7},
        {"num_buckets=5 joint=true", 71, 71, 5, .shared = true, .joint = true},
        {"num_buckets=5 mode=paper hash=mlp hash_width=7 joint=true", 71, 71, 5, 7, .paper = true,
         .joint = true},
        {"num_buckets=4 membership=whole", 71, 71, 4, .shared = true, .causal = true},
        {"num_buckets=4 mode=paper", 71, 71, 4, .paper = true, .causal = true, .strict = true},
        {"num_buckets=4", 71, 71, 4, .shared = true, .causal = true, .strict = true},
        {"num_buckets=5 balance=0", 90, 71, 5, .shared = true},
        {"num_buckets=5 balance=0 mode=paper", 90, 71, 5, .paper = true},
        {"num_buckets=4 balance=0", 71, 71, 4, .shared = true, .causal = true, .strict = true},
        {"num_buckets=30 enlargement=1 mode=paper", 59, 71, 30, .paper = true}, /* lists have 30 places */
        {"num_buckets=5 rounds=2", 90, 71, 5, .shared = true, .more_rounds = 1},
        {"num_buckets=5 partition=true", 90, 71, 5, .shared = true},
        {"num_buckets=5 rounds=3 mode=paper hash=mlp hash_width=7", 70, 71, 5, 7, .paper = true,
         .more_rounds = 2},
        {"num_buckets=4 rounds=2", 71, 71, 4, .shared = true, .causal = true, .strict = true,
         .more_rounds = 1},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        check_loss(&variants[i]);
}

/* With many features and sufficiently short rows the estimated loss is the exact one; with few features or
   long rows it differs. */
static void the_estimate_comes_near_the_exact_loss(void **state)
{
    (void)state;
    static const char *const settings[] = {"num_buckets=5 mode=paper targets=exact",
                                           "num_buckets=5 mode=paper targets=features num_features=4096",
                                           "num_buckets=5 mode=paper targets=features num_features=4096 "
                                           "both_signs=true"};
    double losses[3];
    for (size_t i = 0; i < 3; i++) {
        void *options = group_case_options("lha", settings[i]);
        struct attention_case data = group_case_new("lha", options, 120, 120, D, D_V, false);
        for (size_t c = 0; c < 120 * D; c++) {
            data.query[c] *= 0.4f;
            data.key[c] *= 0.4f;
        }
        struct attention_result result = attention_case_run(&data);
        losses[i] = result.auxiliary;
        attention_result_free(&result);
        attention_case_free(&data);
        free(options);
    }
    check_near(losses[1], losses[0], 0.01 * losses[0], "estimated loss");
    check_near(losses[2], losses[0], 0.01 * losses[0], "estimated loss with both signs");
    assert_true(losses[1] != losses[0] && losses[2] != losses[0] && losses[2] != losses[1]);
}

static struct attention_result run_with(const char *settings, size_t n_q, size_t n_k, uint64_t draw)
{
    void *options = group_case_options("lha", settings);
    struct attention_case data = group_case_new("lha", options, n_q, n_k, D, D_V, false);
    data.call_key = draw;
    struct attention_result result = attention_case_run(&data);
    attention_case_free(&data);
    free(options);
    return result;
}

/* A sample as large as all queries gives the exact loss, to the bit. */
static void all_queries_are_a_sample(void **state)
{
    (void)state;
    static const struct {
        const char *exact, *sampled;
        size_t n_q, n_k, params;
    } pairs[] = {{"num_buckets=5 targets=exact", "num_buckets=5 samples_per_bucket=30", 150, 90, 15 * D},
                 {"num_buckets=5 rounds=3 targets=exact", "num_buckets=5 rounds=3 samples_per_bucket=30", 150,
                  90, 3 * 15 * D},
                 {"num_buckets=5 mode=paper hash=mlp hash_width=7 joint=true targets=exact",
                  "num_buckets=5 mode=paper hash=mlp hash_width=7 joint=true samples_per_bucket=900", 70, 70,
                  2 * (7 * (D + 1) + 8 * 5)}};
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        struct attention_result a = run_with(pairs[k].exact, pairs[k].n_q, pairs[k].n_k, 0),
                                b = run_with(pairs[k].sampled, pairs[k].n_q, pairs[k].n_k, 0);
        assert_true(a.auxiliary == b.auxiliary);
        assert_memory_equal(a.auxiliary_dparams, b.auxiliary_dparams, pairs[k].params * sizeof(float));
        attention_result_free(&a);
        attention_result_free(&b);
    }
}

/* Averaged over draws, a sample gives the exact gradient of the hash of queries, and nearly that of the
   hash of keys, whose targets are quotients of sums over the sample. With joint, both hashes have both
   terms. */
static void samples_stand_for_all_queries(void **state)
{
    (void)state;
    enum { N = 130, DRAWS = 300, COUNT = 2 * D * 5 };
    static const char *const exact[] = {"num_buckets=5 hash=linear targets=exact",
                                        "num_buckets=5 hash=linear joint=true targets=exact"};
    static const char *const sampled[] = {"num_buckets=5 hash=linear samples_per_bucket=3",
                                          "num_buckets=5 hash=linear joint=true samples_per_bucket=3"};
    for (size_t k = 0; k < 2; k++) {
        struct attention_result want = run_with(exact[k], N, N, 0);
        double mean[COUNT] = {0}, square[COUNT] = {0}, size = 0, off = 0;
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            struct attention_result result = run_with(sampled[k], N, N, draw);
            for (size_t i = 0; i < COUNT; i++) {
                mean[i] += (double)result.auxiliary_dparams[i] / DRAWS;
                square[i] += pow((double)result.auxiliary_dparams[i], 2) / DRAWS;
            }
            attention_result_free(&result);
        }
        for (size_t i = 0; i < COUNT; i++) {
            double error = sqrt(fmax(square[i] - mean[i] * mean[i], 0) / DRAWS);
            if (k == 0 && i < COUNT / 2)
                check_near(mean[i], (double)want.auxiliary_dparams[i], 5 * error + 1e-6, "mean over draws");
            size += pow((double)want.auxiliary_dparams[i], 2);
            off += pow(mean[i] - (double)want.auxiliary_dparams[i], 2);
        }
        assert_true(off < 0.01 * size);
        attention_result_free(&want);
    }
}

/* 64 samples of 100 queries, of which 36 represent two queries and 28 one; and 100 of 130. The gradient of
   the hash of queries is a mean over queries, so the squares of its errors over their own variance average
   1. Samples of equal weight would be off by a tenth. */
static void samples_weigh_what_they_stand_for(void **state)
{
    (void)state;
    enum { DRAWS = 300, COUNT = D * 4 };
    static const struct {
        const char *mode;
        size_t n, each;
    } cases[] = {{"paper", 100, 16}, {"released", 100, 16}, {"paper", 130, 25}};
    for (size_t k = 0; k < 3; k++) {
        char exact[80], sampled[80];
        snprintf(exact, sizeof exact, "num_buckets=4 hash=linear targets=exact mode=%s", cases[k].mode);
        snprintf(sampled, sizeof sampled, "num_buckets=4 hash=linear samples_per_bucket=%zu mode=%s",
                 cases[k].each, cases[k].mode);
        struct attention_result want = run_with(exact, cases[k].n, cases[k].n, 0);
        double mean[COUNT] = {0}, square[COUNT] = {0}, all = 0;
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            struct attention_result result = run_with(sampled, cases[k].n, cases[k].n, draw);
            for (size_t i = 0; i < COUNT; i++) {
                mean[i] += (double)result.auxiliary_dparams[i] / DRAWS;
                square[i] += pow((double)result.auxiliary_dparams[i], 2) / DRAWS;
            }
            attention_result_free(&result);
        }
        for (size_t i = 0; i < COUNT; i++) {
            double error = sqrt((square[i] - mean[i] * mean[i]) / DRAWS);
            check_near(mean[i], (double)want.auxiliary_dparams[i], 5 * error, "mean over draws");
            all += pow((mean[i] - (double)want.auxiliary_dparams[i]) / error, 2);
        }
        /* The 80 numbers depend on 30 or 36 independent draws: `all` varies like the mean of 30 squares. */
        check_near(all / COUNT, 1, 4 * sqrt(2.0 / 30), "squares of errors");
        attention_result_free(&want);
    }
}

/* For one draw, the loss falls as its gradient predicts: both use the same weights. The hash of queries
   moves so little that no group selects another query. */
static void check_slope(const char *settings, size_t count)
{
    enum { N = 130, MOST = 3 * D * 4 };
    void *options = group_case_options("lha", settings);
    struct attention_case data = group_case_new("lha", options, N, N, D, D_V, false);
    struct attention_result here = attention_case_run(&data);
    float along[MOST];
    double want = 0, losses[2];
    random_normals(8, 0, along, count);
    for (size_t i = 0; i < count; i++)
        want += (double)here.auxiliary_dparams[i] * (double)along[i];
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < count; i++)
            data.params[i] += along[i] * (side == 0 ? 0x1p-11f : -0x1p-10f);
        struct attention_result there = attention_case_run(&data);
        losses[side] = there.auxiliary;
        attention_result_free(&there);
    }
    /* Losses of about 1 have a few roundings, and so has their difference over 2^-10. */
    check_near((losses[0] - losses[1]) * 0x1p10, want, 0.01 * fabs(want), "slope");
    attention_result_free(&here);
    attention_case_free(&data);
    free(options);
}

static void a_sampled_loss_has_its_gradient(void **state)
{
    (void)state;
    check_slope("num_buckets=4 hash=linear samples_per_bucket=25 mode=paper", D * 4);
    check_slope("num_buckets=4 hash=linear samples_per_bucket=25 mode=paper rounds=3", 3 * D * 4);
}

/* A step along the negative gradient lowers the loss: for exact targets always, for estimated ones on
   average. */
static void descent_lowers_the_loss(void **state)
{
    (void)state;
    static const char *const settings[] = {"num_buckets=5 targets=exact",
                                           "num_buckets=5 targets=features",
                                           "num_buckets=5 targets=features mode=paper",
                                           "num_buckets=5",
                                           "num_buckets=5 mode=paper",
                                           "num_buckets=5 targets=features num_features=255 both_signs=true"};
    for (size_t s = 0; s < 6; s++) {
        void *options = group_case_options("lha", settings[s]);
        struct attention_case data = group_case_new("lha", options, 200, 200, D, D_V, false);
        size_t params = attention_param_count(data.mechanism, options, &(struct parameter_sizes){D, D_V, 0});
        double first = 0, last = 0;
        for (size_t step = 0; step < 60; step++) {
            struct attention_result result = attention_case_run(&data);
            first = step == 0 ? result.auxiliary : first;
            last = result.auxiliary;
            for (size_t i = 0; i < params; i++)
                data.params[i] -= 0.1f * result.auxiliary_dparams[i];
            attention_result_free(&result);
        }
        assert_true(last < 0.5 * first);
        attention_case_free(&data);
        free(options);
    }
}

/* One group is plain attention: of normalized rows with mode released; equal to softmax up to rounding
   with mode paper. */
static void one_group_is_softmax(void **state)
{
    (void)state;
    void *options = group_case_options("lha", "num_buckets=1 mode=paper");
    struct attention_case data = group_case_new("lha", options, 140, 97, D, D_V, false);
    struct attention_result lha = attention_case_run(&data);
    data.mechanism = attention_find("softmax");
    struct attention_result softmax = attention_case_run(&data);
    /* Both are sums of 97 weighted values; weights have errors of about 1e-5 at scores below 30. */
    for (size_t i = 0; i < 140 * D_V; i++)
        check_near((double)lha.out[i], (double)softmax.out[i], 1e-5, "one bucket");
    attention_result_free(&lha);
    attention_result_free(&softmax);
    attention_case_free(&data);
    free(options);
}

/* Tokens have no positions: permuted tokens give the same rows in permuted order. */
static void order_does_not_matter(void **state)
{
    (void)state;
    enum { N = 120 };
    void *options = group_case_options("lha", "num_buckets=5");
    struct attention_case data = group_case_new("lha", options, N, N, D, D_V, false);
    struct attention_case other = group_case_new("lha", options, N, N, D, D_V, false);
    uint32_t order[N];
    random_permutation(3, order, N);
    for (size_t i = 0; i < N; i++) {
        memcpy(other.query + i * D, data.query + order[i] * D, D * sizeof(float));
        memcpy(other.key + i * D, data.key + order[i] * D, D * sizeof(float));
        memcpy(other.value + i * D_V, data.value + order[i] * D_V, D_V * sizeof(float));
    }
    struct attention_result a = attention_case_run(&data), b = attention_case_run(&other);
    for (size_t i = 0; i < N; i++)
        for (size_t c = 0; c < D_V; c++)
            check_near((double)b.out[i * D_V + c], (double)a.out[order[i] * D_V + c], 1e-5, "another order");
    attention_result_free(&a);
    attention_result_free(&b);
    attention_case_free(&data);
    attention_case_free(&other);
    free(options);
}

/* If all scores are equal, zero or NaN, lower indices are selected and all results are finite. */
static void scores_without_meaning_are_defined(void **state)
{
    (void)state;
    void *options = group_case_options("lha", "num_buckets=4 enlargement=1");
    struct attention_case data = group_case_new("lha", options, 40, 40, D, D_V, false);
    size_t params = attention_param_count(data.mechanism, options, &(struct parameter_sizes){D, D_V, 0});
    memset(data.params, 0, params * sizeof *data.params);
    struct attention_result zero = attention_case_run(&data);
    for (size_t i = 0; i < 40; i++) /* each group has the first ten, so 11 to 40 meet no key */
        for (size_t c = 0; c < D_V; c++)
            assert_true(i < 10 ? zero.out[i * D_V + c] != 0 : zero.out[i * D_V + c] == 0);
    for (size_t i = 0; i < params; i++)
        data.params[i] = NAN;
    struct attention_result nan = attention_case_run(&data);
    check_same_bits(zero.out, nan.out, 40 * D_V * sizeof(float), "NaN scores");
    check_same_bits(zero.dkey, nan.dkey, 40 * D * sizeof(float), "NaN scores");
    attention_result_free(&zero);
    attention_result_free(&nan);
    attention_case_free(&data);
    free(options);
}

static void refusals(void **state)
{
    (void)state;
    void *options = group_case_options("lha", "joint=true");
    struct attention_case data = group_case_new("lha", options, 40, 41, D, D_V, false);
    struct host host;
    struct pool *pool;
    size_t offsets[2 * (CASE_SEQUENCES + 1)];
    host_init(&host);
    check_status(&host, pool_new(&host, 1, &pool), HASHATTN_OK, NULL);
    struct case_call made = attention_case_call(&data, pool, offsets);
    check_status(
        &host, case_plan(&host, &made), HASHATTN_REFUSED,
        "lha: joint needs as many queries as keys, which are the same tokens (sequence 0: 40 queries, 41");
    made.shape.key_offsets = made.shape.query_offsets;
    made.call.params = NULL;
    check_status(&host, case_plan(&host, &made), HASHATTN_INVALID,
                 "learned parameters per head, none were given");
    attention_case_free(&data);
    free(options);
    options = group_case_options("lha", "partition=true");
    data = group_case_new("lha", options, 40, 40, D, D_V, true);
    made = attention_case_call(&data, pool, offsets);
    check_status(&host, case_plan(&host, &made), HASHATTN_REFUSED,
                 "lha: partition places a token among later ones: causal attention needs membership whole");
    attention_case_free(&data);
    free(options);
    pool_free(&host, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_come_from_the_parameters),
        cmocka_unit_test(hashes_learn_the_shares_of_attention),
        cmocka_unit_test(the_estimate_comes_near_the_exact_loss),
        cmocka_unit_test(all_queries_are_a_sample),
        cmocka_unit_test(samples_stand_for_all_queries),
        cmocka_unit_test(samples_weigh_what_they_stand_for),
        cmocka_unit_test(a_sampled_loss_has_its_gradient),
        cmocka_unit_test(descent_lowers_the_loss),
        cmocka_unit_test(one_group_is_softmax),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(scores_without_meaning_are_defined),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
