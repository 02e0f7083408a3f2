/* Learned vocabularies against a slow program that counts all pairs anew for every merge, on random texts;
   bench/tokens.py compares with the reference on books. Covers: word_counts.c.

   Planted and caught: the larger of two pairs with the same count; counts on either side of a merge not
   changed; a pair below min_frequency merged; an entry of the heap with an old count used; words counted
   across line feeds.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/learning/learn_bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/folder.h"
#include "text/byte_level.h"

enum { WORDS = 400, LENGTH = 12 };

struct slow {
    int tokens[WORDS][LENGTH], size[WORDS];
    int count;
    char text[600][128]; /* of the tokens */
    int num_tokens;
};

static int slow_id(struct slow *slow, const char *text)
{
    for (int i = 0; i < slow->num_tokens; i++)
        if (strcmp(slow->text[i], text) == 0)
            return i;
    snprintf(slow->text[slow->num_tokens], sizeof slow->text[0], "%.100s", text);
    return slow->num_tokens++;
}

/* The most frequent pair, the smallest one of several; its count. Pairs are of windows, as "aaa" has two. */
static int best_pair(const struct slow *slow, int *left, int *right)
{
    static int counts[600][600];
    memset(counts, 0, sizeof counts);
    for (int w = 0; w < slow->count; w++)
        for (int i = 0; i + 1 < slow->size[w]; i++)
            counts[slow->tokens[w][i]][slow->tokens[w][i + 1]]++;
    int best = 0;
    for (int a = 0; a < slow->num_tokens; a++)
        for (int b = 0; b < slow->num_tokens; b++)
            if (counts[a][b] > best) {
                best = counts[a][b];
                *left = a;
                *right = b;
            }
    return best;
}

static void slow_merge(struct slow *slow, int left, int right)
{
    char joined[256];
    snprintf(joined, sizeof joined, "%s%s", slow->text[left], slow->text[right]);
    int id = slow_id(slow, joined);
    for (int w = 0; w < slow->count; w++) {
        int out = 0, *tokens = slow->tokens[w];
        for (int i = 0; i < slow->size[w]; i++) {
            bool both = i + 1 < slow->size[w] && tokens[i] == left && tokens[i + 1] == right;
            tokens[out++] = both ? id : tokens[i];
            i += both;
        }
        slow->size[w] = out;
    }
}

static void learn_text(struct host *host, const char *text, size_t vocab_size, uint64_t min_frequency,
                       struct tokenizer **tokenizer)
{
    struct word_counts counts = {.bytes = NULL};
    const struct learn_options options = {.vocab_size = vocab_size, .min_frequency = min_frequency};
    check_status(host, word_counts_add(host, &counts, (struct piece){text, strlen(text)}), HASHATTN_OK, NULL);
    check_status(host, learn_bpe(host, &counts, &options, tokenizer), HASHATTN_OK, NULL);
    word_counts_free(host, &counts);
}

static void tokens_equal_those_of_a_slow_program(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct random random = random_open(random_key(9, RANDOM_DATA, 0));
    for (int n = 0; n < 12; n++) {
        struct slow *slow = calloc(1, sizeof *slow);
        char *text = calloc(1, WORDS * (LENGTH + 1) + 1);
        struct tokenizer *tokenizer;
        uint64_t least = 1 + random_below(&random, 8);
        learn_text(&host, "a", LEARN_LEAST, 1, &tokenizer); /* the first tokens */
        for (uint32_t id = 0; id < LEARN_LEAST; id++) {
            struct piece token = tokenizer_token(tokenizer, id);
            snprintf(slow->text[slow->num_tokens++], 128, "%.*s", (int)token.size, token.bytes);
        }
        tokenizer_free(&host, tokenizer);
        /* Words of letters end with a comma, a word of its own. */
        for (int w = 0; w < WORDS; w++) {
            slow->size[w] = 1 + (int)random_below(&random, LENGTH - 1);
            for (int i = 0; i < slow->size[w]; i++) {
                char letter[2] = {(char)('a' + random_below(&random, 4)), '\0'};
                strcat(text, letter);
                slow->tokens[w][i] = slow_id(slow, letter);
            }
            strcat(text, ",");
        }
        slow->count = WORDS;
        learn_text(&host, text, 400, least, &tokenizer);
        int left = 0, right = 0;
        while (slow->num_tokens < 400 && best_pair(slow, &left, &right) >= (int)least)
            slow_merge(slow, left, right);
        assert_int_equal(tokenizer_num_ids(tokenizer), slow->num_tokens);
        for (int id = 0; id < slow->num_tokens; id++)
            if (!piece_is(tokenizer_token(tokenizer, (uint32_t)id), slow->text[id]))
                fail_msg("token %d is '%.*s', want '%s'", id,
                         (int)tokenizer_token(tokenizer, (uint32_t)id).size,
                         tokenizer_token(tokenizer, (uint32_t)id).bytes, slow->text[id]);
        tokenizer_free(&host, tokenizer);
        free(slow);
        free(text);
    }
}

static uint64_t count_of(const struct word_counts *counts, const char *word)
{
    for (size_t i = 0; i < counts->count; i++)
        if (counts->list[i].size == strlen(word) &&
            memcmp(counts->bytes + counts->list[i].start, word, strlen(word)) == 0)
            return counts->list[i].count;
    return 0;
}

static void words_are_counted_line_by_line(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    struct word_counts counts = {.bytes = NULL};
    char path[100];
    folder_put_text(folder, "text", "the cat\n  the cat \n\nthe");
    snprintf(path, sizeof path, "%s/text", folder->path);
    check_status(host, word_counts_add_file(host, &counts, path, FILE_TYPED), HASHATTN_OK, NULL);
    check_status(host, word_counts_add_file(host, &counts, path, FILE_TYPED), HASHATTN_OK, NULL);
    assert_int_equal(counts.count, 6);
    assert_int_equal(count_of(&counts, "the"), 4);
    assert_int_equal(count_of(&counts, " the"), 2);
    assert_int_equal(count_of(&counts, " cat"), 4);
    assert_int_equal(count_of(&counts, "\n"), 4);
    assert_int_equal(count_of(&counts, " \n"), 2);
    assert_int_equal(count_of(&counts, " "), 2);
    word_counts_free(host, &counts);
    check_status(host, word_counts_add_file(host, &counts, "/none", FILE_FOUND), HASHATTN_BAD_FILE,
                 "/none: cannot open");
}

static int stop(void *user, size_t tokens, size_t vocab_size)
{
    (void)user;
    assert_int_equal(vocab_size, 400);
    return tokens > 320;
}

static void learning_can_be_stopped(void **state)
{
    (void)state;
    struct failing_host failing;
    failing_host_init(&failing, -1);
    struct word_counts counts = {.bytes = NULL};
    struct random random = random_open(random_key(1, RANDOM_DATA, 0));
    char text[4000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)("abcdefg h"[random_below(&random, 9)]);
    assert_int_equal(word_counts_add(&failing.host, &counts, (struct piece){text, sizeof text}), HASHATTN_OK);
    const struct learn_options options = {.vocab_size = 400, .min_frequency = 1, .progress = stop};
    struct tokenizer *tokenizer;
    check_status(&failing.host, learn_bpe(&failing.host, &counts, &options, &tokenizer), HASHATTN_INTERRUPTED,
                 "of 400 tokens");
    assert_null(tokenizer);
    word_counts_free(&failing.host, &counts);
    assert_int_equal(failing.outstanding, 0);
}

static void failing_allocations_leave_nothing(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct failing_host failing;
        failing_host_init(&failing, n);
        struct word_counts counts = {.bytes = NULL};
        struct tokenizer *tokenizer = NULL;
        const struct learn_options options = {.vocab_size = 300, .min_frequency = 1};
        hashattn_status status =
            word_counts_add(&failing.host, &counts, (struct piece){"the cat sat on the mat aaaa", 27});
        if (status == HASHATTN_OK)
            status = learn_bpe(&failing.host, &counts, &options, &tokenizer);
        tokenizer_free(&failing.host, tokenizer);
        word_counts_free(&failing.host, &counts);
        assert_int_equal(failing.outstanding, 0);
        if (status == HASHATTN_OK)
            break;
        assert_int_equal(status, HASHATTN_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_equal_those_of_a_slow_program),
        cmocka_unit_test_setup_teardown(words_are_counted_line_by_line, folder_enter, folder_leave),
        cmocka_unit_test(learning_can_be_stopped),
        cmocka_unit_test(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
