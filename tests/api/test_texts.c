/* Vectors of documents and guesses for masks: those of the rows and scores of their tokens. Bugs planted and
   caught: the mean without the last token; the first document's vectors for all; a vector per token counted
   per document; probabilities that leave the tokens guessed before out of their sum; the second mask's
   guesses from the first; texts beyond the positions read.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hashattn/hashattn.h"
#include "support/api_context.h"
#include "support/checkpoint_case.h"

enum { DIM = CHECKPOINT_DIM, VOCAB = CHECKPOINT_VOCAB, MOST = 20 };
static const char checkpoint[] = "tests/models/checkpoints/bert";

struct taken {
    size_t calls, vectors, stop_after;
    hashattn_embedding last;
    float rows[MOST * DIM];
};

static int take(void *user, const hashattn_embedding *e)
{
    struct taken *taken = user;
    assert_true(e->document == taken->calls && e->first == taken->vectors && e->dim == DIM);
    memcpy(taken->rows + taken->vectors * DIM, e->vectors, e->count * DIM * sizeof(float));
    taken->calls++;
    taken->vectors += e->count;
    taken->last = *e;
    return taken->calls == taken->stop_after;
}

/* The rows of two documents in tokens, by the function that takes ids. */
static const uint32_t ids[] = {2, 5, 6, 11, 8, 3, 2, 12, 7, 3};
static const size_t offsets[] = {0, 6, 10};

static void put_documents(struct folder *folder, char *text, char *lines, size_t size)
{
    folder_put_text(folder, "one.txt", "The cats sat");
    folder_put_text(folder, "two.jsonl", "{\"text\": \"a dog\"}\n");
    snprintf(text, size, "%s/one.txt", folder->path);
    snprintf(lines, size, "%s/two.jsonl", folder->path);
}

static void vectors_are_those_of_the_tokens(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(2, NULL);
    hashattn_pretrained *p;
    char text[200], lines[200];
    float rows[10 * DIM];
    const char *const paths[] = {text, lines};
    put_documents(folder, text, lines, sizeof text);
    check_ok(context, hashattn_pretrained_load(context, checkpoint, NULL, &p));
    const hashattn_sequences sequences = {sizeof sequences, 2, offsets, ids, NULL};
    check_ok(context, hashattn_pretrained_rows(p, &sequences, 0, rows));
    hashattn_text_options options;
    hashattn_text_options_default(&options);
    assert_string_equal(options.pooling, "mean");
    struct taken mean = {0}, first = {0}, all = {0};
    check_ok(context, hashattn_pretrained_embed(p, paths, 2, NULL, take, &mean));
    options.pooling = "first";
    check_ok(context, hashattn_pretrained_embed(p, paths, 2, &options, take, &first));
    options.pooling = "none";
    check_ok(context, hashattn_pretrained_embed(p, paths, 2, &options, take, &all));
    assert_true(mean.calls == 2 && mean.vectors == 2 && first.vectors == 2 && all.calls == 2 &&
                all.vectors == 10);
    assert_true(mean.last.num_documents == 2 && mean.last.num_vectors == 2 && all.last.num_vectors == 10);
    check_same_bits(all.rows, rows, sizeof rows, "vectors of tokens");
    for (size_t d = 0; d < 2; d++) {
        check_same_bits(first.rows + d * DIM, rows + offsets[d] * DIM, DIM * sizeof(float), "first");
        for (size_t c = 0; c < DIM; c++) {
            double sum = 0;
            for (size_t i = offsets[d]; i < offsets[d + 1]; i++)
                sum += (double)rows[i * DIM + c];
            check_near((double)mean.rows[d * DIM + c], sum / (double)(offsets[d + 1] - offsets[d]), 1e-6,
                       "mean");
        }
    }
    struct taken plain = {0}, stopped = {.stop_after = 1};
    options.special_tokens = 0;
    check_ok(context, hashattn_pretrained_embed(p, paths, 2, &options, take, &plain));
    assert_int_equal(plain.vectors, 6);
    check_call(context, hashattn_pretrained_embed(p, paths, 2, NULL, take, &stopped), HASHATTN_INTERRUPTED,
               "stopped");
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

struct guesses {
    size_t count;
    struct {
        size_t mask, rank;
        uint32_t id;
        double probability;
        char token[20];
    } list[2 * VOCAB];
};

static int guess(void *user, const hashattn_guess *one)
{
    struct guesses *all = user;
    all->list[all->count].mask = one->mask;
    all->list[all->count].rank = one->rank;
    all->list[all->count].id = one->id;
    all->list[all->count].probability = one->probability;
    snprintf(all->list[all->count].token, sizeof all->list[0].token, "%s", one->token);
    all->count++;
    return 0;
}

static void guesses_are_ranked_probabilities(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_pretrained *p;
    float scores[2 * VOCAB];
    static const uint32_t masked[] = {2, 5, 4, 8, 4, 3};
    static const size_t ends[] = {0, 6}, places[] = {2, 4};
    struct guesses all = {0}, few = {0};
    check_ok(context, hashattn_pretrained_load(context, checkpoint, NULL, &p));
    const hashattn_sequences sequences = {sizeof sequences, 1, ends, masked, NULL};
    check_ok(context, hashattn_pretrained_scores(p, &sequences, 0, places, 2, scores));
    check_ok(context, hashattn_pretrained_fill_mask(p, "the [MASK] sat [MASK]", VOCAB + 5, 0, guess, &all));
    assert_int_equal(all.count, 2 * VOCAB);
    for (size_t m = 0; m < 2; m++) {
        double sum = 0, total = 0;
        for (size_t i = 0; i < VOCAB; i++)
            sum += exp((double)scores[m * VOCAB + i]);
        for (size_t i = 0; i < VOCAB; i++) {
            const size_t k = m * VOCAB + i;
            assert_true(all.list[k].mask == m && all.list[k].rank == i);
            check_near(all.list[k].probability, exp((double)scores[m * VOCAB + all.list[k].id]) / sum, 1e-6,
                       "probability");
            assert_true(i == 0 || all.list[k].probability <= all.list[k - 1].probability);
            assert_true(all.list[k].id != 6 || strcmp(all.list[k].token, "cat") == 0);
            total += all.list[k].probability;
        }
        check_near(total, 1, 1e-6, "sum");
    }
    check_ok(context, hashattn_pretrained_fill_mask(p, "the [MASK] sat [MASK]", 2, 0, guess, &few));
    assert_true(few.count == 4 && few.list[2].id == all.list[VOCAB].id);
    check_call(context, hashattn_pretrained_fill_mask(p, "the cat", 2, 0, guess, &few), HASHATTN_INVALID,
               "the text has no [MASK] to be filled");
    check_call(context, hashattn_pretrained_fill_mask(p, "[MASK] a a a a a a a a", 2, 0, guess, &few),
               HASHATTN_INVALID, "the text has 11 tokens, the model has positions for 10");
    check_call(context, hashattn_pretrained_fill_mask(p, NULL, 2, 0, guess, &few), HASHATTN_INVALID,
               "text is NULL");
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

static void wrong_arguments_are_refused(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_pretrained *p;
    char text[200], lines[200];
    struct taken none = {0};
    const char *paths[] = {text, NULL};
    put_documents(folder, text, lines, sizeof text);
    check_ok(context, hashattn_pretrained_load(context, checkpoint, NULL, &p));
    hashattn_text_options options;
    hashattn_text_options_default(&options);
    options.pooling = "sum";
    check_call(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &none), HASHATTN_INVALID,
               "pooling is 'sum', allowed are mean, first, none");
    check_call(context, hashattn_pretrained_embed(p, paths, 2, NULL, take, &none), HASHATTN_INVALID,
               "path 1 is NULL");
    check_call(context, hashattn_pretrained_embed(p, NULL, 1, NULL, take, &none), HASHATTN_INVALID,
               "paths is NULL");
    check_call(context, hashattn_pretrained_embed(p, paths, 1, NULL, NULL, NULL), HASHATTN_INVALID,
               "callback");
    options.struct_size = 4;
    check_call(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &none), HASHATTN_INVALID,
               "struct_size");
    hashattn_pretrained_free(p);
    check_ok(context, hashattn_pretrained_load(context, "tests/models/checkpoints/yoso", NULL, &p));
    check_call(context, hashattn_pretrained_embed(p, paths, 1, NULL, take, &none), HASHATTN_BAD_FILE,
               "tokenizer.json");
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(vectors_are_those_of_the_tokens, folder_enter, folder_leave),
        cmocka_unit_test(guesses_are_ranked_probabilities),
        cmocka_unit_test_setup_teardown(wrong_arguments_are_refused, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
