/* Which mechanisms round the operands of products with precision bf16: those whose results change, on every
   instruction set. attention.h lists them, and the list is read from there. Bugs planted and caught: a
   mechanism missing from the list; one in the list that does not round.
   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/attention_case.h"
#include "support/check.h"
#include "support/header_text.h"

enum { SHORT = 150, LONG = 600, DIM = 16 }; /* LONG: more tokens than yoso has codes */

static struct attention_result run(const struct mechanism *mechanism, const void *options,
                                   const struct kernels *kernels, size_t rows, enum precision precision)
{
    struct attention_case problem =
        attention_case_of_head(mechanism->name, options, mechanism->options_size, rows, rows, DIM, DIM);
    problem.kernels = kernels;
    problem.max_len = rows;
    problem.precision = precision;
    problem.call_key = 123;
    attention_case_fill(&problem, 1, false);
    struct attention_result result = attention_case_run(&problem);
    attention_case_free(&problem);
    return result;
}

static bool rounds(const struct mechanism *mechanism, const struct kernels *kernels, size_t rows)
{
    void *options = calloc(1, mechanism->options_size + 1);
    options_preset(mechanism->options, options);
    struct attention_result exact = run(mechanism, options, kernels, rows, PRECISION_FLOAT32),
                            rounded = run(mechanism, options, kernels, rows, PRECISION_BF16);
    bool changed = memcmp(exact.out, rounded.out, rows * DIM * sizeof(float)) != 0;
    attention_result_free(&exact);
    attention_result_free(&rounded);
    free(options);
    return changed;
}

static void the_header_lists_the_mechanisms_that_round(void **state)
{
    (void)state;
    char *text = header_text("attention.h");
    for (const struct kernels *const *kernels = kernels_all(); *kernels != NULL; kernels++) {
        char list[600] = "rounds the operands of products to bfloat16 in dense layers and in the mechanisms";
        for (const struct mechanism *const *m = attention_mechanisms(); *m != NULL; m++)
            if (rounds(*m, *kernels, SHORT))
                snprintf(list + strlen(list), sizeof list - strlen(list), " %s,", (*m)->name);
            else if (rounds(*m, *kernels, LONG))
                assert_string_equal((*m)->name, "yoso"); /* it rounds values, not products */
        list[strlen(list) - 1] = ';';
        if (strstr(text, list) == NULL)
            fail_msg("attention.h, with kernels %s, does not say: %s", (*kernels)->name, list);
        assert_non_null(strstr(text, "yoso then sums values in tables of 16-bit integers"));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_header_lists_the_mechanisms_that_round)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
