/* The grey level of a colour is that of the Long Range Arena's data pipeline: weights 0.2989, 0.5870 and
   0.1140 on channels in [0, 1], then times 255.5, rounded down.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/pixels.h"

const char *const pixel_inputs[] = {"ids", "grey", "rgb", NULL};

enum { LEVELS = 256, CHANNELS = 3 };

static size_t row_width(enum pixel_input input)
{
    return input == PIXELS_IDS ? 0 : input == PIXELS_GREY ? 1 : CHANNELS;
}

hashattn_status pixels_facts(struct host *host, const struct pixel_rules *rules, const struct picture *like,
                             const char *const *labels, size_t num_classes, struct task_facts *facts)
{
    size_t side = rules->shrink;
    *facts = (struct task_facts){0};
    FAIL_IF(like->height % side != 0 || like->width % side != 0, host, HASHATTN_BAD_FILE,
            "pictures of %zu x %zu pixels are not made of squares of %zu x %zu (`shrink`)", like->height,
            like->width, side, side);
    FAIL_IF(rules->input == PIXELS_RGB && !like->colour, host, HASHATTN_BAD_FILE,
            "the pictures are grey, so their pixels cannot be rgb");
    size_t pixels = like->height / side * (like->width / side);
    FAIL_IF(pixels == 0 || pixels > PIXELS_MOST, host, HASHATTN_BAD_FILE,
            "pictures of %zu x %zu pixels make sequences of %zu, allowed are 1 to %d", like->height,
            like->width, pixels, PIXELS_MOST);
    size_t width = row_width(rules->input);
    TRY(task_facts_new(host, width == 0 ? LEVELS : 0, pixels, labels, num_classes, facts));
    facts->row_width = width;
    return HASHATTN_OK;
}

struct dataset pixels_shape(const struct task_facts *facts)
{
    struct dataset shape = {.row_width = facts->row_width};
    dataset_classified(&shape);
    return shape;
}

static unsigned grey_of(unsigned red, unsigned green, unsigned blue)
{
    const float unit = 1.0f / 255;
    float grey =
        0.2989f * ((float)red * unit) + 0.5870f * ((float)green * unit) + 0.1140f * ((float)blue * unit);
    return (unsigned)(grey * 255.5f);
}

/* The level of one pixel; channel CHANNELS is grey. */
static unsigned level_at(const struct picture *picture, size_t channel, size_t place)
{
    const unsigned char *levels = picture->levels + place;
    size_t plane = picture->height * picture->width;
    if (!picture->colour)
        return levels[0];
    return channel < CHANNELS ? levels[channel * plane]
                              : grey_of(levels[0], levels[plane], levels[2 * plane]);
}

/* The sum of the levels of the square with this corner. */
static unsigned sum_of(const struct picture *picture, size_t channel, size_t row, size_t column, size_t side)
{
    unsigned sum = 0;
    for (size_t r = row; r < row + side; r++)
        for (size_t c = column; c < column + side; c++)
            sum += level_at(picture, channel, r * picture->width + c);
    return sum;
}

hashattn_status pixels_push(struct host *host, const struct pixel_rules *rules,
                            const struct task_facts *facts, const struct picture *picture, int32_t label,
                            struct dataset_builder *builder)
{
    size_t side = rules->shrink, rows = picture->height / side, columns = picture->width / side, place;
    size_t width = row_width(rules->input), area = side * side;
    FAIL_IF(rows * columns != facts->max_len, host, HASHATTN_BAD_FILE,
            "%zu x %zu pixels make a sequence of %zu, those of the training set have %zu", picture->height,
            picture->width, rows * columns, facts->max_len);
    FAIL_IF(rules->input == PIXELS_RGB && !picture->colour, host, HASHATTN_BAD_FILE,
            "the picture is grey, the model reads rgb");
    TRY(dataset_reserve(host, builder, rows * columns, &place));
    struct dataset *dataset = &builder->dataset;
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < columns; column++, place++) {
            if (width == 0) {
                unsigned sum = sum_of(picture, CHANNELS, row * side, column * side, side);
                dataset->ids[place] = (uint32_t)((sum + area / 2) / area);
            }
            for (size_t i = 0; i < width; i++) {
                size_t channel = width == 1 ? CHANNELS : i;
                unsigned sum = sum_of(picture, channel, row * side, column * side, side);
                dataset->floats[place * width + i] = (float)sum / (127.5f * (float)area) - 1;
            }
        }
    dataset_push_label(builder, rows * columns, label, false);
    return HASHATTN_OK;
}
