/* Every trunk and every layer between two has memory of its own, one after the other.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/encoder_stack.h"

#include <assert.h>
#include <stdio.h>

#include "base/memory.h"

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

/* ---- a pass ------------------------------------------------------------------------------------------- */

static struct rows rows_at(const struct encoder_stack_pass *pass, size_t part)
{
    struct rows rows = pass->rows;
    if (part == 0)
        return rows;
    const size_t *offsets = pass->halved_offsets + (part - 1) * (rows.num_sequences + 1);
    struct rows halved = rows_of(rows.kernels, rows.pool, rows.num_sequences, offsets, rows.sample_ids);
    halved.profile = rows.profile;
    halved.inspector = rows.inspector;
    halved.listener = rows.listener;
    return halved;
}

struct rows encoder_stack_last(const struct encoder_stack_pass *pass)
{
    return rows_at(pass, pass->encoder->num_more);
}

static hashattn_status check_lengths(struct host *host, const struct encoder_stack_pass *pass)
{
    for (size_t part = 0; part < pass->encoder->num_more; part++) {
        const struct rows rows = rows_at(pass, part);
        for (size_t s = 0; s < rows.num_sequences; s++)
            FAIL_IF(rows_length(&rows, s) < FEWEST_ROWS, host, HASHATTN_REFUSED,
                    "distil: a sequence of %zu rows has %zu left before halving %zu of %zu, at least %d are "
                    "needed",
                    rows_length(&pass->rows, s), rows_length(&rows, s), part + 1, pass->encoder->num_more,
                    FEWEST_ROWS);
    }
    return HASHATTN_OK;
}

hashattn_status encoder_stack_check(struct host *host, const struct encoder_stack_pass *pass)
{
    const struct encoder_stack *encoder = pass->encoder;
    TRY(check_lengths(host, pass));
    for (size_t part = 0; part <= encoder->num_more; part++) {
        const struct trunk *trunk = trunk_at(encoder, part);
        const struct rows rows = rows_at(pass, part);
        for (size_t i = 0; i < trunk->num_lists; i++)
            TRY(self_attention_check(host, &trunk->blocks[i].attention, &rows));
    }
    return HASHATTN_OK;
}

/* A trunk, and what is before it, in the memory of a pass. */
struct place {
    struct trunk_pass trunk;
    /* Not of the first part: the layer before the trunk, what it reads, and the place for the gradient of
       that; pointers are NULL where memory is. */
    struct distil_pass distil;
    const float *from;
    float *halved; /* what it writes, the input of the trunk */
    size_t bytes;  /* of the memory up to its end */
};

/* memory: of the pass; NULL counts bytes. */
static struct place place_of(const struct encoder_stack_pass *pass, void *memory, size_t part)
{
    struct arena arena = arena_on(memory);
    struct place place = {.bytes = 0};
    for (size_t k = 0; k <= part; k++) {
        struct input_rows input = pass->input;
        const struct rows rows = rows_at(pass, k);
        if (k > 0) {
            const struct encoder_stack_part *own = &pass->encoder->more[k - 1];
            place.from = memory == NULL ? NULL : trunk_rows(&place.trunk);
            place.distil = (struct distil_pass){
                .rows = place.trunk.rows, .halved = rows, .values = pass->values, .training = pass->training};
            place.distil.memory = arena_take(&arena, distil_memory_size(&own->distil, &place.distil), 1);
            place.halved = arena_take(&arena, size_product(rows.padded, own->distil.dim), sizeof(float));
            input = (struct input_rows){.floats = place.halved};
        }
        place.trunk = (struct trunk_pass){.trunk = trunk_at(pass->encoder, k),
                                          .rows = rows,
                                          .input = input,
                                          .values = pass->values,
                                          .random_key = pass->random_key,
                                          .training = pass->training};
        place.trunk.memory = arena_take(&arena, trunk_memory_size(&place.trunk), 1);
    }
    place.bytes = arena.used;
    return place;
}

size_t encoder_stack_memory_size(const struct encoder_stack_pass *pass)
{
    return place_of(pass, NULL, pass->encoder->num_more).bytes;
}

size_t encoder_stack_saved_size(const struct encoder_stack_pass *pass)
{
    size_t bytes = 0;
    for (size_t part = 0; part <= pass->encoder->num_more; part++) {
        const struct place place = place_of(pass, NULL, part);
        bytes = size_sum(bytes, trunk_saved_size(&place.trunk));
    }
    return bytes;
}

const float *encoder_stack_forward(const struct encoder_stack_pass *pass, struct own_loss *own,
                                   size_t num_own)
{
    const float *x = NULL;
    for (size_t part = 0; part <= pass->encoder->num_more; part++) {
        const struct place place = place_of(pass, pass->memory, part);
        if (part > 0)
            distil_forward(&pass->encoder->more[part - 1].distil, &place.distil, place.halved, place.from);
        x = trunk_forward(&place.trunk, own, num_own);
    }
    return x;
}

const float *encoder_stack_rows(const struct encoder_stack_pass *pass)
{
    const struct place place = place_of(pass, pass->memory, pass->encoder->num_more);
    return trunk_rows(&place.trunk);
}

float *encoder_stack_gradient(const struct encoder_stack_pass *pass)
{
    const struct place place = place_of(pass, pass->memory, pass->encoder->num_more);
    return trunk_gradient(&place.trunk);
}

void encoder_stack_backward(const struct encoder_stack_pass *pass, float *gradients,
                            const struct own_loss *own, size_t num_own)
{
    for (size_t part = pass->encoder->num_more + 1; part-- > 0;) {
        const struct place place = place_of(pass, pass->memory, part);
        trunk_backward(&place.trunk, gradients, own, num_own);
        if (part == 0)
            return;
        const struct place before = place_of(pass, pass->memory, part - 1);
        distil_backward(&pass->encoder->more[part - 1].distil, &place.distil, gradients,
                        trunk_gradient(&before.trunk), trunk_gradient(&place.trunk), place.from,
                        place.halved);
    }
}
