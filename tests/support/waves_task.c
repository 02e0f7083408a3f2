/* One file, like every task.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/waves_task.h"

#include <math.h>

#include "base/random.h"
#include "tasks/dataset.h"

enum { WIDTH = 3, LONGEST = 40, SPEEDS = 3, FOLLOWED = 2 };

struct waves_options {
    int64_t examples;
};

static const struct option_row rows[] = {
    OPTION_ROW("examples", OPTION_INT, offsetof(struct waves_options, examples), 30, 1, 1000, NULL,
               "of every split"),
    {.name = NULL},
};

static hashattn_status facts(struct host *host, const void *options, const char *directory,
                             struct tokenizer *given, struct task_facts *result)
{
    (void)given;
    static const char *const labels[SPEEDS] = {"slow", "even", "fast"};
    (void)options;
    (void)directory;
    TRY(task_facts_new(host, 0, LONGEST, labels, SPEEDS, result)); /* adds "classify" */
    result->row_width = WIDTH;
    result->num_segments = 2;
    result->objectives[1] = result->objectives[0];
    result->objectives[1].weight = 0.5;
    result->num_objectives = 0;
    task_facts_add(result, "follow", FOLLOWED, 0);
    result->num_objectives = 2;
    return HASHATTN_OK;
}

static void write_wave(struct dataset *data, size_t row, size_t length, struct random *random)
{
    uint32_t speed = (uint32_t)random_below(random, SPEEDS);
    double phase = (double)random_below(random, 1000) / 1000;
    for (size_t i = 0; i < length; i++) {
        float *values = data->floats + (row + i) * WIDTH,
              *next = data->targets[0].floats + (row + i) * FOLLOWED;
        for (size_t c = 0; c < WIDTH; c++)
            values[c] = (float)sin(phase + (double)c + 0.2 * (double)(speed + 1) * (double)i);
        for (size_t c = 0; c < FOLLOWED; c++)
            next[c] = (float)sin(phase + (double)c + 0.2 * (double)(speed + 1) * (double)(i + 1));
        data->segments[row + i] = i >= length / 2;
        data->targets[0].weights[row + i] = i % 5 == 3 ? 0 : i % 2 == 0 ? 1 : 0.5f;
    }
    data->targets[1].ids[data->count] = speed;
    data->targets[1].weights[data->count] = 1;
}

static hashattn_status load(struct host *host, const void *options, const struct task_facts *known,
                            const char *directory, enum split split, uint64_t seed, struct dataset *dataset)
{
    (void)known;
    (void)directory;
    const struct waves_options *waves = options;
    struct dataset_builder builder = {.dataset = {.row_width = WIDTH, .segmented = true, .num_targets = 2}};
    builder.dataset.targets[0] =
        (struct target_set){.kind = TARGETS_ROW, .width = FOLLOWED, .weighted = true};
    builder.dataset.targets[1] = (struct target_set){.kind = TARGETS_EXAMPLE, .weighted = true};
    struct random random = random_open(random_key(seed, RANDOM_SPLIT, split));
    hashattn_status status = HASHATTN_OK;
    for (int64_t i = 0; i < waves->examples && status == HASHATTN_OK; i++) {
        size_t length = 5 + (size_t)random_below(&random, LONGEST - 4), row;
        status = dataset_reserve(host, &builder, length, &row);
        if (status != HASHATTN_OK)
            break;
        write_wave(&builder.dataset, row, length, &random);
        dataset_push(&builder, length, false);
    }
    return dataset_finish(host, &builder, status, dataset);
}

const struct task task_waves = {
    .name = "waves",
    .summary = "what comes next in waves, and how fast they are",
    .options = rows,
    .options_size = sizeof(struct waves_options),
    .preset = {.steps = 12,
               .batch = 4,
               .eval_every = 4,
               .warmup = 2,
               .learning_rate = 1e-2,
               .layers = 1,
               .dim = 16,
               .heads = 2,
               .ffn = 16,
               .pooling = "mean"},
    .facts = facts,
    .load = load,
};
