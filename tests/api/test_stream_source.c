/* The messages of sources that fail (test_streaming has what they compute). Planted and caught: the reason of
   the source lost, and an old message taken for it; a call that succeeds leaving no message, or that of a
   failure which the source has survived.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/api_context.h"
#include "support/folder.h"

enum { ROWS = 30, CHUNK = 10, DIM = 4 };

struct source {
    hashattn_npy_reader *reader;
    float rows[2][CHUNK * DIM], out[2][CHUNK * DIM];
    int turn;
    size_t fails_at, survives_at; /* fetches from this row on read beyond the end */
};

static hashattn_status fetch(void *user, size_t position, hashattn_chunk *chunk)
{
    struct source *source = user;
    int now = source->turn++ % 2;
    float *rows = source->rows[now];
    chunk->rows = position < ROWS ? CHUNK : 0;
    chunk->query = chunk->key = chunk->value = hashattn_array_of_rows(rows, 1, CHUNK, DIM);
    chunk->out = hashattn_array_of_rows(source->out[now], 1, CHUNK, DIM);
    if (position >= source->survives_at)
        hashattn_npy_read_part(source->reader, 2 * ROWS * DIM, 1, rows);
    return hashattn_npy_read_part(source->reader, position >= source->fails_at ? ROWS * DIM : position * DIM,
                                  chunk->rows * DIM, rows);
}

static hashattn_status fail_silently(void *user, size_t position, const hashattn_chunk *chunk)
{
    (void)user, (void)chunk;
    return position == 0 ? HASHATTN_OK : HASHATTN_FAILED;
}

static void the_message_has_the_reason_of_the_source(void **state)
{
    const struct folder *folder = *state;
    char path[100];
    float numbers[ROWS * DIM];
    const size_t shape[] = {ROWS, DIM};
    hashattn_npy array;
    hashattn_stream_options options;
    snprintf(path, sizeof path, "%s/rows.npy", folder->path);
    hashattn_fill_normal(1, 0, numbers, ROWS * DIM);
    for (int threads = 1; threads <= 2; threads++) {
        struct source own = {.fails_at = SIZE_MAX, .survives_at = SIZE_MAX};
        hashattn_stream_source source = {.struct_size = sizeof source, .user = &own, .fetch = fetch};
        hashattn_context *context = context_with(threads, NULL);
        hashattn_attention *attention;
        hashattn_stream *stream;
        check_ok(context, hashattn_npy_write(context, path, numbers, 2, shape));
        check_ok(context, hashattn_npy_open(context, path, &array, &own.reader));
        check_ok(context, hashattn_attention_new(context, "linear", &attention));
        hashattn_stream_options_default(&options);
        options.head_dim = options.value_dim = DIM;
        options.chunk_rows = CHUNK;
        check_ok(context, hashattn_stream_new(attention, &options, &stream));
        check_call(context, hashattn_attention_set(attention, "no", "1"), HASHATTN_INVALID, "no option 'no'");

        own.survives_at = CHUNK;
        check_ok(context, hashattn_stream_absorb_all(stream, &source, NULL));
        assert_string_equal(hashattn_context_message(context), "linear has no option 'no'");
        own.survives_at = SIZE_MAX;
        source.done = fail_silently;
        check_call(context, hashattn_stream_read_all(stream, &source, NULL), HASHATTN_FAILED,
                   "the source failed at row ");
        assert_true(strncmp(hashattn_context_message(context), "the source", 10) == 0);
        source.done = NULL;
        hashattn_stream_clear(stream);
        own.fails_at = CHUNK;
        for (int i = 0; i < 2; i++) { /* the second time the message is that of the first */
            hashattn_stream_clear(stream);
            check_call(context, hashattn_stream_absorb_all(stream, &source, NULL), HASHATTN_INVALID,
                       "rows.npy: 40 elements from 120 on are outside the array of 120 (the source failed at "
                       "row 10 of the sequence)");
        }
        hashattn_stream_free(stream);
        hashattn_attention_free(attention);
        hashattn_npy_close(own.reader);
        hashattn_context_free(context);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_message_has_the_reason_of_the_source, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
