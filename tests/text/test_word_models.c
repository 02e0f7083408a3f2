/* Both models of words, the vocabulary, the cache and added tokens. BPE and WordPiece are compared with slow
   programs on random words. Covers: bpe.c wordpiece.c vocabulary.c word_cache.c added_tokens.c.

   Planted and caught: the rightmost of equal pairs merged first; a merge whose left symbol has changed; a
   heap that loses its smallest entry; the shortest token first; a prefix before the first token; a full cache
   that is not emptied; a word found under the hash of another; the shorter of two added tokens; a token that
   takes the space of the one before; the first of added tokens with the same content; a token that takes
   white space on its left found inside that of the match before.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer.h"
#include "text/word_cache.h"
#include "text/wordpiece.h"

static struct piece piece_of(const char *text)
{
    return (struct piece){text, strlen(text)};
}

/* ---- BPE ---------------------------------------------------------------------------------------------- */

enum { MERGES = 60 };

struct slow_bpe {
    char left[MERGES][32], right[MERGES][32];
};

/* Merges the first pair of the lowest rank until there is none; writes the tokens, separated by spaces. */
static void slow_merge(const struct slow_bpe *bpe, const char *word, char *out)
{
    char parts[64][64];
    size_t count = strlen(word);
    for (size_t i = 0; i < count; i++)
        snprintf(parts[i], 64, "%c", word[i]);
    for (int rank = 0; rank < MERGES;) {
        size_t i = 0;
        while (i + 1 < count &&
               (strcmp(parts[i], bpe->left[rank]) != 0 || strcmp(parts[i + 1], bpe->right[rank]) != 0))
            i++;
        if (i + 1 >= count) {
            rank++;
            continue;
        }
        char joined[128];
        snprintf(joined, sizeof joined, "%s%s", parts[i], parts[i + 1]);
        memcpy(parts[i], joined, sizeof parts[i]);
        memmove(parts[i + 1], parts[i + 2], (count - i - 2) * sizeof parts[0]);
        count--;
        rank = 0;
    }
    *out = '\0';
    for (size_t i = 0; i < count; i++)
        strcat(strcat(out, parts[i]), " ");
}

static void bpe_equals_a_slow_program(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct random random = random_open(random_key(5, RANDOM_DATA, 0));
    for (int n = 0; n < 60; n++) {
        struct slow_bpe slow;
        struct vocabulary vocabulary = {.bytes = NULL};
        struct bpe bpe;
        uint32_t id;
        for (const char *c = "abc"; *c != '\0'; c++)
            assert_int_equal(vocabulary_add(&host, &vocabulary, (struct piece){c, 1}, vocabulary.num_ids),
                             HASHATTN_OK);
        for (int m = 0; m < MERGES; m++) {
            char joined[64];
            for (bool is_new = false; !is_new;) {
                struct piece a =
                    vocabulary_get(&vocabulary, random_below(&random, (uint32_t)vocabulary.num_ids));
                struct piece b =
                    vocabulary_get(&vocabulary, random_below(&random, (uint32_t)vocabulary.num_ids));
                is_new = a.size + b.size < 12;
                snprintf(slow.left[m], 32, "%.*s", (int)a.size, a.bytes);
                snprintf(slow.right[m], 32, "%.*s", (int)b.size, b.bytes);
                for (int k = 0; k < m; k++)
                    is_new &=
                        strcmp(slow.left[k], slow.left[m]) != 0 || strcmp(slow.right[k], slow.right[m]) != 0;
            }
            snprintf(joined, sizeof joined, "%s%s", slow.left[m], slow.right[m]);
            if (!vocabulary_find(&vocabulary, piece_of(joined), &id))
                assert_int_equal(vocabulary_add(&host, &vocabulary, piece_of(joined), vocabulary.num_ids),
                                 HASHATTN_OK);
        }
        assert_int_equal(bpe_init(&host, &bpe, &vocabulary, MERGES), HASHATTN_OK);
        for (int m = 0; m < MERGES; m++)
            assert_int_equal(
                bpe_add(&host, &bpe, &vocabulary, piece_of(slow.left[m]), piece_of(slow.right[m])),
                HASHATTN_OK);
        struct bpe_scratch scratch = {.symbols = NULL};
        struct word_tokens tokens = {.list = NULL};
        for (int w = 0; w < 200; w++) {
            char word[33], want[200], got[200] = "";
            size_t size = 1 + random_below(&random, 32);
            for (size_t i = 0; i < size; i++)
                word[i] = (char)('a' + random_below(&random, 3));
            word[size] = '\0';
            slow_merge(&slow, word, want);
            assert_int_equal(bpe_word(&host, &bpe, &scratch, piece_of(word), &tokens), HASHATTN_OK);
            size_t at = 0;
            for (size_t i = 0; i < tokens.count; i++) {
                struct piece token = vocabulary_get(&vocabulary, tokens.list[i].id);
                strncat(got, token.bytes, token.size);
                strcat(got, " ");
                assert_int_equal(tokens.list[i].begin, at);
                assert_int_equal(tokens.list[i].end, at += token.size);
            }
            assert_string_equal(got, want);
        }
        memory_free(&host, tokens.list);
        bpe_scratch_free(&host, &scratch);
        bpe_free(&host, &bpe);
        vocabulary_free(&host, &vocabulary);
    }
}

static void bytes_without_tokens_are_unknown_or_dropped(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct vocabulary vocabulary = {.bytes = NULL};
    struct bpe bpe;
    struct bpe_scratch scratch = {.symbols = NULL};
    struct word_tokens tokens = {.list = NULL};
    assert_int_equal(vocabulary_add(&host, &vocabulary, piece_of("a"), 7), HASHATTN_OK);
    assert_int_equal(bpe_init(&host, &bpe, &vocabulary, 0), HASHATTN_OK);
    assert_int_equal(bpe_word(&host, &bpe, &scratch, piece_of("bab"), &tokens), HASHATTN_OK);
    assert_int_equal(tokens.count, 1);
    assert_true(tokens.list[0].id == 7 && tokens.list[0].begin == 1 && tokens.list[0].end == 2);
    bpe.unknown = 3;
    assert_int_equal(bpe_word(&host, &bpe, &scratch, piece_of("bab"), &tokens), HASHATTN_OK);
    assert_true(tokens.count == 3 && tokens.list[0].id == 3 && tokens.list[2].id == 3 &&
                tokens.list[2].end == 3);
    check_status(&host, bpe_add(&host, &bpe, &vocabulary, piece_of("a"), piece_of("b")), HASHATTN_BAD_FILE,
                 "merge 0: 'b' is not in the vocabulary");
    check_status(&host, bpe_add(&host, &bpe, &vocabulary, piece_of("a"), piece_of("a")), HASHATTN_BAD_FILE,
                 "merge 0: 'aa' is not in the vocabulary");
    check_status(&host, bpe_add(&host, &bpe, &vocabulary, piece_of("a"), piece_of("")), HASHATTN_BAD_FILE,
                 "merge 0 has an empty part");
    memory_free(&host, tokens.list);
    bpe_scratch_free(&host, &scratch);
    bpe_free(&host, &bpe);
    vocabulary_free(&host, &vocabulary);
}

/* A word of 2 MB is merged in less than the time of a test: n log n, not n * n. */
static void a_long_word_takes_no_square_time(void **state)
{
    (void)state;
    enum { SIZE = 2000000 };
    struct host host;
    host_init(&host);
    struct vocabulary vocabulary = {.bytes = NULL};
    struct bpe bpe;
    struct bpe_scratch scratch = {.symbols = NULL};
    struct word_tokens tokens = {.list = NULL};
    static const char *const words[] = {"a", "aa", "aaaa", "aaaaaaaa"};
    char *text = malloc(SIZE);
    memset(text, 'a', SIZE);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(vocabulary_add(&host, &vocabulary, piece_of(words[i]), i), HASHATTN_OK);
    assert_int_equal(bpe_init(&host, &bpe, &vocabulary, 3), HASHATTN_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(bpe_add(&host, &bpe, &vocabulary, piece_of(words[i]), piece_of(words[i])),
                         HASHATTN_OK);
    assert_int_equal(bpe_word(&host, &bpe, &scratch, (struct piece){text, SIZE}, &tokens), HASHATTN_OK);
    assert_int_equal(tokens.count, SIZE / 8);
    free(text);
    memory_free(&host, tokens.list);
    bpe_scratch_free(&host, &scratch);
    bpe_free(&host, &bpe);
    vocabulary_free(&host, &vocabulary);
}

/* ---- WordPiece ---------------------------------------------------------------------------------------- */

static void wordpiece_equals_a_slow_program(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct random random = random_open(random_key(6, RANDOM_DATA, 0));
    for (int n = 0; n < 60; n++) {
        struct vocabulary vocabulary = {.bytes = NULL};
        struct max_match_run run = {.list = NULL};
        struct word_tokens tokens = {.list = NULL};
        uint32_t id;
        assert_int_equal(vocabulary_add(&host, &vocabulary, piece_of("[UNK]"), 0), HASHATTN_OK);
        struct wordpiece model = {.prefix = "##", .prefix_size = 2, .max_characters = 12, .unknown = 0};
        for (int i = 0; i < 20; i++) {
            char token[16] = "##";
            size_t size = 1 + random_below(&random, 4);
            for (size_t k = 0; k < size; k++)
                token[2 + k] = (char)('a' + random_below(&random, 3));
            token[2 + size] = '\0';
            struct piece piece = piece_of(token + (random_below(&random, 2) == 0 ? 2 : 0));
            if (!vocabulary_find(&vocabulary, piece, &id))
                assert_int_equal(vocabulary_add(&host, &vocabulary, piece, vocabulary.num_ids), HASHATTN_OK);
        }
        assert_int_equal(wordpiece_init(&host, &model, &vocabulary), HASHATTN_OK);
        for (int w = 0; w < 300; w++) {
            char word[16] = "";
            size_t size = 1 + random_below(&random, 13), at = 0, count = 0;
            for (size_t k = 0; k < size; k++)
                word[k] = (char)('a' + random_below(&random, 3));
            struct word_token want[16];
            while (at < size && size <= 12) {
                size_t end = size;
                char token[20];
                for (; end > at; end--) {
                    snprintf(token, sizeof token, "%s%.*s", at > 0 ? "##" : "", (int)(end - at), word + at);
                    if (vocabulary_find(&vocabulary, piece_of(token), &id))
                        break;
                }
                if (end == at)
                    break;
                want[count++] = (struct word_token){id, (uint32_t)at, (uint32_t)end};
                at = end;
            }
            if (at < size) {
                want[0] = (struct word_token){0, 0, (uint32_t)size};
                count = 1;
            }
            assert_int_equal(wordpiece_word(&host, &model, &run, (struct piece){word, size}, &tokens),
                             HASHATTN_OK);
            assert_int_equal(tokens.count, count);
            check_same_bits(tokens.list, want, count * sizeof *want, word);
        }
        memory_free(&host, tokens.list);
        max_match_run_free(&host, &run);
        wordpiece_free(&host, &model);
        vocabulary_free(&host, &vocabulary);
    }
}

/* ---- vocabulary and cache ----------------------------------------------------------------------------- */

static void vocabularies_refuse_doubles(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct vocabulary vocabulary = {.bytes = NULL};
    uint32_t id;
    assert_false(vocabulary_find(&vocabulary, piece_of("a"), &id));
    for (uint32_t i = 0; i < 5000; i++) {
        char text[16];
        snprintf(text, sizeof text, "t%u", i);
        assert_int_equal(vocabulary_add(&host, &vocabulary, piece_of(text), 3 * (uint64_t)i), HASHATTN_OK);
    }
    assert_true(vocabulary_find(&vocabulary, piece_of("t4999"), &id) && id == 14997);
    assert_null(vocabulary_get(&vocabulary, 1).bytes);
    assert_int_equal(vocabulary.count, 5000);
    check_status(&host, vocabulary_add(&host, &vocabulary, piece_of("t1"), 1), HASHATTN_BAD_FILE,
                 "token 't1' has two ids, 3 and 1");
    check_status(&host, vocabulary_add(&host, &vocabulary, piece_of("x"), 3), HASHATTN_BAD_FILE,
                 "tokens 't1' and 'x' both have id 3");
    check_status(&host, vocabulary_add(&host, &vocabulary, piece_of("x"), 1 << 20), HASHATTN_BAD_FILE,
                 "token 'x' has id 1048576, allowed are 0 to 1048575");
    vocabulary_free(&host, &vocabulary);
}

static void the_cache_keeps_words_until_it_is_full(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct word_cache cache;
    assert_int_equal(word_cache_init(&host, &cache), HASHATTN_OK);
    struct word_token list[3];
    struct word_tokens tokens = {list, 0, 3};
    size_t found = 0, count;
    for (uint32_t i = 0; i < 200000; i++) {
        char word[80];
        struct piece piece = {word, (size_t)snprintf(word, sizeof word, "%u", i)};
        if (i % 1000 == 999)
            piece.size = (size_t)snprintf(word, sizeof word, "%070u", i); /* too long */
        uint64_t hash = word_cache_hash(&cache, piece);
        assert_null(word_cache_find(&cache, piece, hash, &count));
        tokens.count = i % 4;
        for (uint32_t k = 0; k < tokens.count; k++)
            list[k] = (struct word_token){i, k, i + k};
        word_cache_keep(&cache, piece, hash, &tokens);
        const struct word_token *kept = word_cache_find(&cache, piece, hash, &count);
        assert_true((kept != NULL) == (i % 1000 != 999));
        if (kept != NULL) {
            assert_int_equal(count, tokens.count);
            check_same_bits(kept, list, count * sizeof *list, word);
        }
        const struct piece other = {"xxxxxxxxxxxxxxx", piece.size};
        assert_true(piece.size > 15 || word_cache_find(&cache, other, hash, &count) == NULL);
        /* An older word is there with its own tokens, or is forgotten. */
        piece.size = (size_t)snprintf(word, sizeof word, "%u", i / 2);
        kept = word_cache_find(&cache, piece, word_cache_hash(&cache, piece), &count);
        found += kept != NULL;
        if (kept != NULL && count > 0)
            assert_int_equal(kept[0].id, i / 2);
    }
    assert_true(found > 1000 && found < 199000);
    word_cache_free(&host, &cache);
}

/* ---- added tokens ------------------------------------------------------------------------------------- */

static void added_tokens_are_found(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct added_tokens tokens = {.list = NULL};
    const struct added_token list[] = {
        {.content = piece_of("<a>"), .id = 1},
        {.content = piece_of("<a"), .id = 2},
        {.content = piece_of("<mask>"), .id = 3, .lstrip = true},
        {.content = piece_of("end"), .id = 4, .single_word = true},
        {.content = piece_of(">>"), .id = 5, .rstrip = true},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        assert_int_equal(added_tokens_add(&host, &tokens, &list[i]), HASHATTN_OK);
    assert_int_equal(added_tokens_finish(&host, &tokens), HASHATTN_OK);
    const struct piece text = piece_of("x<a><ab <mask>  <mask>bend end\xc3\xa9 end >>\xc2\xa0 >>");
    static const struct {
        uint32_t id;
        size_t begin, end;
    } want[] = {{1, 1, 4}, {2, 4, 6}, {3, 7, 14}, {3, 14, 22}, {4, 33, 36}, {5, 37, 42}, {5, 42, 44}};
    struct added_matches matches = {.list = NULL};
    assert_int_equal(added_tokens_find(&host, &tokens, text, &matches), HASHATTN_OK);
    assert_int_equal(matches.count, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < matches.count; i++) {
        assert_int_equal(matches.list[i].token->id, want[i].id);
        assert_int_equal(matches.list[i].begin, want[i].begin);
        assert_int_equal(matches.list[i].end, want[i].end);
    }
    struct added_probe probe = {.passed = 0};
    static const bool touches[] = {false, true, true, true, true, true, true, false, true};
    for (size_t at = 0; at < sizeof touches / sizeof *touches; at++) {
        bool touched;
        size_t end = SIZE_MAX;
        assert_int_equal(added_probe_move(&host, &tokens, text, at, &probe, &touched, &end), HASHATTN_OK);
        assert_int_equal(touched, touches[at]);
        assert_true(end == (at == 5 ? 4 : at == 7 ? 6 : SIZE_MAX));
    }
    added_probe_free(&host, &probe);
    /* The white space that a token took is searched again. */
    const struct added_token blank = {.content = piece_of("  "), .id = 6};
    assert_int_equal(added_tokens_add(&host, &tokens, &blank), HASHATTN_OK);
    assert_int_equal(added_tokens_finish(&host, &tokens), HASHATTN_OK);
    assert_int_equal(added_tokens_find(&host, &tokens, piece_of(">>   "), &matches), HASHATTN_OK);
    assert_true(matches.count == 2 && matches.list[0].end == 5);
    assert_true(matches.list[1].token->id == 6 && matches.list[1].begin == 2 && matches.list[1].end == 4);
    assert_int_equal(added_tokens_find(&host, &tokens, piece_of(">> <mask>"), &matches), HASHATTN_OK);
    assert_true(matches.count == 2 && matches.list[0].end == 3 && matches.list[1].begin == 3);
    /* Not if the token takes white space on its left. */
    const struct added_token left = {.content = piece_of("\n"), .id = 7, .lstrip = true};
    assert_int_equal(added_tokens_add(&host, &tokens, &left), HASHATTN_OK);
    const struct added_token both = {.content = piece_of("\t"), .id = 8, .lstrip = true, .rstrip = true};
    assert_int_equal(added_tokens_add(&host, &tokens, &both), HASHATTN_OK);
    const struct added_token beyond = {.content = piece_of("\nx"), .id = 9, .lstrip = true};
    assert_int_equal(added_tokens_add(&host, &tokens, &beyond), HASHATTN_OK);
    assert_int_equal(added_tokens_finish(&host, &tokens), HASHATTN_OK);
    assert_int_equal(added_tokens_find(&host, &tokens, piece_of(">>\n \t>>\nx \n"), &matches), HASHATTN_OK);
    assert_int_equal(matches.count, 4);
    assert_true(matches.list[0].end == 5 && matches.list[1].begin == 5 && matches.list[1].end == 8);
    assert_true(matches.list[2].token->id == 9 && matches.list[2].begin == 8 && matches.list[2].end == 9);
    assert_true(matches.list[3].token->id == 7 && matches.list[3].begin == 9 && matches.list[3].end == 11);
    /* The last of equal contents. */
    const struct added_token equal[] = {{.content = piece_of("=="), .id = 10, .rstrip = true},
                                        {.content = piece_of("=="), .id = 11},
                                        {.content = piece_of("=="), .id = 12, .single_word = true}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(added_tokens_add(&host, &tokens, &equal[i]), HASHATTN_OK);
    assert_int_equal(added_tokens_finish(&host, &tokens), HASHATTN_OK);
    assert_int_equal(added_tokens_find(&host, &tokens, piece_of("== x=="), &matches), HASHATTN_OK);
    assert_true(matches.count == 1 && matches.list[0].token->id == 12 && matches.list[0].end == 2);
    added_matches_free(&host, &matches);
    check_status(&host, added_tokens_add(&host, &tokens, &(struct added_token){.id = 9}), HASHATTN_BAD_FILE,
                 "added token with id 9 is empty");
    added_tokens_free(&host, &tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bpe_equals_a_slow_program),
        cmocka_unit_test(bytes_without_tokens_are_unknown_or_dropped),
        cmocka_unit_test(a_long_word_takes_no_square_time),
        cmocka_unit_test(wordpiece_equals_a_slow_program),
        cmocka_unit_test(vocabularies_refuse_doubles),
        cmocka_unit_test(the_cache_keeps_words_until_it_is_full),
        cmocka_unit_test(added_tokens_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
