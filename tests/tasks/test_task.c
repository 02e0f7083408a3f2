/* The table of tasks: complete rows, unique names, presets that a trainer can use.
   Covers: task.c task_table.c
   Bugs planted and caught: the first label everywhere, labels without their NUL, no objective, an objective
   written over the last one, a preset of an option that no mechanism has.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/task.h"

#include <string.h>

#include "attention/driver/attention.h"
#include "support/check.h"

/* Each OPTION=VALUE belongs to at least one mechanism, and every mechanism with the option accepts the
   value. */
static void check_attention(const char *text)
{
    char copy[200], *at = copy;
    size_t length;
    assert_true(text == NULL || strlen(text) < sizeof copy);
    strcpy(copy, text == NULL ? "" : text);
    for (; (length = strcspn(at, " ")) > 0; at += strspn(at, " ")) {
        char *name = at, *value = memchr(at, '=', length);
        bool more = at[length] != '\0';
        at += length + more;
        assert_non_null(value);
        name[length] = *value++ = '\0';
        size_t taken = 0;
        for (const struct mechanism *const *all = attention_mechanisms(); *all != NULL; all++) {
            uint64_t options[64];
            struct host host;
            host_init(&host);
            assert_true((*all)->options_size <= sizeof options);
            options_preset((*all)->options, options);
            if (option_find((*all)->options, name) == NULL)
                continue;
            check_status(&host, option_set(&host, (*all)->options, (*all)->name, options, name, value),
                         HASHATTN_OK, NULL);
            taken++;
        }
        assert_true(taken > 0);
    }
}

static void check_preset(const struct task_preset *preset)
{
    assert_true(preset->steps > preset->warmup && preset->warmup > 0);
    assert_true(preset->batch > 0 && preset->eval_every > 0 && preset->eval_every <= preset->steps);
    assert_true(preset->learning_rate > 0 && preset->learning_rate < 0.1);
    assert_true(preset->layers > 0 && preset->heads > 0 && preset->dim % preset->heads == 0);
    assert_true(preset->ffn > 0);
    check_attention(preset->attention);
    assert_true(strcmp(preset->pooling, "mean") == 0 || strcmp(preset->pooling, "mean-padded") == 0 ||
                strcmp(preset->pooling, "first") == 0);
}

static void every_row_is_complete(void **state)
{
    (void)state;
    size_t count = 0;
    for (const struct task *const *task = task_table; *task != NULL; task++, count++) {
        const struct task *one = *task;
        assert_ptr_equal(task_find(one->name), one);
        assert_true(strlen(one->summary) > 10);
        assert_non_null(one->facts);
        assert_non_null(one->load);
        check_preset(&one->preset);
        if (one->lra.steps != 0)
            check_preset(&one->lra);
        for (const struct option_row *row = one->options; row->name != NULL; row++) {
            size_t bytes =
                row->type == OPTION_INT || row->type == OPTION_REAL ? sizeof(int64_t) : sizeof(int);
            assert_true(row->offset + bytes <= one->options_size);
            assert_ptr_equal(option_find(one->options, row->name), row);
            assert_true(row->type == OPTION_CHOICE || row->type == OPTION_FLAG ||
                        (row->preset >= row->minimum && row->preset <= row->maximum));
            assert_true(strlen(row->help) > 10);
        }
    }
    assert_int_equal(count, 5);
    assert_null(task_find("listop"));
    assert_null(task_find(""));
    assert_string_equal(split_name(SPLIT_VALID), "valid");
}

static void facts_are_copied(void **state)
{
    (void)state;
    char first[] = "one", second[] = "";
    const char *const labels[] = {first, second};
    bool done = false;
    for (long n = 0; !done; n++) {
        struct failing_host failing;
        struct task_facts facts;
        failing_host_init(&failing, n);
        hashattn_status status = task_facts_new(&failing.host, 5, 6, labels, 2, &facts);
        done = status == HASHATTN_OK;
        assert_int_equal(status, n < 3 ? HASHATTN_NO_MEMORY : HASHATTN_OK);
        if (done) {
            assert_true(facts.vocab_size == 5 && facts.max_len == 6 && facts.num_classes == 2);
            assert_true(facts.num_objectives == 1 && facts.objectives[0].num_outputs == 2);
            assert_string_equal(facts.objectives[0].name, "classify");
            first[0] = 'x';
            assert_string_equal(facts.labels[0], "one");
            assert_string_equal(facts.labels[1], "");
            task_facts_free(&failing.host, &facts);
        }
        assert_null(facts.labels);
        assert_int_equal(facts.num_classes, 0);
        assert_int_equal(failing.outstanding, 0);
    }
    struct host host;
    struct task_facts facts;
    host_init(&host);
    check_status(&host, task_facts_new(&host, 5, 6, NULL, 0, &facts), HASHATTN_OK, NULL);
    task_facts_free(&host, &facts);
}

static void objectives_are_listed_in_order(void **state)
{
    (void)state;
    struct task_facts facts = {0};
    static const char *const names[TASK_OBJECTIVES] = {"classify", "next_token", "a", ""};
    for (size_t i = 0; i < TASK_OBJECTIVES; i++)
        task_facts_add(&facts, names[i], 10 + i, i);
    assert_int_equal(facts.num_objectives, TASK_OBJECTIVES);
    for (size_t i = 0; i < TASK_OBJECTIVES; i++) {
        assert_string_equal(facts.objectives[i].name, names[i]);
        assert_true(facts.objectives[i].weight == 1 && facts.objectives[i].num_outputs == 10 + i);
        assert_int_equal(facts.objectives[i].first_output, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_complete),
        cmocka_unit_test(facts_are_copied),
        cmocka_unit_test(objectives_are_listed_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
