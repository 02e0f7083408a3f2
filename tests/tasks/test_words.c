/* Vocabularies: the order of the ids, lookup, the file and every refusal of it. Bugs planted and caught:
   least frequent first; <unk> and <eos> counted among the words; `most` without the two; probing that stops
   at another word; CR and VT kept in words; long words kept; a word twice in a file; a word too many; a file
   one byte over the limit accepted, one at the limit refused; a line of two words; ids cut to 16 bits, in the
   table or when they are looked up; vocabularies of at most 65,535 words.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "support/folder.h"

static struct piece piece_of(const char *text)
{
    return (struct piece){text, strlen(text)};
}

static void check_word(const struct words *words, size_t id, const char *want)
{
    struct piece word = words_get(words, id);
    assert_true(piece_is(word, want));
    assert_int_equal(words_find(words, word), id);
}

static struct words *count(struct host *host, const char *text, size_t most)
{
    struct words *words;
    check_status(host, words_count(host, text, strlen(text), most, &words), HASHATTN_OK, NULL);
    return words;
}

static void the_frequent_come_first(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    static const char text[] =
        " b a\tcc <unk> <unk> <unk>\r\n\n a B\xc3\xa9 a\v<eos> b\fcc\n\xc3\xa9 <eos> ab";
    struct words *words = count(host, text, WORDS_MOST);
    static const char *const want[] = {"<unk>", "<eos>", "a", "b", "cc", "B\xc3\xa9", "ab", "\xc3\xa9"};
    assert_int_equal(words->count, 8);
    for (size_t i = 0; i < 8; i++)
        check_word(words, i + 1, want[i]);
    assert_int_equal(words_find(words, piece_of("B")), WORDS_UNKNOWN);
    assert_int_equal(words_find(words, piece_of("")), WORDS_UNKNOWN);
    words_free(host, words);
    for (size_t most = 2; most <= 8; most++) {
        words = count(host, text, most);
        assert_int_equal(words->count, most);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(words_find(words, piece_of(want[i])), i < most ? i + 1 : WORDS_UNKNOWN);
        words_free(host, words);
    }
    words = count(host, "", WORDS_MOST);
    assert_int_equal(words->count, 2);
    words_free(host, words);
    words_free(host, NULL);
}

enum { TYPES = 70000 };

/* The later ones appear twice. */
static char *new_types(size_t *size)
{
    char *text = malloc((size_t)TYPES * 3 * 8), *at = text;
    for (int i = 0; i < TYPES; i++)
        at += sprintf(at, i < TYPES / 2 ? "w%d\n" : "w%d w%d ", i, i);
    *size = (size_t)(at - text);
    return text;
}

/* More types than ids: the table is probed and grown, and the least frequent types are left out. */
static void there_are_more_words_than_ids(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    enum { MOST = 65535 };
    size_t size;
    char *text = new_types(&size);
    struct words *words;
    check_status(host, words_count(host, text, size, MOST, &words), HASHATTN_OK, NULL);
    assert_int_equal(words->count, MOST);
    char name[16];
    size_t known[2] = {0, 0};
    for (int i = 0; i < TYPES; i++) {
        sprintf(name, "w%d", i);
        uint32_t id = words_find(words, piece_of(name));
        known[i >= TYPES / 2] += id != WORDS_UNKNOWN;
        if (id != WORDS_UNKNOWN)
            assert_true(piece_is(words_get(words, id), name));
    }
    assert_true(known[1] == TYPES / 2 && known[0] == MOST - 2 - TYPES / 2);
    words_free(host, words);
    free(text);
}

/* Counted, saved and loaded again: every word keeps its own id. */
static void ids_are_wider_than_16_bits(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    char path[128], name[16];
    size_t size;
    char *text = new_types(&size);
    struct words *words[2];
    snprintf(path, sizeof path, "%s/vocab.txt", folder->path);
    check_status(host, words_count(host, text, size, WORDS_MOST, &words[0]), HASHATTN_OK, NULL);
    check_status(host, words_save(host, path, words[0]), HASHATTN_OK, NULL);
    check_status(host, words_load(host, path, TYPES + 2, &words[1]), HASHATTN_OK, NULL);
    for (int from = 0; from < 2; from++) {
        bool *taken = calloc(TYPES + 3, sizeof *taken);
        assert_int_equal(words[from]->count, TYPES + 2);
        for (int i = 0; i < TYPES; i++) {
            sprintf(name, "w%d", i);
            uint32_t id = words_find(words[from], piece_of(name));
            assert_in_range(id, 3, TYPES + 2);
            assert_true(!taken[id] && piece_is(words_get(words[from], id), name));
            taken[id] = true;
        }
        free(taken);
        words_free(host, words[from]);
    }
    free(text);
    /* A second copy of the last word. */
    size_t last = 0;
    text = folder_get(folder, "vocab.txt", &size);
    for (size_t i = 0; i + 1 < size; i++)
        last = text[i] == '\n' ? i + 1 : last;
    text = realloc(text, 2 * size);
    memmove(text + size, text + last, size - last);
    check_status(host, words_parse(host, text, 2 * size - last, TYPES + 3, &words[0]), HASHATTN_BAD_FILE,
                 "line 70003: the word is on line 70002 too");
    free(text);
}

static void long_words_are_unknown(void **state)
{
    struct host *host = &((struct folder *)*state)->host;
    char text[2 * WORDS_LONGEST + 4];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    text[WORDS_LONGEST] = ' '; /* one word of the longest length, and one longer */
    text[2 * WORDS_LONGEST + 2] = ' ';
    struct words *words = count(host, text, WORDS_MOST);
    assert_int_equal(words->count, 3);
    assert_int_equal(words_get(words, 3).size, WORDS_LONGEST);
    words_free(host, words);
}

static void a_line_is_cut_at_white_space(void **state)
{
    (void)state;
    struct piece rest = piece_of(" \tone  two\r\v\fthree "), word;
    static const char *const want[] = {"one", "two", "three"};
    for (size_t i = 0; i < 3; i++)
        assert_true(words_next(&rest, &word) && piece_is(word, want[i]));
    assert_false(words_next(&rest, &word));
}

static void the_file_gives_back_the_same(void **state)
{
    struct folder *folder = *state;
    struct host *host = &folder->host;
    char path[128];
    snprintf(path, sizeof path, "%s/vocab.txt", folder->path);
    struct words *words = count(host, "two one two three", WORDS_MOST), *again;
    check_status(host, words_save(host, path, words), HASHATTN_OK, NULL);
    size_t size;
    char *text = folder_get(folder, "vocab.txt", &size);
    assert_string_equal(text, "<unk>\n<eos>\ntwo\none\nthree\n");
    free(text);
    check_status(host, words_load(host, path, 5, &again), HASHATTN_OK, NULL);
    for (size_t id = 1; id <= 5; id++)
        assert_int_equal(words_find(again, words_get(words, id)), id);
    words_free(host, again);
    check_status(host, words_load(host, path, 4, &again), HASHATTN_BAD_FILE,
                 "vocab.txt: line 5: more than the 4");
    assert_null(again);
    check_status(host, words_load(host, path, 6, &again), HASHATTN_BAD_FILE, "5 words, the model has 6");
    words_free(host, words);
    folder_remove(folder, "vocab.txt");
    check_status(host, words_load(host, path, 5, &again), HASHATTN_BAD_FILE, "vocab.txt");
    /* Five words of 1,000 bytes with CR and LF and a byte order mark: the longest file of five words. */
    folder_put_text(folder, "vocab.txt", "");
    assert_int_equal(truncate(path, 5014), 0);
    check_status(host, words_load(host, path, 5, &again), HASHATTN_BAD_FILE, "5013");
    assert_int_equal(truncate(path, 5013), 0);
    check_status(host, words_load(host, path, 5, &again), HASHATTN_BAD_FILE, "line 1");
}

static void what_is_no_vocabulary_is_refused(void **state)
{
    (void)state;
    struct failing_host failing; /* it fails never, and counts */
    failing_host_init(&failing, -1);
    struct host *host = &failing.host;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"<unk>\n<eos>\none\none\n", "line 4: the word is on line 3 too"},
        {"<unk>\n<eos>\none two\n", "line 3: a line is one word"},
        {"<unk>\n<eos>\n one\n", "line 3: a line is one word"},
        {"<unk>\n<eos>\n\n", "line 3: a line is one word"},
        {"<eos>\n<unk>\none\n", "line 1: the first two words"},
        {"<unk>\none\n<eos>\n", "line 2: the first two words"},
        {"<unk>\n<eos>\n\xff\n", "line 3"},
        {"<unk>\n", "1 words, the model has 4"},
        {"", "0 words"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct words *words;
        check_status(host, words_parse(host, cases[i].text, strlen(cases[i].text), 4, &words),
                     HASHATTN_BAD_FILE, cases[i].part);
        assert_null(words);
    }
    char text[WORDS_LONGEST + 20] = "<unk>\n<eos>\n";
    memset(text + 12, 'x', WORDS_LONGEST + 1);
    struct words *words;
    check_status(host, words_parse(host, text, strlen(text), 4, &words), HASHATTN_BAD_FILE,
                 "1001 bytes, allowed are 1000");
    check_status(host, words_count(host, "a\n\xc3\n", 4, 10, &words), HASHATTN_BAD_FILE, "line 2");
    assert_int_equal(failing.outstanding, 0);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    static const char text[] = "one two two\nthree";
    for (long n = 0;; n++) {
        struct failing_host failing;
        struct words *words;
        failing_host_init(&failing, n);
        hashattn_status status = words_count(&failing.host, text, strlen(text), 9, &words);
        if (status == HASHATTN_OK)
            words_free(&failing.host, words);
        assert_int_equal(failing.outstanding, 0);
        if (status == HASHATTN_OK)
            break;
        assert_int_equal(status, HASHATTN_NO_MEMORY);
        assert_null(words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_frequent_come_first, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(there_are_more_words_than_ids, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(ids_are_wider_than_16_bits, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(long_words_are_unknown, folder_enter, folder_leave),
        cmocka_unit_test(a_line_is_cut_at_white_space),
        cmocka_unit_test_setup_teardown(the_file_gives_back_the_same, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(what_is_no_vocabulary_is_refused, folder_enter, folder_leave),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
