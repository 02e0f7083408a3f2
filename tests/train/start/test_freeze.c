/* Which floats are trained: every way to name parameters, against a list of tensors, and wrong names. Bugs
   planted and caught: names compared without the dot, so that layer 1 froze layer 10; the last of several
   names ignored; the padding after a trained tensor left out, so that neighbours were two ranges; a list that
   froze everything accepted; all-but-own read as trunk, so that objectives were trained; layer 10 as the end
   of the layers before layer 1; every learned tensor taken for one of an own loss.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/start/freeze.h"

#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/small_run.h"

static struct model *model_of(struct small_run *small, const char *mechanism)
{
    struct model *model;
    small_run_init(small, mechanism, 8, 2);
    small_run_set(small, "layers", "11");
    check_status(&small->host, model_new(&small->host, &small->config.model, &model), HASHATTN_OK, NULL);
    return model;
}

/* Fails unless exactly the tensors that begin with one of the words are frozen. */
static void check_last(struct host *host, const struct model *model, const char *list, int64_t last,
                       const char *const *words)
{
    const struct params *params = model_params(model);
    struct param_range *ranges;
    size_t count, frozen = 0, runs = 0;
    bool before = false;
    check_status(host, freeze_ranges(host, list, last, model, &ranges, &count), HASHATTN_OK, NULL);
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        bool wanted = false, trained = false;
        for (size_t k = 0; words[k] != NULL; k++)
            wanted |= strncmp(row->name, words[k], strlen(words[k])) == 0;
        for (size_t k = 0; k < count; k++)
            trained |= row->offset >= ranges[k].first &&
                       row->offset + row->count <= ranges[k].first + ranges[k].count;
        if (trained == wanted)
            fail_msg("%s: %s is %s", list, row->name, trained ? "trained" : "frozen");
        frozen += wanted;
        runs += trained && !before;
        before = trained;
    }
    assert_true(frozen > 0);
    assert_int_equal(count, runs); /* neighbours are one range */
    for (size_t k = 0; k + 1 < count; k++)
        assert_true(ranges[k].first + ranges[k].count < ranges[k + 1].first);
    memory_free(host, ranges);
}

static void check_frozen(struct host *host, const struct model *model, const char *list,
                         const char *const *words)
{
    check_last(host, model, list, 0, words);
}

static void last_layers_are_trained_with_what_follows(void **state)
{
    (void)state;
    struct small_run small;
    struct model *model = model_of(&small, "yoso");
    struct host *host = &small.host;
    struct param_range *ranges;
    size_t count;
    check_last(host, model, "", 11, (const char *const[]){"embeddings.", NULL});
    check_last(host, model, "", 9,
               (const char *const[]){"embeddings.", "encoder.layer.0.", "encoder.layer.1.", NULL});
    check_last(host, model, "encoder.layer.10", 9,
               (const char *const[]){"embeddings.", "encoder.layer.0.", "encoder.layer.1.",
                                     "encoder.layer.10.", NULL});
    check_last(host, model, "", 1,
               (const char *const[]){"embeddings.", "encoder.layer.0.", "encoder.layer.1.",
                                     "encoder.layer.2.", "encoder.layer.3.", "encoder.layer.4.",
                                     "encoder.layer.5.", "encoder.layer.6.", "encoder.layer.7.",
                                     "encoder.layer.8.", "encoder.layer.9.", NULL});
    check_status(host, freeze_ranges(host, "", 12, model, &ranges, &count), HASHATTN_INVALID,
                 "train_last is 12, the model has 11 layers");
    model_free(host, model);
    small_run_free(&small);
}

static void names_are_tensors_or_parts(void **state)
{
    (void)state;
    struct small_run small;
    struct model *model = model_of(&small, "yoso");
    struct host *host = &small.host;
    check_frozen(host, model, "trunk", (const char *const[]){"embeddings.", "encoder.", "layernorm.", NULL});
    check_frozen(host, model, "embeddings", (const char *const[]){"embeddings.", NULL});
    check_frozen(host, model, "encoder.layer.1", (const char *const[]){"encoder.layer.1.", NULL});
    check_frozen(host, model, "classifier.dense.bias,encoder.layer.10",
                 (const char *const[]){"classifier.dense.bias", "encoder.layer.10.", NULL});
    struct param_range *ranges;
    size_t count = 7;
    check_status(host, freeze_ranges(host, "", 0, model, &ranges, &count), HASHATTN_OK, NULL);
    assert_true(ranges == NULL && count == 0);
    model_free(host, model);
    small_run_free(&small);
}

/* Two heads, one of lha: its hashes are trained, in every layer. */
static void all_but_own_trains_what_mechanisms_learn(void **state)
{
    (void)state;
    struct small_run small;
    struct model *model = model_of(&small, "softmax,lha");
    struct host *host = &small.host;
    const struct params *params = model_params(model);
    struct param_range *ranges;
    size_t count, own = 0, trained = 0;
    check_status(host, freeze_ranges(host, "all-but-own", 0, model, &ranges, &count), HASHATTN_OK, NULL);
    assert_int_equal(count, 11);
    for (size_t i = 0; i < params->num_rows; i++) {
        const struct param *row = &params->rows[i];
        bool learned = strstr(row->name, ".attention.own.lha.") != NULL, in = false;
        for (size_t k = 0; k < count; k++)
            in |= row->offset >= ranges[k].first &&
                  row->offset + row->count <= ranges[k].first + ranges[k].count;
        if (in != learned)
            fail_msg("%s is %s", row->name, in ? "trained" : "frozen");
        own += learned;
        trained += in;
    }
    assert_true(own > 11 && trained == own);
    memory_free(host, ranges);
    model_free(host, model);
    small_run_free(&small);
}

/* Only what an own loss trains is left: with all-but-own, if no other mechanism learns anything. */
static void own_losses_may_be_all_that_is_left(void **state)
{
    (void)state;
    const struct {
        const char *mechanisms, *list;
        bool left;
    } cases[] = {
        {"lha", "all-but-own", true},
        {"softmax,lha", "all-but-own", true},
        {"softmax/lha,routing", "all-but-own", true},
        {"linformer,lha", "all-but-own", false}, /* the task trains its projections */
        {"lha", "trunk", false},
        {"lha", "classifier", false},
        {"lha", "", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct small_run small;
        struct model *model = model_of(&small, cases[i].mechanisms);
        struct param_range *ranges;
        size_t count;
        check_status(&small.host, freeze_ranges(&small.host, cases[i].list, 0, model, &ranges, &count),
                     HASHATTN_OK, NULL);
        assert_int_equal(freeze_leaves_own_losses(model, ranges, count), cases[i].left);
        memory_free(&small.host, ranges);
        model_free(&small.host, model);
        small_run_free(&small);
    }
}

static void wrong_names_are_refused(void **state)
{
    (void)state;
    struct small_run small;
    struct model *model = model_of(&small, "yoso");
    struct host *host = &small.host;
    struct param_range *ranges;
    size_t count;
    const struct {
        const char *list, *message;
    } wrong[] = {
        {"trunk,embedding", "no parameter is called 'embedding'; the model has the parts trunk, all-but-own, "
                            "embeddings, encoder.layer.0, encoder.layer.1, "},
        {"encoder.layer.11", "no parameter is called 'encoder.layer.11'"},
        {"embeddings,", "no parameter is called ''"},
        {"encoder.laye", "encoder.layer.10, layernorm, classifier"},
        {"classifier,trunk", "freeze is 'classifier,trunk', which leaves no parameter to train"},
        {"all-but-own", "freeze is 'all-but-own', which leaves no parameter to train"}, /* yoso learns none */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        check_status(host, freeze_ranges(host, wrong[i].list, 0, model, &ranges, &count), HASHATTN_INVALID,
                     wrong[i].message);
        assert_null(ranges);
    }
    struct failing_host failing;
    for (long n = 0; n < 2; n++) {
        failing_host_init(&failing, n);
        check_status(&failing.host, freeze_ranges(&failing.host, "trunk", 0, model, &ranges, &count),
                     HASHATTN_NO_MEMORY, NULL);
        assert_true(failing.outstanding == 0 && ranges == NULL);
    }
    model_free(host, model);
    small_run_free(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_tensors_or_parts),
        cmocka_unit_test(last_layers_are_trained_with_what_follows),
        cmocka_unit_test(all_but_own_trains_what_mechanisms_learn),
        cmocka_unit_test(own_losses_may_be_all_that_is_left),
        cmocka_unit_test(wrong_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
