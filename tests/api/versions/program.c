/* A program of the first version of the ABI, compiled with its headers (test_abi_first), with today's
   (test_abi_today) and with those of a later version, whose structs have grown (test_abi_next), and linked
   with the shared library: the first two with a library whose structs have grown. Every struct has
   neighbours, which the library must neither write nor read. Planted and caught: a `_default` of the first
   version that writes the library's size; `least` of a problem, of a chunk and of learn options the library's
   size; version_fill without the zeros; hashattn_npy_read and _free with the library's size.
   SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hashattn/hashattn.h"

enum { NEIGHBOUR = 0xa5, AROUND = 512 };

/* A struct in the middle of a block. */
#define ROOM(type)                                                                                           \
    struct {                                                                                                 \
        unsigned char before[AROUND];                                                                        \
        type it;                                                                                             \
        unsigned char after[AROUND];                                                                         \
    }
#define ENTER(room) memset(&(room), NEIGHBOUR, sizeof(room))
#define LEAVE(room) check_neighbours((room).before, (room).after)

static void check_neighbours(const unsigned char *before, const unsigned char *after)
{
    for (size_t i = 0; i < AROUND; i++) {
        assert_int_equal(before[i], NEIGHBOUR);
        assert_int_equal(after[i], NEIGHBOUR);
    }
}

static hashattn_context *make_context(void)
{
    ROOM(hashattn_context_options) room;
    hashattn_context *context;
    char message[300];
    ENTER(room);
    hashattn_context_options_default(&room.it);
    LEAVE(room);
    assert_int_equal(room.it.struct_size, sizeof room.it);
    room.it.threads = 2;
    if (hashattn_context_new(&room.it, message, sizeof message, &context) != HASHATTN_OK)
        fail_msg("%s", message);
    LEAVE(room);
    return context;
}

static void check(const hashattn_context *context, hashattn_status status)
{
    if (status != HASHATTN_OK)
        fail_msg("status %d: %s", (int)status, hashattn_context_message(context));
}

static void structs_of_options_have_the_size_of_the_program(void **state)
{
    (void)state;
    ROOM(hashattn_problem) problem;
    ENTER(problem);
    hashattn_problem_default(&problem.it);
    LEAVE(problem);
    assert_int_equal(problem.it.struct_size, sizeof problem.it);
    assert_int_equal(problem.it.num_heads, 1);
    assert_null(problem.it.key_mask);
    ROOM(hashattn_stream_options) stream;
    ENTER(stream);
    hashattn_stream_options_default(&stream.it);
    LEAVE(stream);
    assert_int_equal(stream.it.struct_size, sizeof stream.it);
    assert_int_equal(stream.it.chunk_rows, 1);
    ROOM(hashattn_encode_options) encode;
    ENTER(encode);
    hashattn_encode_options_default(&encode.it);
    LEAVE(encode);
    assert_int_equal(encode.it.struct_size, sizeof encode.it);
    ROOM(hashattn_learn_options) learn;
    ENTER(learn);
    hashattn_learn_options_default(&learn.it);
    LEAVE(learn);
    assert_int_equal(learn.it.struct_size, sizeof learn.it);
    assert_int_equal(learn.it.vocab_size, 30000);
    ROOM(hashattn_text_options) text;
    ENTER(text);
    hashattn_text_options_default(&text.it);
    LEAVE(text);
    assert_int_equal(text.it.struct_size, sizeof text.it);
    assert_string_equal(text.it.pooling, "stored");
    ROOM(hashattn_sources) sources;
    ENTER(sources);
    hashattn_sources_default(&sources.it);
    LEAVE(sources);
    assert_int_equal(sources.it.struct_size, sizeof sources.it);
    assert_null(sources.it.files);
}

static void structs_of_answers_have_the_size_of_the_program(void **state)
{
    (void)state;
    hashattn_context *context = make_context();
    ROOM(hashattn_description) description;
    ENTER(description);
    description.it.struct_size = sizeof description.it;
    hashattn_context_describe(context, &description.it);
    LEAVE(description);
    assert_int_equal(description.it.threads, 2);
    assert_int_equal(description.it.bytes_sent, 0);
    ROOM(hashattn_mechanism_info) info;
    ENTER(info);
    info.it.struct_size = sizeof info.it;
    assert_int_equal(hashattn_mechanism_get(0, &info.it), 1);
    LEAVE(info);
    const hashattn_metric list[] = {{"loss", 2, 0, 2}, {"accuracy", 0.5, 1, 1}};
    const hashattn_metrics metrics = {2, list};
    assert_ptr_equal(hashattn_metric_find(&metrics, "accuracy"), &list[1]);
    hashattn_context_free(context);
}

enum { HEADS = 2, ROWS = 9, DIM = 8, FLOATS = HEADS * ROWS * DIM };

static void attention_takes_the_problem_of_the_program(void **state)
{
    (void)state;
    static float arrays[8][FLOATS];
    hashattn_array of[8];
    hashattn_context *context = make_context();
    hashattn_attention *attention;
    ROOM(hashattn_problem) room;
    ENTER(room);
    hashattn_problem_default(&room.it);
    room.it.num_heads = HEADS;
    room.it.num_queries = room.it.num_keys = ROWS;
    room.it.head_dim = room.it.value_dim = DIM;
    for (size_t i = 0; i < 8; i++) {
        hashattn_fill_normal(1, i, arrays[i], FLOATS);
        of[i] = hashattn_array_of_heads(arrays[i], HEADS, ROWS, DIM);
    }
    check(context, hashattn_attention_new(context, "softmax", &attention));
    size_t saved_bytes, scratch_bytes;
    check(context, hashattn_attention_sizes(attention, &room.it, &saved_bytes, &scratch_bytes));
    void *saved = aligned_alloc(64, (saved_bytes + 127) / 64 * 64);
    assert_non_null(saved);
    check(context,
          hashattn_attention_forward(attention, &room.it, &of[0], &of[1], &of[2], &of[3], saved, NULL));
    check(context, hashattn_attention_backward(attention, &room.it, &of[0], &of[1], &of[2], &of[3], &of[4],
                                               &of[5], &of[6], &of[7], saved, NULL));
    LEAVE(room);
    free(saved);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

static void streams_take_the_chunks_of_the_program(void **state)
{
    (void)state;
    static float arrays[4][FLOATS];
    hashattn_context *context = make_context();
    hashattn_attention *attention;
    hashattn_stream *stream;
    check(context, hashattn_attention_new(context, "yoso", &attention));
    ROOM(hashattn_stream_options) options;
    ENTER(options);
    hashattn_stream_options_default(&options.it);
    options.it.num_heads = HEADS;
    options.it.head_dim = options.it.value_dim = DIM;
    options.it.chunk_rows = ROWS;
    check(context, hashattn_stream_new(attention, &options.it, &stream));
    ROOM(hashattn_chunk) chunk;
    ENTER(chunk);
    memset(&chunk.it, 0, sizeof chunk.it);
    chunk.it.struct_size = sizeof chunk.it;
    chunk.it.rows = ROWS;
    for (size_t i = 0; i < 4; i++)
        hashattn_fill_normal(1, i, arrays[i], FLOATS);
    chunk.it.query = hashattn_array_of_heads(arrays[0], HEADS, ROWS, DIM);
    chunk.it.key = hashattn_array_of_heads(arrays[1], HEADS, ROWS, DIM);
    chunk.it.value = hashattn_array_of_heads(arrays[2], HEADS, ROWS, DIM);
    chunk.it.out = hashattn_array_of_heads(arrays[3], HEADS, ROWS, DIM);
    check(context, hashattn_stream_absorb(stream, &chunk.it));
    check(context, hashattn_stream_read(stream, &chunk.it));
    LEAVE(options);
    LEAVE(chunk);
    hashattn_stream_free(stream);
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

static void arrays_of_files_have_the_size_of_the_program(void **state)
{
    (void)state;
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    const size_t shape[] = {2, 3};
    char path[] = "/tmp/hashattn_abi_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    hashattn_context *context = make_context();
    check(context, hashattn_npy_write(context, path, numbers, 2, shape));
    ROOM(hashattn_npy) room;
    ENTER(room);
    check(context, hashattn_npy_read(context, path, &room.it));
    LEAVE(room);
    assert_int_equal(room.it.rank, 2);
    assert_int_equal(room.it.shape[1], 3);
    assert_memory_equal(room.it.data, numbers, sizeof numbers);
    hashattn_npy_free(context, &room.it);
    LEAVE(room);
    assert_null(room.it.data);
    hashattn_npy_reader *reader;
    ENTER(room);
    check(context, hashattn_npy_open(context, path, &room.it, &reader));
    LEAVE(room);
    assert_null(room.it.data);
    assert_int_equal(room.it.shape[0], 2);
    hashattn_npy_close(reader);
    ENTER(room);
    assert_int_equal(hashattn_npy_read(context, "/nowhere/a.npy", &room.it), HASHATTN_BAD_FILE);
    LEAVE(room);
    hashattn_context_free(context);
    remove(path);
}

static void tokenizers_take_the_options_of_the_program(void **state)
{
    (void)state;
    char path[] = "/tmp/hashattn_abi_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, "one two one two\n", 16), 16);
    close(file);
    const char *files[] = {path};
    hashattn_context *context = make_context();
    hashattn_tokenizer *tokenizer;
    ROOM(hashattn_learn_options) learn;
    ENTER(learn);
    hashattn_learn_options_default(&learn.it);
    learn.it.vocab_size = 262;
    check(context, hashattn_tokenizer_learn(context, files, 1, &learn.it, &tokenizer));
    ROOM(hashattn_encode_options) encode;
    ENTER(encode);
    hashattn_encode_options_default(&encode.it);
    ROOM(hashattn_encoding) encoding;
    ENTER(encoding);
    encoding.it.struct_size = sizeof encoding.it;
    check(context, hashattn_tokenizer_encode(tokenizer, "one", 3, NULL, 0, &encode.it, &encoding.it));
    LEAVE(learn);
    LEAVE(encode);
    LEAVE(encoding);
    assert_int_equal(encoding.it.truncated, 0);
    assert_in_range(encoding.it.count, 1, 3);
    hashattn_tokenizer_free(tokenizer);
    hashattn_context_free(context);
    remove(path);
}

static void sources_of_the_program_are_taken(void **state)
{
    (void)state;
    hashattn_context *context = make_context();
    hashattn_setup *setup;
    check(context, hashattn_setup_new(context, "mlm", &setup));
    ROOM(hashattn_sources) sources;
    ENTER(sources);
    hashattn_sources_default(&sources.it);
    assert_int_equal(hashattn_setup_prepare(setup, &sources.it, "/nowhere/data", NULL), HASHATTN_INVALID);
    assert_string_equal(hashattn_context_message(context), "there are no files of text");
    LEAVE(sources);
    hashattn_setup_free(setup);
    hashattn_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_of_options_have_the_size_of_the_program),
        cmocka_unit_test(structs_of_answers_have_the_size_of_the_program),
        cmocka_unit_test(attention_takes_the_problem_of_the_program),
        cmocka_unit_test(streams_take_the_chunks_of_the_program),
        cmocka_unit_test(arrays_of_files_have_the_size_of_the_program),
        cmocka_unit_test(tokenizers_take_the_options_of_the_program),
        cmocka_unit_test(sources_of_the_program_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
