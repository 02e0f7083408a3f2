/* FNV-1a over the arrays of a data set, in one pass.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/fingerprint.h"

#include <string.h>

/* FNV-1a, a word at a time: it has to detect changes, not attacks. */
static const uint64_t first_hash = 14695981039346656037u, prime = 1099511628211u;

static uint64_t mix(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * prime;
}

static uint64_t mix_floats(uint64_t hash, const float *floats, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &floats[i], sizeof word);
        hash = mix(hash, word);
    }
    return hash;
}

/* Mixes `count` words of 0: multiplies by a power of the prime. */
static uint64_t mix_zeros(uint64_t hash, size_t count)
{
    for (uint64_t power = prime; count > 0; count /= 2, power *= power)
        hash *= count % 2 == 1 ? power : 1;
    return hash;
}

/* Mixes the floats of a sparse target, as if they were stored. */
static uint64_t mix_sparse(uint64_t hash, const struct target_set *set, size_t target)
{
    const uint32_t *places = set->places + set->ones[target].first;
    const float one = 1;
    size_t done = 0;
    for (size_t i = 0; i < set->ones[target].count; i++, done++) {
        hash = mix_floats(mix_zeros(hash, places[i] - done), &one, 1);
        done = places[i];
    }
    return mix_zeros(hash, set->width - done);
}

/* Mixes targets [first, first + count). An id of weight 0 is mixed as UINT32_MAX, without its weight. */
static uint64_t mix_targets(uint64_t hash, const struct target_set *set, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        float weight = set->weights == NULL ? 1 : set->weights[i];
        bool unasked_id = set->width == 0 && weight == 0;
        if (set->width == 0)
            hash = mix(hash, unasked_id ? UINT32_MAX : set->ids[i]);
        else if (set->sparse)
            hash = mix_sparse(hash, set, i);
        else
            hash = mix_floats(hash, set->floats + i * set->width, set->width);
        if (weight != 1 && !unasked_id)
            hash = mix_floats(hash, &weight, 1);
    }
    return hash;
}

/* The whole series and how it is cut, instead of every window. */
static uint64_t mix_windows(uint64_t hash, const struct windows *windows)
{
    const size_t cut[] = {windows->times,  windows->columns, windows->first,       windows->count,
                          windows->length, windows->horizon, windows->patch,       windows->stride,
                          windows->joint,  windows->target,  windows->num_targets, (size_t)windows->level,
                          windows->season};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        hash = mix(hash, cut[i]);
    for (size_t i = 0; i < windows->count && windows->origins != NULL; i++)
        hash = mix(mix(hash, windows->origins[i].time), windows->origins[i].series);
    if (windows->marks != NULL)
        hash = mix_floats(mix(hash, windows->label), windows->marks,
                          (windows->times + windows->horizon) * windows->num_marks);
    return mix_floats(hash, windows->values, windows->columns * windows->times);
}

/* The values that are forecast, from the first target of the first window to the last of the last, whatever
   the windows read and subtract, and whether an example has all columns or one. */
static uint64_t mix_forecasts(uint64_t hash, const struct windows *windows)
{
    size_t targets = windows->joint ? windows->num_targets : windows->columns;
    hash = mix(mix(hash, windows->count), windows->horizon);
    for (size_t k = 0; k < targets; k++) {
        size_t column = windows->joint ? windows->target + k : k;
        const float *values = windows->values + column * windows->times + windows->length;
        if (windows->origins == NULL)
            hash = mix_floats(hash, values + windows->first, windows->count + windows->horizon - 1);
        for (size_t i = 0; i < windows->count && windows->origins != NULL; i++)
            hash = mix_floats(hash, values + windows->origins[i].time, windows->horizon);
    }
    return hash;
}

uint64_t fingerprint_of_floats(const float *floats, size_t count)
{
    return mix_floats(first_hash, floats, count);
}

struct fingerprint fingerprint_of(const struct dataset *dataset)
{
    uint64_t hash = dataset->map.bytes != NULL ? dataset->hash : first_hash;
    size_t sequences = dataset_sequences(dataset), each = dataset->pairs ? 2 : 1;
    bool windowed = dataset->windows.values != NULL;
    if (windowed)
        hash = mix_windows(hash, &dataset->windows);
    for (size_t s = 0; s < sequences && dataset->map.bytes == NULL && !windowed; s++) {
        size_t first = dataset->offsets[s], end = dataset->offsets[s + 1];
        hash = mix(hash, end - first);
        for (size_t k = 0; k < dataset->num_targets; k++) {
            const struct target_set *set = &dataset->targets[k];
            if (set->kind == TARGETS_NEXT || set->kind == TARGETS_MASKED)
                hash = mix(hash, UINT32_MAX);
            else if (set->kind == TARGETS_EXAMPLE)
                hash = mix_targets(hash, set, s / each, 1);
            else
                hash = mix_targets(hash, set, first, end - first);
        }
        for (size_t at = first; at < end && dataset->ids != NULL; at++)
            hash = mix(hash, dataset->ids[at]);
        for (size_t at = first; at < end && dataset->segmented; at++)
            hash = mix(hash, dataset->segments[at]);
        if (dataset->floats != NULL)
            hash = mix_floats(hash, dataset->floats + first * dataset->row_width,
                              (end - first) * dataset->row_width);
    }
    return (struct fingerprint){dataset->count, sequences > 0 ? dataset->offsets[sequences] : 0, hash};
}

/* Mixes the lengths of all sequences, and targets of rows or the ids that masks and next ids are drawn
   from. */
static uint64_t mix_rows(uint64_t hash, const struct dataset *dataset, const struct target_set *set)
{
    for (size_t s = 0; s < dataset_sequences(dataset); s++) {
        size_t first = dataset->offsets[s], end = dataset->offsets[s + 1];
        hash = mix(hash, end - first);
        if (set->kind == TARGETS_ROW)
            hash = mix_targets(hash, set, first, end - first);
        for (size_t at = first; set->kind != TARGETS_ROW && at < end; at++)
            hash = mix(hash, dataset->ids[at]);
    }
    return hash;
}

uint64_t fingerprint_of_targets(const struct dataset *dataset)
{
    uint64_t hash = first_hash;
    if (dataset->windows.values != NULL)
        return mix_forecasts(hash, &dataset->windows);
    for (size_t k = 0; k < dataset->num_targets; k++) {
        const struct target_set *set = &dataset->targets[k];
        hash = mix(hash, set->kind);
        hash = set->kind == TARGETS_EXAMPLE ? mix_targets(hash, set, 0, dataset->count)
                                            : mix_rows(hash, dataset, set);
        if (set->kind == TARGETS_MASKED)
            hash = mix(mix(hash, dataset->masks.mask_id), dataset->masks.num_ids);
    }
    return hash;
}
