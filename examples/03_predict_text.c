/* Using a trained model: labels each document of a file.
     hashattn train text --data mail --out filter
     cc 03_predict_text.c $(pkg-config --cflags --libs hashattn) -o label && ./label filter new.jsonl
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <hashattn/hashattn.h>

/* Called for each document, in the order of the file. */
static int print_label(void *user, size_t document, size_t best_class, const float *probabilities)
{
    const hashattn_model *model = (const hashattn_model *)user;
    printf("%zu\t%s\t%.3f\n", document + 1, hashattn_model_label(model, best_class),
           (double)probabilities[best_class]);
    return 0; /* any other value stops */
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s RUN FILE   (.jsonl, .tsv or .txt)\n", argv[0]);
        return 2;
    }
    hashattn_context *context;
    char message[512];
    if (hashattn_context_new(NULL, message, sizeof message, &context) != HASHATTN_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    hashattn_model *model;
    hashattn_status status = hashattn_model_load(context, argv[1], &model);
    if (status == HASHATTN_OK)
        status = hashattn_model_predict_file(model, argv[2], 1, print_label, model, NULL);
    if (status != HASHATTN_OK)
        fprintf(stderr, "%s\n", hashattn_context_message(context));
    hashattn_model_free(model);
    hashattn_context_free(context);
    return hashattn_status_exit_code(status);
}
