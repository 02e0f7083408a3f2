/* Packed batches against their examples, element by element: ids, rows of floats, segments, targets of
   examples and of rows, weights, pairs, and next ids.
   Bugs planted and caught: an offset one too large; no zeros after the last float row, zeros to the end of
   the row only, or a tile too many; no room for them; rows of floats copied as if one wide; segments left
   out; targets of rows read from the index of the example; weights not copied; the id itself as the next one;
   pairs that share an id; weights of one sequence of a pair; the last row of a sequence counted though it is
   a target only; cut: targets of rows left whole, rows of the first span on every rank, lengths of spans for
   those of sequences, a batch that stays cut; every example given the window of the first; targets of windows
   left out; offsets of a decoder's halved sequences one too far apart, or all halved once; sparse targets not
   expanded, or over what the batch before them left.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/packing.h"

#include <string.h>

#include "base/memory.h"
#include "support/check.h"

enum { EXAMPLES = 6, ROWS = 2 * EXAMPLES * 120, WIDTH = 3, WIDE = 2 };

/* Every element of every array is a different number. */
struct fixture {
    struct host host;
    uint32_t ids[ROWS], of_examples[EXAMPLES], of_rows[ROWS];
    float floats[ROWS * WIDTH], row_floats[ROWS * WIDE], example_weights[EXAMPLES], row_weights[ROWS];
    uint8_t segments[ROWS];
    size_t offsets[2 * EXAMPLES + 1];
    struct dataset dataset;
};

/* Rows of floats with segments, and all kinds of targets except the next id. `longest`: rows of a
   sequence. */
static void fixture_init(struct fixture *fixture, bool pairs, size_t longest)
{
    memset(fixture, 0, sizeof *fixture);
    host_init(&fixture->host);
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        fixture->floats[i] = (float)(i + 1);
    for (size_t i = 0; i < ROWS * WIDE; i++)
        fixture->row_floats[i] = -(float)(i + 1);
    for (size_t i = 0; i < ROWS; i++) {
        fixture->ids[i] = (uint32_t)(70000 + i);
        fixture->of_rows[i] = (uint32_t)(2 * i);
        fixture->row_weights[i] = 1 + 0.25f * (float)i;
        fixture->segments[i] = (uint8_t)(i % 251);
    }
    for (size_t i = 0; i < EXAMPLES; i++) {
        fixture->of_examples[i] = (uint32_t)(100000 + i);
        fixture->example_weights[i] = 0.5f * (float)i;
    }
    for (size_t s = 0; s < (size_t)EXAMPLES * (pairs ? 2 : 1); s++)
        fixture->offsets[s + 1] = fixture->offsets[s] + (s % 3 == 2 ? longest : 1 + s % 3 * 2);
    fixture->dataset = (struct dataset){.floats = fixture->floats,
                                        .row_width = WIDTH,
                                        .segmented = true,
                                        .segments = fixture->segments,
                                        .offsets = fixture->offsets,
                                        .count = EXAMPLES,
                                        .pairs = pairs,
                                        .num_targets = 3,
                                        .targets = {{.kind = TARGETS_EXAMPLE,
                                                     .ids = fixture->of_examples,
                                                     .weighted = true,
                                                     .weights = fixture->example_weights},
                                                    {.kind = TARGETS_ROW, .ids = fixture->of_rows},
                                                    {.kind = TARGETS_ROW,
                                                     .width = WIDE,
                                                     .floats = fixture->row_floats,
                                                     .weighted = true,
                                                     .weights = fixture->row_weights}}};
}

/* The same sequences as ids, each with one more, which is a target only. */
static void make_next(struct fixture *fixture)
{
    struct dataset *dataset = &fixture->dataset;
    for (size_t s = 0; s < EXAMPLES; s++)
        fixture->offsets[s + 1] += s + 1;
    *dataset = (struct dataset){.ids = fixture->ids,
                                .offsets = fixture->offsets,
                                .count = EXAMPLES,
                                .next = true,
                                .num_targets = 1,
                                .targets = {{.kind = TARGETS_NEXT}}};
}

/* Checks that the elements of `size` bytes in `got` from index `to` on are those of `want` from index `from`
   on. */
static void check_elements(const void *got, size_t to, const void *want, size_t from, size_t count,
                           size_t size, const char *what)
{
    assert_true((got == NULL) == (want == NULL));
    if (want != NULL)
        check_same_bits((const char *)got + to * size, (const char *)want + from * size, count * size, what);
}

static void check_targets(const struct targets *got, const struct target_set *want, size_t to, size_t from,
                          size_t count)
{
    check_elements(got->ids, to, want->ids, from, count, sizeof *got->ids, "targets");
    check_elements(got->floats, to, want->floats, from, count, want->width * sizeof(float),
                   "floats of targets");
    check_elements(got->weights, to, want->weights, from, count, sizeof(float), "weights");
}

/* Checks that the batch holds the rows of this rank of these examples of the data set. */
static void check_batch(const struct packed_examples *packed, const struct dataset *dataset,
                        const size_t *examples, const uint64_t *places, size_t count, const struct comm *comm)
{
    const struct model_batch batch = packed_batch(packed, NULL, NULL, true);
    size_t each = dataset->pairs ? 2 : 1, at = 0;
    assert_int_equal(batch.num_sequences, count * each);
    assert_int_equal(packed->data.count, count);
    assert_int_equal(batch.offsets[0], 0);
    for (size_t i = 0; i < count * each; i++) {
        size_t sequence = examples[i / each] * each + i % each, from = dataset->offsets[sequence];
        size_t length = dataset->offsets[sequence + 1] - from - dataset->next, first, end;
        comm_span(comm, length, &first, &end);
        assert_true((batch.cut == NULL) == (comm_size(comm) == 1));
        if (batch.cut != NULL) {
            assert_true(batch.cut->totals[i] == length && batch.cut->starts[i] == first);
            from += first;
            length = end - first;
        }
        assert_int_equal(batch.sample_ids[i], places[i / each] * each + i % each);
        assert_int_equal(batch.offsets[i + 1], at + length);
        check_elements(batch.input.ids, at, dataset->ids, from, length, sizeof(uint32_t), "ids");
        check_elements(batch.input.floats, at, dataset->floats, from, length, WIDTH * sizeof(float),
                       "floats");
        check_elements(batch.input.segments, at, dataset->segments, from, length, 1, "segments");
        for (size_t k = 0; k < dataset->num_targets; k++) {
            const struct target_set *set = &dataset->targets[k];
            if (set->kind == TARGETS_EXAMPLE)
                check_targets(&batch.targets[k], set, i / each, examples[i / each], 1);
            if (set->kind == TARGETS_ROW)
                check_targets(&batch.targets[k], set, at, from, length);
            for (size_t j = 0; set->kind == TARGETS_NEXT && j < length; j++)
                assert_int_equal(batch.targets[k].ids[at + j], dataset->ids[from + j + 1]);
        }
        at += length;
    }
    assert_null(packed_batch(packed, NULL, NULL, false).targets);
}

/* Examples in another order, one of them twice; then fewer examples in the same arrays. */
static void check_packing(struct fixture *fixture)
{
    static const size_t examples[] = {4, 1, 1, 5, 0, 2, 3};
    static const uint64_t places[] = {100, 7, 8, (uint64_t)1 << 40, 0, 3, 9};
    struct packed_examples packed;
    struct dataset *dataset = &fixture->dataset;
    check_status(&fixture->host, packed_examples_new(&fixture->host, dataset, 7, &packed), HASHATTN_OK, NULL);
    for (size_t left = 3; left > 0; left--) {
        size_t count = 3 * left - 2;
        packing_begin(&packed);
        for (size_t i = 0; i < count; i++)
            packing_add(&packed, dataset, examples[i], places[i]);
        packing_end(&packed);
        check_batch(&packed, dataset, examples, places, count, NULL);
    }
    for (int rank = 0; rank < 4; rank++) {
        struct comm comm = {.peer = {.rank = rank == 3 ? 0 : rank, .size = rank == 3 ? 1 : 3}};
        struct row_ranks ranks = {.comm = &comm};
        packing_range(&packed, dataset, 2, 3);
        packing_cut(&packed, &ranks);
        check_batch(&packed, dataset, (const size_t[]){2, 3, 4}, (const uint64_t[]){2, 3, 4}, 3, &comm);
        const struct model_batch batch = packed_batch(&packed, NULL, NULL, true);
        for (size_t k = batch.offsets[batch.num_sequences] * WIDTH;
             batch.input.floats != NULL && k % (ROW_STEP * WIDTH) != 0; k++)
            assert_true(batch.input.floats[k] == 0);
    }
    packed_examples_free(&fixture->host, &packed);
}

static void batches_hold_what_their_examples_hold(void **state)
{
    (void)state;
    struct fixture fixture;
    for (int pairs = 0; pairs < 2; pairs++) {
        fixture_init(&fixture, pairs, 9);
        check_packing(&fixture);
        fixture.dataset.segmented = false; /* ids only */
        fixture.dataset.segments = NULL;
        fixture.dataset.row_width = 0;
        fixture.dataset.floats = NULL;
        fixture.dataset.ids = fixture.ids;
        check_packing(&fixture);
    }
    fixture_init(&fixture, false, 9);
    make_next(&fixture);
    check_packing(&fixture);
}

/* A batch has the floats of sparse targets, whatever was there. */
static void sparse_targets_become_floats(void **state)
{
    (void)state;
    struct fixture fixture;
    struct packed_examples packed;
    struct target_ones ones[EXAMPLES] = {{0, 1}, {1, 0}, {1, 3}, {4, 1}, {5, 0}, {5, 2}};
    uint32_t places[] = {1, 0, 1, 2, 2, 0, 2};
    static const float want[EXAMPLES][3] = {{0, 1, 0}, {0, 0, 0}, {1, 1, 1}, {0, 0, 1}, {0, 0, 0}, {1, 0, 1}};
    fixture_init(&fixture, false, 9);
    fixture.dataset.targets[0] = (struct target_set){
        .kind = TARGETS_EXAMPLE, .width = 3, .sparse = true, .ones = ones, .places = places};
    check_status(&fixture.host, packed_examples_new(&fixture.host, &fixture.dataset, 3, &packed), HASHATTN_OK,
                 NULL);
    for (size_t first = 0; first + 3 <= EXAMPLES; first++) {
        packing_range(&packed, &fixture.dataset, first, 3);
        const struct targets *got = &packed_batch(&packed, NULL, NULL, true).targets[0];
        check_same_bits(got->floats, want[first], sizeof want[0] * 3, "floats of sparse targets");
    }
    packed_examples_free(&fixture.host, &packed);
}

/* Float rows are read to the end of the last tile: there everything after the last row of a batch is zero. */
static void float_rows_end_in_zeros(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, false, 120);
    fixture.offsets[1] = 96, fixture.offsets[2] = 192, fixture.offsets[3] = 299; /* a tile, and more */
    for (size_t s = 3; s < EXAMPLES; s++)
        fixture.offsets[s + 1] = fixture.offsets[s] + 1;
    struct failing_host failing;
    struct packed_examples packed;
    failing_host_init(&failing, -1);
    check_status(&failing.host, packed_examples_new(&failing.host, &fixture.dataset, 3, &packed), HASHATTN_OK,
                 NULL);
    static const size_t ends[] = {0, 96, 192, 300}; /* of the tiles of the first examples */
    size_t room = 324, row = WIDTH * sizeof(float); /* three of 107 rows */
    assert_int_equal(packing_max_rows(&fixture.dataset, 3), 321);
    assert_true(failing.largest >= room * row);
    for (size_t count = 3; count >= 1; count--) {
        memset(packed.data.floats, 0xff, room * row);
        packing_range(&packed, &fixture.dataset, 0, count);
        const float *floats = packed_batch(&packed, NULL, NULL, true).input.floats;
        size_t rows = packed.data.offsets[count], padded = ends[count];
        assert_int_equal(rows, fixture.offsets[count]);
        for (size_t i = rows * WIDTH; i < padded * WIDTH; i++)
            assert_true(floats[i] == 0);
        for (size_t i = padded * WIDTH; i < room * WIDTH; i++)
            assert_true(floats[i] != floats[i]); /* unchanged: in a full array it is beyond the end */
        check_same_bits(floats, fixture.floats, rows * row, "rows before the zeros");
    }
    packed_examples_free(&failing.host, &packed);
    assert_int_equal(failing.outstanding, 0);
}

static void the_longest_sequence_decides_the_room(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, false, 9);
    assert_int_equal(packing_max_rows(&fixture.dataset, 5), 45);
    fixture_init(&fixture, true, 9);
    assert_int_equal(packing_max_rows(&fixture.dataset, 5), 90);
    fixture_init(&fixture, false, 9);
    make_next(&fixture); /* the last of its ten ids is not input */
    assert_int_equal(packing_max_rows(&fixture.dataset, 5), 45);
}

static void an_example_weighs_what_its_targets_weigh(void **state)
{
    (void)state;
    struct fixture fixture;
    for (int pairs = 0; pairs < 2; pairs++) {
        size_t each = pairs ? 2 : 1;
        fixture_init(&fixture, pairs, 9);
        for (size_t i = 0; i < EXAMPLES; i++) {
            size_t first = fixture.offsets[i * each], end = fixture.offsets[(i + 1) * each];
            double sum = 0;
            for (size_t at = first; at < end; at++)
                sum += (double)fixture.row_weights[at];
            assert_true(packing_weight(&fixture.dataset, 0, i) == 0.5 * (double)i);
            assert_true(packing_weight(&fixture.dataset, 1, i) == (double)(end - first));
            assert_true(packing_weight(&fixture.dataset, 2, i) == sum); /* quarters, exact */
            fixture.dataset.targets[0].weights = NULL;
            assert_true(packing_weight(&fixture.dataset, 0, i) == 1);
            fixture.dataset.targets[0].weights = fixture.example_weights;
        }
    }
    fixture_init(&fixture, false, 9);
    make_next(&fixture);
    for (size_t i = 0; i < EXAMPLES; i++)
        assert_true(packing_weight(&fixture.dataset, 0, i) ==
                    (double)(fixture.offsets[i + 1] - fixture.offsets[i] - 1));
}

/* Windows of a series become the rows and targets of a batch. */
static void windows_are_cut(void **state)
{
    (void)state;
    float values[40], rows[6], target[2];
    size_t offsets[19];
    struct host host;
    struct packed_examples packed;
    host_init(&host);
    for (size_t i = 0; i < 40; i++)
        values[i] = (float)(i * i);
    for (size_t i = 0; i < 19; i++)
        offsets[i] = 3 * i;
    const struct dataset dataset = {
        .row_width = 2,
        .offsets = offsets,
        .count = 18,
        .num_targets = 1,
        .targets = {{.kind = TARGETS_EXAMPLE, .width = 2}},
        .windows = {values, 20, 2, 3, 9, 6, 2, 2, 2, false, 0, 2, LEVEL_LAST, 0},
    };
    check_status(&host, packed_examples_new(&host, &dataset, 3, &packed), HASHATTN_OK, NULL);
    packing_range(&packed, &dataset, 5, 3);
    const struct model_batch batch = packed_batch(&packed, NULL, NULL, true);
    assert_true(batch.num_sequences == 3 && batch.offsets[3] == 9);
    for (size_t i = 0; i < 3; i++) {
        windows_read(&dataset.windows, 5 + i, rows);
        windows_ask(&dataset.windows, 5 + i, target);
        check_same_bits(batch.input.floats + 6 * i, rows, sizeof rows, "rows of a window");
        check_same_bits(batch.targets[0].floats + 2 * i, target, sizeof target, "targets of a window");
    }
    check_near((double)batch.input.floats[18], 0, 0, "rows after the last");
    packed_examples_free(&host, &packed);
}

/* Three windows in a batch for four, so that arrays are not as long as their room. */
static void windows_of_a_decoder_are_cut(void **state)
{
    (void)state;
    struct host host;
    float values[40], marks[22], rows[5 * 7];
    size_t offsets[14];
    struct packed_examples packed;
    host_init(&host);
    for (size_t i = 0; i < 40; i++)
        values[i] = (float)(i * i);
    for (size_t i = 0; i < 22; i++)
        marks[i] = (float)i;
    for (size_t i = 0; i < 14; i++)
        offsets[i] = 6 * i;
    const struct dataset dataset = {
        .row_width = 7,
        .offsets = offsets,
        .count = 13,
        .num_targets = 1,
        .targets = {{.kind = TARGETS_EXAMPLE, .width = 4}},
        .windows = {.values = values,
                    .times = 20,
                    .columns = 2,
                    .count = 13,
                    .length = 6,
                    .horizon = 2,
                    .patch = 1,
                    .stride = 1,
                    .joint = true,
                    .num_targets = 2,
                    .marks = marks,
                    .num_marks = 1,
                    .label = 3},
    };
    check_status(&host, packed_examples_new(&host, &dataset, 4, &packed), HASHATTN_OK, NULL);
    packing_range(&packed, &dataset, 5, 3);
    const struct model_batch batch = packed_batch(&packed, NULL, NULL, true);
    for (size_t i = 0; i <= 3; i++) {
        assert_int_equal(batch.decoder_offsets[i], 5 * i);
        assert_int_equal(batch.halved_offsets[i], 3 * i);
        assert_int_equal(batch.halved_offsets[4 + i], 2 * i);
        assert_int_equal(batch.halved_offsets[(MODEL_HALVINGS - 1) * 4 + i], i);
    }
    for (size_t i = 0; i < 3; i++) {
        windows_read_decoder(&dataset.windows, 5 + i, rows);
        check_same_bits(batch.decoder_floats + 35 * i, rows, sizeof rows, "rows of a decoder");
    }
    check_near((double)batch.decoder_floats[105], 0, 0, "rows after the last");
    packed_examples_free(&host, &packed);
}

static void failing_allocations_leave_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, false, 9);
    hashattn_status status = HASHATTN_NO_MEMORY;
    long n = 0;
    for (; status != HASHATTN_OK; n++) {
        struct failing_host failing;
        struct packed_examples packed;
        failing_host_init(&failing, n);
        status = packed_examples_new(&failing.host, &fixture.dataset, 3, &packed);
        if (status == HASHATTN_OK)
            packed_examples_free(&failing.host, &packed);
        else
            check_status(&failing.host, status, HASHATTN_NO_MEMORY, "no memory for");
        assert_int_equal(failing.outstanding, 0);
    }
    assert_int_equal(n, 12); /* rows, segments, three targets, two of them weighted, offsets, sample ids, and
                                the lengths and first rows of cut sequences */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_hold_what_their_examples_hold),
        cmocka_unit_test(sparse_targets_become_floats),
        cmocka_unit_test(float_rows_end_in_zeros),
        cmocka_unit_test(the_longest_sequence_decides_the_room),
        cmocka_unit_test(an_example_weighs_what_its_targets_weigh),
        cmocka_unit_test(windows_are_cut),
        cmocka_unit_test(windows_of_a_decoder_are_cut),
        cmocka_unit_test(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
