/* Small tokenizers of both kinds against what the reference library returned for the same files: ids and
   offsets of generated lines with characters of all planes. bench/tokens.py compares far more lines, and
   wrote these. Covers: encoder.c tokenizer.c.

   Planted and caught: contractions not tried first; the last space of a run not left to the next word;
   offsets in the middle of a character; added tokens that leave the space before them; a limit off by one; a
   text cut into chunks anywhere.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "text/learning/learn_bpe.h"
#include "text/reference_vectors.h"
#include "text/tokenizer.h"

enum { NUM_VECTORS = sizeof vectors / sizeof vectors[0] };

static struct tokenizer *learned(struct host *host)
{
    struct word_counts counts = {.bytes = NULL};
    const struct learn_options options = {.vocab_size = 320, .min_frequency = 2};
    struct tokenizer *tokenizer;
    check_status(host, word_counts_add(host, &counts, (struct piece){vectors_text, strlen(vectors_text)}),
                 HASHATTN_OK, NULL);
    check_status(host, learn_bpe(host, &counts, &options, &tokenizer), HASHATTN_OK, NULL);
    word_counts_free(host, &counts);
    return tokenizer;
}

static struct tokenizer *bert(struct folder *folder)
{
    struct tokenizer *tokenizer;
    folder_put_text(folder, "vocab.txt", vectors_vocab);
    check_status(&folder->host, tokenizer_load(&folder->host, folder->path, &tokenizer), HASHATTN_OK, NULL);
    return tokenizer;
}

static struct encoding encode(struct encoder *encoder, const char *text, size_t size,
                              const struct encode_options *options)
{
    struct encoding encoding;
    assert_int_equal(encoder_encode(encoder, (struct piece){text, size}, options, &encoding), HASHATTN_OK);
    return encoding;
}

static void check_vector(struct encoder *encoder, const char *line, const int *want)
{
    const struct encode_options options = {.offsets = true};
    struct encoding got = encode(encoder, line, strlen(line), &options);
    for (size_t i = 0; i < got.count; i++, want += 3)
        if (want[0] != (int)got.ids[i] || want[1] != (int)got.begins[i] || want[2] != (int)got.ends[i])
            fail_msg("'%s', token %zu: %u of %zu-%zu, want %d of %d-%d", line, i, got.ids[i], got.begins[i],
                     got.ends[i], want[0], want[1], want[2]);
    assert_int_equal(*want, -1);
    assert_false(got.truncated);
}

static void byte_level_bpe_equals_the_reference(void **state)
{
    struct folder *folder = *state;
    struct tokenizer *tokenizer = learned(&folder->host);
    struct encoder *encoder;
    check_status(&folder->host, encoder_new(&folder->host, tokenizer, &encoder), HASHATTN_OK, NULL);
    for (int round = 0; round < 2; round++) /* the second one with words from the cache */
        for (size_t i = 0; i < NUM_VECTORS; i++)
            check_vector(encoder, vectors[i].line, vectors[i].bpe);
    encoder_free(encoder);
    tokenizer_free(&folder->host, tokenizer);
}

static void wordpiece_equals_the_reference(void **state)
{
    struct folder *folder = *state;
    struct tokenizer *tokenizer = bert(folder);
    struct encoder *encoder;
    check_status(&folder->host, encoder_new(&folder->host, tokenizer, &encoder), HASHATTN_OK, NULL);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < NUM_VECTORS; i++)
            check_vector(encoder, vectors[i].line, vectors[i].bert);
    encoder_free(encoder);
    tokenizer_free(&folder->host, tokenizer);
}

/* ---- long texts --------------------------------------------------------------------------------------- */

/* All lines, many times, with spaces or nothing between them; every few pieces a byte that is not UTF-8. */
static char *long_text(size_t *size)
{
    enum { ROOM = 300000 };
    char *text = malloc(ROOM);
    *size = 0;
    for (size_t i = 0; *size + 200 < ROOM; i++) {
        const char *line = vectors[i * 7 % NUM_VECTORS].line;
        size_t length = strlen(line) < 150 ? strlen(line) : 0;
        memcpy(text + *size, line, length);
        *size += length;
        text[*size] = i % 11 == 0 ? (char)0xff : ' ';
        *size += i % 3 != 0;
    }
    return text;
}

/* A text is encoded in chunks. Its tokens are those of its parts, if it is cut in front of "Q the". */
static void chunks_change_nothing(void **state)
{
    struct folder *folder = *state;
    size_t size, count = 0;
    char *text = long_text(&size);
    for (size_t i = 0; i + 6 < size; i += 1500) /* places where it may be cut */
        if ((text[i] & 0x80) == 0 && (text[i + 6] & 0xc0) != 0x80)
            memcpy(text + i, "Q the ", 6);
    struct tokenizer *tokenizers[2] = {learned(&folder->host), bert(folder)};
    for (int t = 0; t < 2; t++) {
        struct encoder *whole, *parts;
        const struct encode_options options = {.offsets = true};
        assert_int_equal(encoder_new(&folder->host, tokenizers[t], &whole), HASHATTN_OK);
        assert_int_equal(encoder_new(&folder->host, tokenizers[t], &parts), HASHATTN_OK);
        struct encoding want = encode(whole, text, size, &options);
        assert_true(want.count > 20000);
        count = 0;
        for (size_t begin = 0, end; begin < size; begin = end) {
            for (end = begin + 1; end < size && memcmp(text + end - 1, "Q the ", 6) != 0; end++) {
            }
            struct encoding got = encode(parts, text + begin, end - begin, &options);
            for (size_t i = 0; i < got.count; i++, count++) {
                assert_int_equal(got.ids[i], want.ids[count]);
                assert_int_equal(got.begins[i] + begin, want.begins[count]);
                assert_int_equal(got.ends[i] + begin, want.ends[count]);
            }
        }
        assert_int_equal(count, want.count);
        encoder_free(whole);
        encoder_free(parts);
        tokenizer_free(&folder->host, tokenizers[t]);
    }
    free(text);
}

static void limits_keep_the_first_tokens(void **state)
{
    struct folder *folder = *state;
    size_t size;
    char *text = long_text(&size);
    struct tokenizer *tokenizer = learned(&folder->host);
    struct encoder *full, *cut;
    assert_int_equal(encoder_new(&folder->host, tokenizer, &full), HASHATTN_OK);
    assert_int_equal(encoder_new(&folder->host, tokenizer, &cut), HASHATTN_OK);
    struct encode_options options = {.special_tokens = true};
    struct encoding want = encode(full, text, size, &options);
    assert_int_equal(want.ids[0], 0);
    assert_int_equal(want.ids[want.count - 1], 2);
    for (size_t limit = 2; limit < 40000; limit = limit * 3 / 2 + 1) {
        options.max_tokens = limit;
        struct encoding got = encode(cut, text, size, &options);
        assert_int_equal(got.count, limit);
        assert_true(got.truncated);
        check_same_bits(got.ids, want.ids, (limit - 1) * sizeof *got.ids, "the first ids");
        assert_int_equal(got.ids[limit - 1], 2);
    }
    options.max_tokens = want.count;
    assert_false(encode(cut, text, size, &options).truncated);
    options.max_tokens = want.count - 1;
    assert_true(encode(cut, text, size, &options).truncated);
    options.max_tokens = 1;
    struct encoding none;
    check_status(&folder->host, encoder_encode(cut, (struct piece){text, size}, &options, &none),
                 HASHATTN_INVALID, "at most 1 tokens are allowed, but the special tokens alone are 2");
    encoder_free(full);
    encoder_free(cut);
    tokenizer_free(&folder->host, tokenizer);
    free(text);
}

/* The counts are those of the reference's "longest_first": room 7 after 4 special tokens of RoBERTa's
   pair. */
static void pairs_are_cut_longest_first(void **state)
{
    struct folder *folder = *state;
    static const struct {
        size_t first, second, want_first, want_second;
    } rows[] = {
        {1, 2, 1, 2}, {3, 4, 3, 4}, {2, 9, 2, 5}, {9, 2, 5, 2},   {5, 9, 3, 4},   {9, 5, 4, 3},
        {8, 9, 3, 4}, {9, 8, 4, 3}, {9, 9, 3, 4}, {20, 30, 3, 4}, {30, 20, 4, 3}, {0, 9, 0, 7},
    };
    struct tokenizer *tokenizer = learned(&folder->host);
    struct encoder *encoder;
    assert_int_equal(encoder_new(&folder->host, tokenizer, &encoder), HASHATTN_OK);
    char dots[2][64];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t k = 0; k < 30; k++) /* one token each: "Q" is followed by nothing that it merges with */
            dots[0][k] = dots[1][k] = 'Q';
        const struct encode_options options = {.special_tokens = true, .max_tokens = 11};
        struct encoding got;
        assert_int_equal(encoder_encode_pair(encoder, (struct piece){dots[0], rows[i].first},
                                             (struct piece){dots[1], rows[i].second}, &options, &got),
                         HASHATTN_OK);
        assert_int_equal(got.count, rows[i].want_first + rows[i].want_second + 4);
        assert_int_equal(got.ids[rows[i].want_first + 1], 2);
        assert_int_equal(got.ids[rows[i].want_first + 2], 2);
        assert_int_equal(got.truncated, rows[i].first + rows[i].second > 7);
    }
    encoder_free(encoder);
    tokenizer_free(&folder->host, tokenizer);
}

static void roles_and_tokens_are_found(void **state)
{
    struct folder *folder = *state;
    struct tokenizer *bpe = learned(&folder->host), *wordpiece = bert(folder);
    const uint32_t want[2][5] = {{0, 2, 1, 3, 4}, {2, 3, 0, 1, 4}};
    for (int role = TOKEN_START; role <= TOKEN_MASK; role++) {
        uint32_t id;
        assert_true(tokenizer_role(bpe, (enum token_role)role, &id) && id == want[0][role]);
        assert_true(tokenizer_role(wordpiece, (enum token_role)role, &id) && id == want[1][role]);
        assert_true(tokenizer_is_special(bpe, id) && tokenizer_is_special(wordpiece, id));
    }
    uint32_t id;
    assert_true(tokenizer_find(wordpiece, (struct piece){"##able", 6}, &id));
    assert_false(tokenizer_is_special(wordpiece, id));
    assert_true(piece_is(tokenizer_token(wordpiece, id), "##able"));
    assert_false(tokenizer_find(wordpiece, (struct piece){"##abl", 5}, &id));
    assert_null(tokenizer_token(wordpiece, 1000000).bytes);
    assert_false(tokenizer_is_special(wordpiece, 1000000));
    assert_int_equal(tokenizer_num_ids(bpe), 320);
    tokenizer_free(&folder->host, bpe);
    tokenizer_free(&folder->host, wordpiece);
}

static void failing_allocations_leave_nothing(void **state)
{
    struct folder *folder = *state;
    folder_put_text(folder, "vocab.txt", vectors_vocab);
    for (long n = 0;; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        struct tokenizer *tokenizer = NULL;
        struct encoder *encoder = NULL;
        struct encoding encoding;
        const struct encode_options options = {.offsets = true, .special_tokens = true};
        hashattn_status status = tokenizer_load(&failing.host, folder->path, &tokenizer);
        if (status == HASHATTN_OK)
            status = encoder_new(&failing.host, tokenizer, &encoder);
        for (size_t i = 0; i < NUM_VECTORS && status == HASHATTN_OK; i++)
            status = encoder_encode(encoder, (struct piece){vectors[i].line, strlen(vectors[i].line)},
                                    &options, &encoding);
        encoder_free(encoder);
        tokenizer_free(&failing.host, tokenizer);
        assert_int_equal(failing.outstanding, 0);
        if (status == HASHATTN_OK)
            break;
        assert_int_equal(status, HASHATTN_NO_MEMORY);
    }
}

#define FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_enter, folder_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER(byte_level_bpe_equals_the_reference),
        FOLDER(wordpiece_equals_the_reference),
        FOLDER(chunks_change_nothing),
        FOLDER(limits_keep_the_first_tokens),
        FOLDER(pairs_are_cut_longest_first),
        FOLDER(roles_and_tokens_are_found),
        FOLDER(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
