/* Bytes cut into tokens in every way give the same text: that of all bytes at once, up to the first stop
   text, with U+FFFD for what is not UTF-8; a piece never ends inside a character; nothing waits longer than
   it must. Bugs planted and caught: a cut character written as U+FFFD; a stop text across two tokens missed;
   text held back at the end; the beginning of a stop text written; a longer stop text waited for although a
   shorter one has come; bytes after a stop text written.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/generate/text_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "io/utf8.h"
#include "support/check.h"

enum { MOST = 400 };

/* Appends bytes as a token and takes what is complete. */
static void go(struct host *host, struct text_stream *stream, const char *bytes, size_t size, bool last,
               char *text)
{
    struct grown_text *waiting = &stream->waiting;
    check_status(host, memory_grow(host, &waiting->bytes, &waiting->capacity, waiting->size, size, 1, "text"),
                 HASHATTN_OK, NULL);
    if (size > 0)
        memcpy(waiting->bytes + waiting->size, bytes, size);
    waiting->size += size;
    check_status(host, text_stream_go(host, stream, last), HASHATTN_OK, NULL);
    assert_int_equal(utf8_first_error(stream->ready.bytes, stream->ready.size), stream->ready.size);
    assert_int_equal(stream->ready.bytes[stream->ready.size], 0);
    strncat(text, stream->ready.bytes, stream->ready.size);
}

/* Cut at every place into two, and at random into many. */
static void check_text(const char *bytes, const char *const *stops, const char *want)
{
    struct host host;
    struct piece pieces[4];
    size_t size = strlen(bytes), count = 0;
    host_init(&host);
    for (; stops[count] != NULL; count++)
        pieces[count] = (struct piece){stops[count], strlen(stops[count])};
    for (uint64_t way = 0; way < size + 40; way++) {
        struct text_stream stream = {.stops = pieces, .num_stops = count};
        struct random random = random_open(way);
        char text[MOST] = "";
        for (size_t at = 0, next; at < size && !stream.stopped; at = next) {
            next = way < size ? (at == 0 && way > 0 ? (size_t)way : size) : at + random_below(&random, 4);
            next = size_min(next, size);
            go(&host, &stream, bytes + at, next - at, next == size, text);
        }
        assert_string_equal(text, want);
        assert_true(strlen(want) == 0 || stream.waiting.size == 0);
        text_stream_free(&host, &stream);
    }
}

static void any_cut_gives_the_same_text(void **state)
{
    (void)state;
    static const char *const none[] = {NULL}, *const end[] = {"END", NULL},
                             *const two[] = {"stop", "st\xc3\xa4", NULL},
                             *const nested[] = {"aab", "aa", NULL}, *const feed[] = {"\n\n", NULL},
                             *const part[] = {"\xa4", NULL};
    check_text("plain", none, "plain");
    check_text("B\xc3\xa4r \xe2\x82\xac \xf0\x9f\x98\x80.", none,
               "B\xc3\xa4r \xe2\x82\xac \xf0\x9f\x98\x80.");
    check_text("a\xff\xc3(\xe2\x82(\xf0\x9f\x98", none,
               "a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd(\xef\xbf\xbd");
    check_text("\xed\xa0\x80\xc0\x80", none, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    check_text("one END two", end, "one ");
    check_text("one EN", end, "one EN");
    check_text("EENEND", end, "EEN");
    check_text("ENDall", end, "");
    check_text("a sto stu st\xc3\xa4 stop", two, "a sto stu ");
    check_text("xaaby", nested, "x");
    check_text("one\ntwo\n\nthree", feed, "one\ntwo");
    check_text("B\xc3\xa4r", part, "B\xef\xbf\xbd"); /* a stop text of bytes, inside a character */
}

static void nothing_waits_longer_than_it_must(void **state)
{
    (void)state;
    struct host host;
    const struct piece stop = {"stop", 4};
    struct text_stream stream = {.stops = &stop, .num_stops = 1};
    char text[MOST] = "";
    host_init(&host);
    static const struct {
        const char *token, *text;
    } steps[] = {
        {"a", "a"},
        {"\xc3", "a"},
        {"\xa4", "a\xc3\xa4"},
        {" s", "a\xc3\xa4 "},
        {"ta", "a\xc3\xa4 sta"},
        {"s", "a\xc3\xa4 sta"},
        {"s", "a\xc3\xa4 stas"},
        {"top", "a\xc3\xa4 stas"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        go(&host, &stream, steps[i].token, strlen(steps[i].token), false, text);
        assert_string_equal(text, steps[i].text);
    }
    assert_true(stream.stopped);
    text_stream_clear(&stream);
    assert_true(!stream.stopped && stream.waiting.size == 0 && stream.ready.size == 0);
    text_stream_free(&host, &stream);
    /* A stop text is there, although a longer one could still come at the same place. */
    const struct piece nested[] = {{"aab", 3}, {"aa", 2}};
    stream = (struct text_stream){.stops = nested, .num_stops = 2};
    go(&host, &stream, "aa", 2, false, text);
    assert_true(stream.stopped);
    text_stream_free(&host, &stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cut_gives_the_same_text),
        cmocka_unit_test(nothing_waits_longer_than_it_must),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
