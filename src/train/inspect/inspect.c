/* One forward per sequence, with an inspector that is called after every call of attention.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/inspect/inspect.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "train/evaluate.h"
#include "train/packing.h"

/* The inspector's state. `status` is the first failure, after which it does nothing. */
struct work {
    struct host *host;
    const struct model_config *config;
    size_t example, each; /* sequences per example */
    struct workspace inspections;
    struct probes probes; /* probe NULL: none */
    bool fitting;         /* of the probe; nothing is inspected */
    inspect_callback *callback;
    void *user;
    hashattn_status status;
};

/* The inspections of a call, laid out in a block; on NULL it only counts bytes. */
static struct inspection *lay(const struct attention_shape *shape, void *block, size_t *bytes)
{
    struct arena arena = arena_on(block);
    size_t units = size_product(shape->num_sequences, shape->num_heads),
           groups = shape->mechanism->inspection->num_groups(shape->options);
    struct inspection *inspections = arena_take(&arena, units, sizeof *inspections);
    for (size_t i = 0; i < units; i++)
        inspection_take(block == NULL ? NULL : &inspections[i], &arena, groups);
    *bytes = arena.used;
    return inspections;
}

/* Which attention of a model with a decoder a list of the plan is. */
static const char *stack_of(const struct model_config *config, size_t list)
{
    size_t layers = (size_t)config->layers;
    if (config->decoder_rows == 0)
        return NULL;
    return list < layers ? "encoder" : (list - layers) % 2 == 0 ? "decoder" : "cross";
}

/* mechanism: of the model; call: its own, or that of the probe. */
static hashattn_status look(struct work *work, size_t layer, const struct mechanism *mechanism,
                            const struct attention_call *call)
{
    const struct attention_shape *shape = &call->plan->shape;
    const struct inspection_facet *facet = shape->mechanism->inspection;
    size_t bytes;
    lay(shape, NULL, &bytes);
    TRY(workspace_fit(work->host, &work->inspections, bytes));
    struct inspection *inspections = lay(shape, work->inspections.block, &bytes);
    attention_inspect(call, inspections);
    for (size_t i = 0; i < shape->num_sequences * shape->num_heads; i++) {
        size_t sequence = i / shape->num_heads;
        const struct inspected_head head = {
            .sequence = work->example * work->each + sequence,
            .layer = layer,
            .head = shape->first_head + i % shape->num_heads,
            .mechanism = mechanism,
            .probe = shape->mechanism != mechanism ? shape->mechanism : NULL,
            .num_tokens = shape->query_offsets[sequence + 1] - shape->query_offsets[sequence],
            .num_keys = shape->key_offsets[sequence + 1] - shape->key_offsets[sequence],
            .stack = stack_of(work->config, layer),
            .num_groups = facet->num_groups(shape->options),
            .inspection = &inspections[i]};
        FAIL_IF(work->callback(work->user, &head), work->host, HASHATTN_INTERRUPTED, "stopped in example %zu",
                work->example);
    }
    return HASHATTN_OK;
}

static hashattn_status see_call(struct work *work, size_t layer, const struct attention_call *call)
{
    const struct mechanism *mechanism = call->plan->shape.mechanism;
    struct attention_call probing;
    if (mechanism->inspection != NULL)
        return work->fitting ? HASHATTN_OK : look(work, layer, mechanism, call);
    if (work->probes.probe == NULL || !mechanism->mixes)
        return HASHATTN_OK;
    if (work->fitting)
        return probes_fit(&work->probes, layer, call);
    TRY(probes_open(&work->probes, layer, call, &probing));
    return look(work, layer, mechanism, &probing);
}

static void see(void *argument, size_t layer, const struct attention_call *call)
{
    struct work *work = argument;
    if (work->status == HASHATTN_OK)
        work->status = see_call(work, layer, call);
}

bool inspect_finds_buckets(const struct model *model)
{
    const struct head_plan *plan = &model_config_of(model)->plan;
    size_t with = 0;
    for (size_t i = 0; i < plan->num_used; i++)
        with += plan->used[i].mechanism->inspection != NULL;
    return with > 0;
}

hashattn_status inspect_check(struct host *host, const struct model *model, const struct probe *probe)
{
    char names[200] = "";
    size_t used = 0;
    for (const struct mechanism *const *m = attention_mechanisms(); *m != NULL; m++)
        if ((*m)->inspection != NULL && used < sizeof names)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", (*m)->name);
    FAIL_IF(probe == NULL && !inspect_finds_buckets(model), host, HASHATTN_REFUSED,
            "the model has attention %s, which has no buckets of tokens; those that can be inspected: %s",
            model_config_of(model)->plan.text, names);
    FAIL_IF(probe != NULL && probe->mechanism->inspection == NULL, host, HASHATTN_REFUSED,
            "%s has no buckets of tokens; mechanisms that have: %s", probe->mechanism->name, names);
    return HASHATTN_OK;
}

/* Runs `count` forward passes, through the examples in turn. Fitting draws new hashing at every step, as
   training does. values: prepared. */
static hashattn_status run_examples(const struct train_setup *setup, struct model *model, const float *values,
                                    const struct dataset *dataset, size_t count, uint64_t seed,
                                    struct work *work)
{
    struct host *host = work->host;
    const struct inspector inspector = {see, work};
    struct packed_examples packed = {0};
    struct model_space space = {.made = NULL};
    struct model_pass *pass;
    hashattn_status status;
    TRY(evaluate_fit(host, model, dataset));
    TRY_DONE(packed_examples_new(host, dataset, 1, &packed));
    for (work->example = 0; work->example < count; work->example++) {
        packing_range(&packed, dataset, work->example % dataset->count, 1);
        struct model_batch batch = packed_batch(&packed, setup->kernels, setup->pool, false);
        batch.sample_ids = NULL; /* the same hashing for every sequence */
        batch.random_key =
            work->fitting ? random_key(random_key(seed, RANDOM_INSPECTION, 0), RANDOM_STEP, work->example)
                          : random_key(seed, RANDOM_EVALUATION, 0);
        batch.inspector = &inspector;
        TRY_DONE(model_space_open(host, &space, model, &batch, values, &pass));
        model_forward(pass);
        TRY_DONE(work->status);
    }
done:
    model_space_free(host, &space);
    packed_examples_free(host, &packed);
    return status;
}

hashattn_status inspect(struct host *host, const struct train_setup *setup, struct model *model,
                        const float *values, const struct dataset *dataset, size_t count, uint64_t seed,
                        const struct probe *probe, const struct dataset *training, inspect_callback *callback,
                        void *user)
{
    struct work work = {.host = host,
                        .config = model_config_of(model),
                        .each = dataset->pairs ? 2 : 1,
                        .probes = {.host = host, .probe = probe},
                        .callback = callback,
                        .user = user};
    const struct params *params = model_params(model);
    void *packed = NULL;
    hashattn_status status;
    count = count == 0 || count > dataset->count ? dataset->count : count;
    TRY(inspect_check(host, model, probe));
    TRY_DONE(memory_new(host, params_packed_floats(params), sizeof(float), "weights packed for products",
                        &packed));
    values = params_pack(params, setup->kernels, setup->pool, values, false, packed);
    work.fitting = probe != NULL && probe->steps > 0 && training->count > 0;
    if (work.fitting)
        TRY_DONE(run_examples(setup, model, values, training, probe->steps, seed, &work));
    work.fitting = false;
    TRY_DONE(run_examples(setup, model, values, dataset, count, seed, &work));
done:
    probes_free(&work.probes);
    workspace_free(host, &work.inspections);
    memory_free(host, packed);
    return status;
}
