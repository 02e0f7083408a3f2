/* Greedy splits against a slow program that tries every length at every place, on random sets of patterns of
   two letters, in all three forms: as WordPiece, with one kind of patterns, and as added tokens.

   Planted and caught: a split that is not that of the parent but shared with it; a link that names the
   parent's node; parts written in reverse; the bytes passed over not counted; a run that forgets where it
   stopped.
   SPDX-License-Identifier: Apache-2.0 */
#include "text/max_match.h"

#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { MOST = 24, LONGEST = 7, TEXT = 40 };

struct pattern {
    char text[LONGEST + 1];
    bool of_rest;
};

/* The longest pattern at the beginning of the text; MOST: none. */
static size_t slow_longest(const struct pattern *patterns, size_t count, bool of_rest, struct piece text)
{
    size_t best = MOST;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(patterns[i].text);
        if (patterns[i].of_rest == of_rest && size <= text.size &&
            memcmp(patterns[i].text, text.bytes, size) == 0 &&
            (best == MOST || size > strlen(patterns[best].text)))
            best = i;
    }
    return best;
}

static void compare(struct host *host, const struct max_match *set, const struct pattern *patterns,
                    size_t count, struct piece text, size_t step, struct max_match_run *run)
{
    size_t at = 0, found = 0;
    bool stuck = false;
    max_match_restart(run, 0);
    for (size_t until = step; until < text.size + step && !run->stuck; until += step)
        assert_int_equal(max_match_read(host, set, text, until, run), HASHATTN_OK);
    while (at < text.size && !stuck) {
        struct piece rest = {text.bytes + at, text.size - at};
        size_t i = slow_longest(patterns, count, set->has_rest && at > 0, rest);
        stuck = i == MOST && !set->skips;
        if (i == MOST) {
            at++;
            continue;
        }
        if (found < run->count || !run->stuck) {
            assert_true(found < run->count);
            assert_string_equal(patterns[run->list[found].value].text, patterns[i].text);
            assert_int_equal(run->list[found].begin, at);
            assert_int_equal(run->list[found].end, at + strlen(patterns[i].text));
        }
        found++;
        at += strlen(patterns[i].text);
    }
    assert_int_equal(run->stuck, stuck);
    assert_true(stuck || (found == run->count && run->start == text.size));
}

static void splits_equal_those_of_a_slow_program(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    struct random random = random_open(random_key(3, RANDOM_DATA, 0));
    struct max_match_run run = {.list = NULL};
    for (int n = 0; n < 3000; n++) {
        struct pattern patterns[MOST];
        size_t count = 1 + random_below(&random, MOST - 1);
        bool skips = n % 3 == 0, has_rest = n % 3 == 1;
        struct max_match set;
        assert_int_equal(max_match_begin(&host, &set, skips, has_rest), HASHATTN_OK);
        for (size_t i = 0; i < count; i++) {
            memset(&patterns[i], 0, sizeof patterns[i]);
            size_t size = 1 + random_below(&random, LONGEST);
            for (size_t k = 0; k < size; k++)
                patterns[i].text[k] = (char)('a' + random_below(&random, 2));
            patterns[i].of_rest = has_rest && random_below(&random, 2) == 1;
            assert_int_equal(max_match_add(&host, &set, patterns[i].of_rest,
                                           (struct piece){patterns[i].text, size}, (uint32_t)i),
                             HASHATTN_OK);
        }
        assert_int_equal(max_match_finish(&host, &set), HASHATTN_OK);
        for (int t = 0; t < 20; t++) {
            char text[TEXT];
            size_t size = random_below(&random, TEXT + 1);
            for (size_t k = 0; k < size; k++)
                text[k] = (char)('a' + random_below(&random, t == 0 ? 3 : 2));
            compare(&host, &set, patterns, count, (struct piece){text, size}, 1 + random_below(&random, TEXT),
                    &run);
        }
        max_match_free(&host, &set);
    }
    max_match_run_free(&host, &run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(splits_equal_those_of_a_slow_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
