/* Plans of heads: the meaning of texts in every layer, invalid texts, and options by name. Models of mixed
   heads are in test_model.c. Bugs planted and caught: shares that do not divide evenly; a number of heads
   followed by letters; an option left set after another mechanism refused it.
   SPDX-License-Identifier: Apache-2.0 */
#include "models/head_plan.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/single_plan.h"

/* The heads of a layer, a letter each: l(ocal), s(oftmax), n(one). */
static void heads_of(const struct head_plan *plan, size_t layer, size_t heads, char *text)
{
    struct head_group groups[HEAD_GROUPS];
    size_t count = head_plan_groups(plan, layer, heads, groups);
    for (size_t g = 0; g < count; g++)
        for (size_t h = 0; h < groups[g].heads; h++)
            *text++ = groups[g].mechanism->name[0];
    *text = '\0';
}

static void texts_say_who_has_which_head(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t heads, used, lists;
        const char *layers[3];
    } cases[] = {
        {"local", 4, 1, 1, {"llll", "llll", "llll"}},
        {"local*2,none*2", 4, 2, 1, {"llnn", "llnn", "llnn"}},
        {"local,none", 4, 2, 1, {"llnn", "llnn", "llnn"}},
        {"local*1,none", 4, 2, 1, {"lnnn", "lnnn", "lnnn"}},
        {"local,none*1,softmax", 5, 3, 1, {"llnss", "llnss", "llnss"}},
        {"none*1,local*1,none*1", 3, 2, 1, {"nln", "nln", "nln"}},
        {"softmax/local*1,none", 3, 3, 2, {"sss", "lnn", "lnn"}},
        {"softmax/local/none", 2, 3, 3, {"ss", "ll", "nn"}},
        {"softmax*2/softmax", 2, 1, 2, {"ss", "ss", "ss"}},
    };
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct head_plan plan;
        check_status(&host, head_plan_new(&host, cases[i].text, &plan), HASHATTN_OK, NULL);
        assert_string_equal(plan.text, cases[i].text);
        assert_int_equal(plan.num_used, cases[i].used);
        assert_int_equal(plan.num_lists, cases[i].lists);
        for (size_t layer = 0; layer < 3; layer++) {
            char heads[64];
            heads_of(&plan, layer, cases[i].heads, heads);
            assert_string_equal(heads, cases[i].layers[layer]);
        }
        check_status(&host, head_plan_check(&host, &plan, 3, cases[i].heads), HASHATTN_OK, NULL);
        head_plan_free(&host, &plan);
    }
}

static void what_is_no_plan_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "no mechanism '', there are: softmax, "},
        {"sofmax", "no mechanism 'sofmax', there are: softmax, "},
        {"local,", "no mechanism ''"},
        {"local//none", "no mechanism ''"},
        {"/local", "no mechanism ''"},
        {"local/", "no mechanism ''"},
        {" local", "no mechanism ' local'"},
        {"local*", "gives local '' heads, allowed are 1 to 256"},
        {"local*0", "gives local '0' heads"},
        {"local*257", "gives local '257' heads"},
        {"local*99999999999999999999", "gives local"},
        {"local*-1", "gives local '-1' heads"},
        {"local*2x,none", "gives local '2x' heads"},
        {"local*2*3", "gives local '2*3' heads"},
        {"none,none,none,none,none,none,none,none,none", "a list of more than 8"},
        {"none/none/none/none/none/none/none/none/none/none/none/none/none/none/none/none/none/none/none/"
         "none/"
         "none/none/none/none/none/none/none/none/none/none/none/none/none",
         "more than 32 lists"},
        {"softmax*1,softmax*1,softmax*1,softmax*1,softmax*1,softmax*1/"
         "softmax*1,softmax*1,softmax*1,softmax*1,"
         "softmax*1,softmax*1/softmax*1,softmax*1,softmax*1,softmax*1,softmax*1,softmax*1/"
         "softmax*1,softmax*1,"
         "softmax*1,softmax*1,softmax*1,softmax*1,softmax*1,softmax*1",
         "is 259 long, at most 255 fit"},
    };
    struct host host;
    host_init(&host);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct head_plan plan;
        check_status(&host, head_plan_new(&host, cases[i].text, &plan), HASHATTN_INVALID, cases[i].part);
        assert_int_equal(plan.num_used, 0);
    }
}

/* 8 mechanisms in a list, 32 lists, 256 heads, 255 characters. */
static void the_longest_plans_are_read(void **state)
{
    (void)state;
    struct host host;
    struct head_plan plan;
    struct head_group groups[HEAD_GROUPS];
    char text[PLAN_TEXT];
    host_init(&host);
    check_status(&host, head_plan_new(&host, "none*1,none,none,none,none,none,none,local*1", &plan),
                 HASHATTN_OK, NULL);
    assert_int_equal(head_plan_groups(&plan, 0, 8, groups), HEAD_GROUPS);
    head_plan_free(&host, &plan);
    assert_true(plan.num_used == 0 && plan.num_lists == 0 && plan.text[0] == '\0');
    check_status(&host, head_plan_new(&host, "local*256", &plan), HASHATTN_OK, NULL);
    assert_int_equal(head_plan_groups(&plan, 0, 256, groups), 1);
    assert_int_equal(groups[0].heads, 256);
    head_plan_free(&host, &plan);
    strcpy(text, "none");
    for (int i = 1; i < PLAN_LISTS; i++)
        strcat(text, "/none");
    check_status(&host, head_plan_new(&host, text, &plan), HASHATTN_OK, NULL);
    assert_int_equal(plan.num_lists, PLAN_LISTS);
    check_status(&host, head_plan_check(&host, &plan, PLAN_LISTS, 1), HASHATTN_OK, NULL);
    head_plan_free(&host, &plan);
    memset(text, 'x', sizeof text);
    text[PLAN_TEXT - 1] = '\0';
    check_status(&host, head_plan_new(&host, text, &plan), HASHATTN_INVALID, "no mechanism 'xxx");
}

static int64_t option(const struct head_plan *plan, size_t used, const char *name)
{
    const struct option_row *row = option_find(plan->used[used].mechanism->options, name);
    return *(int64_t *)(void *)((char *)plan->used[used].options + row->offset);
}

/* Known options are set, the others are left. */
static void presets_are_read_word_by_word(void **state)
{
    (void)state;
    struct host host;
    struct head_plan plan;
    host_init(&host);
    check_status(&host, head_plan_new(&host, "local*1,lha*1", &plan), HASHATTN_OK, NULL);
    check_status(&host, head_plan_preset(&host, &plan, "hash_bits=12 num_buckets=6  block_size=17"),
                 HASHATTN_OK, NULL);
    assert_true(option(&plan, 0, "block_size") == 17 && option(&plan, 1, "num_buckets") == 6);
    check_status(&host, head_plan_preset(&host, &plan, NULL), HASHATTN_OK, NULL);
    check_status(&host, head_plan_preset(&host, &plan, "block_size=-1"), HASHATTN_INVALID,
                 "local: block_size is -1");
    head_plan_free(&host, &plan);
}

static void check_fit(const char *text, size_t layers, size_t heads, const char *part)
{
    struct host host;
    struct head_plan plan;
    host_init(&host);
    check_status(&host, head_plan_new(&host, text, &plan), HASHATTN_OK, NULL);
    check_status(&host, head_plan_check(&host, &plan, layers, heads), HASHATTN_INVALID, part);
    head_plan_free(&host, &plan);
}

static void a_plan_must_fit_the_model(void **state)
{
    (void)state;
    check_fit("local*2,none*1", 2, 4, "'local*2,none*1' does not fit 4 heads in layer 0");
    check_fit("local*2,none*3", 2, 4, "does not fit 4 heads in layer 0");
    check_fit("local*4,none", 2, 4, "does not fit 4 heads in layer 0");
    check_fit("local,none", 2, 3, "does not fit 3 heads in layer 0");
    check_fit("local/none*3", 2, 4, "does not fit 4 heads in layer 1");
    check_fit("local/none/local", 2, 4, "has lists for 3 layers, the model has 2");
}

static void options_are_of_all_or_of_one(void **state)
{
    (void)state;
    struct host host;
    struct head_plan plan, copy;
    host_init(&host);
    check_status(&host, head_plan_new(&host, "local*1,lha*1,lsh*1", &plan), HASHATTN_OK, NULL);
    assert_true(head_plan_has(&plan, "num_buckets") && head_plan_has(&plan, "block_size") &&
                head_plan_has(&plan, "lsh.num_buckets") && !head_plan_has(&plan, "local.num_buckets") &&
                !head_plan_has(&plan, "lsh_num_buckets") && !head_plan_has(&plan, "yoso.num_hashes") &&
                !head_plan_has(&plan, "num_hashes"));
    check_status(&host, head_plan_set(&host, &plan, "num_buckets", "5"), HASHATTN_OK, NULL);
    check_status(&host, head_plan_set(&host, &plan, "lsh.num_buckets", "7"), HASHATTN_OK, NULL);
    check_status(&host, head_plan_set(&host, &plan, "local.block_size", "9"), HASHATTN_OK, NULL);
    assert_true(option(&plan, 0, "block_size") == 9 && option(&plan, 1, "num_buckets") == 5 &&
                option(&plan, 2, "num_buckets") == 7);
    check_status(&host, head_plan_copy(&host, &plan, &copy), HASHATTN_OK, NULL);
    check_status(&host, head_plan_set(&host, &plan, "num_buckets", "0"), HASHATTN_INVALID,
                 "lha: num_buckets is 0");
    check_status(&host, head_plan_set(&host, &plan, "lsh.num_buckets", "x"), HASHATTN_INVALID,
                 "lsh: num_buckets is 'x'");
    check_status(&host, head_plan_set(&host, &plan, "num_hashes", "1"), HASHATTN_INVALID,
                 "local*1,lha*1,lsh*1 has no option 'num_hashes'");
    assert_true(option(&plan, 1, "num_buckets") == 5 && option(&plan, 2, "num_buckets") == 7);
    check_status(&host, head_plan_set(&host, &plan, "num_buckets", "3"), HASHATTN_OK, NULL);
    assert_true(option(&copy, 1, "num_buckets") == 5 && option(&copy, 2, "num_buckets") == 7);
    head_plan_free(&host, &plan);
    head_plan_free(&host, &copy);
}

/* The same option name with different ranges: if the second mechanism refuses, the first is restored. */
static void all_are_set_or_none(void **state)
{
    (void)state;
    static const struct option_row wide[] = {OPTION_ROW("size", OPTION_INT, 0, 1, 0, 99, NULL, "a"), {0}};
    static const struct option_row narrow[] = {OPTION_ROW("size", OPTION_INT, 0, 1, 0, 9, NULL, "a"), {0}};
    const struct mechanism first = {.name = "first", .options = wide, .options_size = 8},
                           second = {.name = "second", .options = narrow, .options_size = 8};
    int64_t sizes[2] = {3, 4};
    struct head_plan plan = single_plan(&first, &sizes[0]);
    plan.used[plan.num_used++] = (struct planned){&second, &sizes[1]};
    struct host host;
    host_init(&host);
    check_status(&host, head_plan_set(&host, &plan, "size", "50"), HASHATTN_INVALID, "second: size is 50");
    assert_true(sizes[0] == 3 && sizes[1] == 4);
    check_status(&host, head_plan_set(&host, &plan, "size", "5"), HASHATTN_OK, NULL);
    assert_true(sizes[0] == 5 && sizes[1] == 5);
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    hashattn_status status = HASHATTN_NO_MEMORY;
    for (long fail = 0; status != HASHATTN_OK; fail++) {
        struct failing_host failing;
        failing_host_init(&failing, fail);
        struct head_plan plan = {.num_used = 0}, copy = plan;
        status = head_plan_new(&failing.host, "local*1,lha*1/lsh", &plan);
        if (status == HASHATTN_OK)
            status = head_plan_copy(&failing.host, &plan, &copy);
        assert_true(status == HASHATTN_OK ? fail == 6 : status == HASHATTN_NO_MEMORY);
        head_plan_free(&failing.host, &plan);
        head_plan_free(&failing.host, &copy);
        assert_int_equal(failing.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_say_who_has_which_head), cmocka_unit_test(what_is_no_plan_is_refused),
        cmocka_unit_test(the_longest_plans_are_read),   cmocka_unit_test(presets_are_read_word_by_word),
        cmocka_unit_test(a_plan_must_fit_the_model),    cmocka_unit_test(options_are_of_all_or_of_one),
        cmocka_unit_test(all_are_set_or_none),          cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
