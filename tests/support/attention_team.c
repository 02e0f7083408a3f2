/* Cuts the case into spans, a thread for each rank.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/attention_team.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"

/* The rows of this rank in every sequence: of an array of the whole to its own, or back. */
static void move_rows(const struct attention_case *whole, const struct attention_case *own,
                      const struct comm *comm, float *part, float *all, size_t row, bool back)
{
    for (size_t s = 0; s < whole->num_sequences; s++) {
        size_t first, end, here = attention_case_rows(own->keys, s),
                           there = attention_case_rows(whole->keys, s);
        comm_span(comm, whole->keys[s], &first, &end);
        if (back)
            attention_case_take_rows(all, there + first, part, here, end - first, row);
        else
            attention_case_take_rows(part, here, all, there + first, end - first, row);
    }
}

static struct packed packed_rows(const struct attention_case *problem, float *data, size_t width)
{
    return (struct packed){
        .data = data, .width = width, .row_stride = problem->num_heads * width, .head_stride = width};
}

static void compute(struct comm *comm, void *argument)
{
    struct attention_team *team = argument;
    const struct attention_case *whole = team->whole;
    struct attention_case own = *whole;
    struct host host;
    struct pool *pool;
    size_t offsets[2 * (CASE_SEQUENCES + 1)];
    host_init(&host);
    rank_require(pool_new(&host, team->threads, &pool) == HASHATTN_OK);
    for (size_t s = 0; s < whole->num_sequences; s++) {
        size_t first, end;
        comm_span(comm, whole->keys[s], &first, &end);
        own.queries[s] = own.keys[s] = end - first;
    }
    size_t rows = attention_case_rows(own.keys, own.num_sequences), d = own.num_heads * own.head_dim,
           d_v = own.num_heads * own.value_dim;
    float *arrays[8];
    size_t widths[] = {d, d, d_v, d_v, d_v, d, d, d_v};
    float *sources[] = {whole->query, whole->key, whole->value, whole->dout};
    for (size_t i = 0; i < 8; i++) {
        arrays[i] = guard_floats(rows * widths[i]);
        memset(arrays[i], i < 5 ? 0xff : 0, rows * widths[i] * sizeof(float));
        if (i < 4)
            move_rows(whole, &own, comm, arrays[i], sources[i], widths[i], false);
    }
    own.query = arrays[0], own.key = arrays[1], own.value = arrays[2];
    struct row_ranks ranks = {.host = &host, .comm = comm};
    struct case_call made = attention_case_call(&own, pool, offsets);
    made.shape.key_offsets = made.shape.query_offsets;
    made.shape.ranks = &ranks;
    made.shape.totals = whole->keys;
    rank_require(case_plan(&host, &made) == HASHATTN_OK);
    size_t saved_floats = made.plan.saved_bytes / sizeof(float),
           scratch_floats = made.plan.scratch_bytes / sizeof(float);
    float *saved = guard_floats(saved_floats), *scratch = guard_floats(scratch_floats);
    size_t num_params = own.num_heads * attention_case_params(&own);
    float *dparams = calloc(num_params + 1, sizeof *dparams),
          *auxiliary_dparams = calloc(num_params + 1, sizeof *auxiliary_dparams);
    struct packed out = packed_rows(&own, arrays[4], own.value_dim),
                  dout = packed_rows(&own, arrays[3], own.value_dim);
    made.call.saved = saved;
    made.call.scratch = scratch;
    memset(scratch, 0xff, scratch_floats * sizeof(float));
    attention_forward(&made.call, out);
    uint64_t sent = comm->bytes_sent;
    memset(scratch, 0xff, scratch_floats * sizeof(float));
    team->auxiliary[comm_rank(comm)] = attention_auxiliary(&made.call, auxiliary_dparams);
    uint64_t auxiliary_sent = comm->bytes_sent - sent;
    memset(scratch, 0xff, scratch_floats * sizeof(float));
    attention_backward(&made.call, out, dout, packed_rows(&own, arrays[5], own.head_dim),
                       packed_rows(&own, arrays[6], own.head_dim),
                       packed_rows(&own, arrays[7], own.value_dim), dparams);
    rank_require(ranks.status == HASHATTN_OK);
    team->dparams[comm_rank(comm)] = dparams;
    team->auxiliary_dparams[comm_rank(comm)] = auxiliary_dparams;
    float *results[] = {team->result.out, team->result.dquery, team->result.dkey, team->result.dvalue};
    for (size_t i = 4; i < 8; i++)
        move_rows(whole, &own, comm, arrays[i], results[i - 4], widths[i], true);
    if (comm_rank(comm) == 0) {
        team->bytes_sent = comm->bytes_sent - auxiliary_sent;
        team->auxiliary_bytes = auxiliary_sent;
    }
    guard_free(saved, saved_floats);
    guard_free(scratch, scratch_floats);
    for (size_t i = 0; i < 8; i++)
        guard_free(arrays[i], rows * widths[i]);
    pool_free(&host, pool);
}

struct attention_team attention_team_of(const struct attention_case *whole, int ranks, int threads)
{
    size_t rows = attention_case_rows(whole->keys, whole->num_sequences) * whole->num_heads;
    struct attention_team team = {
        .whole = whole, .threads = threads, .result = {.query_rows = rows, .key_rows = rows}};
    float **const arrays[] = {&team.result.out, &team.result.dquery, &team.result.dkey, &team.result.dvalue};
    for (size_t i = 0; i < 4; i++) {
        *arrays[i] = calloc(rows * (whole->head_dim + whole->value_dim), sizeof(float));
        assert_non_null(*arrays[i]);
    }
    assert_string_equal(run_ranks(ranks, 60, compute, &team), "");
    return team;
}

void attention_team_free(struct attention_team *team)
{
    attention_result_free(&team->result);
    for (int rank = 0; rank < MOST_RANKS; rank++) {
        free(team->dparams[rank]);
        free(team->auxiliary_dparams[rank]);
    }
}
