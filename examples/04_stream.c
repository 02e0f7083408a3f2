/* A sequence that does not fit in memory, and a decoder that works token by token. Both keep a state of
   constant size. A callback supplies the rows of the long sequence: here it generates them; a program would
   read them.
     cc 04_stream.c $(pkg-config --cflags --libs hashattn) -o stream && ./stream
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <hashattn/stream.h>

enum { ROWS = 100000, CHUNK = 4096, WIDTH = 64, TOKENS = 100 };

/* Two chunks in turn: one is filled while the other is computed. */
struct source {
    float *query[2], *key[2], *value[2], *out[2];
    int turn;
    double sum; /* of squares of the output */
};

/* Called on a thread of the library. 0 rows mean the end. */
static hashattn_status fetch(void *user, size_t position, hashattn_chunk *chunk)
{
    struct source *source = user;
    int now = source->turn++ % 2;
    chunk->rows = ROWS - position < CHUNK ? ROWS - position : CHUNK;
    chunk->query = hashattn_array_of_rows(source->query[now], 1, chunk->rows, WIDTH);
    chunk->key = hashattn_array_of_rows(source->key[now], 1, chunk->rows, WIDTH);
    chunk->value = hashattn_array_of_rows(source->value[now], 1, chunk->rows, WIDTH);
    chunk->out = hashattn_array_of_rows(source->out[now], 1, chunk->rows, WIDTH);
    hashattn_fill_normal(position, 0, source->query[now], chunk->rows * WIDTH);
    hashattn_fill_normal(position, 1, source->key[now], chunk->rows * WIDTH);
    hashattn_fill_normal(position, 2, source->value[now], chunk->rows * WIDTH);
    return HASHATTN_OK;
}

/* Called for every computed chunk, in order. */
static hashattn_status done(void *user, size_t position, const hashattn_chunk *chunk)
{
    struct source *source = user;
    const float *out = chunk->out.data;
    (void)position;
    for (size_t i = 0; i < chunk->rows * WIDTH; i++)
        source->sum += (double)out[i] * out[i];
    return HASHATTN_OK;
}

static int fail(const hashattn_context *context, hashattn_status status)
{
    fprintf(stderr, "%s: %s\n", hashattn_status_text(status), hashattn_context_message(context));
    return 1;
}

int main(void)
{
    hashattn_context *context;
    char message[512];
    if (hashattn_context_new(NULL, message, sizeof message, &context) != HASHATTN_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    hashattn_attention *attention;
    hashattn_status status = hashattn_attention_new(context, "yoso", &attention);
    if (status != HASHATTN_OK)
        return fail(context, status);

    /* All keys enter the state, then all queries are answered: two passes over the source. */
    hashattn_stream_options options;
    hashattn_stream_options_default(&options);
    options.head_dim = options.value_dim = WIDTH;
    options.chunk_rows = CHUNK;
    options.seed = 1;
    hashattn_stream *stream;
    status = hashattn_stream_new(attention, &options, &stream);
    if (status != HASHATTN_OK)
        return fail(context, status);
    struct source source = {.turn = 0};
    for (int i = 0; i < 2; i++) {
        source.query[i] = malloc(CHUNK * WIDTH * sizeof(float));
        source.key[i] = malloc(CHUNK * WIDTH * sizeof(float));
        source.value[i] = malloc(CHUNK * WIDTH * sizeof(float));
        source.out[i] = malloc(CHUNK * WIDTH * sizeof(float));
    }
    hashattn_stream_source from = {.struct_size = sizeof from, .user = &source, .fetch = fetch, .done = NULL};
    size_t rows;
    status = hashattn_stream_absorb_all(stream, &from, &rows);
    from.done = done;
    if (status == HASHATTN_OK)
        status = hashattn_stream_read_all(stream, &from, &rows);
    if (status != HASHATTN_OK)
        return fail(context, status);
    printf("%zu rows: mean square of the output %.4f, held in %.1f MiB\n", rows,
           source.sum / ((double)rows * WIDTH), (double)hashattn_stream_bytes(stream) / (1 << 20));
    hashattn_stream_free(stream);

    /* A decoder: each token sees itself and the tokens before it. The cost per token is constant. */
    options.causal = 1;
    options.chunk_rows = 1;
    status = hashattn_stream_new(attention, &options, &stream);
    if (status != HASHATTN_OK)
        return fail(context, status);
    float query[WIDTH], key[WIDTH], value[WIDTH], out[WIDTH];
    hashattn_chunk token = {.struct_size = sizeof token,
                            .rows = 1,
                            .query = hashattn_array_of_rows(query, 1, 1, WIDTH),
                            .key = hashattn_array_of_rows(key, 1, 1, WIDTH),
                            .value = hashattn_array_of_rows(value, 1, 1, WIDTH),
                            .out = hashattn_array_of_rows(out, 1, 1, WIDTH)};
    for (uint64_t t = 0; t < TOKENS; t++) {
        hashattn_fill_normal(t, 0, query, WIDTH);
        hashattn_fill_normal(t, 1, key, WIDTH);
        hashattn_fill_normal(t, 2, value, WIDTH);
        status = hashattn_stream_read(stream, &token);
        if (status != HASHATTN_OK)
            return fail(context, status);
    }
    printf("%d tokens, one at a time: the last begins with %.4f, %.4f\n", TOKENS, (double)out[0],
           (double)out[1]);

    hashattn_stream_free(stream);
    for (int i = 0; i < 2; i++)
        free(source.query[i]), free(source.key[i]), free(source.value[i]), free(source.out[i]);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
    return 0;
}
