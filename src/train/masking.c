/* Selection sampling (Knuth, The Art of Computer Programming, volume 2, algorithm 3.4.2 S): one pass, no
   memory, and every set of rows is equally likely.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/masking.h"

#include <assert.h>

#include "base/random.h"

static bool may_hide(const struct mask_rules *rules, uint32_t id)
{
    assert(id < rules->num_ids);
    return rules->fixed[id] == 0;
}

static size_t count_open(const struct mask_rules *rules, const uint32_t *ids, size_t length)
{
    size_t open = 0;
    for (size_t i = 0; i < length; i++)
        open += may_hide(rules, ids[i]);
    return open;
}

static size_t wanted_of(const struct mask_rules *rules, size_t open)
{
    size_t wanted = (size_t)(rules->share * (double)open + 0.5);
    if (wanted == 0 && open > 0)
        return 1;
    return wanted < open ? wanted : open;
}

size_t masking_count(const struct mask_rules *rules, const uint32_t *ids, size_t length)
{
    return wanted_of(rules, count_open(rules, ids, length));
}

/* What the model reads in place of a hidden id. */
static uint32_t replacement(const struct mask_rules *rules, struct random *random, uint32_t id)
{
    uint32_t tenth = random_below(random, 10);
    if (tenth < 8)
        return rules->mask_id;
    if (tenth == 9)
        return id;
    do
        id = random_below(random, (uint32_t)rules->num_ids);
    while (!may_hide(rules, id));
    return id;
}

void masking_draw(const struct mask_rules *rules, uint64_t key, uint32_t *ids, size_t length,
                  uint32_t *targets, float *weights)
{
    struct random random = random_open(key);
    size_t open = count_open(rules, ids, length), wanted = wanted_of(rules, open);
    for (size_t i = 0; i < length; i++) {
        targets[i] = 0;
        weights[i] = 0;
        if (!may_hide(rules, ids[i]))
            continue;
        if (random_below(&random, (uint32_t)open--) < wanted) {
            targets[i] = ids[i];
            weights[i] = 1;
            ids[i] = replacement(rules, &random, ids[i]);
            wanted--;
        }
    }
}
