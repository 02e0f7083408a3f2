/* Drawn contours: levels, disks, distances that tell the label, room at the border, and rules that fit
   nothing. With contours of one stroke the label follows from the distance of the disks: the tips of a stroke
   are 2 or 3 pixels apart, those of two strokes in 64 x 64 pixels 14 less what they lean.
   Bugs planted and caught: the second disk at the pivot; labels exchanged; a distractor as bright as a
   target; always five distractors; the border free; a second seed without room; a failed distractor whose
   room stays taken; turns beyond a right angle; contours that cross; light of the picture before; seeds too
   near.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/pathfinder/contours.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

enum { PIXELS = CONTOURS_MOST_SIDE * CONTOURS_MOST_SIDE };

static float floats[3 * PIXELS];
static unsigned char pixels[PIXELS];

static bool draw(uint64_t seed, const struct contour_rules *rules, int label)
{
    const struct contour_canvas canvas = {floats, floats + PIXELS, floats + 2 * PIXELS};
    struct random random = random_open(random_key(seed, RANDOM_DATA, 0));
    for (size_t i = 0; i < 3 * PIXELS; i++)
        floats[i] = 9; /* brighter than all that is drawn */
    memset(pixels, 1, sizeof pixels);
    return contours_draw(&random, rules, &canvas, label, pixels);
}

static size_t count_above(const struct contour_rules *rules, int level)
{
    size_t count = 0;
    for (size_t i = 0; i < rules->side * rules->side; i++)
        count += pixels[i] >= level;
    return count;
}

/* The distance of the two centres of disks. A disk is 3 x 3 pixels of at least `level`, the stroke in it
   brighter. */
static double distance_of_disks(const struct contour_rules *rules, int level)
{
    int found = 0, side = (int)rules->side;
    double rows[50], columns[50], most = 0;
    for (int r = 1; r + 1 < side; r++)
        for (int c = 1; c + 1 < side; c++) {
            int least = 255;
            for (int k = 0; k < 9; k++) {
                int level_here = pixels[(r - 1 + k / 3) * side + c - 1 + k % 3];
                least = level_here < least ? level_here : least;
            }
            if (least < level || found == 50)
                continue;
            rows[found] = r, columns[found++] = c;
        }
    assert_in_range(found, 1, 49);
    for (int i = 0; i < found; i++)
        for (int k = 0; k < i; k++)
            most = fmax(most, hypot(rows[i] - rows[k], columns[i] - columns[k]));
    return most;
}

static void the_label_says_where_the_second_disk_is(void **state)
{
    (void)state;
    const struct contour_rules rules = {64, 1, 0, 1};
    double least = 1e9, most = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        assert_true(draw(seed, &rules, 1));
        /* Without distractors the brightest stroke is 255, so that a disk has 170, its corners 0.59 of
           that. */
        most = fmax(most, distance_of_disks(&rules, 98));
        assert_true(draw(seed, &rules, 0));
        least = fmin(least, distance_of_disks(&rules, 98));
    }
    assert_true(most <= 6 && least >= 8);
}

/* Two strokes of one contour: a turn is at most a right angle, so the disks are at least 2 pixels apart;
   after a turn back they would coincide. */
static void contours_do_not_turn_back(void **state)
{
    (void)state;
    const struct contour_rules rules = {64, 2, 0, 1};
    double least = 1e9;
    for (uint64_t seed = 0; seed < 400; seed++) {
        assert_true(draw(seed, &rules, 1));
        least = fmin(least, distance_of_disks(&rules, 98));
    }
    assert_true(least >= 2);
}

static void light_is_as_described(void **state)
{
    (void)state;
    const struct contour_rules lone = {32, 14, 0, 4}, full = {32, 14, 5, 4};
    double targets = 0, all = 0, strokes = 0;
    enum { PICTURES = 60 };
    for (uint64_t seed = 0; seed < PICTURES; seed++) {
        assert_true(draw(seed, &lone, (int)(seed % 2)));
        assert_int_equal(count_above(&lone, 255) > 0, 1);
        targets += (double)count_above(&lone, 100);
        /* The border is taken, so that no stroke lies on it. */
        for (int i = 0; i < 32; i++)
            assert_true(pixels[i] < 200 && pixels[31 * 32 + i] < 200 && pixels[32 * i] < 200 &&
                        pixels[32 * i + 31] < 200);
        assert_true(draw(seed, &full, (int)(seed % 2)));
        all += (double)count_above(&full, 75);
        /* Distractors are 255, targets 191: what is above 200 belongs to distractors. */
        strokes += (double)count_above(&full, 200);
    }
    /* 28 strokes of about 3 pixels, and two disks; then up to 20 strokes more. */
    assert_true(targets / PICTURES > 75 && targets / PICTURES < 110);
    assert_true(all / PICTURES > targets / PICTURES + 15);
    assert_true(strokes / PICTURES > 8 && strokes / PICTURES < 40);
}

static void more_distractors_are_brighter_pixels(void **state)
{
    (void)state;
    double bright[4] = {0};
    for (uint64_t seed = 0; seed < 30; seed++)
        for (size_t i = 0; i < 4; i++) {
            const struct contour_rules rules = {48, 3, 3 * i, 3};
            assert_true(draw(seed, &rules, 1));
            bright[i] += (double)count_above(&rules, 200) / 30;
        }
    assert_true(bright[1] > 5 && bright[2] > bright[1] + 5 && bright[3] > bright[2] + 5);
}

/* A distractor that fails leaves its room to the next ones. */
static void failed_distractors_take_no_room(void **state)
{
    (void)state;
    const struct contour_rules rules = {32, 2, 200, 8};
    double bright = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_true(draw(seed, &rules, 1));
        bright += (double)count_above(&rules, 200) / 20;
    }
    assert_true(bright > 45);
}

static void every_side_has_room(void **state)
{
    (void)state;
    for (size_t side = CONTOURS_LEAST_SIDE; side <= CONTOURS_MOST_SIDE; side += 16) {
        const struct contour_rules rules = {side, 2 + side / 8, 5, 2};
        assert_true(draw(side, &rules, 1) && draw(side, &rules, 0));
        for (size_t i = side * side; i < PIXELS; i++)
            assert_int_equal(pixels[i], 1);
    }
    const struct contour_rules crowded = {16, 64, 5, 2}, tight = {20, 14, 0, 1};
    assert_false(draw(1, &crowded, 1));
    assert_false(draw(1, &tight, 1)); /* fits only if contours may cross */
}

static void a_seed_is_a_picture(void **state)
{
    (void)state;
    const struct contour_rules rules = {32, 9, 6, 3};
    unsigned char first[32 * 32];
    assert_true(draw(5, &rules, 1));
    memcpy(first, pixels, sizeof first);
    assert_true(draw(5, &rules, 1));
    assert_memory_equal(first, pixels, sizeof first);
    assert_true(draw(6, &rules, 1));
    assert_memory_not_equal(first, pixels, sizeof first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_label_says_where_the_second_disk_is),
        cmocka_unit_test(contours_do_not_turn_back),
        cmocka_unit_test(light_is_as_described),
        cmocka_unit_test(more_distractors_are_brighter_pixels),
        cmocka_unit_test(failed_distractors_take_no_room),
        cmocka_unit_test(every_side_has_room),
        cmocka_unit_test(a_seed_is_a_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
