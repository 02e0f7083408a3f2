/* The table: every row keeps the contract of mechanism.h, so that everything derived from the rows (help,
   command line, config, parameter files) can rely on them. Bugs planted and caught: two rows of one name;
   a mechanism that neither mixes nor sees masks; a size that shrinks as rows grow; parameters counted
   without the last row; a known name answered with the list of all; tensors that depend on the longest
   length where it is 0, or with longer sequences; options of one name and two types; the mechanism's name
   before an option not cut off; a bias that decays; a mechanism that competes missing from attention.h; one
   there that does not.
   Covers: mechanisms.c mechanism_table.c
   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/driver/attention.h"
#include "support/check.h"
#include "support/header_text.h"
#include "support/linear_mechanism.h"
#include "support/placed_mechanism.h"

static void check_option(const struct mechanism *mechanism, const struct option_row *row, void *options)
{
    char text[64];
    struct host host;
    host_init(&host);
    assert_true(option_find(mechanism->options, row->name) == row);
    for (const char *c = row->name; *c != '\0'; c++)
        assert_true(islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '_');
    assert_true(strlen(row->help) > 0 && row->help[strlen(row->help) - 1] != '.');
    size_t size = row->type == OPTION_INT    ? sizeof(int64_t)
                  : row->type == OPTION_REAL ? sizeof(double)
                                             : sizeof(int);
    assert_true(row->offset + size <= mechanism->options_size);
    if (row->type == OPTION_INT || row->type == OPTION_REAL)
        assert_true(row->minimum <= row->preset && row->preset <= row->maximum);
    /* The preset is text that parses to the same options. */
    option_text(row, options, text, sizeof text);
    check_status(&host, option_set(&host, mechanism->options, mechanism->name, options, row->name, text),
                 HASHATTN_OK, NULL);
}

static struct problem_shape shape_of(size_t rows, size_t max_len)
{
    return (struct problem_shape){.num_queries = rows,
                                  .num_keys = rows,
                                  .head_dim = 64,
                                  .value_dim = 64,
                                  .max_len = max_len,
                                  .workers = 1};
}

static size_t params_at(const struct mechanism *mechanism, const void *options, size_t max_len)
{
    const struct parameter_sizes sizes = {64, 64, max_len};
    return attention_param_count(mechanism, options, &sizes);
}

/* A mechanism whose tensors depend on the longest length must refuse an unknown one and longer sequences. */
static void check_longest(const struct mechanism *mechanism, const void *options)
{
    const struct problem_shape unknown = shape_of(50, 0), longest = shape_of(100, 100),
                               longer = shape_of(101, 100);
    size_t params = params_at(mechanism, options, 100);
    bool follows = params_at(mechanism, options, 200) != params;
    assert_null(mechanism_refuses(mechanism, options, &longest));
    assert_true(follows == (mechanism_refuses(mechanism, options, &unknown) != NULL));
    assert_true(follows == (mechanism_refuses(mechanism, options, &longer) != NULL));
    assert_true(params_at(mechanism, options, 0) <= params);
}

static void check_sizes(const struct mechanism *mechanism, const void *options)
{
    static const size_t rows[] = {0, 1, 2, 63, 64, 65, 256, 257, 1000, 4096, 4097, 65536};
    size_t saved = 0, scratch = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct problem_shape shape = shape_of(rows[i], 65536);
        const char *why = mechanism_refuses(mechanism, options, &shape);
        if (why != NULL)
            fail_msg("%s refuses its presets at %zu rows: %s", mechanism->name, rows[i], why);
        assert_true(mechanism->host.saved_size(options, &shape) >= saved);
        assert_true(mechanism->host.scratch_size(options, &shape) >= scratch);
        saved = mechanism->host.saved_size(options, &shape);
        scratch = mechanism->host.scratch_size(options, &shape);
        if (mechanism->inspection != NULL)
            assert_true(mechanism->inspection->scratch_size(options, &shape) >= scratch);
        /* One key less needs no more memory. */
        if (mechanism->mixes && rows[i] > 0) {
            shape.num_keys--;
            assert_true(mechanism->host.saved_size(options, &shape) <= saved);
            assert_true(mechanism->host.scratch_size(options, &shape) <= scratch);
        }
    }
}

/* A facet has all its functions but the optional ones, or is absent. */
static void check_facets(const struct mechanism *mechanism)
{
    const struct preparation_facet *preparation = mechanism->preparation;
    const struct own_loss_facet *own_loss = mechanism->own_loss;
    const struct inspection_facet *inspection = mechanism->inspection;
    const struct stream_facet *stream = mechanism->stream;
    assert_true(preparation == NULL || (preparation->shared_size != NULL && preparation->prepare != NULL));
    assert_true(own_loss == NULL || (own_loss->compute != NULL && own_loss->share != NULL));
    assert_true(inspection == NULL || (inspection->num_groups != NULL && inspection->scratch_size != NULL &&
                                       inspection->inspect != NULL));
    assert_true(stream == NULL || (stream->state_size != NULL && stream->scratch_size != NULL &&
                                   stream->absorb != NULL && stream->read != NULL && stream->merge != NULL));
}

static void check_mechanism(const struct mechanism *mechanism)
{
    assert_true(strlen(mechanism->name) > 0 && strlen(mechanism->summary) > 0);
    assert_true(mechanism->summary[strlen(mechanism->summary) - 1] != '.');
    assert_true(mechanism->mixes || mechanism->sees_mask);
    for (const char *const *each = mechanism->departures; each != NULL && *each != NULL; each++)
        assert_true(isupper((unsigned char)(*each)[0]) || isdigit((unsigned char)(*each)[0]));
    check_facets(mechanism);
    assert_non_null(mechanism->host.forward);
    assert_true(mechanism->host.backward != NULL ||
                (mechanism->params == NULL && mechanism->own_loss == NULL));
    void *options = calloc(1, mechanism->options_size + 1);
    assert_non_null(options);
    options_preset(mechanism->options, options);
    for (const struct option_row *row = mechanism->options; row->name != NULL; row++)
        check_option(mechanism, row, options);
    check_sizes(mechanism, options);
    check_longest(mechanism, options);
    if (mechanism->own_loss != NULL)
        assert_true(mechanism->own_loss->share(options) > 0 && mechanism->own_loss->share(options) <= 1);
    free(options);
}

static void every_row_keeps_the_contract(void **state)
{
    (void)state;
    check_mechanism(&linear_mechanism);
    check_mechanism(&blind_mechanism);
    check_mechanism(&placed_mechanism);
    for (const struct mechanism *const *row = attention_mechanisms(); *row != NULL; row++) {
        check_mechanism(*row);
        assert_true(attention_find((*row)->name) == *row);
    }
    assert_null(attention_find("nothing of this name"));
    assert_string_equal(attention_find("softmax")->name, "softmax");
    assert_string_equal(attention_find("none")->name, "none");
}

static void a_name_gives_its_row_or_the_list(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    char list[300] = "there are: ";
    for (const struct mechanism *const *row = attention_mechanisms(); *row != NULL; row++) {
        const struct mechanism *found = NULL;
        check_status(&host, attention_named(&host, (*row)->name, &found), HASHATTN_OK, NULL);
        assert_ptr_equal(found, *row);
        strcat(strcat(list, row == attention_mechanisms() ? "" : ", "), (*row)->name);
    }
    static const struct {
        const char *name, *part;
    } cases[] = {{"yosso", "no mechanism 'yosso', there are: "}, {NULL, "no mechanism 'NULL', there are: "}};
    for (size_t i = 0; i < 2; i++) {
        const struct mechanism *found = &linear_mechanism;
        check_status(&host, attention_named(&host, cases[i].name, &found), HASHATTN_INVALID, cases[i].part);
        assert_null(found);
        const char *names = strstr(host.message, "there are: ");
        assert_string_equal(names, list);
    }
}

/* The command line uses the type to decide if a value follows, so options of one name have one type. */
static void options_of_one_name_have_one_type(void **state)
{
    (void)state;
    for (const struct mechanism *const *a = attention_mechanisms(); *a != NULL; a++)
        for (const struct mechanism *const *b = attention_mechanisms(); *b != NULL; b++)
            for (const struct option_row *row = (*a)->options; row->name != NULL; row++) {
                const struct option_row *other = option_find((*b)->options, row->name);
                if (other != NULL && other->type != row->type)
                    fail_msg("%s of %s and of %s differ in type", row->name, (*a)->name, (*b)->name);
            }
    const struct mechanism *yoso = attention_find("yoso"), *exact = attention_find("yoso-e");
    assert_ptr_equal(attention_option(yoso, "hash_bits"), option_find(yoso->options, "hash_bits"));
    assert_ptr_equal(attention_option(yoso, "yoso.hash_bits"), option_find(yoso->options, "hash_bits"));
    assert_null(attention_option(yoso, "yoso-e.hash_bits"));
    assert_null(attention_option(exact, "yoso.hash_bits"));
    assert_null(attention_option(exact, "num_hashes"));
}

static void parameters_are_counted(void **state)
{
    (void)state;
    struct linear_options options = {.features = 3};
    const struct parameter_sizes sizes = {5, 7, 0};
    assert_int_equal(attention_param_count(&linear_mechanism, &options, &sizes), 3 * 5 + 7);
    assert_int_equal(attention_param_count(attention_find("softmax"), NULL, &sizes), 0);
    options.features = INT64_MAX;
    assert_true(attention_param_count(&linear_mechanism, &options, &sizes) == SIZE_MAX);
}

/* Matrices decay; biases, scales and centroids do not. */
static void weight_decay_leaves_biases_scales_and_centroids(void **state)
{
    (void)state;
    char kept[400] = "", decayed[800] = "";
    for (const struct mechanism *const *m = attention_mechanisms(); *m != NULL; m++)
        for (const struct parameter_row *row = (*m)->params; row != NULL && row->name != NULL; row++) {
            char *list = row->decays ? decayed : kept;
            size_t length = strlen(list), size = row->decays ? sizeof decayed : sizeof kept;
            snprintf(list + length, size - length, "%s.%s ", (*m)->name, row->name);
        }
    assert_string_equal(kept, "local.content_bias local.position_bias routing.centroids "
                              "sinkhorn.sort_hidden_bias sinkhorn.sort_output_bias rfa.sigma rfa.gate_bias ");
    assert_string_equal(decayed,
                        "lha.shared lha.query lha.key lha.query_hidden lha.query_out lha.key_hidden "
                        "lha.key_out local.position linformer.projection synthesizer.layer "
                        "synthesizer.places synthesizer.pairs synthesizer.query_factor "
                        "synthesizer.key_factor sinkhorn.sort_hidden sinkhorn.sort_output rfa.gate ");
}

/* attention.h says in which mechanisms a masked token is absent as a query too: the names in brackets. */
static void the_header_lists_the_mechanisms_that_compete(void **state)
{
    (void)state;
    char *text = header_text("attention.h"), named[400] = ",";
    char *at = strstr(text, "exception: in mechanisms that place queries in buckets (");
    assert_non_null(at);
    char *end = strstr(at, "if a sequence has as many queries as keys");
    assert_non_null(end);
    for (bool inside = false; at < end; at++) {
        size_t length = strlen(named);
        assert_true(length + 2 < sizeof named);
        inside = *at == '(' || (inside && *at != ')');
        if (inside && *at != '(' && *at != ' ')
            memcpy(named + length, at, 1);
        else if (*at == ')')
            memcpy(named + length, ",", 2);
    }
    size_t count = 0, competing = 0;
    for (const char *c = named + 1; *c != '\0'; c++)
        count += *c == ',';
    for (const struct mechanism *const *m = attention_mechanisms(); *m != NULL; m++) {
        char name[60];
        snprintf(name, sizeof name, ",%s,", (*m)->name);
        competing += (*m)->competes;
        if ((strstr(named, name) != NULL) != (*m)->competes)
            fail_msg("attention.h lists %s, and competes of %s is %d", named, (*m)->name, (*m)->competes);
    }
    assert_int_equal(count, competing);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_keeps_the_contract),
        cmocka_unit_test(a_name_gives_its_row_or_the_list),
        cmocka_unit_test(options_of_one_name_have_one_type),
        cmocka_unit_test(parameters_are_counted),
        cmocka_unit_test(weight_decay_leaves_biases_scales_and_centroids),
        cmocka_unit_test(the_header_lists_the_mechanisms_that_compete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
