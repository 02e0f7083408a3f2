/* Stored checkpoints: hidden states and logits equal those that the transformers library wrote beside them,
   whatever the types and files of the weights; saving writes the same tensors; every tensor that does not fit
   is named. Bugs planted and caught: the rule of the keys with the queries' tensor; the pooler dropped in
   saving; the second half of the rows of converted types; epsilon of the first norm only; segments ignored;
   names of gamma and beta unknown; an untied output accepted; only the first misfit named; a NaN accepted;
   the metadata of shared tensors not read.
   Covers: pretrained_names.c inference.c
   SPDX-License-Identifier: Apache-2.0 */
#include "models/pretrained.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "models/inference.h"
#include "support/checkpoint_case.h"
#include "support/layers.h"

enum { T = CHECKPOINT_TOKENS, DIM = CHECKPOINT_DIM, VOCAB = CHECKPOINT_VOCAB };

struct opened {
    struct host host;
    struct pool *pool;
    struct pretrained files;
    struct model *model;
    float *block;
    struct inference inference;
};

static hashattn_status open_files(struct opened *o, const char *directory, const char *attention)
{
    memset(o, 0, sizeof *o);
    host_init(&o->host);
    TRY(pretrained_open(&o->host, directory, attention, &o->files));
    check_status(&o->host, model_new(&o->host, &o->files.config.model, &o->model), HASHATTN_OK, NULL);
    return pretrained_check(&o->host, &o->files, model_params(o->model));
}

static void open_all(struct opened *o, const char *directory, const char *attention)
{
    check_status(&o->host, open_files(o, directory, attention), HASHATTN_OK, NULL);
    check_status(&o->host, pool_new(&o->host, 2, &o->pool), HASHATTN_OK, NULL);
    const struct params *params = model_params(o->model);
    o->block = aligned_alloc(64, (pretrained_packed_floats(params) * sizeof(float) + 63) / 64 * 64);
    o->inference = (struct inference){
        .kernels = kernels_named("auto", NULL), .pool = o->pool, .model = o->model, .seed = 3};
    check_status(&o->host,
                 pretrained_pack(&o->host, &o->files, params, o->inference.kernels, o->pool, 1, o->block,
                                 &o->inference.values),
                 HASHATTN_OK, NULL);
}

static void close_all(struct opened *o)
{
    free(o->block);
    pool_free(&o->host, o->pool);
    model_free(&o->host, o->model);
    pretrained_close(&o->host, &o->files);
}

static bool take_rows(void *user, size_t first, size_t n, const float *rows)
{
    assert_true(first == 0 && n == 1);
    memcpy(user, rows, T * DIM * sizeof *rows);
    return false;
}

static void compute(struct opened *o, const struct checkpoint_case *c, float *hidden, float *logits)
{
    const struct inference_input input = {1, c->offsets, c->ids,
                                          o->files.config.model.num_segments > 0 ? c->segments : NULL};
    size_t places[T];
    for (size_t i = 0; i < T; i++)
        places[i] = i;
    check_status(&o->host, inference_check(&o->host, &o->inference, &input), HASHATTN_OK, NULL);
    check_status(&o->host, inference_rows(&o->host, &o->inference, &input, take_rows, hidden), HASHATTN_OK,
                 NULL);
    assert_int_equal(model_num_scores(o->model), VOCAB);
    check_status(&o->host, inference_scores(&o->host, &o->inference, &input, places, T, logits), HASHATTN_OK,
                 NULL);
}

/* bound: of the hidden states, whose rows have a norm of about 3, and of the logits. */
static void check_equal(const char *directory, const struct checkpoint_case *c, double bound)
{
    struct opened o;
    float hidden[T * DIM], logits[T * VOCAB];
    open_all(&o, directory, NULL);
    compute(&o, c, hidden, logits);
    for (size_t i = 0; i < T * DIM; i++)
        check_near((double)hidden[i], (double)c->hidden[i], bound, "hidden state");
    for (size_t i = 0; i < T * VOCAB; i++)
        check_near((double)logits[i], (double)c->logits[i], bound, "logit");
    close_all(&o);
}

/* The types one after another, and then their kin; NULL after the last. */
static const char *nth_type(size_t index)
{
    size_t types = 0;
    while (checkpoint_types[types] != NULL)
        types++;
    return index < types ? checkpoint_types[index] : checkpoint_kin[index - types];
}

static void outputs_are_those_of_the_library(void **state)
{
    (void)state;
    for (size_t i = 0; nth_type(i) != NULL; i++) {
        struct checkpoint_case c;
        checkpoint_case_read(nth_type(i), &c);
        check_equal(c.directory, &c, 5e-6);
    }
}

/* What is saved has the same tensors and outputs, also those that are no part of the model. */
static void what_is_saved_comes_back(void **state)
{
    struct folder *folder = *state;
    for (size_t i = 0; nth_type(i) != NULL; i++) {
        struct checkpoint_case c;
        struct opened o;
        char path[160], file[200];
        checkpoint_case_read(nth_type(i), &c);
        open_all(&o, c.directory, NULL);
        const struct params *params = model_params(o.model);
        float *values = malloc(params->total * sizeof *values);
        check_status(&o.host, pretrained_load(&o.host, &o.files, params, 1, values), HASHATTN_OK, NULL);
        snprintf(path, sizeof path, "%s/%s", folder->path, nth_type(i));
        check_status(&o.host, file_make_directory(&o.host, path, false), HASHATTN_OK, NULL);
        check_status(&o.host, pretrained_save(&o.host, path, &o.files, &o.files.config.model, params, values),
                     HASHATTN_OK, NULL);
        check_equal(path, &c, 5e-6);
        struct weight_files again;
        check_status(&o.host, weight_files_open(&o.host, path, &again), HASHATTN_OK, NULL);
        for (size_t f = 0; f < o.files.weights.num_files; f++)
            for (size_t t = 0; t < o.files.weights.files[f].count; t++) {
                const struct tensor *was = &o.files.weights.files[f].tensors[t];
                const struct tensor *is = weight_files_find(&again, was->name, NULL);
                if (is == NULL)
                    fail_msg("%s is not saved", was->name);
                check_same_bits(is->data, was->data, was->bytes, was->name);
            }
        weight_files_close(&o.host, &again);
        free(values);
        close_all(&o);
        for (int f = 0; f < 2; f++) {
            snprintf(file, sizeof file, "%s/%s", path, f == 0 ? "config.json" : "model.safetensors");
            remove(file);
        }
        remove(path);
    }
}

/* ---- files with other types and names ------------------------------------------------------------------ */

/* Writes the tensors of a checkpoint again, each as `edit` makes it; a name of "" leaves it out. more, word:
   NULL or one more tensor, and a word of the metadata. */
struct edited {
    char name[120];
    struct tensor tensor;
    void *data; /* freed */
};
typedef void edit_tensor(struct edited *edited);

static void rewrite(struct folder *folder, const char *type, edit_tensor *edit, const struct tensor *more,
                    const struct tensor_word *word)
{
    enum { MOST = 80 };
    static struct edited list[MOST];
    struct tensor tensors[MOST];
    struct weight_files weights;
    char path[160];
    size_t count = 0;
    checkpoint_copy(folder, type);
    snprintf(path, sizeof path, "tests/models/checkpoints/%s", type);
    check_status(&folder->host, weight_files_open(&folder->host, path, &weights), HASHATTN_OK, NULL);
    for (size_t f = 0; f < weights.num_files; f++)
        for (size_t t = 0; t < weights.files[f].count; t++) {
            struct edited *one = &list[count];
            *one = (struct edited){.tensor = weights.files[f].tensors[t]};
            snprintf(one->name, sizeof one->name, "%s", one->tensor.name);
            edit(one);
            one->tensor.name = one->name;
            if (one->name[0] != '\0')
                tensors[count++] = one->tensor;
        }
    if (more != NULL)
        tensors[count++] = *more;
    snprintf(path, sizeof path, "%s/model.safetensors", folder->path);
    check_status(&folder->host, safetensors_write(&folder->host, path, tensors, count, word, word != NULL),
                 HASHATTN_OK, NULL);
    for (size_t i = 0; i < MOST; i++) {
        free(list[i].data);
        list[i].data = NULL;
    }
    weight_files_close(&folder->host, &weights);
}

static void keep(struct edited *edited)
{
    (void)edited;
}

static void as_bf16(struct edited *edited)
{
    struct tensor *tensor = &edited->tensor;
    size_t count = tensor->bytes / 4;
    uint16_t *out = edited->data = malloc(tensor->bytes);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, (const char *)tensor->data + 4 * i, 4);
        out[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    tensor->type = TENSOR_BF16;
    tensor->bytes = 2 * count;
    tensor->data = out;
}

static void as_older_names(struct edited *edited)
{
    char *norm = strstr(edited->name, "LayerNorm.");
    if (norm != NULL)
        strcpy(norm + 10, strcmp(norm + 10, "weight") == 0 ? "gamma" : "beta");
}

/* Names of the trunk without its prefix, as in files of BertModel. */
static void as_bare(struct edited *edited)
{
    if (strncmp(edited->name, "bert.", 5) == 0)
        memmove(edited->name, edited->name + 5, strlen(edited->name) - 4);
}

/* As safetensors.torch.save_model stores a table that the output shares. */
static void as_shared(struct edited *edited)
{
    if (strcmp(edited->name, "bert.embeddings.word_embeddings.weight") == 0)
        strcpy(edited->name, "cls.predictions.decoder.weight");
}

static void other_files_have_the_same_outputs(void **state)
{
    struct folder *folder = *state;
    struct checkpoint_case c;
    checkpoint_case_read("bert", &c);
    rewrite(folder, "bert", as_older_names, NULL, NULL);
    check_equal(folder->path, &c, 5e-6);
    rewrite(folder, "bert", as_bare, NULL, NULL);
    check_equal(folder->path, &c, 5e-6);
    const struct tensor_word shared = {"bert.embeddings.word_embeddings.weight",
                                       "cls.predictions.decoder.weight"};
    rewrite(folder, "bert", as_shared, NULL, &shared);
    check_equal(folder->path, &c, 5e-6);
    rewrite(folder, "bert", as_bf16, NULL, NULL); /* weights rounded to 8 bits, three layers deep */
    check_equal(folder->path, &c, 0.15);
    const int64_t positions[10] = {0};
    const struct tensor ids = {.name = "bert.embeddings.position_ids",
                               .type = TENSOR_I64,
                               .rank = 2,
                               .shape = {1, 10},
                               .data = positions};
    rewrite(folder, "bert", keep, &ids, NULL);
    check_equal(folder->path, &c, 5e-6);
}

/* ---- files that do not fit ----------------------------------------------------------------------------- */

static void check_misfit(struct folder *folder, const char *part)
{
    struct opened o;
    hashattn_status status = open_files(&o, folder->path, NULL);
    check_status(&o.host, status, HASHATTN_BAD_FILE, part);
    close_all(&o);
}

static void without_some(struct edited *edited)
{
    if (strstr(edited->name, "layer.1.attention.self.key") != NULL)
        edited->name[0] = '\0';
    if (strcmp(edited->name, "bert.embeddings.LayerNorm.bias") == 0)
        strcpy(edited->name, "bert.embeddings.LayerNorm.offset");
}

static void with_nan(struct edited *edited)
{
    if (strcmp(edited->name, "bert.encoder.layer.0.output.dense.bias") != 0)
        return;
    float *copy = edited->data = malloc(edited->tensor.bytes);
    memcpy(copy, edited->tensor.data, edited->tensor.bytes);
    copy[5] = NAN;
    edited->tensor.data = copy;
}

static void without_output_norm(struct edited *edited)
{
    if (strcmp(edited->name, "cls.predictions.transform.LayerNorm.weight") == 0)
        edited->name[0] = '\0';
}

static void every_misfit_is_named(void **state)
{
    struct folder *folder = *state;
    rewrite(folder, "bert", without_some, NULL, NULL);
    check_misfit(folder, "4 tensors do not fit config.json: 'bert.embeddings.LayerNorm.bias' is missing; "
                         "'bert.encoder.layer.1.attention.self.key.weight' is missing; "
                         "'bert.encoder.layer.1.attention.self.key.bias' is missing; "
                         "'bert.embeddings.LayerNorm.offset' belongs to no layer of the model");
    rewrite(folder, "bert", without_output_norm, NULL, NULL);
    check_misfit(
        folder, "1 tensor does not fit config.json: 'cls.predictions.transform.LayerNorm.weight' is missing");
    rewrite(folder, "bert", keep, NULL, NULL);
    checkpoint_edit(folder, "\"intermediate_size\": 12", "\"intermediate_size\": 16");
    check_misfit(folder,
                 "6 tensors do not fit config.json: 'bert.encoder.layer.0.intermediate.dense.weight' is F32 "
                 "(12, 8), F32, F64, F16 or BF16 (16, 8) is needed; ");
    check_misfit(folder, "; and ");
    rewrite(folder, "bert", keep, NULL, NULL);
    checkpoint_edit(folder, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
    check_misfit(folder,
                 "'bert.encoder.layer.1.attention.output.LayerNorm.bias' belongs to no layer of the model");
}

static void an_output_of_its_own_is_refused(void **state)
{
    struct folder *folder = *state;
    static float table[VOCAB * DIM];
    const struct tensor decoder = {.name = "cls.predictions.decoder.weight",
                                   .type = TENSOR_F32,
                                   .rank = 2,
                                   .shape = {VOCAB, DIM},
                                   .data = table,
                                   .bytes = sizeof table};
    struct opened o;
    rewrite(folder, "bert", keep, &decoder, NULL);
    hashattn_status status = open_files(&o, folder->path, NULL);
    check_status(
        &o.host, status, HASHATTN_BAD_FILE,
        "tensor 'cls.predictions.decoder.weight' differs from 'bert.embeddings.word_embeddings.weight'");
    close_all(&o);
}

static void numbers_that_are_not_finite_are_refused(void **state)
{
    struct folder *folder = *state;
    struct opened o;
    rewrite(folder, "bert", with_nan, NULL, NULL);
    check_status(&o.host, open_files(&o, folder->path, NULL), HASHATTN_OK, NULL);
    check_status(&o.host, pool_new(&o.host, 1, &o.pool), HASHATTN_OK, NULL);
    const struct params *params = model_params(o.model);
    const float *values;
    o.block = aligned_alloc(64, (pretrained_packed_floats(params) * sizeof(float) + 63) / 64 * 64);
    static const char part[] = "'encoder.layer.0.output.dense.bias' holds nan at element 5 of 8";
    check_status(
        &o.host,
        pretrained_pack(&o.host, &o.files, params, kernels_named("auto", NULL), o.pool, 1, o.block, &values),
        HASHATTN_BAD_FILE, part);
    check_status(&o.host, pretrained_load(&o.host, &o.files, params, 1, o.block), HASHATTN_BAD_FILE, part);
    close_all(&o);
}

/* ---- other mechanisms, and sequences ------------------------------------------------------------------- */

/* Tensors of the mechanism that the files lack start from the seed. A mechanism that sees everything in one
   bucket is the softmax of the files. */
static void a_softmax_model_runs_with_any_mechanism(void **state)
{
    (void)state;
    static const char *const names[] = {"lha", "lsh", "yoso", "yoso-e"};
    struct checkpoint_case c;
    checkpoint_case_read("bert", &c);
    for (size_t i = 0; i < 4; i++) {
        struct opened o;
        float hidden[T * DIM], logits[T * VOCAB], gap = 0;
        open_all(&o, c.directory, names[i]);
        compute(&o, &c, hidden, logits);
        for (size_t k = 0; k < T * DIM; k++) {
            assert_true(isfinite(hidden[k]));
            gap = fmaxf(gap, fabsf(hidden[k] - c.hidden[k]));
        }
        assert_true(gap > 1e-3f && gap < 6);
        close_all(&o);
    }
}

static void sequences_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct checkpoint_case c;
    struct opened o;
    checkpoint_case_read("bert", &c);
    open_all(&o, c.directory, NULL);
    uint32_t ids[T + 1] = {0};
    uint8_t segments[T + 1] = {0};
    const size_t longer[] = {0, 3, 3 + T + 1}, empty[] = {0, 3, 3}, two[] = {0, 3, 5};
    struct inference_input input = {2, longer, ids, NULL};
    check_status(&o.host, inference_check(&o.host, &o.inference, &input), HASHATTN_INVALID,
                 "sequence 1 has 11 tokens, the model has positions for 10");
    input.offsets = empty;
    check_status(&o.host, inference_check(&o.host, &o.inference, &input), HASHATTN_INVALID,
                 "sequence 1 is empty");
    input.offsets = two;
    ids[4] = VOCAB;
    check_status(&o.host, inference_check(&o.host, &o.inference, &input), HASHATTN_INVALID,
                 "sequence 1 has id 24 at token 1, the model has ids 0 to 23");
    ids[4] = VOCAB - 1;
    segments[3] = 2;
    input.segments = segments;
    check_status(&o.host, inference_check(&o.host, &o.inference, &input), HASHATTN_INVALID,
                 "sequence 1 has segment 2 at token 0, the model has segments 0 to 1");
    segments[3] = 1;
    check_status(&o.host, inference_check(&o.host, &o.inference, &input), HASHATTN_OK, NULL);
    close_all(&o);
}

/* Several sequences, in several batches, have the bits of each alone; scores too. */
static void batches_change_no_bit(void **state)
{
    (void)state;
    enum { MANY = INFERENCE_ROWS / T * 2 + 7, ROWS = MANY * T };
    struct checkpoint_case c;
    struct opened o;
    checkpoint_case_read("roberta", &c);
    open_all(&o, c.directory, NULL);
    static uint32_t ids[ROWS];
    static size_t offsets[MANY + 1];
    for (size_t s = 0; s < MANY; s++) {
        offsets[s + 1] = (s + 1) * T;
        memcpy(ids + s * T, c.ids, sizeof c.ids);
    }
    const struct inference_input one = {1, offsets, ids, NULL}, many = {MANY, offsets, ids, NULL};
    const size_t first[] = {4}, places[] = {4, 14, (MANY - 1) * T + 4};
    float want[VOCAB], got[3 * VOCAB];
    check_status(&o.host, inference_check(&o.host, &o.inference, &many), HASHATTN_OK, NULL);
    check_status(&o.host, inference_scores(&o.host, &o.inference, &one, first, 1, want), HASHATTN_OK, NULL);
    check_status(&o.host, inference_scores(&o.host, &o.inference, &many, places, 3, got), HASHATTN_OK, NULL);
    for (size_t i = 0; i < 3; i++)
        check_same_bits(got + i * VOCAB, want, sizeof want, "scores");
    close_all(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_those_of_the_library),
        cmocka_unit_test_setup_teardown(what_is_saved_comes_back, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(other_files_have_the_same_outputs, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(every_misfit_is_named, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(an_output_of_its_own_is_refused, folder_enter, folder_leave),
        cmocka_unit_test_setup_teardown(numbers_that_are_not_finite_are_refused, folder_enter, folder_leave),
        cmocka_unit_test(a_softmax_model_runs_with_any_mechanism),
        cmocka_unit_test(sequences_that_do_not_fit_are_refused),
        cmocka_unit_test(batches_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
