/* The rows that `bench stream` generates: each chunk has new numbers in the arrays that are read, and two
   chunks take turns. A stand-in for the stream fetches all of them. Planted and caught: rows of keys that are
   never made; queries made while keys are absorbed; one chunk in place of two; a last chunk as long as the
   others. Covers: bench_stream.c.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#define hashattn_stream_absorb_all take_keys
#define hashattn_stream_read_all   take_queries
#include "cli/bench/bench_stream.c"
#include "cli/shared/output/character_out.c"
#include "cli/shared/output/json_out.c"
#include "support/check.h"

/* ---- what this file calls elsewhere in the tool ---- */

double bench_seconds(void)
{
    return 0;
}

hashattn_status bench_new_mechanism(hashattn_context *context, const char *name,
                                    const struct options *options, hashattn_attention **attention)
{
    (void)context, (void)name, (void)options, (void)attention;
    return HASHATTN_FAILED;
}

void *bench_block(size_t bytes)
{
    return malloc(bytes);
}

int tool_fail(int code, const char *format, ...)
{
    (void)format;
    return code;
}

int tool_fail_status(const hashattn_context *context, hashattn_status status)
{
    (void)context;
    return hashattn_status_exit_code(status);
}

int tool_finish(void)
{
    return EXIT_GOOD;
}

int tool_open(const struct common *common, hashattn_context **context)
{
    (void)common, (void)context;
    return EXIT_WORK;
}

void tool_close(hashattn_context *context)
{
    (void)context;
}

void options_begin(struct options *options, const struct command *command)
{
    (void)options, (void)command;
}

void options_add_text(struct options *options, const char *name, const char **target, const char *argument,
                      const char *help)
{
    (void)options, (void)name, (void)target, (void)argument, (void)help;
}

void options_add_count(struct options *options, const char *name, size_t *target, const char *argument,
                       const char *help, double minimum, double maximum)
{
    (void)options, (void)name, (void)target, (void)argument, (void)help, (void)minimum, (void)maximum;
}

void options_add_switch(struct options *options, const char *name, int *target, const char *help)
{
    (void)options, (void)name, (void)target, (void)help;
}

void options_add_mechanisms(struct options *options)
{
    (void)options;
}

bool options_parse(struct options *options, int argc, char **argv, int *code)
{
    (void)options, (void)argc, (void)argv;
    *code = EXIT_USAGE;
    return false;
}

int options_fail(const struct options *options, const char *format, ...)
{
    (void)options, (void)format;
    return EXIT_USAGE;
}

/* ---- the tests ---- */

enum { SEQ_LEN = 25, CHUNK = 10, HEADS = 2, DIM = 3, WIDTH = HEADS * DIM };

static bool is_causal;
static int absorbed, read_rows; /* rows */

/* Fetches the sequence as a stream does. */
static int take(const hashattn_stream_source *source, bool queries, bool keys)
{
    float before[2][3] = {{0}};
    const float *last = NULL;
    size_t position = 0;
    for (;;) {
        hashattn_chunk chunk = {.struct_size = sizeof chunk};
        struct bench *b = source->user;
        for (size_t i = 0; i < 8; i++) /* NaN shows what is not written */
            memset(b->rows[i / 4][i % 4], 0xff, CHUNK * WIDTH * sizeof(float));
        assert_int_equal(source->fetch(source->user, position, &chunk), HASHATTN_OK);
        assert_int_equal(chunk.rows, SEQ_LEN - position < CHUNK ? SEQ_LEN - position : CHUNK);
        if (chunk.rows == 0)
            return (int)position;
        const hashattn_array *const arrays[] = {&chunk.query, &chunk.key, &chunk.value, &chunk.out};
        for (int a = 0; a < 4; a++) {
            const float *rows = arrays[a]->data;
            bool written = a == 0 ? queries : a < 3 && keys;
            assert_true(arrays[a]->row_stride == WIDTH && arrays[a]->head_stride == DIM);
            for (size_t i = 0; i < CHUNK * WIDTH; i++)
                assert_true(written && i < chunk.rows * WIDTH ? fabsf(rows[i]) <= 1 : isnan(rows[i]));
            if (!written)
                continue;
            for (int other = 0; other < 2; other++) /* no two arrays or chunks are alike */
                for (int k = 0; k < 3; k++)
                    assert_true(rows[0] != before[other][k]);
            before[position / CHUNK % 2][a] = rows[0];
        }
        assert_ptr_not_equal(arrays[0]->data, last);
        last = arrays[0]->data;
        position += chunk.rows;
    }
}

hashattn_status take_keys(hashattn_stream *stream, const hashattn_stream_source *source, size_t *rows)
{
    (void)stream, (void)rows;
    absorbed += take(source, false, true);
    return HASHATTN_OK;
}

hashattn_status take_queries(hashattn_stream *stream, const hashattn_stream_source *source, size_t *rows)
{
    (void)stream, (void)rows;
    read_rows += take(source, true, is_causal);
    return HASHATTN_OK;
}

static void every_chunk_is_made(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct bench b = {.seq_len = SEQ_LEN,
                          .heads = HEADS,
                          .head_dim = DIM,
                          .chunk_rows = CHUNK,
                          .causal = causal,
                          .seed = 5};
        for (size_t i = 0; i < 8; i++)
            b.rows[i / 4][i % 4] = malloc(CHUNK * WIDTH * sizeof(float));
        is_causal = causal != 0;
        absorbed = read_rows = 0;
        assert_int_equal(measure(&b), HASHATTN_OK);
        assert_int_equal(absorbed, causal ? 0 : SEQ_LEN);
        assert_int_equal(read_rows, SEQ_LEN);
        for (size_t i = 0; i < 8; i++)
            free(b.rows[i / 4][i % 4]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_chunk_is_made)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
