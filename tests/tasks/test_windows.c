/* Windows against a plain formula on series whose values are all different: rows of one column and of all,
   overlapping rows, every level, targets after the end of the series, and forecasts restored.
   Bugs planted and caught: a window that begins one time later; rows `patch` apart whatever the stride;
   columns slowest in a joint row; the level of the first value; phases counted from the beginning of a row;
   the level of the wrong column; the level subtracted after the end; restored with the wrong sign.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/windows.h"

#include <math.h>
#include <string.h>

#include "support/check.h"

enum { TIMES = 40, COLUMNS = 3, LENGTH = 10, HORIZON = 5, FIRST = 4, SEASON = 4 };

static float value_at(size_t column, size_t time)
{
    return (float)(1000 * (column + 1)) + (float)(time * time) * 0.25f;
}

static float values[COLUMNS * TIMES];

static struct windows windows_like(bool joint, size_t patch, size_t stride, enum level level)
{
    for (size_t c = 0; c < COLUMNS; c++)
        for (size_t t = 0; t < TIMES; t++)
            values[c * TIMES + t] = value_at(c, t);
    return (struct windows){.values = values,
                            .times = TIMES,
                            .columns = COLUMNS,
                            .first = FIRST,
                            .count = 20,
                            .length = LENGTH,
                            .horizon = HORIZON,
                            .patch = patch,
                            .stride = stride,
                            .joint = joint,
                            .target = 1,
                            .num_targets = 2,
                            .level = level,
                            .season = SEASON};
}

/* The level of a window of this column at time `t` of the window. */
static double level_at(enum level level, size_t column, size_t window, size_t t)
{
    double sum = 0, n = 0;
    if (level == LEVEL_NONE)
        return 0;
    if (level == LEVEL_LAST)
        return (double)value_at(column, FIRST + window + LENGTH - 1);
    for (size_t u = 0; u < LENGTH; u++)
        if (level == LEVEL_MEAN || u % SEASON == t % SEASON) {
            sum += (double)value_at(column, FIRST + window + u);
            n++;
        }
    return sum / n;
}

static void check_example(const struct windows *w, size_t example, size_t window, size_t column)
{
    size_t rows = windows_rows(w), width = windows_row_width(w), outputs = windows_outputs(w), at = 0;
    size_t columns = w->joint ? COLUMNS : 1;
    float *read = guard_floats(rows * width), *target = guard_floats(HORIZON * outputs);
    struct window_place place = windows_place(w, example);
    assert_true(place.window == window && place.column == column);
    windows_read(w, example, read);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < w->patch; i++)
            for (size_t c = 0; c < columns; c++, at++) {
                size_t t = r * w->stride + i, of = w->joint ? c : column;
                double want = (double)value_at(of, FIRST + window + t) - level_at(w->level, of, window, t);
                check_near((double)read[at], want, 1e-3, "a value that is read");
            }
    assert_int_equal(at, rows * width);
    windows_ask(w, example, target);
    for (size_t h = 0; h < HORIZON; h++)
        for (size_t k = 0; k < outputs; k++) {
            size_t t = FIRST + window + LENGTH + h;
            double level = level_at(w->level, column + k, window, LENGTH + h);
            double want = t < TIMES ? (double)value_at(column + k, t) - level : 0;
            check_near((double)target[h * outputs + k], want, 1e-3, "a target");
            target[h * outputs + k] = 7;
        }
    windows_restore(w, example, 1, target);
    for (size_t h = 0; h < HORIZON; h++)
        for (size_t k = 0; k < outputs; k++)
            check_near((double)target[h * outputs + k],
                       7 + level_at(w->level, column + k, window, LENGTH + h), 1e-3, "a restored forecast");
    guard_free(read, rows * width);
    guard_free(target, HORIZON * outputs);
}

static const struct {
    size_t patch, stride, rows;
} cuts[] = {{LENGTH, LENGTH, 1}, {5, 5, 2}, {1, 1, 10}, {4, 3, 3}, {3, 1, 8}};
enum { CUTS = sizeof cuts / sizeof *cuts };

static void examples_of_one_column(void **state)
{
    (void)state;
    for (enum level level = LEVEL_NONE; level <= LEVEL_SEASONAL; level++)
        for (size_t i = 0; i < CUTS; i++) {
            struct windows w = windows_like(false, cuts[i].patch, cuts[i].stride, level);
            assert_int_equal(windows_examples(&w), 60);
            assert_int_equal(windows_rows(&w), cuts[i].rows);
            assert_true(windows_row_width(&w) == cuts[i].patch && windows_outputs(&w) == 1);
            for (size_t e = 0; e < 60; e += 7)
                check_example(&w, e, e / COLUMNS, e % COLUMNS);
        }
}

static void examples_of_all_columns(void **state)
{
    (void)state;
    for (enum level level = LEVEL_NONE; level <= LEVEL_SEASONAL; level++)
        for (size_t i = 0; i < CUTS; i++) {
            struct windows w = windows_like(true, cuts[i].patch, cuts[i].stride, level);
            assert_int_equal(windows_examples(&w), 20);
            assert_true(windows_row_width(&w) == COLUMNS * cuts[i].patch && windows_outputs(&w) == 2);
            for (size_t e = 0; e < 20; e += 5)
                check_example(&w, e, e, 1);
        }
}

/* With marks: rows of the time before, the time and the time after, in a circle, and the marks; the decoder's
   rows begin `label` times before the forecast, which is empty. */
static void rows_of_an_encoder_and_a_decoder(void **state)
{
    (void)state;
    enum { MARKS = 2, LABEL = 4, WIDTH = 3 * COLUMNS + MARKS, DECODER = LABEL + HORIZON };
    float marks[(TIMES + HORIZON) * MARKS];
    for (size_t i = 0; i < (TIMES + HORIZON) * MARKS; i++)
        marks[i] = (float)i;
    for (enum level level = LEVEL_NONE; level <= LEVEL_MEAN; level++) {
        struct windows w = windows_like(true, 1, 1, level);
        w.marks = marks;
        w.num_marks = MARKS;
        w.label = LABEL;
        assert_true(windows_rows(&w) == LENGTH && windows_row_width(&w) == WIDTH);
        assert_int_equal(windows_decoder_rows(&w), DECODER);
        for (int decoder = 0; decoder < 2; decoder++) {
            size_t count = decoder ? DECODER : LENGTH, known = decoder ? LABEL : LENGTH, window = 6,
                   first = decoder ? LENGTH - LABEL : 0;
            float *rows = guard_floats(count * WIDTH);
            (decoder ? windows_read_decoder : windows_read)(&w, window, rows);
            for (size_t r = 0; r < count; r++) {
                const size_t times[] = {(r + count - 1) % count, r, (r + 1) % count};
                for (size_t i = 0; i < 3; i++)
                    for (size_t c = 0; c < COLUMNS; c++) {
                        size_t t = first + times[i];
                        double want = times[i] >= known ? 0
                                                        : (double)value_at(c, FIRST + window + t) -
                                                              level_at(level, c, window, t);
                        check_near((double)rows[r * WIDTH + i * COLUMNS + c], want, 1e-3, "a value");
                    }
                for (size_t m = 0; m < MARKS; m++)
                    assert_true(rows[r * WIDTH + 3 * COLUMNS + m] ==
                                marks[(FIRST + window + first + r) * MARKS + m]);
            }
            guard_free(rows, count * WIDTH);
        }
    }
    struct windows plain = windows_like(true, 1, 1, LEVEL_NONE);
    assert_int_equal(windows_decoder_rows(&plain), 0);
}

/* The last times of the series: targets that are known in part, and not at all. */
static void targets_end_with_the_series(void **state)
{
    (void)state;
    for (int joint = 0; joint < 2; joint++)
        for (enum level level = LEVEL_NONE; level <= LEVEL_SEASONAL; level++) {
            struct windows w = windows_like(joint != 0, 5, 5, level);
            w.count = TIMES - FIRST - LENGTH + 1;
            for (size_t window = w.count - HORIZON - 1; window < w.count; window++)
                check_example(&w, joint ? window : window * COLUMNS + 2, window, joint ? 1 : 2);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_of_one_column),
        cmocka_unit_test(examples_of_all_columns),
        cmocka_unit_test(rows_of_an_encoder_and_a_decoder),
        cmocka_unit_test(targets_end_with_the_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
