/* Training from a program: generates a data set, trains an encoder on it, and stops when it has learned.
     cc 02_train_needle.c $(pkg-config --cflags --libs hashattn) -o train && ./train needles run
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <hashattn/hashattn.h>

/* Called after every step. Requests a clean stop, with everything saved, when the accuracy reaches 95 %. The
   list of validation metrics is empty, and the accuracy NaN, except at the end of an evaluation. */
static int watch(void *user, const hashattn_progress *now)
{
    (void)user;
    double accuracy = hashattn_metric_value(&now->valid, "accuracy");
    if (now->valid.count > 0)
        printf("step %lld: loss %.3f, accuracy on unseen examples %.3f, %.0f tokens/s\n",
               (long long)now->step, hashattn_metric_value(&now->train, "loss"), accuracy,
               now->tokens_per_second);
    return accuracy >= 0.95;
}

static hashattn_status train(hashattn_context *context, const char *data, const char *run)
{
    /* A setup has everything that determines a run; `hashattn train needle --help` lists its options. */
    static const char *const options[][2] = {
        {"seq_len", "64"}, {"marks", "8"}, {"steps", "400"}, {"eval_every", "20"}, {"seed", "1"}};
    static const size_t counts[3] = {8000, 200, 500}; /* train, valid, test */
    hashattn_setup *setup;
    hashattn_status status = hashattn_setup_new(context, "needle", &setup);
    for (size_t i = 0; i < sizeof options / sizeof options[0] && status == HASHATTN_OK; i++)
        status = hashattn_setup_set(setup, options[i][0], options[i][1]);
    if (status == HASHATTN_OK)
        status = hashattn_setup_generate(setup, data, counts, 1);
    if (status == HASHATTN_OK)
        status = hashattn_train(setup, data, run, watch, NULL);
    hashattn_setup_free(setup);
    /* INTERRUPTED is the stop that we requested; hashattn_train_resume would continue. */
    return status == HASHATTN_INTERRUPTED ? HASHATTN_OK : status;
}

static hashattn_status test(hashattn_context *context, const char *run)
{
    hashattn_model *model;
    hashattn_evaluation result = {.struct_size = sizeof result};
    hashattn_status status = hashattn_model_load(context, run, &model);
    if (status == HASHATTN_OK)
        status = hashattn_model_evaluate(model, NULL, "test", 1, &result);
    if (status == HASHATTN_OK)
        printf("test: accuracy %.3f; always the most frequent class: %.3f\n",
               hashattn_metric_value(&result.metrics, "accuracy"),
               hashattn_metric_value(&result.metrics, "majority"));
    hashattn_model_free(model);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s DATA RUN   (two directories that do not exist yet)\n", argv[0]);
        return 2;
    }
    hashattn_context *context;
    char message[512];
    if (hashattn_context_new(NULL, message, sizeof message, &context) != HASHATTN_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    hashattn_status status = train(context, argv[1], argv[2]);
    if (status == HASHATTN_OK)
        status = test(context, argv[2]);
    if (status != HASHATTN_OK)
        fprintf(stderr, "%s\n", hashattn_context_message(context));
    hashattn_context_free(context);
    return hashattn_status_exit_code(status);
}
