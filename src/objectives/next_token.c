/* Next tokens: every row predicts the id that follows it, over the whole vocabulary, through an output tied
   to the embedding (nn/outputs/tied_output.h), or with cutoffs an adaptive softmax
   (nn/outputs/adaptive_output.h). The trunk must be causal; in any other, a row can see its
   target.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "nn/outputs/adaptive_output.h"
#include "objectives/objective.h"

struct next_token {
    struct adaptive_output output;
    bool bytes;
};

static const char *refuse(const struct objective_facts *facts)
{
    if (!facts->causal)
        return "rows can see the tokens they must predict; `causal` hides them";
    if (facts->pairs)
        return "an example is two sequences; next tokens are predicted for single sequences only";
    if (facts->embed->vocab_size <= facts->first_output)
        return "the sequences have no ids to predict";
    return NULL;
}

static hashattn_status describe(struct host *host, struct params *params, const struct objective_facts *facts,
                                void *self)
{
    struct next_token *next = self;
    next->bytes = facts->bytes;
    return adaptive_output_describe(host, params, facts->embed, facts->first_output, &next->output);
}

static struct adaptive_output_space space_of(const struct objective_pass *pass)
{
    const struct next_token *next = pass->self;
    struct arena arena = arena_on(pass->memory);
    return adaptive_output_lay(&next->output, pass->rows, pass->training, &arena);
}

static size_t memory_size(const void *self, const struct rows *rows, bool training)
{
    const struct next_token *next = self;
    struct arena arena = arena_on(NULL);
    adaptive_output_lay(&next->output, rows, training, &arena);
    return arena.used;
}

static double forward(const struct objective_pass *pass)
{
    const struct next_token *next = pass->self;
    if (pass->targets == NULL)
        return 0;
    struct adaptive_output_space space = space_of(pass);
    const struct row_ids targets = {pass->targets->ids, pass->targets->weights};
    return adaptive_output_forward(&next->output, pass->rows, pass->values, &space, pass->x, &targets);
}

static void backward(const struct objective_pass *pass, struct slice gradients, float *dx, bool add)
{
    const struct next_token *next = pass->self;
    struct adaptive_output_space space = space_of(pass);
    const struct row_ids targets = {pass->targets->ids, pass->targets->weights};
    adaptive_output_backward(&next->output, pass->rows, pass->values, gradients, &space, dx, add, pass->x,
                             &targets, (float)(pass->weight / pass->count));
}

static void count_batch(const struct objective_pass *pass, double *sums)
{
    struct adaptive_output_space space = space_of(pass);
    for (size_t row = 0; row < pass->rows->count; row++) {
        double weight = pass->targets->weights == NULL ? 1 : (double)pass->targets->weights[row];
        sums[ID_LOSS] += weight * space.head.loss[row];
        sums[ID_CORRECT] += space.head.correct[row] ? weight : 0;
        sums[ID_COUNT] += weight;
    }
}

static size_t num_next(const void *self)
{
    return ((const struct next_token *)self)->output.words;
}

static void score_next(const void *self, const struct kernels *kernels, struct pool *pool,
                       const float *values, const float *x, size_t n, float *scores, float *work)
{
    adaptive_output_scores(&((const struct next_token *)self)->output, kernels, pool, values, scores, x, n,
                           work);
}

/* ---- metrics ------------------------------------------------------------------------------------------ */

static double bits_per_byte(const void *self, const double *sums)
{
    return ((const struct next_token *)self)->bytes ? id_loss(self, sums) / log(2) : NAN;
}

static const struct metric metrics[] = {{"perplexity", id_perplexity, false, 1},
                                        {"loss", id_loss, false, 2},
                                        {"bits_per_byte", bits_per_byte, false, 0},
                                        {"accuracy", id_accuracy, true, 0},
                                        {.name = NULL}};

static size_t baseline_size(const void *self)
{
    return majority_size(((const struct next_token *)self)->output.words);
}

static void baseline_count(const void *self, const struct targets *targets, size_t n, void *counts)
{
    const struct adaptive_output *output = &((const struct next_token *)self)->output;
    majority_count(targets, n, output->first, output->words, counts);
}

const struct objective objective_next_token = {
    .name = "next_token",
    .summary = "which token comes after each",
    .place = TARGET_ROW,
    .type = TARGET_ID,
    .ties_embedding = true,
    .sums = id_sums,
    .metrics = metrics,
    .refuse = refuse,
    .size = sizeof(struct next_token),
    .describe = describe,
    .memory_size = memory_size,
    .forward = forward,
    .backward = backward,
    .count = count_batch,
    .num_next = num_next,
    .score_next = score_next,
    .baseline = "majority",
    .baseline_size = baseline_size,
    .baseline_count = baseline_count,
    .baseline_value = majority_value,
};
