/* What objectives share.
   SPDX-License-Identifier: Apache-2.0 */
#include "objectives/objective.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const struct objective *objective_find(const char *name)
{
    for (const struct objective *const *objective = objective_table; *objective != NULL; objective++)
        if (strcmp((*objective)->name, name) == 0)
            return *objective;
    return NULL;
}

size_t objective_targets(const struct objective *objective, const struct rows *rows, bool pairs)
{
    assert(!pairs || rows->num_sequences % 2 == 0);
    return objective->place == TARGET_ROW ? rows->count : rows->num_sequences / (pairs ? 2 : 1);
}

double label_f1(const double *weights)
{
    double twice = 2 * weights[LABEL_RIGHT], all = twice + weights[LABEL_WRONG] + weights[LABEL_MISSED];
    return all == 0 ? 0 : twice / all;
}

double label_macro_f1(const double *weights, size_t labels)
{
    size_t seen = 0;
    double sum = 0;
    for (const double *of = weights; of < weights + labels * LABEL_COUNTS; of += LABEL_COUNTS) {
        seen += of[LABEL_RIGHT] + of[LABEL_WRONG] + of[LABEL_MISSED] > 0;
        sum += label_f1(of);
    }
    return seen == 0 ? NAN : sum / (double)seen;
}

const char *const id_sums[] = {"loss", "correct", "count", NULL};

static double mean(const double *sums, size_t of)
{
    return sums == NULL ? 0 : sums[ID_COUNT] == 0 ? NAN : sums[of] / sums[ID_COUNT];
}

double id_loss(const void *self, const double *sums)
{
    (void)self;
    return mean(sums, ID_LOSS);
}

double id_perplexity(const void *self, const double *sums)
{
    (void)self;
    return exp(mean(sums, ID_LOSS));
}

double id_accuracy(const void *self, const double *sums)
{
    (void)self;
    return mean(sums, ID_CORRECT);
}

size_t majority_size(size_t num_outputs)
{
    return (num_outputs + 2) * sizeof(size_t);
}

/* counts[0]: number of targets; counts[1]: number of the most frequent id; then the number of each id. */
void majority_count(const struct targets *targets, size_t n, size_t first, size_t num_outputs, size_t *counts)
{
    for (size_t i = 0; i < n; i++) {
        if (targets->weights != NULL && targets->weights[i] == 0)
            continue;
        assert(targets->ids[i] >= first && targets->ids[i] - first < num_outputs);
        (void)num_outputs;
        size_t count = ++counts[2 + targets->ids[i] - first];
        counts[0]++;
        counts[1] = size_max(counts[1], count);
    }
}

double majority_value(const void *self, const void *counts)
{
    (void)self;
    const size_t *c = counts;
    return c[0] == 0 ? NAN : (double)c[1] / (double)c[0];
}
