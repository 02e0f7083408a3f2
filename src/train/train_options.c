/* The rows of the training options, and the values that a preset sets.
   SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "comm/comm.h"
#include "comm/sum_tree.h"
#include "kernels/product_weights.h"
#include "train/schedule.h"
#include "train/trainer.h"

#define FIELD(name) offsetof(struct train_options, name)

/* Integers pass through JSON and doubles, which represent them exactly up to 2^53. */
#define MOST 9007199254740992.0

static const char *const class_weights[] = {"none", "balanced", NULL}, *const automatic[] = {"auto", NULL};
static const char *const extensions[] = {"repeat", "interpolate", NULL};

const struct option_row train_rows[] = {
    OPTION_ROW("steps", OPTION_INT, FIELD(steps), 1000, 1, 1e9, NULL, "optimiser steps"),
    OPTION_ROW(
        "epochs", OPTION_REAL, FIELD(epochs), 0, 0, 1e6, NULL,
        "passes over the training examples instead of steps, with an evaluation after each; 0: steps count"),
    OPTION_ROW("batch", OPTION_INT, FIELD(batch), 32, 1, 65536, NULL, "sequences computed at once"),
    OPTION_ROW("accumulate", OPTION_INT, FIELD(accumulate), 1, 1, 65536, NULL,
               "batches per step: gradients of batch x accumulate sequences in the memory of one batch"),
    OPTION_ROW("shards", OPTION_INT, FIELD(shards), 0, 0, 256, NULL,
               "parts of a batch that ranks share; their gradients are added in a fixed tree, so results "
               "depend on shards and not on ranks; 0: 8 under mpirun, otherwise 1"),
    OPTION_ROW("sequence_parallel", OPTION_INT, FIELD(sequence_parallel), 1, 1, 4096, NULL,
               "ranks that share each sequence, with attention yoso, lha, softmax, local or none: each has a "
               "span of its rows; the number of ranks must be a multiple of it"),
    OPTION_ROW("gradient_precision", OPTION_CHOICE, FIELD(gradient_precision), TREE_F32, 0, 0,
               precision_names,
               "what is kept of the gradient of each shard and of their sums: float32, or bf16, for which "
               "ranks send half as many bytes"),
    OPTION_ROW("warmup", OPTION_INT, FIELD(warmup), 100, 0, 1e9, NULL,
               "steps over which the learning rate rises, at most steps"),
    OPTION_ROW("eval_every", OPTION_INT, FIELD(eval_every), 200, 1, 1e9, NULL, "steps between evaluations"),
    OPTION_ROW("eval_examples", OPTION_INT, FIELD(eval_examples), 0, 0, 1e9, NULL,
               "evaluate on N validation sequences that the seed draws; 0 means all"),
    OPTION_ROW("best", OPTION_TEXT, FIELD(best), 0, 1, OPTION_TEXT_SIZE - 1, automatic,
               "the metric that chooses the best model, such as accuracy, macro_f1, loss, or f1:LABEL for "
               "the F1 of one label; auto: the first of the task"),
    OPTION_ROW("patience", OPTION_INT, FIELD(patience), 0, 0, 1e9, NULL,
               "stop after N evaluations without a better model; 0: never"),
    OPTION_ROW(
        "class_weight", OPTION_CHOICE, FIELD(class_weight), WEIGHT_NONE, 0, 0, class_weights,
        "weights of examples in the loss; balanced: every class has the same weight in all, however rare"),
    OPTION_ROW("save_every", OPTION_INT, FIELD(save_every), 200, 1, 1e9, NULL, "steps between checkpoints"),
    OPTION_ROW("seed", OPTION_INT, FIELD(seed), 1, 0, MOST, NULL,
               "determines initial values, the order of examples, dropout and hashing"),
    OPTION_ROW("learning_rate", OPTION_REAL, FIELD(learning_rate), 1e-3, 0, 10, NULL, "peak learning rate"),
    OPTION_ROW("beta1", OPTION_REAL, FIELD(beta1), 0.9, 0, 0.9999, NULL,
               "AdamW: decay of the average of gradients"),
    OPTION_ROW("beta2", OPTION_REAL, FIELD(beta2), 0.999, 0, 0.999999, NULL,
               "AdamW: decay of the average of squared gradients"),
    OPTION_ROW("epsilon", OPTION_REAL, FIELD(epsilon), 1e-6, 1e-12, 1, NULL,
               "AdamW: added to the denominator"),
    OPTION_ROW("weight_decay", OPTION_REAL, FIELD(weight_decay), 0, 0, 10, NULL,
               "AdamW: decoupled weight decay of matrices; biases, norms, scales and centroids have none"),
    OPTION_ROW("clip", OPTION_REAL, FIELD(clip), 1, 0, 1e6, NULL,
               "clip the gradient of a step to this norm; 0 means no limit"),
    OPTION_ROW(
        "schedule", OPTION_CHOICE, FIELD(schedule), SCHEDULE_ONE_CYCLE, 0, 0, schedule_names,
        "learning rate schedule: one-cycle (up from peak/25, then linearly down to almost 0), linear or "
        "cosine (down to 0), constant, or halving (half as high after each pass over the examples)"),
    OPTION_ROW(
        "cycle_momentum", OPTION_FLAG, FIELD(cycle_momentum), 0, 0, 1, NULL,
        "with schedule one-cycle: beta1 falls from .95 to .85 while the learning rate rises, then returns"),
    OPTION_ROW("train_last", OPTION_INT, FIELD(train_last), 0, 0, 256, NULL,
               "train the outputs and the last N layers only, at less time per step; 0: all of the model"),
    OPTION_ROW(
        "extend_positions", OPTION_CHOICE, FIELD(extend_positions), EXTEND_REPEAT, 0, 0, extensions,
        "learned positions beyond those of the stored model that training starts from: repeat them, or "
        "interpolate between them"),
    {.name = NULL},
};

void train_options_preset(const struct task_preset *preset, struct train_options *options)
{
    assert(preset->steps > 0);
    options_preset(train_rows, options);
    options->steps_given = options->epochs_given = options->warmup_given = options->eval_given =
        options->settled = false;
    options->steps = (int64_t)preset->steps;
    options->batch = (int64_t)preset->batch;
    options->warmup = (int64_t)preset->warmup;
    options->eval_every = options->save_every = (int64_t)preset->eval_every;
    options->learning_rate = preset->learning_rate;
    options_take(train_rows, options, preset->training);
}

hashattn_status train_options_set(struct host *host, struct train_options *options, const char *name,
                                  const char *text)
{
    struct train_options wanted = *options;
    TRY(option_set(host, train_rows, "training", &wanted, name, text));
    wanted.steps_given |= strcmp(name, "steps") == 0;
    wanted.epochs_given |= strcmp(name, "epochs") == 0;
    if (wanted.steps_given && !wanted.epochs_given)
        wanted.epochs = 0; /* the epochs of fine-tuning are a default */
    wanted.warmup_given |= strcmp(name, "warmup") == 0;
    wanted.eval_given |= strcmp(name, "eval_every") == 0;
    FAIL_IF(wanted.steps_given && wanted.epochs > 0, host, HASHATTN_INVALID,
            "training: `steps` is %lld and `epochs` %g; one of them determines the other",
            (long long)wanted.steps, wanted.epochs);
    if (strcmp(name, "steps") == 0 && !wanted.warmup_given)
        wanted.warmup = schedule_scaled_warmup(options->steps, options->warmup, wanted.steps);
    *options = wanted;
    return HASHATTN_OK;
}

hashattn_status train_options_settle(struct host *host, struct train_options *options, size_t examples)
{
    double per_step = (double)options->batch * (double)options->accumulate;
    double epoch = (double)examples / per_step, steps = ceil(options->epochs * epoch);
    if (options->epochs <= 0 || options->settled)
        return HASHATTN_OK;
    FAIL_IF(steps > 1e9, host, HASHATTN_INVALID,
            "training: %g epochs of %zu examples are %g steps of %g, at most 1e9 are allowed",
            options->epochs, examples, steps, per_step);
    int64_t count = steps < 1 ? 1 : (int64_t)steps;
    if (!options->warmup_given)
        options->warmup = schedule_scaled_warmup(options->steps, options->warmup, count);
    options->steps = count;
    if (!options->eval_given)
        options->eval_every = epoch <= 1 ? 1 : (int64_t)ceil(epoch);
    return HASHATTN_OK;
}

hashattn_status train_options_settle_shards(struct host *host, struct train_options *options,
                                            const struct comm *comm)
{
    if (options->shards == 0)
        options->shards = comm_is_given(comm) ? SHARDS_OF_RANKS : 1;
    int64_t rows = comm_size(comm) / options->sequence_parallel;
    FAIL_IF(
        options->shards < rows, host, HASHATTN_INVALID,
        "training: a batch has %lld shards, too few for %lld ranks: at most %lld can share it, unless a new "
        "run has more `shards`",
        (long long)options->shards, (long long)rows, (long long)options->shards);
    return HASHATTN_OK;
}
