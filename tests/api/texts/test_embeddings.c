/* Vectors of documents: those of the rows of their tokens, and as a directory of the sentence-transformers
   library says. Bugs planted and caught: the mean without the last token; the first document's vectors for
   all; a vector per token counted per document; max_seq_length obeyed by truncate; stored unit length given
   to a pooling that was asked for; tokens of the prompt pooled although the directory leaves them out; the id
   of the last document given to all; a text in memory that is no UTF-8 taken; errors of all texts about the
   first one.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "hashattn/hashattn.h"
#include "support/api_context.h"
#include "support/checkpoint_case.h"

enum { DIM = CHECKPOINT_DIM, MOST = 20 };
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
    assert_string_equal(options.pooling, "stored");
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

static void texts_in_memory_are_documents(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(2, NULL);
    hashattn_pretrained *p;
    char text[200], lines[200];
    const char *const paths[] = {text, lines};
    static const char *const texts[] = {"The cats sat", "a dog"};
    const char *wrong[] = {"a dog", NULL};
    struct taken files = {0}, memory = {0}, none = {0};
    put_documents(folder, text, lines, sizeof text);
    check_ok(context, hashattn_pretrained_load(context, checkpoint, NULL, &p));
    check_ok(context, hashattn_pretrained_embed(p, paths, 2, NULL, take, &files));
    check_ok(context, hashattn_pretrained_embed_texts(p, texts, 2, NULL, take, &memory));
    assert_true(memory.calls == 2 && memory.last.num_documents == 2);
    assert_true(memory.last.file == NULL && memory.last.id == NULL && !memory.last.id_is_number);
    check_same_bits(memory.rows, files.rows, 2 * DIM * sizeof(float), "vectors of texts");
    check_ok(context, hashattn_pretrained_embed_texts(p, texts, 0, NULL, take, &none));
    check_call(context, hashattn_pretrained_embed_texts(p, NULL, 1, NULL, take, &none), HASHATTN_INVALID,
               "texts is NULL");
    check_call(context, hashattn_pretrained_embed_texts(p, texts, 1, NULL, NULL, NULL), HASHATTN_INVALID,
               "callback is NULL");
    check_call(context, hashattn_pretrained_embed_texts(p, wrong, 2, NULL, take, &none), HASHATTN_INVALID,
               "texts[1]: the text is NULL");
    wrong[1] = "a \xff dog";
    check_call(context, hashattn_pretrained_embed_texts(p, wrong, 2, NULL, take, &none), HASHATTN_INVALID,
               "texts[1]: ");
    wrong[1] = "the cat sat the cat sat the cat sat";
    check_call(context, hashattn_pretrained_embed_texts(p, wrong, 2, NULL, take, &none), HASHATTN_INVALID,
               "texts[1]: the document has 11 tokens, the model has positions for 10");
    assert_int_equal(none.calls, 0);
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

/* A directory with the BERT checkpoint of the tests and these modules. */
static hashattn_pretrained *load_sentences(hashattn_context *context, struct folder *folder,
                                           const char *more_modules, const char *pooling)
{
    char path[100], modules[500];
    hashattn_pretrained *p;
    checkpoint_copy(folder, "bert");
    snprintf(path, sizeof path, "%s/1_Pooling", folder->path);
    mkdir(path, 0700);
    snprintf(modules, sizeof modules,
             "[{\"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"},"
             "{\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}%s]",
             more_modules);
    folder_put_text(folder, "modules.json", modules);
    folder_put_text(folder, "1_Pooling/config.json", pooling);
    folder_put_text(folder, "sentence_bert_config.json", "{\"max_seq_length\": 5}");
    folder_put_text(folder, "config_sentence_transformers.json",
                    "{\"prompts\": {\"query\": \"the cat \"}, \"default_prompt_name\": null}");
    check_ok(context, hashattn_pretrained_load(context, folder->path, NULL, &p));
    return p;
}

#define NORMALIZE ",{\"path\": \"2_Normalize\", \"type\": \"sentence_transformers.models.Normalize\"}"

/* The vector of rows [first, end) of the tokens `of`, by definition. */
static void want_vector(const float *rows, size_t first, size_t end, bool largest, bool unit, double *want)
{
    double squares = 0;
    for (size_t c = 0; c < DIM; c++) {
        want[c] = largest ? -INFINITY : 0;
        for (size_t i = first; i < end; i++) {
            double value = (double)rows[i * DIM + c];
            want[c] = largest ? fmax(want[c], value) : want[c] + value / (double)(end - first);
        }
        squares += want[c] * want[c];
    }
    for (size_t c = 0; unit && c < DIM; c++)
        want[c] /= sqrt(squares);
}

static void check_vector(const float *vector, const double *want, const char *what)
{
    for (size_t c = 0; c < DIM; c++)
        check_near((double)vector[c], want[c], 1e-6, what);
}

static void a_directory_says_which_vectors(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    char lines[200];
    const char *const paths[] = {lines};
    /* [CLS] the cat s sat [SEP] and its cut to 5 tokens */
    static const uint32_t tokens[] = {2, 5, 6, 11, 8, 3, 2, 5, 6, 11, 3};
    static const size_t ends[] = {0, 6, 11};
    float rows[11 * DIM];
    double want[DIM];
    struct taken cut = {0}, whole = {0}, first = {0}, largest = {0}, all = {0};
    hashattn_text_options options;
    hashattn_text_options_default(&options);
    hashattn_pretrained *p =
        load_sentences(context, folder, NORMALIZE, "{\"pooling_mode_mean_tokens\": true}");
    const hashattn_sequences sequences = {sizeof sequences, 2, ends, tokens, NULL};
    check_ok(context, hashattn_pretrained_rows(p, &sequences, 0, rows));
    folder_put_text(folder, "a.jsonl", "{\"id\": 17, \"text\": \"the cats sat\"}\n{\"text\": \"the cat\"}\n");
    snprintf(lines, sizeof lines, "%s/a.jsonl", folder->path);
    check_ok(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &cut));
    assert_true(cut.last.num_cut == 1 && cut.last.max_tokens == 5 && cut.calls == 2);
    want_vector(rows, 6, 11, false, true, want);
    check_vector(cut.rows, want, "stored");
    options.truncate = 1;
    check_ok(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &whole));
    assert_true(whole.last.num_cut == 0 && whole.last.max_tokens == 10);
    want_vector(rows, 0, 6, false, true, want);
    check_vector(whole.rows, want, "the model's positions");
    options.pooling = "first";
    check_ok(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &first));
    want_vector(rows, 0, 1, false, false, want);
    check_vector(first.rows, want, "a pooling that was asked for");
    options.pooling = "max";
    options.normalize = 1;
    check_ok(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &largest));
    want_vector(rows, 0, 6, true, true, want);
    check_vector(largest.rows, want, "max");
    options.pooling = "none";
    check_ok(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &all));
    want_vector(rows, 5, 6, false, true, want);
    check_vector(all.rows + 5 * DIM, want, "unit tokens");
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

struct seen_ids {
    char text[100];
};

static int take_id(void *user, const hashattn_embedding *e)
{
    struct seen_ids *seen = user;
    snprintf(seen->text + strlen(seen->text), 60, "%s%s%s,", e->id == NULL ? "none" : e->id,
             e->id_is_number ? "#" : "", e->file != NULL && strstr(e->file, "a.jsonl") != NULL ? "" : "?");
    return 0;
}

static void documents_keep_their_ids(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    char lines[200];
    const char *const paths[] = {lines};
    struct seen_ids seen = {""};
    hashattn_pretrained *p;
    check_ok(context, hashattn_pretrained_load(context, checkpoint, NULL, &p));
    folder_put_text(folder, "a.jsonl",
                    "{\"id\": 17, \"text\": \"a\"}\n{\"text\": \"a\"}\n{\"id\": \"x\", \"text\": \"a\"}");
    snprintf(lines, sizeof lines, "%s/a.jsonl", folder->path);
    check_ok(context, hashattn_pretrained_embed(p, paths, 1, NULL, take_id, &seen));
    assert_string_equal(seen.text, "17#,none,x,");
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

/* The prompt "the cat " before "sat": [CLS] the cat | sat [SEP]. */
static void prompts_are_pooled_or_not(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    char text[200];
    const char *const paths[] = {text};
    static const uint32_t tokens[] = {2, 5, 6, 8, 3};
    static const size_t ends[] = {0, 5};
    float rows[5 * DIM];
    double want[DIM];
    struct taken with = {0}, without = {0};
    hashattn_text_options options;
    hashattn_text_options_default(&options);
    options.prompt_name = "query";
    hashattn_pretrained *p = load_sentences(context, folder, "", "{\"pooling_mode\": \"mean\"}");
    folder_put_text(folder, "a.txt", "sat");
    snprintf(text, sizeof text, "%s/a.txt", folder->path);
    const hashattn_sequences sequences = {sizeof sequences, 1, ends, tokens, NULL};
    check_ok(context, hashattn_pretrained_rows(p, &sequences, 0, rows));
    check_ok(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &with));
    want_vector(rows, 0, 5, false, false, want);
    check_vector(with.rows, want, "with its prompt");
    hashattn_pretrained_free(p);
    p = load_sentences(context, folder, "", "{\"pooling_mode\": \"mean\", \"include_prompt\": false}");
    check_ok(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &without));
    want_vector(rows, 3, 5, false, false, want);
    check_vector(without.rows, want, "without its prompt");
    options.prompt = "a ";
    check_call(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &without), HASHATTN_INVALID,
               "prompt and prompt_name exclude each other");
    options.prompt = NULL;
    options.prompt_name = "title";
    check_call(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &without), HASHATTN_INVALID,
               "no prompt 'title'; the prompts of the files are: query");
    hashattn_pretrained_free(p);
    hashattn_context_free(context);
}

static void what_is_not_computed_is_refused(void **state)
{
    struct folder *folder = *state;
    hashattn_context *context = context_with(1, NULL);
    char text[200], path[100];
    const char *const paths[] = {text};
    struct taken none = {0};
    hashattn_pretrained *p = load_sentences(
        context, folder, ",{\"path\": \"\", \"type\": \"sentence_transformers.models.Dense\"}", "{}");
    folder_put_text(folder, "a.txt", "sat");
    snprintf(text, sizeof text, "%s/a.txt", folder->path);
    check_call(context, hashattn_pretrained_embed(p, paths, 1, NULL, take, &none), HASHATTN_REFUSED,
               "module 2 of modules.json is Dense");
    hashattn_text_options options;
    hashattn_text_options_default(&options);
    options.pooling = "mean";
    check_ok(context, hashattn_pretrained_embed(p, paths, 1, &options, take, &none));
    hashattn_pretrained_free(p);
    folder_put_text(
        folder, "modules.json",
        "[{\"path\": \"0_Transformer\", \"type\": \"sentence_transformers.models.Transformer\"}]");
    snprintf(path, sizeof path, "%s/0_Transformer", folder->path);
    mkdir(path, 0700);
    static const char *const names[] = {"config.json", "model.safetensors", "vocab.txt"};
    for (size_t i = 0; i < 3; i++) {
        char from[200], to[200];
        snprintf(from, sizeof from, "%s/%s", folder->path, names[i]);
        snprintf(to, sizeof to, "%s/%s", path, names[i]);
        assert_int_equal(rename(from, to), 0);
    }
    check_ok(context,
             hashattn_pretrained_load(context, folder->path, NULL, &p)); /* an encoder in its folder */
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
               "pooling is 'sum', allowed are stored, mean, first, max, none");
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
        cmocka_unit_test_setup_teardown(texts_in_memory_are_documents, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(a_directory_says_which_vectors, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(documents_keep_their_ids, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(prompts_are_pooled_or_not, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(what_is_not_computed_is_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(wrong_arguments_are_refused, folder_enter, folder_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
