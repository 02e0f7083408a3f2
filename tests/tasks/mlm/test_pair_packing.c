/* Examples from documents: every token once and in order, nothing longer than the capacity, cuts at
   sentences, swapped and foreign texts as often as promised, short examples, and pieces of whole documents.
   Bugs planted and caught: a sentence lost after an example; an example one token too long; A and B divided
   inside a sentence although there is another end; always swapped; never short; B of nsp from the same
   document; the rest of a replaced B lost; the label the wrong way round; pieces cut at sentences; a document
   of one token that ends the program; a B of nsp without tokens, from the end of a document.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/mlm/pair_packing.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "support/check.h"

enum { TOKENS = 1000, SENTENCES = 100, OTHERS = 3, CAPACITY = 40 };

/* Token i of document d is 10,000 d + i; sentence s has 1 + s % 19 tokens, and so on. */
static uint32_t ids[OTHERS][TOKENS];
static size_t ends[OTHERS][SENTENCES];
static struct token_document documents[OTHERS];

static void make_documents(void)
{
    for (size_t d = 0; d < OTHERS; d++) {
        size_t at = 0;
        for (size_t s = 0; s < SENTENCES; s++) {
            for (size_t end = at + 1 + (s + d) % 19; at < end && at < TOKENS; at++)
                ids[d][at] = (uint32_t)(10000 * d + at);
            ends[d][s] = at;
        }
        documents[d] = (struct token_document){ids[d], ends[d], SENTENCES};
    }
}

struct seen {
    enum pair_order order;
    size_t capacity, next;                  /* the token that must come next */
    size_t examples, changed, full, inside; /* full: of the capacity; inside: divided in a sentence */
};

static bool is_end(size_t at)
{
    for (size_t s = 0; s < SENTENCES; s++)
        if (ends[0][s] == at)
            return true;
    return false;
}

static void check_run(struct token_span span)
{
    for (size_t i = 1; i < span.count; i++)
        assert_int_equal(span.ids[i], span.ids[i - 1] + 1);
}

static hashattn_status see(void *context, struct token_span a, struct token_span b, uint32_t label)
{
    struct seen *seen = context;
    check_run(a);
    check_run(b);
    assert_true(a.count + b.count <= seen->capacity && a.count + b.count >= 2 && label <= 1);
    assert_true(seen->order == ORDER_NONE ? b.count == 0 && label == 0 : a.count > 0 && b.count > 0);
    struct token_span first = seen->order == ORDER_SOP && label == 1 ? b : a,
                      second = first.ids == a.ids ? b : a;
    assert_int_equal(first.ids[0], seen->next);
    if (seen->order == ORDER_NSP && label == 1) {
        assert_true(second.ids[0] >= 10000);
        seen->next += first.count;
    } else {
        if (second.count > 0)
            assert_int_equal(second.ids[0], seen->next + first.count);
        seen->next += first.count + second.count;
    }
    seen->inside += second.count > 0 && !is_end(first.ids[0] + first.count);
    seen->examples++;
    seen->changed += label;
    seen->full += a.count + b.count == seen->capacity;
    return HASHATTN_OK;
}

static struct seen pack_all(enum pair_order order, size_t capacity, bool whole, size_t draws, size_t *dropped)
{
    const struct pair_rules rules = {
        .order = order, .capacity = capacity, .whole = whole, .others = documents, .num_others = OTHERS};
    struct seen seen = {.order = order, .capacity = capacity};
    *dropped = 0;
    for (uint64_t key = 0; key < draws; key++) {
        size_t before = *dropped;
        seen.next = 0;
        assert_int_equal(
            pair_pack(&rules, &documents[0], random_key(9, RANDOM_DATA, key), see, &seen, dropped),
            HASHATTN_OK);
        size_t end = ends[0][SENTENCES - 1];
        assert_true(seen.next + (*dropped - before) ==
                    end); /* a single token is dropped at the very end only */
    }
    return seen;
}

static void every_token_is_in_one_example(void **state)
{
    (void)state;
    size_t dropped;
    make_documents();
    for (size_t capacity = 2; capacity <= 70; capacity += 4) /* sentences have up to 19 tokens */
        for (enum pair_order order = ORDER_NONE; order <= ORDER_NSP; order++) {
            struct seen seen = pack_all(order, capacity, false, 3, &dropped);
            assert_true(seen.examples >= 3 * (ends[0][SENTENCES - 1] / capacity));
        }
    struct seen whole = pack_all(ORDER_NONE, 64, true, 1, &dropped);
    assert_int_equal(whole.examples, (ends[0][SENTENCES - 1] + 63) / 64);
    assert_true(dropped <= 1);
}

static void check_share(size_t count, size_t draws, double p)
{
    check_near(((double)count - p * (double)draws) / sqrt((double)draws * p * (1 - p)), 0, 5, "share");
}

static void texts_are_swapped_and_replaced_half_the_time(void **state)
{
    (void)state;
    size_t dropped;
    make_documents();
    struct seen swapped = pack_all(ORDER_SOP, CAPACITY, false, 200, &dropped);
    check_share(swapped.changed, swapped.examples, 0.5);
    struct seen replaced = pack_all(ORDER_NSP, CAPACITY, false, 200, &dropped);
    check_share(replaced.changed, replaced.examples, 0.5);
    /* Inside a sentence only if the example is one sentence, mostly a short example. */
    assert_true(swapped.inside > 0 && swapped.inside < swapped.examples / 10);
}

static void one_in_ten_examples_is_shorter(void **state)
{
    (void)state;
    enum { DRAWS = 300 };
    size_t dropped;
    make_documents();
    for (size_t i = 0; i < SENTENCES; i++) /* one token each: an example has as many as it may */
        ends[0][i] = i + 1;
    struct seen seen = pack_all(ORDER_NONE, CAPACITY, false, DRAWS, &dropped);
    /* The last example of each draw ends with the document. */
    size_t others = seen.examples - DRAWS;
    check_near((double)seen.full / (double)others, 0.9 + 0.1 / (CAPACITY - 1), 0.06, "full examples");
}

static void the_key_determines_the_examples(void **state)
{
    (void)state;
    const struct pair_rules rules = {.order = ORDER_SOP, .capacity = CAPACITY};
    size_t dropped = 0;
    make_documents();
    struct seen one = {.order = ORDER_SOP, .capacity = CAPACITY}, other = one, again = one;
    assert_int_equal(pair_pack(&rules, &documents[0], 1, see, &one, &dropped), HASHATTN_OK);
    assert_int_equal(pair_pack(&rules, &documents[0], 1, see, &again, &dropped), HASHATTN_OK);
    assert_int_equal(pair_pack(&rules, &documents[0], 2, see, &other, &dropped), HASHATTN_OK);
    assert_memory_equal(&one, &again, sizeof one);
    assert_memory_not_equal(&one, &other, sizeof one);
}

static void short_documents_are_no_example(void **state)
{
    (void)state;
    const struct pair_rules rules = {.order = ORDER_SOP, .capacity = CAPACITY};
    static const size_t lengths[] = {0, 1, 2};
    make_documents();
    for (size_t i = 0; i < 3; i++) {
        size_t end = lengths[i], dropped = 0;
        struct seen seen = {.order = ORDER_SOP, .capacity = CAPACITY};
        const struct token_document document = {ids[0], &end, 1};
        assert_int_equal(pair_pack(&rules, &document, 1, see, &seen, &dropped), HASHATTN_OK);
        assert_true(seen.examples == (end == 2) && dropped == (end == 1));
    }
    size_t empty_ends[] = {0, 0, 3, 3}, dropped = 0; /* sentences without tokens */
    struct seen seen = {.order = ORDER_SOP, .capacity = CAPACITY};
    const struct token_document document = {ids[0], empty_ends, 4};
    assert_int_equal(pair_pack(&rules, &document, 1, see, &seen, &dropped), HASHATTN_OK);
    assert_true(seen.examples == 1 && dropped == 0);
    const struct token_document none = {NULL, NULL, 0};
    assert_int_equal(pair_pack(&rules, &none, 1, see, &seen, &dropped), HASHATTN_OK);
}

/* B of nsp has a token even if only the first of the other document's sentences has any. */
static void foreign_texts_have_tokens(void **state)
{
    (void)state;
    size_t other_ends[] = {0, 1, 1, 1, 1}, dropped = 0;
    make_documents();
    const struct token_document both[] = {documents[0], {ids[1], other_ends, 5}};
    const struct pair_rules rules = {
        .order = ORDER_NSP, .capacity = CAPACITY, .others = both, .num_others = 2};
    struct seen seen = {.order = ORDER_NSP, .capacity = CAPACITY};
    assert_int_equal(pair_pack(&rules, &both[0], 1, see, &seen, &dropped), HASHATTN_OK);
    assert_true(seen.changed > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_in_one_example),
        cmocka_unit_test(texts_are_swapped_and_replaced_half_the_time),
        cmocka_unit_test(one_in_ten_examples_is_shorter),
        cmocka_unit_test(the_key_determines_the_examples),
        cmocka_unit_test(short_documents_are_no_example),
        cmocka_unit_test(foreign_texts_have_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
