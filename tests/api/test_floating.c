/* The caller's floating-point environment, with traps or another rounding mode, in calls that read, train,
   evaluate and measure (test_border has those of the operator): allocations and callbacks on the calling
   thread find the default one, the caller's is kept, and no number changes.
   Planted and caught: FLOATING_DEFAULT left out of generating, training, resuming, loading a run,
   evaluating, predicting, inspecting, loading a checkpoint, embed, fill-mask, a layer, a step and the peak.
   Covers: floating.h.
   SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/tiny_run.h"

static char checkpoint[4200];

/* What the library's calls find on their thread. */
struct found {
    hashattn_context *context;
    int rounding, traps; /* the caller's */
    bool armed;          /* set by the caller, so that calls must hide it */
    long asked, wrong;   /* allocations and callbacks; those that did not find the default */
    double numbers[100]; /* results */
    size_t count;
};

static void look(struct found *found)
{
    if (!found->armed)
        return;
    found->asked++;
    found->wrong += fegetround() != FE_TONEAREST || fegetexcept() != 0;
}

static void *look_and_allocate(void *user, size_t alignment, size_t bytes)
{
    look(user);
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *user, void *block)
{
    (void)user;
    free(block);
}

static void put_number(struct found *found, double number)
{
    assert_true(found->count < sizeof found->numbers / sizeof *found->numbers);
    found->numbers[found->count++] = number;
}

/* The result of a call; the caller's environment must be as it was. */
static void check(struct found *found, const char *name, long asked, hashattn_status status)
{
    int rounding = fegetround(), traps = fegetexcept();
    fesetenv(FE_DFL_ENV);
    check_ok(found->context, status);
    if (rounding != found->rounding || traps != found->traps)
        fail_msg("%s leaves rounding %d and traps %d, not %d and %d", name, rounding, traps, found->rounding,
                 found->traps);
    if (found->wrong > 0 || found->asked == asked)
        fail_msg("%s: %ld of %ld allocations and callbacks found another environment", name, found->wrong,
                 found->asked - asked);
    fesetround(found->rounding);
    feenableexcept(found->traps);
}
#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        long asked = found->asked;                                                                           \
        hashattn_status status = (call);                                                                     \
        check(found, #call, asked, status);                                                                  \
    } while (0)

static int train_on(void *user, const hashattn_progress *progress)
{
    look(user);
    put_number(user, isnan(progress->step_loss) ? -1 : progress->step_loss);
    return 0;
}

static int train_a_little(void *user, const hashattn_progress *progress)
{
    train_on(user, progress);
    return progress->step == 2;
}

static int take_prediction(void *user, size_t document, size_t best_class, const float *probabilities)
{
    (void)document, (void)best_class;
    look(user);
    put_number(user, (double)probabilities[0]);
    return 0;
}

static int take_vectors(void *user, const hashattn_embedding *embedding)
{
    look(user);
    put_number(user, (double)embedding->vectors[0]);
    return 0;
}

static int take_guess(void *user, const hashattn_guess *guess)
{
    look(user);
    put_number(user, guess->probability);
    return 0;
}

static int take_membership(void *user, const hashattn_membership *membership)
{
    (void)membership;
    look(user);
    return 0;
}

static void run_all(struct found *found, const char *name)
{
    static const size_t counts[] = {12, 4, 4};
    char data[40], run[40];
    hashattn_setup *setup = NULL;
    hashattn_model *model = NULL;
    hashattn_pretrained *pretrained = NULL;
    hashattn_context *context = found->context;
    hashattn_evaluation evaluation = {.struct_size = sizeof evaluation};
    hashattn_layer_cost layer = {.struct_size = sizeof layer};
    hashattn_step_cost step = {.struct_size = sizeof step};
    hashattn_peak peak = {.struct_size = sizeof peak};
    const char *const texts[] = {"text.txt"};
    snprintf(data, sizeof data, "data_%s", name);
    snprintf(run, sizeof run, "run_%s", name);
    setup = tiny_setup(context, "lha", 4);
    fesetround(found->rounding);
    feenableexcept(found->traps);
    found->armed = true;
    CHECK(hashattn_setup_generate(setup, data, counts, 1));
    CHECK(hashattn_train(setup, data, run, train_a_little, found) == HASHATTN_INTERRUPTED ? HASHATTN_OK
                                                                                          : HASHATTN_FAILED);
    CHECK(hashattn_train_resume(context, run, train_on, found)); /* from step 2 */
    CHECK(hashattn_model_load(context, run, &model));
    CHECK(hashattn_model_evaluate(model, data, "test", 1, &evaluation));
    CHECK(hashattn_model_inspect(model, data, "test", 1, 1, take_membership, found));
    CHECK(hashattn_pretrained_load(context, checkpoint, NULL, &pretrained));
    CHECK(hashattn_pretrained_embed(pretrained, texts, 1, NULL, take_vectors, found));
    CHECK(hashattn_pretrained_fill_mask(pretrained, "the [MASK] sat", 3, 0, take_guess, found));
    CHECK(hashattn_measure_layer(setup, 40, 1, 3, &layer));
    CHECK(hashattn_measure_step(setup, data, 2, &step));
    CHECK(hashattn_measure_peak(context, 0.01, &peak));
    found->armed = false;
    fesetenv(FE_DFL_ENV);
    put_number(found, hashattn_metric_value(&evaluation.metrics, "loss"));
    put_number(found, step.loss);
    hashattn_pretrained_free(pretrained);
    hashattn_model_free(model);
    hashattn_setup_free(setup);
}

/* Predictions are of documents, which the needles have not. */
static void predict(struct found *found, const char *name)
{
    static const char *const options[][2] = {{"max_len", "8"}, {"steps", "1"}, {"batch", "4"},
                                             {"layers", "1"},  {"dim", "8"},   {"heads", "2"},
                                             {"ffn", "8"}};
    char run[40];
    hashattn_setup *setup;
    hashattn_model *model;
    hashattn_context *context = found->context;
    snprintf(run, sizeof run, "text_%s", name);
    check_ok(context, hashattn_setup_new(context, "text", &setup));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        check_ok(context, hashattn_setup_set(setup, options[i][0], options[i][1]));
    check_ok(context, hashattn_train(setup, "texts", run, NULL, NULL));
    hashattn_setup_free(setup);
    check_ok(context, hashattn_model_load(context, run, &model));
    fesetround(found->rounding);
    feenableexcept(found->traps);
    found->armed = true;
    CHECK(hashattn_model_predict_file(model, "new.jsonl", 1, take_prediction, found, NULL));
    found->armed = false;
    fesetenv(FE_DFL_ENV);
    hashattn_model_free(model);
}

static struct found run_with(int rounding, int traps, const char *name)
{
    static struct found found;
    char message[200];
    hashattn_context_options options;
    found = (struct found){.rounding = rounding, .traps = traps};
    hashattn_context_options_default(&options);
    options.threads = 2;
    options.allocate = look_and_allocate;
    options.release = release;
    options.user = &found;
    assert_int_equal(hashattn_context_new(&options, message, sizeof message, &found.context), HASHATTN_OK);
    run_all(&found, name);
    predict(&found, name);
    hashattn_context_free(found.context);
    return found;
}

static void compare_with(int rounding, int traps, const char *name)
{
    char plain_name[40];
    snprintf(plain_name, sizeof plain_name, "plain_%s", name);
    const struct found plain = run_with(FE_TONEAREST, 0, plain_name), odd = run_with(rounding, traps, name);
    assert_int_equal(plain.count, odd.count);
    check_same_bits(odd.numbers, plain.numbers, plain.count * sizeof *plain.numbers, name);
}

static void traps_of_the_caller_are_held(void **state)
{
    (void)state;
    const int traps = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW;
    bool can = feenableexcept(traps) != -1 && (fegetexcept() & traps) == traps;
    fesetenv(FE_DFL_ENV);
    if (!can) {
        print_message("SKIPPED: this processor has no traps\n");
        skip();
    }
    compare_with(FE_TONEAREST, traps, "traps");
}

static void rounding_of_the_caller_is_held(void **state)
{
    (void)state;
    compare_with(FE_UPWARD, 0, "rounding");
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

int main(void)
{
    char here[4096];
    if (getcwd(here, sizeof here) == NULL)
        return 1;
    snprintf(checkpoint, sizeof checkpoint, "%s/tests/models/checkpoints/bert", here);
    tiny_enter();
    write_file("text.txt", "The cats sat");
    write_file("new.jsonl", "{\"text\": \"aab\"}\n{\"text\": \"b\"}\n");
    if (mkdir("texts", 0700) != 0)
        return 1;
    write_file("texts/train.tsv", "x\ta\ny\tb\nx\taa\ny\tbb\nx\taaa\ny\tbbb\nx\taaaa\ny\tbbbb\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traps_of_the_caller_are_held),
        cmocka_unit_test(rounding_of_the_caller_is_held),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tiny_leave();
    return failed;
}
