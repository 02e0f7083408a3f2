/* The plan of a batch, and the memory of a pass: made in one place, for both stacks and the objectives.
   SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "models/model_parts.h"

/* An empty plan in a block; on NULL it only counts bytes. */
static struct model_plan *plan_on(const struct model *model, size_t num_sequences, void *block, size_t *bytes)
{
    struct arena arena = arena_on(block);
    struct model_plan *plan = arena_take(&arena, 1, sizeof *plan);
    struct model_plan empty = {.model = model};
    size_t plans = 0;
    if (!model->bare) {
        empty.encoder = encoder_stack_plan_on(&model->encoder, &arena);
        plans += encoder_stack_num_plans(&model->encoder);
    }
    if (model_decodes(model)) {
        empty.decoder_lists = arena_take(&arena, model->decoder.num_lists, sizeof *empty.decoder_lists);
        plans += trunk_num_plans(&model->decoder);
    }
    void *set = arena_take(&arena, plan_set_bytes(plans, num_sequences), 1);
    empty.set = plan_set_on(set, plans, num_sequences);
    if (plan != NULL)
        *plan = empty;
    *bytes = arena.used;
    return plan;
}

size_t model_plan_bytes(const struct model *model, size_t num_sequences)
{
    size_t bytes;
    plan_on(model, num_sequences, NULL, &bytes);
    return bytes;
}

/* The rows of a stack. */
static struct rows batch_rows(const struct model_batch *batch, const size_t *offsets)
{
    struct rows rows = rows_of(batch->kernels, batch->pool, batch->num_sequences, offsets, batch->sample_ids);
    rows.profile = batch->profile;
    rows.inspector = batch->inspector;
    if (!batch->training)
        rows_share(&rows);
    return rows;
}

/* The pass in its workspace; on NULL it only counts bytes. */
static struct model_pass *open_pass(const struct model_plan *plan, const struct model_batch *batch,
                                    const float *values, void *workspace, size_t *bytes)
{
    const struct model *model = plan->model;
    struct arena arena = arena_on(workspace);
    struct model_pass *pass = arena_take(&arena, 1, sizeof *pass);
    struct model_pass opened = {.model = model, .batch = batch, .values = values};
    opened.rows = batch_rows(batch, batch->offsets);
    opened.rows.cut = batch->cut;
    if (!model->bare) {
        size_t unused;
        void *memory = arena_take(&arena, plan->encoder.memory_bytes, 1);
        opened.rows = *encoder_stack_last(&plan->encoder);
        opened.encoder =
            encoder_stack_open(&plan->encoder, batch->input, values, batch->random_key, memory, &unused);
    }
    if (model_decodes(model)) {
        opened.rows = plan->decoder.rows;
        opened.decoder =
            trunk_open(&plan->decoder, (struct input_rows){.floats = batch->decoder_floats}, values,
                       batch->random_key, arena_take(&arena, plan->decoder.memory_bytes, 1));
        if (pass != NULL) {
            opened.decoder.encoded = encoder_stack_rows(&opened.encoder);
            opened.decoder.dencoded = batch->training ? encoder_stack_gradient(&opened.encoder) : NULL;
        }
    }
    for (size_t i = 0; i < model->num_terms; i++) {
        const struct loss_term *term = &model->terms[i];
        size_t size = term->objective->memory_size(term->self, &opened.rows, batch->training);
        opened.memory[i] = arena_take(&arena, size, 1);
    }
    opened.own_sums = arena_take(&arena, model->num_own, sizeof(double));
    if (pass != NULL)
        *pass = opened;
    *bytes = arena.used;
    return pass;
}

static hashattn_status check_cut(struct host *host, const struct model *model,
                                 const struct model_batch *batch)
{
    for (size_t i = 0; i < model->num_terms && batch->cut != NULL; i++)
        FAIL_IF(
            model->terms[i].objective->whole, host, HASHATTN_REFUSED,
            "the objective %s reads the rows of a sequence together: `sequence_parallel` must be 1, not %zu",
            model->terms[i].objective->name, row_ranks_count(batch->cut->ranks));
    return HASHATTN_OK;
}

struct model_pass *model_open(const struct model_plan *plan, const struct model_batch *batch,
                              const float *values, void *workspace)
{
    size_t bytes;
    return open_pass(plan, batch, values, workspace, &bytes);
}

hashattn_status model_plan_make(struct host *host, const struct model *model, const struct model_batch *batch,
                                void *block, const struct model_plan **made)
{
    size_t bytes;
    struct model_plan *plan = plan_on(model, batch->num_sequences, block, &bytes);
    struct rows rows = batch_rows(batch, batch->offsets);
    rows.cut = batch->cut;
    TRY(check_cut(host, model, batch));
    if (!model->bare) {
        TRY(encoder_stack_plan_make(host, &rows, batch->halved_offsets, batch->training, &plan->set,
                                    &plan->encoder));
        plan->saved_bytes = plan->encoder.saved_bytes;
    }
    if (model_decodes(model)) {
        rows = batch_rows(batch, batch->decoder_offsets);
        TRY(trunk_plan_make(host, &model->decoder, &rows, encoder_stack_last(&plan->encoder), batch->training,
                            &plan->set, plan->decoder_lists, &plan->decoder));
        plan->saved_bytes = size_sum(plan->saved_bytes, plan->decoder.saved_bytes);
    }
    open_pass(plan, batch, NULL, NULL, &plan->workspace_bytes);
    *made = plan;
    return HASHATTN_OK;
}

size_t model_workspace_bytes(const struct model_plan *plan)
{
    return plan->workspace_bytes;
}

size_t model_saved_bytes(const struct model_plan *plan)
{
    return plan->saved_bytes;
}

size_t model_num_plans(const struct model_plan *plan)
{
    return plan->set.count;
}
