/* BERT's text: what cleaning, ideographs, accents and lower case do to characters and positions, and its
   words. The comparison of every character of Unicode is bench/tokens.py. Covers: characters.c.

   Planted and caught: U+FFFD kept; a tab removed as a control character; marks written in the order of the
   text; positions that move with sorted marks; Hangul that is not decomposed; the lower case of Unicode 17
   left out; an ideograph without its second space; a surrogate read as a character.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/bert_text.h"

#include <string.h>

#include "io/utf8.h"
#include "support/check.h"
#include "text/characters.h"

static const struct bert_normalizer all = {true, true, true, true}, none = {false, false, false, false},
                                    strips = {.strip = true}, lowers = {.lower = true},
                                    cleans = {.clean = true};

static void check(const struct bert_normalizer *normalizer, const char *text, const char *want)
{
    struct host host;
    struct normal_text normal = {.bytes = NULL};
    host_init(&host);
    check_status(&host, bert_normalize(&host, normalizer, (struct piece){text, strlen(text)}, &normal),
                 HASHATTN_OK, NULL);
    if (normal.size != strlen(want) ||
        (normal.size > 0 && memcmp(normal.bytes, want, normal.size) != 0)) /* NULL if nothing is left */
        fail_msg("'%s' became '%.*s', want '%s'", text, (int)normal.size, normal.bytes, want);
    normal_text_free(&host, &normal);
}

static void text_is_normalized(void **state)
{
    (void)state;
    check(&all, "", "");
    check(&all,
          "Ab\tC\x01\x7f\xc2\x85"
          "d\xe2\x80\x83"
          "e\xef\xbf\xbd",
          "ab cd e");
    check(&none, "Ab\t\xc3\x89", "Ab\t\xc3\x89");
    check(&cleans, "Ab\t\xc3\x89", "Ab \xc3\x89");
    check(&all, "a\xe4\xb8\xad\xe6\x96\x87", "a \xe4\xb8\xad  \xe6\x96\x87 ");
    check(&all, "\xc3\x89t\xc3\xa9 \xc5\x92", "ete \xc5\x93");
    check(&lowers, "\xc3\x89 \xc4\xb0 \xce\xa3 \xea\x9f\x8e", "\xc3\xa9 i\xcc\x87 \xcf\x83 \xea\x9f\x8f");
    check(&strips, "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"); /* Hangul in its three parts */
    check(&strips, "\xe2\x89\xa0", "=");
    check(&all,
          "\xff"
          "a\xe4\xb8",
          "a");
    check(&none,
          "\xff"
          "a",
          "\xef\xbf\xbd"
          "a");
    /* U+302A and U+302E are no accents for Unicode 8; 218 sorts before 224. */
    check(&strips, "a\xe3\x80\xae\xe3\x80\xaa", "a\xe3\x80\xae");
}

/* Marks that stay are sorted, and keep the positions of the text in order. */
static void marks_are_sorted(void **state)
{
    (void)state;
    struct host host;
    struct normal_text normal = {.bytes = NULL};
    host_init(&host);
    /* U+1D165 has class 216, U+1D16D 226; neither is stripped. The second one comes first in the text. */
    const char *text = "a\xf0\x9d\x85\xad\xcc\x81\xf0\x9d\x85\xa5";
    check_status(&host, bert_normalize(&host, &strips, (struct piece){text, strlen(text)}, &normal),
                 HASHATTN_OK, NULL);
    assert_int_equal(normal.size, 9);
    assert_memory_equal(normal.bytes, "a\xf0\x9d\x85\xa5\xf0\x9d\x85\xad", 9);
    const uint32_t begins[] = {0, 1, 1, 1, 1, 5, 5, 5, 5}, ends[] = {1, 5, 5, 5, 5, 7, 7, 7, 7};
    check_same_bits(normal.begins, begins, sizeof begins, "begins");
    check_same_bits(normal.ends, ends, sizeof ends, "ends");
    normal_text_free(&host, &normal);
}

static void words_end_at_space_and_punctuation(void **state)
{
    (void)state;
    const char *text = "  ab,c\xe2\x80\x94 \xe3\x80\x82x^ ", *at = text, *end = text + strlen(text);
    static const char *const want[] = {"ab", ",", "c", "\xe2\x80\x94", "\xe3\x80\x82", "x", "^"};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_true(piece_is(bert_word(&at, end), want[i]));
    assert_int_equal(bert_word(&at, end).size, 0);
    assert_true(bert_splits(&all, text, text + 1, end));
    assert_false(bert_splits(&all, text, text + 3, end));
}

static void characters_are_read_and_written(void **state)
{
    (void)state;
    for (int32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 13) {
        char bytes[4];
        int32_t back;
        size_t size = character_write(c, bytes);
        bool is_surrogate = c >= 0xd800 && c < 0xe000;
        assert_int_equal(utf8_first_error(bytes, size) == size, !is_surrogate);
        assert_int_equal(character_read(bytes, bytes + size, &back), is_surrogate ? 1 : size);
        assert_int_equal(back, is_surrogate ? CHARACTER_NONE : c);
        for (size_t cut = 1; cut < size; cut++) {
            assert_int_equal(character_read(bytes, bytes + cut, &back), 1);
            assert_int_equal(back, CHARACTER_NONE);
        }
    }
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xe4\xb8"
                                      "a"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int32_t point;
        assert_int_equal(character_read(bad[i], bad[i] + strlen(bad[i]), &point), 1);
        assert_int_equal(point, CHARACTER_NONE);
    }
}

static void characters_have_properties(void **state)
{
    (void)state;
    static const struct {
        int32_t point;
        unsigned flags;
    } rows[] = {
        {CHARACTER_NONE, 0},
        {'a', CHARACTER_LETTER | CHARACTER_WORD},
        {'7', CHARACTER_NUMBER | CHARACTER_WORD},
        {' ', CHARACTER_SPACE},
        {'_', CHARACTER_PUNCTUATION | CHARACTER_WORD},
        {'^', CHARACTER_PUNCTUATION},
        {0, CHARACTER_CONTROL},
        {0x85, CHARACTER_SPACE | CHARACTER_CONTROL},
        {0xfffd, CHARACTER_CONTROL},
        {0x301, CHARACTER_MARK | CHARACTER_WORD | CHARACTER_MOVES},
        {0x1df9, CHARACTER_WORD},                     /* a mark since Unicode 10 */
        {0x10d4a, CHARACTER_LETTER | CHARACTER_WORD}, /* Unicode 16 */
        {0x2e52, 0},                                  /* punctuation since Unicode 14 */
        {0x10ffff, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (character_flags(rows[i].point) != rows[i].flags)
            fail_msg("U+%04X: %u, want %u", (unsigned)rows[i].point, character_flags(rows[i].point),
                     rows[i].flags);
    int32_t parts[CHARACTER_MOST_PARTS];
    assert_int_equal(character_decompose(0x1e69, parts), 3); /* s, dot below, dot above */
    assert_true(parts[0] == 's' && parts[1] == 0x323 && parts[2] == 0x307);
    assert_int_equal(character_decompose(0x11938, parts), 1);
    assert_int_equal(character_order(0x323), 220);
    assert_int_equal(character_order(0x1df9), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_normalized),
        cmocka_unit_test(marks_are_sorted),
        cmocka_unit_test(words_end_at_space_and_punctuation),
        cmocka_unit_test(characters_are_read_and_written),
        cmocka_unit_test(characters_have_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
