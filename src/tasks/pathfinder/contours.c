/* Rules, in pixels: a paddle is 2 long and 0.5 thick, and keeps 1 free around it. The next paddle of a
   contour begins where the pivot moves on by 4 in the direction of the last paddle: its far end is one of the
   pixels of the circle of radius 3 around the pivot, drawn with probability proportional to cos^2 of the turn
   (turns beyond a right angle are impossible) times the room there. A paddle whose surroundings overlap
   others too much is redrawn, up to 3 times; then the contour fails. Both target contours grow in turn; if
   one fails, both start again. The last paddle of a contour takes its room only when the next one stands, so
   that they may touch. Distractors are tried 5 times each.

   Deviations from the published rules: the first seed keeps 7 pixels of 32 from the border, because the
   published 14 leave no room, and the second seed therefore needs room too; directions of seeds are any
   angle, not whole degrees; strokes, rooms and disks have edges that fall off over a pixel or half of one,
   instead of a shrunk drawing of double size. The distance of seeds grows with the side; everything else
   stays.

   No function of libm decides: a seed gives the same pictures on every machine. Cost: 0.8 ms for a picture of
   32 x 32 with the default rules, mostly for contours that fail.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/pathfinder/contours.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { PADDLE = 2, MARGIN = 1, RADIUS = PADDLE + MARGIN, STEP = PADDLE + 2 * MARGIN, REACH = 3 };
enum { REDRAWS = 3, SEED_TRIES = 3, DISTRACTOR_TRIES = 5, FREE_DRAWS = 500 };
static const float half_thickness = 0.25f, marker_radius = 1.5f;
static const float target_light = 1.5f, distractor_light = 2, marker_light = 1;
static const float free_below = 0.3f, most_overlap = 1.8f, least_weight = 1e-4f;

struct point {
    int row, column;
};
struct direction {
    float row, column; /* of length 1 */
};

/* A stroke from `end` back to end - PADDLE * toward. */
struct paddle {
    struct point end;
    struct direction toward;
};

struct contour {
    struct paddle paddles[CONTOURS_MOST_PADDLES];
    size_t count;
    struct point first, pivot; /* its first tip; the centre of the last circle */
};

struct drawing {
    struct random *random;
    int side, seed_distance;
    const struct contour_canvas *canvas;
};

static bool inside(const struct drawing *drawing, struct point at)
{
    return at.row >= 0 && at.column >= 0 && at.row < drawing->side && at.column < drawing->side;
}

static size_t place_of(const struct drawing *drawing, int row, int column)
{
    return (size_t)row * (size_t)drawing->side + (size_t)column;
}

/* Any angle: a point of the unit disk, drawn from its square. */
static struct direction draw_direction(struct random *random)
{
    for (;;) {
        float row = 2 * random_unit(random) - 1, column = 2 * random_unit(random) - 1;
        float square = row * row + column * column;
        if (square <= 1 && square > 0.01f)
            return (struct direction){row / sqrtf(square), column / sqrtf(square)};
    }
}

/* at + length * toward, each coordinate rounded up. */
static struct point moved(struct point at, float length, struct direction toward)
{
    return (struct point){(int)ceilf((float)at.row + length * toward.row),
                          (int)ceilf((float)at.column + length * toward.column)};
}

/* ---- strokes ------------------------------------------------------------------------------------------- */

static float between(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* From the centre of a pixel to the nearest point of a paddle. */
static float distance(const struct paddle *paddle, int row, int column)
{
    float down = (float)(row - paddle->end.row), right = (float)(column - paddle->end.column);
    float along = between(-(down * paddle->toward.row + right * paddle->toward.column), 0, (float)PADDLE);
    down += along * paddle->toward.row;
    right += along * paddle->toward.column;
    return sqrtf(down * down + right * right);
}

/* How much a paddle claims a pixel: 1 up to MARGIN beside it, falling to 0 over half a pixel. So no other
   contour passes between two paddles of one. */
static float claim(const struct paddle *paddle, int row, int column)
{
    return between(2 * (half_thickness + MARGIN - distance(paddle, row, column)) + 1, 0, 1);
}

/* The pixels that a paddle can touch. */
struct box {
    int top, bottom, left, right;
};
static struct box box_of(const struct drawing *drawing, const struct paddle *paddle)
{
    struct point end = paddle->end;
    int reach = PADDLE + REACH, last = drawing->side - 1;
    return (struct box){
        end.row < reach ? 0 : end.row - reach, end.row + reach > last ? last : end.row + reach,
        end.column < reach ? 0 : end.column - reach, end.column + reach > last ? last : end.column + reach};
}

/* The largest sum of claims, or with `least` the largest of the lesser ones, at a pixel of the paddle's. */
static float conflict(const struct drawing *drawing, const struct paddle *paddle, bool least)
{
    struct box box = box_of(drawing, paddle);
    float most = 0;
    for (int r = box.top; r <= box.bottom; r++)
        for (int c = box.left; c <= box.right; c++) {
            float own = claim(paddle, r, c), taken = drawing->canvas->taken[place_of(drawing, r, c)];
            most = fmaxf(most, least ? fminf(own, taken) : own + taken);
        }
    return most;
}

static void occupy(const struct drawing *drawing, const struct paddle *paddle)
{
    struct box box = box_of(drawing, paddle);
    for (int r = box.top; r <= box.bottom; r++)
        for (int c = box.left; c <= box.right; c++) {
            float *taken = &drawing->canvas->taken[place_of(drawing, r, c)];
            *taken = fmaxf(*taken, claim(paddle, r, c));
        }
}

static void draw_contour(const struct drawing *drawing, const struct contour *contour, float light)
{
    for (size_t i = 0; i < contour->count; i++) {
        struct box box = box_of(drawing, &contour->paddles[i]);
        for (int r = box.top; r <= box.bottom; r++)
            for (int c = box.left; c <= box.right; c++) {
                float full = 0.5f + half_thickness;
                float share = between(full - distance(&contour->paddles[i], r, c), 0, full) / full;
                float *drawn = &drawing->canvas->light[place_of(drawing, r, c)];
                *drawn = fmaxf(*drawn, light * share);
            }
    }
}

static void draw_marker(const struct drawing *drawing, struct point at)
{
    for (int r = 0; r < drawing->side; r++)
        for (int c = 0; c < drawing->side; c++) {
            float down = (float)(r - at.row), right = (float)(c - at.column);
            float share = between(0.5f + marker_radius - sqrtf(down * down + right * right), 0, 1);
            float *drawn = &drawing->canvas->light[place_of(drawing, r, c)];
            *drawn = fmaxf(*drawn, marker_light * share);
        }
}

/* ---- contours ------------------------------------------------------------------------------------------ */

/* Begins a contour with a paddle from `tail`. false: it would leave the picture. */
static bool begin(const struct drawing *drawing, struct contour *contour, struct point tail,
                  struct direction toward)
{
    struct point head = moved(tail, PADDLE, toward), pivot = moved(head, -RADIUS, toward);
    *contour = (struct contour){.paddles = {{head, toward}}, .count = 1, .first = tail, .pivot = pivot};
    return inside(drawing, tail) && inside(drawing, head) && inside(drawing, pivot);
}

/* Draws a tail `frame` pixels or more from the border whose first paddle has room. */
static bool draw_seed(const struct drawing *drawing, int frame, struct contour *contour)
{
    for (int tries = 0; tries < SEED_TRIES; tries++) {
        struct direction toward = draw_direction(drawing->random);
        uint32_t range = (uint32_t)(drawing->side - 2 * frame);
        bool found = false;
        /* Fewer than one pixel in a hundred is free if this many draws find none. */
        for (int draws = 0; draws < FREE_DRAWS && !found; draws++) {
            struct point tail = {frame + (int)random_below(drawing->random, range),
                                 frame + (int)random_below(drawing->random, range)};
            const struct paddle paddle = {moved(tail, PADDLE, toward), toward};
            found = conflict(drawing, &paddle, true) <= free_below;
            if (found && begin(drawing, contour, tail, toward))
                return true;
        }
        if (!found)
            return false;
    }
    return false;
}

/* The most of what is taken at a pixel and its four neighbours. */
static float taken_near(const struct drawing *drawing, struct point at)
{
    static const struct point steps[] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    float most = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct point near = {at.row + steps[i].row, at.column + steps[i].column};
        if (inside(drawing, near))
            most = fmaxf(most, drawing->canvas->taken[place_of(drawing, near.row, near.column)]);
    }
    return most;
}

/* The pixels of the circle of RADIUS around 0: every 1 / RADIUS radians, rounded down. */
static const struct point circle[] = {{0, 3},   {0, 2},   {1, 2},  {2, 1},  {2, 0},   {2, -1},
                                      {2, -2},  {2, -3},  {1, -3}, {0, -3}, {-1, -3}, {-2, -3},
                                      {-3, -2}, {-3, -1}, {-3, 0}, {-3, 1}, {-2, 2},  {-1, 2}};

/* Adds a paddle to a contour. false: there is no room. */
static bool extend(const struct drawing *drawing, struct contour *contour)
{
    enum { PLACES = sizeof circle / sizeof *circle };
    const struct paddle *last = &contour->paddles[contour->count - 1];
    struct paddle candidates[PLACES];
    float weights[PLACES], total = 0;
    struct point pivot = moved(contour->pivot, STEP, last->toward);
    for (size_t i = 0; i < PLACES; i++) {
        struct point end = {pivot.row + circle[i].row, pivot.column + circle[i].column};
        float length = sqrtf((float)(circle[i].row * circle[i].row + circle[i].column * circle[i].column));
        struct direction toward = {(float)circle[i].row / length, (float)circle[i].column / length};
        float cosine = toward.row * last->toward.row + toward.column * last->toward.column;
        candidates[i] = (struct paddle){end, toward};
        weights[i] =
            !inside(drawing, end) || cosine <= 0 ? 0 : cosine * cosine * (1 - taken_near(drawing, end));
        total += weights[i];
    }
    if (total < least_weight)
        return false;
    for (int tries = 0; tries < REDRAWS; tries++) {
        float left = total * random_unit(drawing->random);
        size_t i = 0;
        for (; i + 1 < PLACES && left >= weights[i]; i++)
            left -= weights[i];
        if (weights[i] == 0 || conflict(drawing, &candidates[i], false) >= most_overlap)
            continue;
        occupy(drawing, last);
        contour->paddles[contour->count++] = candidates[i];
        contour->pivot = pivot;
        return true;
    }
    return false;
}

static void clear_space(const struct drawing *drawing)
{
    int last = drawing->side - 1;
    for (int r = 0; r <= last; r++)
        for (int c = 0; c <= last; c++)
            drawing->canvas->taken[place_of(drawing, r, c)] =
                r == 0 || c == 0 || r == last || c == last ? 1 : 0;
}

/* One try at both target contours, from an empty picture. */
static bool draw_targets(const struct drawing *drawing, size_t length, struct contour targets[2])
{
    clear_space(drawing);
    if (!draw_seed(drawing, drawing->seed_distance, &targets[0]))
        return false;
    struct direction away = draw_direction(drawing->random);
    struct point first = targets[0].first;
    struct point tail = {(int)lrintf((float)first.row + (float)drawing->seed_distance * away.row),
                         (int)lrintf((float)first.column + (float)drawing->seed_distance * away.column)};
    if (!begin(drawing, &targets[1], tail, draw_direction(drawing->random)) ||
        conflict(drawing, &targets[1].paddles[0], true) > free_below)
        return false;
    for (size_t i = 1; i < length; i++)
        if (!extend(drawing, &targets[0]) || !extend(drawing, &targets[1]))
            return false;
    for (int i = 0; i < 2; i++)
        occupy(drawing, &targets[i].paddles[targets[i].count - 1]);
    return true;
}

static bool draw_distractor(const struct drawing *drawing, size_t length)
{
    struct contour contour;
    size_t bytes = (size_t)drawing->side * (size_t)drawing->side * sizeof(float);
    memcpy(drawing->canvas->kept, drawing->canvas->taken, bytes);
    bool stands = draw_seed(drawing, 1, &contour);
    while (stands && contour.count < length)
        stands = extend(drawing, &contour);
    if (stands) {
        occupy(drawing, &contour.paddles[contour.count - 1]);
        draw_contour(drawing, &contour, distractor_light);
    } else {
        memcpy(drawing->canvas->taken, drawing->canvas->kept, bytes);
    }
    return stands;
}

/* Levels 0 to 255, the brightest pixel is 255. */
static void develop(const struct drawing *drawing, unsigned char *pixels)
{
    size_t count = (size_t)drawing->side * (size_t)drawing->side;
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, drawing->canvas->light[i]);
    for (size_t i = 0; i < count; i++)
        pixels[i] = (unsigned char)(255 * drawing->canvas->light[i] / most + 0.5f);
}

bool contours_draw(struct random *random, const struct contour_rules *rules,
                   const struct contour_canvas *canvas, int label, unsigned char *pixels)
{
    struct contour targets[2];
    int side = (int)rules->side, distance = (7 * side + 16) / 32;
    const struct drawing drawing = {random, side, distance < 5 ? 5 : distance, canvas};
    assert(rules->contour_length >= 1 && rules->contour_length <= CONTOURS_MOST_PADDLES);
    assert(rules->distractor_length <= CONTOURS_MOST_PADDLES);
    int tries = 0;
    while (!draw_targets(&drawing, rules->contour_length, targets))
        if (++tries == CONTOURS_TRIES)
            return false;
    memset(canvas->light, 0, rules->side * rules->side * sizeof(float));
    for (int i = 0; i < 2; i++)
        draw_contour(&drawing, &targets[i], target_light);
    for (size_t i = 0; i < rules->distractors; i++)
        for (int again = 0; again < DISTRACTOR_TRIES; again++)
            if (draw_distractor(&drawing, rules->distractor_length))
                break;
    const struct contour *marked = &targets[random_below(random, 2)];
    const struct contour *ends = label == 1 ? marked : marked == targets ? targets + 1 : targets;
    draw_marker(&drawing, marked->first);
    draw_marker(&drawing, ends->paddles[ends->count - 1].end);
    develop(&drawing, pixels);
    return true;
}
