/* Pictures as sequences: grey levels, floats and means of squares against values computed by hand.
   Bugs planted and caught: red and blue exchanged; the planes read as interleaved colours; rows and columns
   exchanged; means rounded down; the grey of floats taken from red; a length that is not the training set's
   accepted; white at 255 instead of 255.5.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/pixels.h"

#include <string.h>

#include "base/memory.h"
#include "support/check.h"
#include "support/labels.h"

static const char *const labels[] = {"a", "b"};

/* The data set of one picture; its label is 1. */
static struct dataset one(struct host *host, enum pixel_input input, size_t shrink,
                          const struct picture *picture)
{
    const struct pixel_rules rules = {input, shrink};
    struct task_facts facts;
    struct dataset dataset;
    check_status(host, pixels_facts(host, &rules, picture, labels, 2, &facts), HASHATTN_OK, NULL);
    struct dataset_builder builder = {.dataset = pixels_shape(&facts)};
    check_status(host, pixels_push(host, &rules, &facts, picture, 1, &builder), HASHATTN_OK, NULL);
    assert_int_equal(facts.vocab_size, input == PIXELS_IDS ? 256 : 0);
    assert_int_equal(facts.row_width, input == PIXELS_IDS ? 0 : input == PIXELS_GREY ? 1 : 3);
    check_status(host, dataset_finish(host, &builder, HASHATTN_OK, &dataset), HASHATTN_OK, NULL);
    assert_true(dataset.count == 1 && dataset.offsets[1] == facts.max_len && label_of(&dataset, 0) == 1);
    task_facts_free(host, &facts);
    return dataset;
}

static void grey_levels_are_ids(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static const unsigned char levels[] = {0, 1, 128, 254, 255, 7};
    const struct picture picture = {levels, 2, 3, false};
    struct dataset dataset = one(&host, PIXELS_IDS, 1, &picture);
    for (int i = 0; i < 6; i++)
        assert_int_equal(dataset.ids[i], levels[i]);
    dataset_free(&host, &dataset);
    dataset = one(&host, PIXELS_GREY, 1, &picture);
    for (int i = 0; i < 6; i++)
        check_near(dataset.floats[i], levels[i] / 127.5 - 1, 1e-6, "a grey float");
    dataset_free(&host, &dataset);
}

/* White is 255.47 before it is rounded down, black 0, red 76.37, green 149.98, blue 29.13. */
static void colours_become_grey(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static const unsigned char levels[] = {
        255, 0, 255, 0,   0,   200, /* red */
        255, 0, 0,   255, 0,   100, /* green */
        255, 0, 0,   0,   255, 50,  /* blue */
    };
    static const unsigned want[] = {255, 0, 76, 149, 29, 124};
    const struct picture picture = {levels, 3, 2, true};
    struct dataset dataset = one(&host, PIXELS_IDS, 1, &picture);
    for (int i = 0; i < 6; i++)
        assert_int_equal(dataset.ids[i], want[i]);
    dataset_free(&host, &dataset);
    dataset = one(&host, PIXELS_GREY, 1, &picture);
    for (int i = 0; i < 6; i++)
        check_near(dataset.floats[i], want[i] / 127.5 - 1, 1e-6, "a grey float");
    dataset_free(&host, &dataset);
    dataset = one(&host, PIXELS_RGB, 1, &picture);
    for (int i = 0; i < 18; i++)
        check_near(dataset.floats[i], levels[i % 3 * 6 + i / 3] / 127.5 - 1, 1e-6, "a channel");
    dataset_free(&host, &dataset);
}

static void squares_become_their_means(void **state)
{
    (void)state;
    struct host host;
    host_init(&host);
    static const unsigned char levels[] = {0, 2, 10, 11, 20,  20,  /* first row of squares */
                                           4, 8, 12, 13, 20,  21,  /* */
                                           1, 1, 0,  0,  255, 255, /* second row */
                                           1, 2, 0,  1,  255, 255};
    static const unsigned want[] = {4, 12, 20, 1, 0, 255}; /* 3.5 and 11.5 are rounded up, 20.25 down */
    const struct picture picture = {levels, 4, 6, false};
    struct dataset dataset = one(&host, PIXELS_IDS, 2, &picture);
    for (int i = 0; i < 6; i++)
        assert_int_equal(dataset.ids[i], want[i]);
    dataset_free(&host, &dataset);
    dataset = one(&host, PIXELS_GREY, 2, &picture);
    check_near(dataset.floats[2], 20.25 / 127.5 - 1, 1e-6, "a mean");
    dataset_free(&host, &dataset);
}

static void unsuitable_pictures_are_refused(void **state)
{
    (void)state;
    struct host host;
    struct task_facts facts;
    host_init(&host);
    static const unsigned char levels[600];
    const struct picture grey = {levels, 4, 6, false}, wide = {levels, 1, 65537, false},
                         none = {levels, 0, 5, false}, larger = {levels, 4, 8, false};
    const struct {
        const struct picture *picture;
        struct pixel_rules rules;
        const char *part;
    } cases[] = {
        {&grey, {PIXELS_RGB, 1}, "the pictures are grey, so their pixels cannot be rgb"},
        {&grey, {PIXELS_IDS, 3}, "pictures of 4 x 6 pixels are not made of squares of 3 x 3 (shrink)"},
        {&wide,
         {PIXELS_IDS, 1},
         "pictures of 1 x 65537 pixels make sequences of 65537, allowed are 1 to 65536"},
        {&none, {PIXELS_IDS, 1}, "pictures of 0 x 5 pixels make sequences of 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_status(&host, pixels_facts(&host, &cases[i].rules, cases[i].picture, labels, 2, &facts),
                     HASHATTN_BAD_FILE, cases[i].part);
        assert_null(facts.labels);
    }
    const struct pixel_rules rules = {PIXELS_IDS, 1}, rgb = {PIXELS_RGB, 1};
    check_status(&host, pixels_facts(&host, &rules, &grey, labels, 2, &facts), HASHATTN_OK, NULL);
    struct dataset_builder builder = {.dataset = pixels_shape(&facts)};
    check_status(&host, pixels_push(&host, &rules, &facts, &larger, 0, &builder), HASHATTN_BAD_FILE,
                 "4 x 8 pixels make a sequence of 32, those of the training set have 24");
    check_status(&host, pixels_push(&host, &rgb, &facts, &grey, 0, &builder), HASHATTN_BAD_FILE,
                 "the picture is grey, the model reads rgb");
    assert_int_equal(builder.dataset.count, 0);
    task_facts_free(&host, &facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grey_levels_are_ids),
        cmocka_unit_test(colours_become_grey),
        cmocka_unit_test(squares_become_their_means),
        cmocka_unit_test(unsuitable_pictures_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
