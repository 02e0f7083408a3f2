/* Streaming: any split into chunks gives the bits of the whole call, shards add up, and a mechanism
   without state is refused. Bugs planted and caught: the position not carried to the next chunk; a shard
   begun at 0; the state not cleared; kept rows of a chunk not gathered; a chunk without kept keys
   absorbed; the shared memory of the call prepared from the head's key; of yoso: the keys of a chunk that
   none of its queries sees left out, weights not merged, the second slice of columns read from the first.
   Covers: stream.c yoso_stream.c
   SPDX-License-Identifier: Apache-2.0 */
#include "attention/driver/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "base/random.h"
#include "parts/hashing/yoso_options.h"
#include "support/attention_case.h"
#include "support/check.h"
#include "support/linear_mechanism.h"

/* Supplies rows [begin, end) of one head of a case in chunks of `rows`. */
struct piece {
    const struct attention_case *problem;
    size_t head, begin, end, rows;
    bool queries;           /* false: keys; a causal stream gets both */
    float *out;             /* (rows of the case, heads, value_dim) */
    long fail_after;        /* number of chunks; negative: never */
    size_t too_many, wrong; /* rows beyond the number announced; extra columns of value */
};

static struct view cut(const struct piece *piece, float *rows, size_t first, size_t count, size_t width)
{
    size_t heads = piece->problem->num_heads;
    return (struct view){.data = rows + (first * heads + piece->head) * width,
                         .rows = count,
                         .cols = width,
                         .stride = heads * width};
}

static hashattn_status hand_out(void *user, struct host *host, size_t position, struct stream_chunk *chunk)
{
    struct piece *piece = user;
    const struct attention_case *problem = piece->problem;
    if (piece->fail_after >= 0 && piece->fail_after-- == 0)
        return host_fail(host, HASHATTN_BAD_FILE, "the source broke at %zu", position);
    assert_true(position >= piece->begin && position <= piece->end);
    size_t left = piece->end - position, count = (left < piece->rows ? left : piece->rows) + piece->too_many;
    if (piece->queries || problem->causal) {
        chunk->query = cut(piece, problem->query, position, count, problem->head_dim);
        chunk->out = cut(piece, piece->out, position, count, problem->value_dim);
    }
    if (!piece->queries || problem->causal) {
        chunk->key = cut(piece, problem->key, position, count, problem->head_dim);
        chunk->value = cut(piece, problem->value, position, count, problem->value_dim);
        chunk->value.cols += piece->wrong;
        chunk->key_mask = problem->key_mask == NULL ? NULL : problem->key_mask + position;
    }
    return HASHATTN_OK;
}

static struct stream stream_of(const struct attention_case *problem, size_t head, size_t rows)
{
    return (struct stream){
        .kernels = kernels_all()[0],
        .mechanism = problem->mechanism,
        .options = problem->options,
        .head_dim = problem->head_dim,
        .value_dim = problem->value_dim,
        .causal = problem->causal,
        .chunk_rows = rows,
        .call_key = problem->call_key,
        .random_key = random_key(problem->call_key, RANDOM_HEAD, head),
        .params = problem->params + head * attention_case_params(problem),
    };
}

static float *garbage(size_t bytes)
{
    float *block = guard_floats(bytes / sizeof(float));
    memset(block, 0xff, bytes);
    return block;
}

enum { QUERIES = 9, KEYS = 11, HEADS = 2, D = 4, D_V = 3 };

/* One sequence, all heads: keys in chunks of `rows`, cut into shards at `shard`, then queries in chunks. */
static void run_stream(const struct attention_case *problem, struct pool *pool, size_t rows, size_t shard,
                       float *out)
{
    struct host host;
    host_init(&host);
    for (size_t head = 0; head < HEADS; head++) {
        struct stream stream = stream_of(problem, head, rows);
        stream.pool = pool;
        check_status(&host, stream_check(&host, &stream), HASHATTN_OK, NULL);
        size_t state_bytes = stream_state_size(&stream), scratch_bytes = stream_scratch_size(&stream);
        float *state = garbage(state_bytes), *other = garbage(state_bytes), *scratch = garbage(scratch_bytes);
        struct piece piece = {
            .problem = problem, .head = head, .end = shard, .rows = rows, .out = out, .fail_after = -1};
        stream_open(&stream, state, scratch);
        if (!problem->causal) {
            check_status(&host, stream_absorb(&host, &stream, 0, hand_out, &piece, state, scratch),
                         HASHATTN_OK, NULL);
            if (shard < problem->keys[0]) {
                stream_open(&stream, other, scratch);
                piece.begin = shard;
                piece.end = problem->keys[0];
                memset(scratch, 0xff, scratch_bytes);
                check_status(&host, stream_absorb(&host, &stream, shard, hand_out, &piece, other, scratch),
                             HASHATTN_OK, NULL);
                stream_merge(&stream, state, other);
            }
        }
        piece.begin = 0;
        piece.end = problem->queries[0];
        piece.queries = true;
        memset(scratch, 0xff, scratch_bytes);
        check_status(&host, stream_read(&host, &stream, 0, hand_out, &piece, state, scratch), HASHATTN_OK,
                     NULL);
        guard_free(state, state_bytes / sizeof(float));
        guard_free(other, state_bytes / sizeof(float));
        guard_free(scratch, scratch_bytes / sizeof(float));
    }
}

static struct attention_case case_of(const struct mechanism *mechanism, const struct linear_options *options)
{
    return (struct attention_case){.mechanism = mechanism,
                                   .options = options,
                                   .num_sequences = 1,
                                   .num_heads = HEADS,
                                   .head_dim = D,
                                   .value_dim = D_V,
                                   .queries = {QUERIES},
                                   .keys = {KEYS},
                                   .call_key = 31};
}

static void chunks_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    struct linear_options options = {.features = 2, .slope = 0.5, .average = 1};
    for (int form = 0; form < 8; form++) {
        bool blind = form & 1;
        struct attention_case problem = case_of(blind ? &blind_mechanism : &linear_mechanism, &options);
        options.weighting = !blind;
        problem.causal = form >> 1 & 1;
        if (problem.causal)
            problem.keys[0] = QUERIES;
        attention_case_fill(&problem, 1, form >> 2 & 1);
        if (problem.key_mask != NULL) {
            /* A hole at the beginning, and a chunk of three without a key. */
            problem.key_mask[0] = 0;
            memset(problem.key_mask + 3, 0, 3);
        }
        struct attention_result whole = attention_case_run(&problem);
        static const size_t chunks[] = {1, 3, 100};
        for (size_t i = 0; i < 3; i++) {
            float out[QUERIES * HEADS * D_V];
            memset(out, 0xff, sizeof out);
            run_stream(&problem, NULL, chunks[i], problem.keys[0], out);
            check_same_bits(out, whole.out, sizeof out, "chunks against whole");
        }
        attention_result_free(&whole);
        attention_case_free(&problem);
    }
}

/* On small integers every sum is exact, so two parts give the bits of one. */
static void make_whole(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = roundf(2 * x[i]);
}

static void shards_add_up(void **state)
{
    (void)state;
    struct linear_options options = {.features = 2, .slope = 0.5, .average = 1, .weighting = 1};
    struct attention_case problem = case_of(&linear_mechanism, &options);
    attention_case_fill(&problem, 2, true);
    make_whole(problem.query, QUERIES * HEADS * D);
    make_whole(problem.key, KEYS * HEADS * D);
    make_whole(problem.value, KEYS * HEADS * D_V);
    make_whole(problem.params, HEADS * (2 * D + D_V));
    problem.key_mask[4] = 0;
    struct attention_result whole = attention_case_run(&problem);
    for (size_t shard = 0; shard < KEYS; shard++) {
        float out[QUERIES * HEADS * D_V];
        run_stream(&problem, NULL, 2, shard, out);
        check_same_bits(out, whole.out, sizeof out, "shards against whole");
    }
    attention_result_free(&whole);
    attention_case_free(&problem);
}

/* yoso: any chunks and any number of threads, causal or not, give the bits of the whole call; shards do
   too if the values are small integers. */
static void yoso_streams_are_the_whole(void **state)
{
    (void)state;
    enum { N = 70, WIDE = 37 };
    struct host host;
    host_init(&host);
    struct pool *pool;
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (int form = 0; form < 48; form++) {
        if (form >= 24 && form % 2 == 0)
            continue; /* shared planes: with short codes */
        struct yoso_options options;
        options_preset(yoso_sampled_rows, &options);
        options.num_hashes = 4;                /* weights of 1 / 4 add up exactly */
        options.hash_bits = form % 2 ? 3 : 17; /* 17: codes of 32 bits, more codes than rows */
        options.normalize = form / 4 % 3;
        if (form >= 24) {
            options.num_hashes = 16;
            options.plane_pool = 5;
        }
        struct attention_case problem = case_of(attention_find("yoso"), NULL);
        problem.options = &options;
        problem.causal = form / 2 % 2;
        problem.value_dim = WIDE;
        problem.queries[0] = N;
        problem.keys[0] = problem.causal ? N : N + 9;
        attention_case_fill(&problem, 5, form / 12 % 2);
        if (problem.key_mask != NULL) {
            problem.key_mask[0] = 0;
            memset(problem.key_mask + 7, 0, 8);
        }
        if (!problem.causal)
            make_whole(problem.value, (N + 9) * HEADS * WIDE);
        struct attention_result whole = attention_case_run(&problem);
        static const size_t chunks[] = {1, 7, 32, 100};
        static float out[N * HEADS * WIDE];
        for (size_t i = 0; i < (options.hash_bits == 3 ? 4 : 1); i++) {
            memset(out, 0xff, sizeof out);
            run_stream(&problem, i % 2 ? pool : NULL, chunks[3 - i], i == 2 ? 40 : problem.keys[0], out);
            check_same_bits(out, whole.out, sizeof out, "yoso in chunks");
        }
        attention_result_free(&whole);
        attention_case_free(&problem);
    }
    pool_free(&host, pool);
}

/* Sums of features: all cuts give the same bits, and these are the whole call's up to the rounding of sums of
   79 terms over a denominator of 0.1 or more. */
static void sums_of_features_stream(void **state)
{
    (void)state;
    enum { N = 70, WIDE = 37, KINDS = 5 };
    static const struct {
        const char *mechanism, *settings;
        bool needs_causal;
    } kinds[KINDS] = {{"linear", NULL, false},
                      {"performer", "num_features=20", false},
                      {"race", NULL, false},
                      {"rfa", "num_features=20", false},
                      {"rfa", "num_features=20 gate=true", true}};
    struct host host;
    host_init(&host);
    struct pool *pool;
    check_status(&host, pool_new(&host, 3, &pool), HASHATTN_OK, NULL);
    for (int form = 0; form < 4 * KINDS; form++) {
        struct attention_case problem = case_of(attention_find(kinds[form / 4].mechanism), NULL);
        problem.causal = form % 2;
        if (kinds[form / 4].needs_causal && !problem.causal)
            continue;
        void *options = calloc(1, problem.mechanism->options_size + 1);
        options_preset(problem.mechanism->options, options);
        options_take(problem.mechanism->options, options, kinds[form / 4].settings);
        problem.options = options;
        problem.value_dim = WIDE;
        problem.queries[0] = N;
        problem.keys[0] = problem.causal ? N : N + 9;
        attention_case_fill(&problem, 5, form / 2 % 2);
        if (problem.key_mask != NULL) {
            problem.key_mask[0] = 0;
            memset(problem.key_mask + 7, 0, 8);
        }
        for (size_t i = 0; i < problem.keys[0] * HEADS * D; i++) /* levels that rise late */
            problem.key[i] *= i / (HEADS * D) < 20 ? 8 : 1;
        struct attention_result whole = attention_case_run(&problem);
        static const size_t chunks[] = {1, 7, 32, 100};
        static float out[5][N * HEADS * WIDE];
        for (size_t i = 0; i < 5; i++) {
            memset(out[i], 0xff, sizeof out[i]);
            run_stream(&problem, i % 2 ? pool : NULL, chunks[i % 4], i == 4 ? 40 : problem.keys[0], out[i]);
            if (i < 4)
                check_same_bits(out[i], out[0], sizeof out[i], "chunks of other sizes");
            for (size_t k = 0; k < N * HEADS * WIDE; k++)
                check_near((double)out[i][k], (double)whole.out[k], 1e-4, "chunks against whole");
        }
        attention_result_free(&whole);
        attention_case_free(&problem);
        free(options);
    }
    pool_free(&host, pool);
}

static void what_cannot_be_streamed_is_refused(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct linear_options options = {.features = 2};
    struct attention_case problem = case_of(&blind_mechanism, &options);
    problem.keys[0] = QUERIES;
    attention_case_fill(&problem, 3, true);
    float out[QUERIES * HEADS * D_V];
    struct piece piece = {.problem = &problem, .end = QUERIES, .rows = 4, .out = out, .fail_after = -1};
    struct stream stream = stream_of(&problem, 0, 4);

    stream.mechanism = attention_find("softmax");
    check_status(&host, stream_check(&host, &stream), HASHATTN_REFUSED, "softmax has no state");
    stream.mechanism = &blind_mechanism;
    stream.chunk_rows = 0;
    check_status(&host, stream_check(&host, &stream), HASHATTN_INVALID, "chunk_rows 0");
    stream.chunk_rows = SIZE_MAX / 2;
    check_status(&host, stream_check(&host, &stream), HASHATTN_NO_MEMORY, "more bytes than can be counted");
    stream.chunk_rows = 4;
    options.weighting = 1;
    check_status(&host, stream_check(&host, &stream), HASHATTN_REFUSED, "blind: does not see positions");
    options.weighting = 0;
    check_status(&host, stream_check(&host, &stream), HASHATTN_OK, NULL);

    size_t state_bytes = stream_state_size(&stream), scratch_bytes = stream_scratch_size(&stream);
    float *held = garbage(state_bytes), *scratch = garbage(scratch_bytes);
    stream_open(&stream, held, scratch);
    piece.too_many = 1;
    check_status(&host, stream_absorb(&host, &stream, 0, hand_out, &piece, held, scratch), HASHATTN_INVALID,
                 "the chunk at 0 has 5 rows, at most 4");
    piece.too_many = 0;
    piece.wrong = 1;
    check_status(&host, stream_absorb(&host, &stream, 0, hand_out, &piece, held, scratch), HASHATTN_INVALID,
                 "value of the chunk at 0 is 4 x 4, 4 x 3 is needed");
    piece.wrong = 0;
    piece.fail_after = 1;
    check_status(&host, stream_absorb(&host, &stream, 0, hand_out, &piece, held, scratch), HASHATTN_BAD_FILE,
                 "the source broke at 4");
    piece.fail_after = -1;
    guard_free(held, state_bytes / sizeof(float));
    guard_free(scratch, scratch_bytes / sizeof(float));
    attention_case_free(&problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_give_the_bits_of_the_whole),  cmocka_unit_test(shards_add_up),
        cmocka_unit_test(yoso_streams_are_the_whole),         cmocka_unit_test(sums_of_features_stream),
        cmocka_unit_test(what_cannot_be_streamed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
