/* Public streams: any chunks, heads and threads give the bits of the whole; sources; refusals. Bugs tried and
   caught: the state of the first head used for all; every head with the random key of the first; done called
   for the chunk that is still being computed, or not for the last; rows not counted from 0 again after a
   clear, or counted from 0 by every call; NaN searched in masked rows; rows of a refused chunk counted; the
   state allocated before its size is compared with the machine's memory; the rest of a chunk not computed
   when the source fails at the same time; any one of the facts that a merge compares ignored; rows of out
   that overlap those of another head; the learned parameters of the first head for all, or not compared by a
   merge.
   Covers: streaming.c stream_chunk.c stream_source.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api_context.h"

enum { N = 61, HEADS = 3, D = 7, D_V = 5 };

struct data {
    float query[N * HEADS * D], key[N * HEADS * D], value[N * HEADS * D_V], out[N * HEADS * D_V];
    uint8_t mask[N];
};

static struct data *data_new(void)
{
    struct data *data = malloc(sizeof *data);
    hashattn_fill_normal(1, 0, data->query, N * HEADS * D);
    hashattn_fill_normal(1, 1, data->key, N * HEADS * D);
    hashattn_fill_normal(1, 2, data->value, N * HEADS * D_V);
    for (size_t j = 0; j < N; j++)
        data->mask[j] = j != 0 && j % 5 != 2 && (j < 20 || j > 31);
    return data;
}

/* Rows first .. first + rows - 1, all heads within a row. */
static hashattn_chunk chunk_of(struct data *data, size_t first, size_t rows)
{
    return (hashattn_chunk){.struct_size = sizeof(hashattn_chunk),
                            .rows = rows,
                            .query = {data->query + first * HEADS * D, 0, HEADS * D, D},
                            .key = {data->key + first * HEADS * D, 0, HEADS * D, D},
                            .value = {data->value + first * HEADS * D_V, 0, HEADS * D_V, D_V},
                            .out = {data->out + first * HEADS * D_V, 0, HEADS * D_V, D_V},
                            .key_mask = data->mask + first};
}

static hashattn_attention *yoso(hashattn_context *context)
{
    hashattn_attention *attention;
    check_ok(context, hashattn_attention_new(context, "yoso", &attention));
    check_ok(context, hashattn_attention_set(attention, "num_hashes", "6"));
    check_ok(context, hashattn_attention_set(attention, "hash_bits", "4"));
    return attention;
}

static hashattn_stream_options options_of(size_t chunk_rows, int causal)
{
    hashattn_stream_options options;
    hashattn_stream_options_default(&options);
    options.num_heads = HEADS;
    options.head_dim = D;
    options.value_dim = D_V;
    options.chunk_rows = chunk_rows;
    options.causal = causal;
    options.seed = 77;
    return options;
}

static float *whole_of(hashattn_context *context, hashattn_attention *attention, struct data *data,
                       int causal)
{
    hashattn_problem problem;
    hashattn_problem_default(&problem);
    problem.num_heads = HEADS;
    problem.num_queries = problem.num_keys = N;
    problem.head_dim = D;
    problem.value_dim = D_V;
    problem.key_mask = data->mask;
    problem.causal = causal;
    problem.seed = 77;
    hashattn_chunk all = chunk_of(data, 0, N);
    check_ok(context, hashattn_attention_forward(attention, &problem, &all.query, &all.key, &all.value,
                                                 &all.out, NULL, NULL));
    float *want = malloc(sizeof data->out);
    memcpy(want, data->out, sizeof data->out);
    memset(data->out, 0xff, sizeof data->out);
    return want;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void chunks_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    static const size_t chunks[] = {1, 8, 100};
    for (int threads = 1; threads <= 5; threads += 2)
        for (int form = 0; form < 6; form++) {
            hashattn_context *context = context_with(threads, NULL);
            hashattn_attention *attention = yoso(context);
            struct data *data = data_new();
            size_t rows = chunks[form / 2];
            float *want = whole_of(context, attention, data, form % 2);
            hashattn_stream_options options = options_of(rows, form % 2);
            hashattn_stream *stream;
            check_ok(context, hashattn_stream_new(attention, &options, &stream));
            /* Options set later do not affect the stream. */
            check_ok(context, hashattn_attention_set(attention, "num_hashes", "7"));
            for (int again = 0; again < 2; again++) {
                for (size_t i = 0; i < N && !options.causal; i += rows) {
                    hashattn_chunk chunk = chunk_of(data, i, least(rows, N - i));
                    check_ok(context, hashattn_stream_absorb(stream, &chunk));
                }
                memset(data->out, 0xff, sizeof data->out);
                for (size_t i = 0; i < N; i += rows) {
                    hashattn_chunk chunk = chunk_of(data, i, least(rows, N - i));
                    check_ok(context, hashattn_stream_read(stream, &chunk));
                }
                check_same_bits(data->out, want, sizeof data->out, "chunks");
                hashattn_stream_clear(stream);
            }
            assert_true(hashattn_stream_bytes(stream) >= HEADS * 6 * 16 * D_V * sizeof(float));
            hashattn_stream_free(stream);
            hashattn_attention_free(attention);
            hashattn_context_free(context);
            free(want), free(data);
        }
}

/* Copies rows into two alternating buffers, as a reader of files does, and overwrites rows that must not be
   read any more. */
struct source {
    struct data *data, buffers[2];
    size_t rows, told, fail_at;
    unsigned turn;
    float out[N * HEADS * D_V];
};

static hashattn_status fetch(void *user, size_t position, hashattn_chunk *chunk)
{
    struct source *source = user;
    struct data *buffer = &source->buffers[source->turn++ % 2];
    size_t rows = least(source->rows, N - position);
    if (position >= source->fail_at)
        return HASHATTN_BAD_FILE;
    memset(buffer, 0xff, sizeof *buffer);
    *chunk = chunk_of(buffer, 0, rows);
    memcpy(buffer->query, source->data->query + position * HEADS * D, rows * HEADS * D * sizeof(float));
    memcpy(buffer->key, source->data->key + position * HEADS * D, rows * HEADS * D * sizeof(float));
    memcpy(buffer->value, source->data->value + position * HEADS * D_V, rows * HEADS * D_V * sizeof(float));
    memcpy(buffer->mask, source->data->mask + position, rows);
    return HASHATTN_OK;
}

static hashattn_status done(void *user, size_t position, const hashattn_chunk *chunk)
{
    struct source *source = user;
    assert_int_equal(position, source->told);
    memcpy(source->out + position * HEADS * D_V, chunk->out.data, chunk->rows * HEADS * D_V * sizeof(float));
    source->told += chunk->rows;
    return HASHATTN_OK;
}

static void sources_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++)
        for (int causal = 0; causal < 2; causal++) {
            hashattn_context *context = context_with(threads, NULL);
            hashattn_attention *attention = yoso(context);
            struct source *source = calloc(1, sizeof *source);
            source->data = data_new();
            source->rows = causal ? 1 : 9;
            source->fail_at = SIZE_MAX;
            float *want = whole_of(context, attention, source->data, causal);
            hashattn_stream_options options = options_of(9, causal);
            hashattn_stream *stream;
            size_t rows = 0;
            hashattn_stream_source from = {
                .struct_size = sizeof from, .user = source, .fetch = fetch, .done = NULL};
            check_ok(context, hashattn_stream_new(attention, &options, &stream));
            if (!causal) {
                check_ok(context, hashattn_stream_absorb_all(stream, &from, &rows));
                assert_int_equal(rows, N);
            }
            from.done = done;
            check_ok(context, hashattn_stream_read_all(stream, &from, &rows));
            assert_int_equal(rows, N);
            assert_int_equal(source->told, N);
            check_same_bits(source->out, want, sizeof source->out, "from a source");
            check_ok(context, hashattn_stream_read_all(stream, &from, &rows)); /* goes on behind them */
            assert_int_equal(rows, 0);
            hashattn_stream_clear(stream);
            source->told = 0;
            source->fail_at = 20;
            check_call(context, hashattn_stream_read_all(stream, &from, &rows), HASHATTN_BAD_FILE,
                       causal ? "the source failed at row 20" : "the source failed at row 27");
            hashattn_stream_free(stream);
            hashattn_attention_free(attention);
            hashattn_context_free(context);
            free(want), free(source->data), free(source);
        }
}

/* The bytes for chunks of the message about memory. */
static size_t scratch_of_message(const hashattn_context *context)
{
    static const char before[] = " a head) and ";
    const char *at = strstr(hashattn_context_message(context), before);
    assert_non_null(at);
    return strtoull(at + strlen(before), NULL, 10);
}

static void invalid_calls_are_reported(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    hashattn_attention *attention = yoso(context), *softmax;
    struct data *data = data_new();
    hashattn_stream_options good = options_of(8, 0), options = good;
    hashattn_stream *stream, *causal;
    check_ok(context, hashattn_attention_new(context, "softmax", &softmax));
    check_call(context, hashattn_stream_new(softmax, &options, &stream), HASHATTN_REFUSED,
               "softmax has no state of constant size");
    assert_null(stream);
    options.chunk_rows = 0;
    check_call(context, hashattn_stream_new(attention, &options, &stream), HASHATTN_INVALID, "chunk_rows 0");
    options = good;
    options.num_heads = 0;
    check_call(context, hashattn_stream_new(attention, &options, &stream), HASHATTN_INVALID,
               "num_heads is 0");
    options = good;
    options.value_dim = 64;
    check_ok(context, hashattn_attention_set(attention, "hash_bits", "24"));
    check_ok(context, hashattn_attention_set(attention, "num_hashes", "4096"));
    check_call(context, hashattn_stream_new(attention, &options, &stream), HASHATTN_NO_MEMORY,
               "yoso would hold 52776574648512 bytes for 3 heads (17592191549504 a head) and ");
    assert_non_null(strstr(hashattn_context_message(context), " for chunks of 8 rows; this machine has "));
    size_t for_chunks = scratch_of_message(context);
    assert_in_range(for_chunks, 1, 1 << 30);
    options.num_heads = SIZE_MAX / 1000; /* memory that cannot be counted */
    check_call(
        context, hashattn_stream_new(attention, &options, &stream), HASHATTN_NO_MEMORY,
        "yoso would hold 18446744073709551615 bytes for 18446744073709551 heads (17592191549504 a head)");
    assert_in_range(scratch_of_message(context), 1, for_chunks);
    check_ok(context, hashattn_attention_set(attention, "hash_bits", "4"));
    check_ok(context, hashattn_attention_set(attention, "num_hashes", "6"));

    options = good;
    check_ok(context, hashattn_stream_new(attention, &options, &stream));
    options.causal = 1;
    check_ok(context, hashattn_stream_new(attention, &options, &causal));
    hashattn_chunk chunk = chunk_of(data, 0, 9);
    check_call(context, hashattn_stream_absorb(stream, &chunk), HASHATTN_INVALID,
               "the chunk at row 0 has 9 rows, at most 8");
    chunk.rows = 8;
    check_call(context, hashattn_stream_absorb(causal, &chunk), HASHATTN_INVALID, "with their queries");
    check_ok(context, hashattn_stream_absorb(stream, &chunk));
    data->value[2 * HEADS * D_V] = NAN; /* a masked row */
    check_ok(context, hashattn_stream_absorb(stream, &chunk));
    data->key[(3 * HEADS + 1) * D + 4] = INFINITY;
    check_call(context, hashattn_stream_absorb(stream, &chunk), HASHATTN_INVALID,
               "key is inf at row 19 of the sequence, head 1, column 4");
    data->mask[5] = 2;
    check_call(context, hashattn_stream_absorb(stream, &chunk), HASHATTN_INVALID, "key_mask is 2 at row 21");
    chunk.key_mask = NULL;
    chunk.key.row_stride = D - 1;
    check_call(context, hashattn_stream_absorb(stream, &chunk), HASHATTN_INVALID, "key: row_stride is 6");
    chunk.out.data = NULL;
    check_call(context, hashattn_stream_read(stream, &chunk), HASHATTN_INVALID,
               "out.data is NULL for 8 rows");
    chunk.rows = 0;
    check_ok(context, hashattn_stream_read(stream, &chunk));
    chunk.struct_size = 0;
    check_call(context, hashattn_stream_read(stream, &chunk), HASHATTN_INVALID, "chunk");
    hashattn_stream_source source = {.struct_size = sizeof source};
    check_call(context, hashattn_stream_read_all(stream, &source, NULL), HASHATTN_INVALID, "fetch is NULL");
    check_call(context, hashattn_stream_absorb_all(causal, &source, NULL), HASHATTN_INVALID,
               "a causal stream gets its keys with their queries");
    check_call(context, hashattn_stream_new(attention, &good, NULL), HASHATTN_INVALID, "stream is NULL");
    assert_int_equal(hashattn_stream_new(NULL, &good, &causal), HASHATTN_INVALID);
    assert_int_equal(hashattn_stream_absorb(NULL, &chunk), HASHATTN_INVALID);
    assert_int_equal(hashattn_stream_read(NULL, &chunk), HASHATTN_INVALID);
    assert_int_equal(hashattn_stream_absorb_all(NULL, &source, NULL), HASHATTN_INVALID);
    assert_int_equal(hashattn_stream_read_all(NULL, &source, NULL), HASHATTN_INVALID);
    assert_int_equal(hashattn_stream_merge(NULL, stream), HASHATTN_INVALID);
    assert_int_equal(hashattn_stream_merge(stream, NULL), HASHATTN_INVALID);
    hashattn_stream_free(stream);
    hashattn_stream_free(causal);
    hashattn_stream_free(NULL);
    hashattn_attention_free(attention);
    hashattn_attention_free(softmax);
    hashattn_context_free(context);
    free(data);
}

/* Streams that differ in anything but the size of their chunks are not merged and stay unchanged. */
static void only_streams_made_alike_are_merged(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    hashattn_attention *attention = yoso(context);
    hashattn_stream_options good = options_of(8, 0), changed[7];
    static const char *const messages[] = {"num_heads 2 cannot be merged into one of num_heads 3",
                                           "head_dim 8 cannot be",
                                           "value_dim 6 cannot be",
                                           "causal 1 cannot be",
                                           "first_head 3 cannot be merged into one of first_head 0",
                                           "seed 78 cannot be",
                                           NULL};
    for (size_t i = 0; i < 7; i++)
        changed[i] = good;
    changed[0].num_heads--;
    changed[1].head_dim++;
    changed[2].value_dim++;
    changed[3].causal = 1;
    changed[4].first_head = HEADS;
    changed[5].seed++;
    changed[6].chunk_rows++;
    hashattn_stream *stream, *other;
    check_ok(context, hashattn_stream_new(attention, &good, &stream));
    for (size_t i = 0; i < 7; i++) {
        check_ok(context, hashattn_stream_new(attention, &changed[i], &other));
        check_call(context, hashattn_stream_merge(stream, other),
                   messages[i] == NULL ? HASHATTN_OK : HASHATTN_INVALID, messages[i]);
        hashattn_stream_free(other);
    }
    check_ok(context, hashattn_attention_set(attention, "num_hashes", "7"));
    check_ok(context, hashattn_stream_new(attention, &good, &other));
    check_call(context, hashattn_stream_merge(stream, other), HASHATTN_INVALID, "different options for yoso");
    hashattn_stream_free(other);
    hashattn_stream_free(stream);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

/* Strides that make elements of out overlap are refused before anything is written. */
static void elements_of_out_may_not_meet(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    hashattn_attention *attention = yoso(context);
    struct data *data = data_new();
    static const struct {
        size_t row_stride, head_stride;
        const char *message; /* NULL: no overlap */
    } cases[] = {
        {HEADS * D_V, D_V, NULL},
        {D_V, 4 * D_V, NULL},
        {D_V, D_V, "out: head_stride is 5, at least 20 is needed, or elements would overlap"},
        {D_V, 4 * D_V - 1, "out: head_stride is 19, at least 20 is needed"},
        {HEADS * D_V - 1, D_V, "out: row_stride is 14, at least 15 is needed"},
        {HEADS * D_V, D_V - 1, "out: head_stride is 4, at least 5 is needed"},
        {HEADS * D_V, 0, "out: head_stride is 0, at least 5 is needed"},
    };
    for (int causal = 0; causal < 2; causal++) {
        hashattn_stream_options options = options_of(4, causal);
        hashattn_stream *stream;
        check_ok(context, hashattn_stream_new(attention, &options, &stream));
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            hashattn_chunk chunk = chunk_of(data, 0, 4);
            chunk.out.row_stride = cases[i].row_stride;
            chunk.out.head_stride = cases[i].head_stride;
            memset(data->out, 0xff, sizeof data->out);
            check_call(context, hashattn_stream_read(stream, &chunk),
                       cases[i].message == NULL ? HASHATTN_OK : HASHATTN_INVALID, cases[i].message);
            assert_true(isnan(data->out[0]) == (cases[i].message != NULL));
        }
        hashattn_chunk one = chunk_of(data, 0, 1); /* a single row has no row stride */
        one.out.row_stride = 0;
        check_ok(context, hashattn_stream_read(stream, &one));
        hashattn_stream_free(stream);
    }
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    free(data);
}

/* A stride that is not used may be large, but every product with it must fit. */
static void strides_are_bounded(void **state)
{
    (void)state;
    enum { ROOM = 8 };
    hashattn_context *context = context_with(2, NULL);
    hashattn_attention *attention = yoso(context);
    struct data *data = data_new();
    hashattn_stream_options options = options_of(4, 0);
    hashattn_stream *stream;
    options.num_heads = 1;
    check_ok(context, hashattn_stream_new(attention, &options, &stream));
    for (size_t more = 0; more < 2; more++)
        for (int of_heads = 0; of_heads < 2; of_heads++) {
            hashattn_chunk chunk = chunk_of(data, 0, 1);
            *(of_heads ? &chunk.query.head_stride : &chunk.query.row_stride) = PTRDIFF_MAX / ROOM + more;
            check_call(context, hashattn_stream_read(stream, &chunk), more ? HASHATTN_INVALID : HASHATTN_OK,
                       of_heads ? "are too large for 1 rows and 1 heads"
                                : "query: strides of 115292150460684");
        }
    hashattn_stream_free(stream);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    free(data);
}

/* The state of a stream grows with its heads, its scratch memory with the heads that run at the same time. */
static void bytes_are_those_of_states_and_scratch(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    hashattn_attention *attention = yoso(context);
    size_t bytes[6];
    for (size_t heads = 1; heads < 6; heads++) {
        hashattn_stream_options options = options_of(4, 0);
        hashattn_stream *stream;
        options.num_heads = heads;
        check_ok(context, hashattn_stream_new(attention, &options, &stream));
        bytes[heads] = hashattn_stream_bytes(stream);
        hashattn_stream_free(stream);
    }
    size_t states = bytes[3] - bytes[2], scratch = bytes[2] - 2 * states;
    assert_true(states >= 6 * 16 * D_V * sizeof(float) && scratch > 0);
    assert_true(bytes[4] == 4 * states + scratch && bytes[5] == 5 * states + scratch);
    assert_true(bytes[1] < states + scratch); /* one head at a time, on both threads */
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

/* A refused chunk leaves nothing: the good rows that follow give the bits of the whole. */
static void a_refused_chunk_leaves_the_state(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        hashattn_context *context = context_with(2, NULL);
        hashattn_attention *attention = yoso(context);
        struct data *data = data_new(), *bad = data_new();
        float *want = whole_of(context, attention, data, causal);
        hashattn_stream_options options = options_of(20, causal);
        hashattn_stream *stream;
        check_ok(context, hashattn_stream_new(attention, &options, &stream));
        bad->value[(N - 1) * HEADS * D_V] = NAN; /* in the last row of a chunk */
        for (int pass = causal; pass < 2; pass++)
            for (size_t i = 0; i < N; i += 20) {
                hashattn_status (*take)(hashattn_stream *, const hashattn_chunk *) =
                    pass == 0 ? hashattn_stream_absorb : hashattn_stream_read;
                hashattn_chunk chunk = chunk_of(data, i, least(20, N - i)),
                               spoiled = chunk_of(bad, N - 20, 20);
                char message[80];
                snprintf(message, sizeof message, "value is nan at row %zu of the sequence", i + 19);
                if (pass == 0 || causal)
                    check_call(context, take(stream, &spoiled), HASHATTN_INVALID, message);
                spoiled = chunk;
                spoiled.query.row_stride = spoiled.key.row_stride = 1;
                if (chunk.rows > 1)
                    check_call(context, take(stream, &spoiled), HASHATTN_INVALID, "row_stride is 1");
                spoiled = chunk;
                spoiled.rows = 21;
                snprintf(message, sizeof message, "the chunk at row %zu has 21 rows, at most 20", i);
                check_call(context, take(stream, &spoiled), HASHATTN_INVALID, message);
                check_ok(context, take(stream, &chunk));
            }
        check_same_bits(data->out, want, sizeof data->out, "after refusals");
        hashattn_stream_free(stream);
        hashattn_attention_free(attention);
        hashattn_context_free(context);
        free(want), free(data), free(bad);
    }
}

/* A source whose chunks change or that fails is reported with the row, and a good source continues from
   there. A source that ends early gives a shorter sequence. */
struct changing {
    struct source source;
    size_t change_at, end;
    int how; /* 0: more rows; 1: rows that overlap; 2: no data; 3: fails */
};

static hashattn_status fetch_changing(void *user, size_t position, hashattn_chunk *chunk)
{
    struct changing *changing = user;
    if (position >= changing->change_at && changing->how == 3)
        return HASHATTN_BAD_FILE;
    hashattn_status status = fetch(&changing->source, position, chunk);
    chunk->rows = position >= changing->end ? 0 : least(chunk->rows, changing->end - position);
    if (status != HASHATTN_OK || position < changing->change_at)
        return status;
    if (changing->how == 0)
        chunk->rows = 10;
    else if (changing->how == 1)
        chunk->key.row_stride = D - 1;
    else if (changing->how == 2)
        chunk->value.data = NULL;
    return HASHATTN_OK;
}

static void changing_sources_are_reported(void **state)
{
    (void)state;
    static const char *const messages[] = {"the chunk at row 27 has 10 rows, at most 9",
                                           "key: row_stride is 6", "value.data is NULL for 9 rows",
                                           "the source failed at row 27 of the sequence"};
    for (int how = 0; how < 4; how++)
        for (int threads = 1; threads < 4; threads++) {
            hashattn_context *context = context_with(threads, NULL);
            hashattn_attention *attention = yoso(context);
            struct changing *changing = calloc(1, sizeof *changing);
            *changing = (struct changing){.change_at = 27, .end = N, .how = how};
            struct source *source = &changing->source;
            source->data = data_new();
            source->rows = 9;
            source->fail_at = SIZE_MAX;
            float *want = whole_of(context, attention, source->data, 0);
            hashattn_stream_options options = options_of(9, 0);
            hashattn_stream *stream;
            check_ok(context, hashattn_stream_new(attention, &options, &stream));
            const hashattn_stream_source bad = {sizeof bad, changing, fetch_changing, NULL},
                                         good = {sizeof good, source, fetch, done};
            size_t rows = 0;
            check_call(context, hashattn_stream_absorb_all(stream, &bad, &rows),
                       how == 3 ? HASHATTN_BAD_FILE : HASHATTN_INVALID, messages[how]);
            hashattn_stream_source rest = good;
            rest.done = NULL;
            check_ok(context, hashattn_stream_absorb_all(stream, &rest, &rows));
            assert_int_equal(rows, N - 27);
            check_ok(context, hashattn_stream_read_all(stream, &good, &rows));
            check_same_bits(source->out, want, sizeof source->out, "after a source that broke");

            hashattn_stream_clear(stream);
            changing->change_at = SIZE_MAX;
            changing->end = 30;
            check_ok(context, hashattn_stream_absorb_all(stream, &bad, &rows));
            assert_int_equal(rows, 30);
            hashattn_stream_free(stream);
            hashattn_attention_free(attention);
            hashattn_context_free(context);
            free(want), free(source->data), free(changing);
        }
}

/* Tables larger than the machine's memory: the message has the bytes, and nothing of that size is
   allocated. */
static void tables_over_memory_are_not_tried(void **state)
{
    (void)state;
    struct failing_host failing;
    failing_host_init(&failing, -1);
    hashattn_context *context = context_with(2, &failing);
    hashattn_attention *attention = yoso(context);
    hashattn_stream_options options = options_of(8, 0);
    hashattn_stream *stream;
    options.value_dim = 64;
    check_ok(context, hashattn_attention_set(attention, "hash_bits", "24"));
    check_ok(context, hashattn_attention_set(attention, "num_hashes", "4096"));
    failing.largest = 0;
    check_call(context, hashattn_stream_new(attention, &options, &stream), HASHATTN_NO_MEMORY,
               "yoso would hold 52776574648512 bytes for 3 heads");
    assert_null(stream);
    assert_true(failing.largest > 0 && failing.largest < 4096);
    options.chunk_rows = (size_t)1 << 45; /* chunks too */
    check_ok(context, hashattn_attention_set(attention, "hash_bits", "4"));
    check_call(context, hashattn_stream_new(attention, &options, &stream), HASHATTN_REFUSED,
               "at most 2147483647");
    options.chunk_rows = (size_t)1 << 30;
    check_call(context, hashattn_stream_new(attention, &options, &stream), HASHATTN_REFUSED,
               "more than 1099511627776 bytes for one head (in chunks of 1073741824 rows");
    assert_true(failing.largest < 4096);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    assert_int_equal(failing.outstanding, 0);
}

/* A head in its own stream hashes as it does among all heads. */
static void one_head_is_that_head(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_attention *attention = yoso(context);
    struct data *data = data_new();
    float *want = whole_of(context, attention, data, 1);
    hashattn_stream_options options = options_of(N, 1);
    options.num_heads = 1;
    for (options.first_head = 0; options.first_head < HEADS; options.first_head++) {
        hashattn_stream *stream;
        check_ok(context, hashattn_stream_new(attention, &options, &stream));
        hashattn_chunk chunk = chunk_of(data, 0, N);
        chunk.query.data = (float *)chunk.query.data + options.first_head * D;
        chunk.key.data = (float *)chunk.key.data + options.first_head * D;
        chunk.value.data = (float *)chunk.value.data + options.first_head * D_V;
        chunk.out.data = (float *)chunk.out.data + options.first_head * D_V;
        check_ok(context, hashattn_stream_read(stream, &chunk));
        hashattn_stream_free(stream);
    }
    check_same_bits(data->out, want, sizeof data->out, "head by head");
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    free(want), free(data);
}

/* Values are small integers and there are 2^2 hashes, so every sum is exact in any order. */
static void shards_add_up(void **state)
{
    (void)state;
    hashattn_context *context = context_with(3, NULL);
    hashattn_attention *attention = yoso(context);
    struct data *data = data_new();
    for (size_t i = 0; i < N * HEADS * D_V; i++)
        data->value[i] = roundf(3 * data->value[i]);
    check_ok(context, hashattn_attention_set(attention, "num_hashes", "4"));
    float *want = whole_of(context, attention, data, 0);
    hashattn_stream_options options = options_of(N, 0);
    hashattn_stream *shards[2];
    for (int s = 0; s < 2; s++) {
        check_ok(context, hashattn_stream_new(attention, &options, &shards[s]));
        hashattn_chunk keys = chunk_of(data, s == 0 ? 0 : 25, s == 0 ? 25 : N - 25);
        check_ok(context, hashattn_stream_absorb(shards[s], &keys));
    }
    check_ok(context, hashattn_stream_merge(shards[0], shards[1]));
    hashattn_chunk queries = chunk_of(data, 0, N);
    check_ok(context, hashattn_stream_read(shards[0], &queries));
    check_same_bits(data->out, want, sizeof data->out, "two shards");
    hashattn_stream_free(shards[0]);
    hashattn_stream_free(shards[1]);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    free(want), free(data);
}

/* The stream's sums are in another order than the whole call's. */
static void streams_copy_the_learned_parameters(void **state)
{
    (void)state;
    hashattn_context *context = context_with(2, NULL);
    struct data *data = data_new();
    for (int gate = 0; gate < 2; gate++) {
        hashattn_attention *attention;
        check_ok(context, hashattn_attention_new(context, "rfa", &attention));
        check_ok(context, hashattn_attention_set(attention, "gate", gate ? "true" : "false"));
        enum { MOST = HEADS * (2 * D + 1) };
        float params[MOST], other[MOST];
        hashattn_fill_normal(2, 0, params, MOST);
        hashattn_fill_normal(3, 0, other, MOST);
        check_ok(context, hashattn_attention_set_params(attention, params, HEADS, D, D_V, 0));
        float *want = whole_of(context, attention, data, gate);
        hashattn_stream_options options = options_of(9, gate);
        hashattn_stream *stream, *later;
        check_ok(context, hashattn_stream_new(attention, &options, &stream));
        check_ok(context, hashattn_attention_set_params(attention, other, HEADS, D, D_V, 0));
        check_ok(context, hashattn_stream_new(attention, &options, &later));
        check_call(context, hashattn_stream_merge(stream, later), HASHATTN_INVALID,
                   "different learned parameters of rfa");
        for (int read = gate; read < 2; read++)
            for (size_t first = 0; first < N; first += 9) {
                hashattn_chunk chunk = chunk_of(data, first, N - first < 9 ? N - first : 9);
                check_ok(context, read ? hashattn_stream_read(stream, &chunk)
                                       : hashattn_stream_absorb(stream, &chunk));
            }
        for (size_t i = 0; i < N * HEADS * D_V; i++)
            check_near((double)data->out[i], (double)want[i], 2e-5, "rfa in chunks");
        hashattn_stream_free(stream);
        hashattn_stream_free(later);
        hashattn_attention_free(attention);
        free(want);
    }
    hashattn_context_free(context);
    free(data);
}

static hashattn_status make_one(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_attention *attention;
    hashattn_stream *stream = NULL;
    hashattn_status status = hashattn_attention_new(context, "yoso", &attention);
    if (status != HASHATTN_OK)
        return status;
    hashattn_stream_options options = options_of(3, 0);
    status = hashattn_stream_new(attention, &options, &stream);
    hashattn_stream_free(stream);
    hashattn_attention_free(attention);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_failing_allocation(make_one, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_give_the_bits_of_the_whole),
        cmocka_unit_test(sources_give_the_bits_of_the_whole),
        cmocka_unit_test(only_streams_made_alike_are_merged),
        cmocka_unit_test(elements_of_out_may_not_meet),
        cmocka_unit_test(strides_are_bounded),
        cmocka_unit_test(bytes_are_those_of_states_and_scratch),
        cmocka_unit_test(streams_copy_the_learned_parameters),
        cmocka_unit_test(a_refused_chunk_leaves_the_state),
        cmocka_unit_test(changing_sources_are_reported),
        cmocka_unit_test(tables_over_memory_are_not_tried),
        cmocka_unit_test(one_head_is_that_head),
        cmocka_unit_test(shards_add_up),
        cmocka_unit_test(invalid_calls_are_reported),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
