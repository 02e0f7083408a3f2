/* Introspection: every mechanism and option is listed, and `set` accepts every default. Planted and caught:
   an option row read at the index of the mechanism; `get` writing its NUL past the buffer; the default
   returned instead of the current value; tensors listed in the order of the options; a mechanism leaked after
   its options could not be allocated.
   SPDX-License-Identifier: Apache-2.0 */
#include "api/introspect.h"

#include <stdio.h>
#include <string.h>

#include "api/handles.h"
#include "support/api_context.h"
#include "support/linear_mechanism.h"

static void every_option_takes_its_own_text(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    assert_true(hashattn_mechanism_count() >= 4);
    for (size_t m = 0; m < hashattn_mechanism_count(); m++) {
        assert_int_equal(hashattn_mechanism_get(m, &info), 1);
        assert_true(info.name[0] != '\0' && info.summary[0] != '\0');
        assert_non_null(info.departures); /* and it ends: */
        for (const char *const *each = info.departures; *each != NULL; each++)
            assert_true((*each)[0] != '\0');
        hashattn_attention *attention;
        check_ok(context, hashattn_attention_new(context, info.name, &attention));
        hashattn_option row = {.struct_size = sizeof row};
        size_t count = 0;
        for (; hashattn_mechanism_option(m, count, &row); count++) {
            char text[64];
            assert_string_equal(row.owner, "attention");
            assert_true(row.help[0] != '\0');
            check_ok(context, hashattn_attention_get(attention, row.name, text, sizeof text));
            assert_string_equal(text, row.preset);
            check_ok(context, hashattn_attention_set(attention, row.name, text));
            if (row.type == HASHATTN_OPTION_CHOICE)
                for (const char *const *choice = row.choices; *choice != NULL; choice++) {
                    check_ok(context, hashattn_attention_set(attention, row.name, *choice));
                    check_ok(context, hashattn_attention_get(attention, row.name, text, sizeof text));
                    assert_string_equal(text, *choice);
                }
            else
                assert_null(row.choices);
        }
        assert_int_equal(count, info.num_options);
        assert_int_equal(hashattn_mechanism_option(m, 0, &row), count > 0);
        hashattn_attention_free(attention);
    }
    assert_int_equal(hashattn_mechanism_get(hashattn_mechanism_count(), &info), 0);
    hashattn_option row = {.struct_size = sizeof row};
    assert_int_equal(hashattn_mechanism_option(hashattn_mechanism_count(), 0, &row), 0);
    hashattn_context_free(context);
}

static void known_mechanisms_are_listed(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int exact;
    } want[] = {{"softmax", 1}, {"none", 1}, {"yoso", 0}, {"yoso-e", 1}};
    for (size_t i = 0; i < 4; i++) {
        hashattn_mechanism_info info = {.struct_size = sizeof info};
        size_t m = 0;
        while (hashattn_mechanism_get(m, &info) && strcmp(info.name, want[i].name) != 0)
            m++;
        assert_true(m < hashattn_mechanism_count());
        assert_int_equal(info.exact, want[i].exact);
        assert_int_equal(info.num_params, 0);
        assert_int_equal(info.has_own_loss, 0);
    }
    hashattn_mechanism_info info = {.struct_size = sizeof info};
    for (size_t m = 0; hashattn_mechanism_get(m, &info); m++)
        assert_int_equal(info.has_own_loss,
                         strcmp(info.name, "lha") == 0 || strcmp(info.name, "routing") == 0);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_attention *attention = (void *)context;
    check_call(context, hashattn_attention_new(context, "sofmax", &attention), HASHATTN_INVALID,
               "no mechanism 'sofmax', there are: softmax, ");
    assert_null(attention);
    check_call(context, hashattn_attention_new(context, NULL, &attention), HASHATTN_INVALID, "'NULL'");
    assert_int_equal(hashattn_attention_new(NULL, "yoso", &attention), HASHATTN_INVALID);
    assert_int_equal(hashattn_attention_new(context, "yoso", NULL), HASHATTN_INVALID);
    check_ok(context, hashattn_attention_new(context, "yoso", &attention));
    check_call(context, hashattn_attention_set(attention, "num_hashes", "100000000"), HASHATTN_INVALID,
               "num_hashes is 100000000, allowed are 1 to ");
    check_call(context, hashattn_attention_set(attention, "hash_bits", "40"), HASHATTN_INVALID,
               "hash_bits is 40, allowed are 1 to 24");
    check_call(context, hashattn_attention_set(attention, "hash_bits", "9x"), HASHATTN_INVALID, "'9x'");
    check_call(context, hashattn_attention_set(attention, "hashbits", "9"), HASHATTN_INVALID,
               "yoso has no option 'hashbits'");
    check_call(context, hashattn_attention_set(attention, "planes", "flat"), HASHATTN_INVALID,
               "planes is 'flat', allowed are ");
    check_call(context, hashattn_attention_set(attention, NULL, "9"), HASHATTN_INVALID, "name");
    check_call(context, hashattn_attention_set(attention, "hash_bits", NULL), HASHATTN_INVALID, "text");
    char text[64];
    check_call(context, hashattn_attention_get(attention, "hashbits", text, sizeof text), HASHATTN_INVALID,
               "hashbits");
    check_call(context, hashattn_attention_get(attention, NULL, text, sizeof text), HASHATTN_INVALID, "name");
    check_call(context, hashattn_attention_get(attention, "hash_bits", NULL, 0), HASHATTN_INVALID, "buffer");
    assert_int_equal(hashattn_attention_set(NULL, "a", "b"), HASHATTN_INVALID);
    assert_int_equal(hashattn_attention_get(NULL, "a", text, 1), HASHATTN_INVALID);
    hashattn_attention_free(attention);
    hashattn_attention_free(NULL);
    hashattn_context_free(context);
}

static void auto_is_settled(void **state)
{
    (void)state;
    static const char *const asked[][3] = {{"orthogonal", "f32", "f32"},
                                           {"hadamard", "auto", "int16-dp"},
                                           {"hadamard-paper", "f32", "f32"},
                                           {"gaussian", "auto", NULL}};
    hashattn_context *context = context_with(1, NULL);
    hashattn_description is = {.struct_size = sizeof is};
    hashattn_context_describe(context, &is);
    for (size_t i = 0; i < 4; i++) {
        hashattn_attention *attention;
        char text[32];
        check_ok(context, hashattn_attention_new(context, "yoso", &attention));
        check_ok(context, hashattn_attention_set(attention, "planes", asked[i][0]));
        check_ok(context, hashattn_attention_set(attention, "projection", asked[i][1]));
        check_ok(context, hashattn_attention_settle(attention));
        check_ok(context, hashattn_attention_get(attention, "projection", text, sizeof text));
        assert_string_equal(text, asked[i][2] == NULL ? is.projection : asked[i][2]);
        hashattn_attention_free(attention);
    }
    hashattn_attention *softmax;
    check_ok(context, hashattn_attention_new(context, "softmax", &softmax));
    check_ok(context, hashattn_attention_settle(softmax)); /* nothing to settle */
    assert_int_equal(hashattn_attention_settle(NULL), HASHATTN_INVALID);
    hashattn_attention_free(softmax);
    hashattn_context_free(context);
}

static void an_option_may_name_its_mechanism(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_attention *attention;
    char text[8];
    check_ok(context, hashattn_attention_new(context, "yoso", &attention));
    check_ok(context, hashattn_attention_set(attention, "yoso.num_hashes", "7"));
    check_ok(context, hashattn_attention_get(attention, "num_hashes", text, sizeof text));
    assert_string_equal(text, "7");
    check_ok(context, hashattn_attention_get(attention, "yoso.num_hashes", text, sizeof text));
    assert_string_equal(text, "7");
    check_call(context, hashattn_attention_set(attention, "yoso.num_hashes", "0"), HASHATTN_INVALID,
               "yoso: num_hashes is 0, allowed are 1 to 4096");
    check_call(context, hashattn_attention_set(attention, "yoso-e.hash_bits", "3"), HASHATTN_INVALID,
               "yoso has no option 'yoso-e.hash_bits'");
    check_call(context, hashattn_attention_get(attention, "lha.num_buckets", text, sizeof text),
               HASHATTN_INVALID, "yoso has no option 'lha.num_buckets'");
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

static void text_is_never_longer_than_its_room(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    hashattn_attention *attention;
    check_ok(context, hashattn_attention_new(context, "yoso", &attention));
    check_ok(context, hashattn_attention_set(attention, "num_hashes", "128"));
    char text[8];
    memset(text, 'x', sizeof text);
    check_call(context, hashattn_attention_get(attention, "num_hashes", text, 3), HASHATTN_INVALID,
               "needs 4 chars, there is room for 3");
    assert_int_equal(text[0], 'x');
    check_ok(context, hashattn_attention_get(attention, "num_hashes", text, 4));
    assert_string_equal(text, "128");
    assert_int_equal(text[4], 'x');
    hashattn_attention_free(attention);
    hashattn_context_free(context);
}

static void tensors_have_their_shapes(void **state)
{
    (void)state;
    hashattn_context *context = context_with(1, NULL);
    struct linear_options options = {.features = 5};
    struct hashattn_attention attention = {
        .context = context, .mechanism = &linear_mechanism, .options = &options};
    hashattn_tensor tensor = {.struct_size = sizeof tensor};
    assert_int_equal(hashattn_attention_tensor(&attention, 7, 3, 0, 0, &tensor), 1);
    assert_string_equal(tensor.name, "project");
    assert_int_equal(tensor.rows, 5);
    assert_int_equal(tensor.cols, 7);
    size_t count = 1;
    while (hashattn_attention_tensor(&attention, 7, 3, 0, count, &tensor))
        count++;
    assert_string_equal(tensor.name, "gain");
    assert_int_equal(tensor.rows * tensor.cols, 3);
    assert_int_equal(count, 2);
    assert_int_equal(hashattn_attention_tensor(NULL, 7, 3, 0, 0, &tensor), 0);
    hashattn_context_free(context);
}

static hashattn_status make_one(hashattn_context *context, void *user)
{
    (void)user;
    hashattn_attention *attention;
    hashattn_status status = hashattn_attention_new(context, "yoso", &attention);
    assert_true((status == HASHATTN_OK) == (attention != NULL));
    hashattn_attention_free(attention);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    check_every_failing_allocation(make_one, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_takes_its_own_text),
        cmocka_unit_test(known_mechanisms_are_listed),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(auto_is_settled),
        cmocka_unit_test(an_option_may_name_its_mechanism),
        cmocka_unit_test(text_is_never_longer_than_its_room),
        cmocka_unit_test(tensors_have_their_shapes),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
