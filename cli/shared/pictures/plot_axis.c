/* The range of an axis ends at ticks.
   SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/pictures/plot_axis.h"

#include <math.h>
#include <stdio.h>

static double scaled(enum plot_scale scale, double value)
{
    return scale == PLOT_LINEAR ? value : scale == PLOT_LOG2 ? log2(value) : log10(value);
}

double axis_place(const struct axis_range *range, double value)
{
    double low = scaled(range->scale, range->low), high = scaled(range->scale, range->high);
    return range->from + (scaled(range->scale, value) - low) / (high - low) * (range->to - range->from);
}

void axis_tick(const struct axis_range *range, size_t index, bool thousands, char text[TICK_TEXT])
{
    enum { FEWEST = 6, MOST = 15 };
    double tick = range->ticks[index], largest = fmax(fabs(range->low), fabs(range->high));
    double step = range->num_ticks > 1 ? fabs(range->ticks[1] - range->ticks[0]) : largest;
    int digits =
        range->scale == PLOT_LINEAR && step > 0 ? (int)ceil(log10(largest / step) + 1e-9) + 1 : FEWEST;
    bool large = thousands && fabs(tick) >= 1e4 && fabs(tick) < 1e6; /* five digits would reach the name */
    digits = digits < FEWEST ? FEWEST : digits > MOST ? MOST : digits;
    snprintf(text, TICK_TEXT, "%.*g%s", digits, large ? tick / 1000 : tick, large ? "k" : "");
}

bool axis_shows(const struct plot *plot, const struct plot_point *point)
{
    return !isnan(point->y) && (plot->x.scale == PLOT_LINEAR || point->x > 0) &&
           (plot->y.scale == PLOT_LINEAR || point->y > 0);
}

/* 1, 2 or 5 times a power of ten that cuts `width` into at most `parts`. */
static double nice_step(double width, double parts)
{
    double power = pow(10, floor(log10(width / parts))), rest = width / parts / power;
    return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

static void add_tick(struct axis_range *range, double value)
{
    if (range->num_ticks < MOST_TICKS)
        range->ticks[range->num_ticks++] = value;
}

/* from_zero: the axis begins at 0. tight: it ends with the values, not at ticks. */
static void settle_linear(struct axis_range *range, bool from_zero, bool tight)
{
    if (from_zero)
        range->low = 0;
    double width = range->high - range->low;
    if (!(width > fmax(1 / PLOT_LARGEST, 1e-9 * fmax(fabs(range->low), fabs(range->high))))) {
        double more = fmax(fabs(range->high) * 0.1, 1e-6);
        range->low -= from_zero ? 0 : more;
        range->high += more;
        width = range->high - range->low;
    }
    double step = nice_step(width, 5), first = floor(range->low / step + 1e-9) * step,
           last = ceil(range->high / step - 1e-9) * step;
    if (!tight) {
        range->low = first;
        range->high = last;
    }
    for (double i = 0; first + i * step <= last + step / 2; i++) {
        double tick = first + i * step;
        if (tick >= range->low - step / 2 * 1e-6 && tick <= range->high + step / 2 * 1e-6)
            add_tick(range, fabs(tick) < step / 2 ? 0 : tick);
    }
}

/* The largest of 1, 2 and 5 times a power of ten that is at most `value`. */
static double nice_below(double value)
{
    double power = pow(10, floor(log10(value) + 1e-9)), rest = value / power * (1 + 1e-9);
    return power * (rest >= 5 ? 5 : rest >= 2 ? 2 : 1);
}

/* Less than two decades: from one to another of 1, 2 and 5 times a power of ten, all of them ticks. */
static void settle_decade(struct axis_range *range)
{
    double at = nice_below(range->low), high = range->high * (1 - 1e-9);
    range->low = at;
    add_tick(range, at);
    while (at < high || range->num_ticks < 2) {
        double power = pow(10, floor(log10(at) + 1e-9)), digit = round(at / power);
        at = power * (digit < 2 ? 2 : digit < 5 ? 5 : 10);
        add_tick(range, at);
    }
    range->high = at;
}

static void settle_log(struct axis_range *range)
{
    double base = range->scale == PLOT_LOG2 ? 2 : 10, low = floor(scaled(range->scale, range->low) + 1e-9),
           high = ceil(scaled(range->scale, range->high) - 1e-9);
    if (base == 10 && range->high < 100 * range->low) {
        settle_decade(range);
        return;
    }
    if (low == high) {
        low -= 1;
        high += 1;
    }
    double stride = ceil((high - low) / 7);
    range->low = pow(base, low);
    range->high = pow(base, high);
    for (double power = low; power <= high; power += stride)
        add_tick(range, pow(base, power));
}

/* Highest stack of bars at each x, or the largest value. */
static double top_of(const struct plot *plot)
{
    double top = -INFINITY;
    for (size_t i = 0; i < plot->count; i++)
        for (size_t k = 0; k < plot->series[i].count; k++) {
            double sum = plot->series[i].points[k].y;
            for (size_t j = 0; plot->kind == PLOT_BARS && j < i; j++)
                sum += k < plot->series[j].count ? plot->series[j].points[k].y : 0;
            top = axis_shows(plot, &plot->series[i].points[k]) && sum > top ? sum : top;
        }
    return top;
}

void axis_settle(const struct plot *plot, struct axis_range *x, struct axis_range *y)
{
    *x = (struct axis_range){
        .low = INFINITY, .high = -INFINITY, .scale = plot->x.scale, .from = PLOT_LEFT, .to = PLOT_RIGHT};
    *y = (struct axis_range){
        .low = INFINITY, .high = top_of(plot), .scale = plot->y.scale, .from = PLOT_BOTTOM, .to = PLOT_TOP};
    for (size_t i = 0; i < plot->count; i++)
        for (size_t k = 0; k < plot->series[i].count; k++) {
            const struct plot_point *point = &plot->series[i].points[k];
            if (!axis_shows(plot, point))
                continue;
            x->low = fmin(x->low, point->x);
            x->high = fmax(x->high, point->x);
            y->low = fmin(y->low, point->y);
        }
    if (plot->kind == PLOT_BARS) {
        x->low -= 0.5;
        x->high += 0.5;
    }
    for (int i = 0; i < 2; i++) {
        struct axis_range *range = i == 0 ? x : y;
        if (range->scale == PLOT_LINEAR)
            settle_linear(range, i == 1 && plot->kind == PLOT_BARS, i == 0 && plot->kind == PLOT_BARS);
        else
            settle_log(range);
    }
}
