/* The memory of passes grows to the largest batch and is kept for smaller ones. Planted and caught: a block
   that stays as small as it was; a block made anew for each batch; weights of a session packed from the
   values before; a model left in a session that failed to open.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/model_space.h"

#include <string.h>

#include "kernels/kernels.h"
#include "support/check.h"
#include "support/layers.h"

static void a_block_grows_and_is_kept(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct workspace workspace = {NULL, 0};
    check_status(&host, workspace_fit(&host, &workspace, 1000), HASHATTN_OK, NULL);
    assert_int_equal(workspace.size, 1000);
    void *block = workspace.block;
    check_status(&host, workspace_fit(&host, &workspace, 999), HASHATTN_OK, NULL);
    assert_true(workspace.block == block && workspace.size == 1000);
    check_status(&host, workspace_fit(&host, &workspace, 1001), HASHATTN_OK, NULL);
    assert_int_equal(workspace.size, 1125);
    check_status(&host, workspace_fit(&host, &workspace, SIZE_MAX), HASHATTN_NO_MEMORY, "activations");
    assert_true(workspace.block == NULL && workspace.size == 0);
    workspace_free(&host, &workspace);
}

static void passes_share_the_memory(void **state)
{
    (void)state;
    struct layer_test base;
    struct model *model;
    struct model_space space = {.made = NULL};
    struct model_pass *pass;
    layer_test_open(&base, 1);
    struct model_config config;
    options_preset(model_options, &config);
    config.vocab_size = 5;
    config.row_width = config.num_segments = 0;
    config.max_len = 400;
    config.num_objectives = 0;
    config.pairs = false;
    config.decoder_rows = config.decoded_rows = 0;
    config.layers = 1;
    config.dim = config.ffn = 8;
    config.precision = PRECISION_BF16; /* packs weights of any size */
    check_status(&base.host, head_plan_new(&base.host, "softmax", &config.plan), HASHATTN_OK, NULL);
    check_status(&base.host, model_new(&base.host, &config, &model), HASHATTN_OK, NULL);
    check_status(&base.host, model_fit(&base.host, model, 400), HASHATTN_OK, NULL);
    base.params = *model_params(model);
    layer_test_start(&base, 1);
    const float *values = layer_test_pack(&base, false);
    const uint32_t ids[400] = {1};
    size_t offsets[] = {0, 300, 400};
    struct model_batch batch = {.kernels = base.kernels,
                                .pool = base.pool,
                                .num_sequences = 2,
                                .offsets = offsets,
                                .input = {.ids = ids}};
    check_status(&base.host, model_space_open(&base.host, &space, model, &batch, values, &pass), HASHATTN_OK,
                 NULL);
    model_forward(pass);
    float first = model_rows(pass)[0];
    void *blocks[] = {space.plan.block, space.pass.block};
    size_t bytes = model_workspace_bytes(space.made);
    offsets[1] = 10;
    offsets[2] = 20;
    check_status(&base.host, model_space_open(&base.host, &space, model, &batch, values, &pass), HASHATTN_OK,
                 NULL);
    assert_true(model_workspace_bytes(space.made) < bytes);
    assert_true(space.plan.block == blocks[0] && space.pass.block == blocks[1]);
    batch.num_sequences = 1;
    offsets[1] = 300;
    check_status(&base.host, model_space_open(&base.host, &space, model, &batch, values, &pass), HASHATTN_OK,
                 NULL);
    model_forward(pass);
    assert_true(model_rows(pass)[0] == first); /* alone as beside another */
    struct session session;
    check_status(&base.host, session_open(&base.host, model, &session), HASHATTN_OK, NULL);
    float *moved_value = base.values + model_params(model)->rows[0].offset + 8, kept = *moved_value;
    for (int moved = 1; moved >= 0; moved--) { /* other values, then those above */
        *moved_value = moved ? kept + 1 : kept;
        session_pack(&session, base.kernels, base.pool, base.values);
        check_status(&base.host,
                     model_space_open(&base.host, &session.space, model, &batch, session.values, &pass),
                     HASHATTN_OK, NULL);
        model_forward(pass);
        assert_int_equal(model_rows(pass)[0] == first, !moved);
    }
    session_close(&base.host, &session);
    assert_true(session.model == NULL && session.packed == NULL && session.space.pass.block == NULL);
    session_close(&base.host, &session);
    struct failing_host failing;
    failing_host_init(&failing, 0);
    check_status(&failing.host, session_open(&failing.host, model, &session), HASHATTN_NO_MEMORY, "weights");
    assert_true(session.model == NULL && session.packed == NULL);
    model_space_free(&base.host, &space);
    assert_true(space.plan.block == NULL && space.pass.block == NULL);
    memset(&base.params, 0, sizeof base.params); /* the model's */
    model_free(&base.host, model);
    head_plan_free(&base.host, &config.plan);
    layer_test_close(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_grows_and_is_kept),
        cmocka_unit_test(passes_share_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
