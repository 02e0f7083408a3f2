/* Every trunk and every layer between two has memory of its own, one after the other.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/stacks/encoder_stack.h"

#include <assert.h>
#include <stdio.h>

/* The convolution reads 3 rows, which are then different ones. */
enum { FEWEST_ROWS = 3 };

hashattn_status encoder_stack_describe(struct host *host, struct params *params,
                                       const struct model_config *config, bool tied,
                                       struct encoder_stack *encoder)
{
    void *more;
    *encoder = (struct encoder_stack){.num_more = config->distil ? (size_t)config->layers - 1 : 0};
    TRY(memory_new_zeroed(host, encoder->num_more, sizeof *encoder->more, "blocks of the encoder", &more));
    encoder->more = more;
    if (config->distil)
        TRY(trunk_describe_part(host, params, config, 0, &encoder->trunk));
    else
        TRY(trunk_describe(host, params, config, tied, &encoder->trunk));
    for (size_t i = 0; i < encoder->num_more; i++) {
        char name[PARAM_NAME];
        snprintf(name, sizeof name, "encoder.distil.%zu", i);
        TRY(distil_describe(host, params, name, (size_t)config->dim, config->norm_epsilon,
                            &encoder->more[i].distil));
        TRY(trunk_describe_part(host, params, config, i + 1, &encoder->more[i].trunk));
    }
    encoder->end = params->total;
    return HASHATTN_OK;
}

void encoder_stack_free(struct host *host, struct encoder_stack *encoder)
{
    for (size_t i = 0; encoder->more != NULL && i < encoder->num_more; i++)
        trunk_free(host, &encoder->more[i].trunk);
    memory_free(host, encoder->more);
    encoder->more = NULL;
    trunk_free(host, &encoder->trunk);
}

static const struct trunk *trunk_at(const struct encoder_stack *encoder, size_t part)
{
    return part == 0 ? &encoder->trunk : &encoder->more[part - 1].trunk;
}

size_t encoder_stack_own_heads(const struct encoder_stack *encoder, const struct mechanism *mechanism)
{
    size_t heads = 0;
    for (size_t part = 0; part <= encoder->num_more; part++)
        heads += trunk_own_heads(trunk_at(encoder, part), mechanism);
    return heads;
}

/* ---- the plan ----------------------------------------------------------------------------------------- */

static size_t num_lists(const struct encoder_stack *encoder)
{
    size_t count = 0;
    for (size_t part = 0; part <= encoder->num_more; part++)
        count += trunk_at(encoder, part)->num_lists;
    return count;
}

size_t encoder_stack_num_plans(const struct encoder_stack *encoder)
{
    size_t count = 0;
    for (size_t part = 0; part <= encoder->num_more; part++)
        count += trunk_num_plans(trunk_at(encoder, part));
    return count;
}

struct encoder_stack_plan encoder_stack_plan_on(const struct encoder_stack *encoder, struct arena *arena)
{
    struct encoder_stack_plan plan = {.encoder = encoder};
    plan.parts = arena_take(arena, encoder->num_more + 1, sizeof *plan.parts);
    plan.lists = arena_take(arena, num_lists(encoder), sizeof *plan.lists);
    return plan;
}

static struct rows rows_at(const struct rows *rows, const size_t *halved_offsets, size_t part)
{
    if (part == 0)
        return *rows;
    const size_t *offsets = halved_offsets + (part - 1) * (rows->num_sequences + 1);
    struct rows halved = rows_of(rows->kernels, rows->pool, rows->num_sequences, offsets, rows->sample_ids);
    halved.profile = rows->profile;
    halved.inspector = rows->inspector;
    if (rows->shared)
        rows_share(&halved);
    return halved;
}

static hashattn_status check_lengths(struct host *host, const struct encoder_stack *encoder,
                                     const struct rows *rows, const size_t *halved_offsets)
{
    for (size_t part = 0; part < encoder->num_more; part++) {
        const struct rows left = rows_at(rows, halved_offsets, part);
        for (size_t s = 0; s < rows->num_sequences; s++)
            FAIL_IF(
                rows_length(&left, s) < FEWEST_ROWS, host, HASHATTN_REFUSED,
                "`distil`: a sequence of %zu rows has %zu left before halving %zu of %zu, at least %d are "
                "needed",
                rows_length(rows, s), rows_length(&left, s), part + 1, encoder->num_more, FEWEST_ROWS);
    }
    return HASHATTN_OK;
}

hashattn_status encoder_stack_plan_make(struct host *host, const struct rows *rows,
                                        const size_t *halved_offsets, bool training, struct plan_set *set,
                                        struct encoder_stack_plan *plan)
{
    const struct encoder_stack *encoder = plan->encoder;
    struct mix_plan *lists = plan->lists;
    TRY(check_lengths(host, encoder, rows, halved_offsets));
    plan->saved_bytes = 0;
    for (size_t part = 0; part <= encoder->num_more; part++) {
        const struct trunk *trunk = trunk_at(encoder, part);
        const struct rows own = rows_at(rows, halved_offsets, part);
        TRY(trunk_plan_make(host, trunk, &own, NULL, training, set, lists, &plan->parts[part]));
        plan->saved_bytes = size_sum(plan->saved_bytes, plan->parts[part].saved_bytes);
        lists += trunk->num_lists;
    }
    encoder_stack_open(plan, (struct input_rows){.ids = NULL}, NULL, 0, NULL, &plan->memory_bytes);
    return HASHATTN_OK;
}

const struct rows *encoder_stack_last(const struct encoder_stack_plan *plan)
{
    return &plan->parts[plan->encoder->num_more].rows;
}

/* ---- a pass ------------------------------------------------------------------------------------------- */

/* A trunk in the memory of a pass, and the layer before it, which the first one does not have. */
struct encoder_stack_place {
    struct trunk_pass trunk;
    struct distil_pass distil;
    float *halved; /* what the layer writes, the input of the trunk */
};

struct encoder_stack_pass encoder_stack_open(const struct encoder_stack_plan *plan, struct input_rows input,
                                             const float *values, uint64_t random_key, void *memory,
                                             size_t *bytes)
{
    struct arena arena = arena_on(memory);
    struct encoder_stack_pass pass = {.plan = plan};
    pass.places = arena_take(&arena, plan->encoder->num_more + 1, sizeof *pass.places);
    for (size_t part = 0; part <= plan->encoder->num_more; part++) {
        const struct trunk_plan *of = &plan->parts[part];
        struct encoder_stack_place place = {.halved = NULL};
        if (part > 0) {
            const struct distil *distil = &plan->encoder->more[part - 1].distil;
            place.distil = (struct distil_pass){
                .rows = of[-1].rows, .halved = of->rows, .values = values, .training = of->training};
            place.distil.memory = arena_take(&arena, distil_memory_size(distil, &place.distil), 1);
            place.halved = arena_take(&arena, size_product(of->rows.padded, distil->dim), sizeof(float));
            input = (struct input_rows){.floats = place.halved};
        }
        place.trunk = trunk_open(of, input, values, random_key, arena_take(&arena, of->memory_bytes, 1));
        if (memory != NULL)
            pass.places[part] = place;
    }
    *bytes = arena.used;
    return pass;
}

const float *encoder_stack_forward(const struct encoder_stack_pass *pass, struct own_loss *own,
                                   size_t num_own)
{
    const float *x = NULL;
    for (size_t part = 0; part <= pass->plan->encoder->num_more; part++) {
        const struct encoder_stack_place *place = &pass->places[part];
        if (part > 0)
            distil_forward(&pass->plan->encoder->more[part - 1].distil, &place->distil, place->halved, x);
        x = trunk_forward(&place->trunk, own, num_own);
    }
    return x;
}

static const struct trunk_pass *last_trunk(const struct encoder_stack_pass *pass)
{
    return &pass->places[pass->plan->encoder->num_more].trunk;
}

const float *encoder_stack_rows(const struct encoder_stack_pass *pass)
{
    return trunk_rows(last_trunk(pass));
}

float *encoder_stack_gradient(const struct encoder_stack_pass *pass)
{
    return trunk_gradient(last_trunk(pass));
}

void encoder_stack_backward(const struct encoder_stack_pass *pass, float *gradients,
                            const struct own_loss *own, size_t num_own, size_t first_trained,
                            bool own_losses_only, const struct backward_listener *listener)
{
    for (size_t part = pass->plan->encoder->num_more + 1; part-- > 0;) {
        struct encoder_stack_place *place = &pass->places[part];
        place->trunk.listener = listener;
        place->trunk.first_trained = pass->plan->encoder->num_more == 0 ? first_trained : 0;
        place->trunk.own_losses_only = own_losses_only;
        trunk_backward(&place->trunk, gradients, own, num_own);
        if (part == 0)
            return;
        if (own_losses_only)
            continue;
        const struct trunk_pass *before = &place[-1].trunk;
        distil_backward(&pass->plan->encoder->more[part - 1].distil, &place->distil, gradients,
                        trunk_gradient(before), trunk_gradient(&place->trunk), trunk_rows(before),
                        place->halved);
    }
}
