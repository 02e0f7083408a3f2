/* Offsets are taken in one order for sizes and for use. Cost of yoso_gpu_fill on the host: the planes of the
   call, a permutation and signs for each turn, and a pass over the mask.
   SPDX-License-Identifier: Apache-2.0 */
#include "gpu/yoso_gpu_memory.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "parts/collisions/pairs.h"
#include "parts/hashing/hasher.h"
#include "parts/rows/elements.h"

/* Behind what is uploaded: whose planes the staging holds, so that a call with the same key does not draw
   them again. */
struct drawn_planes {
    uint64_t key;
    uint64_t made; /* 0 or 1 */
    uint64_t aligned[6];
};

static const size_t WAVE_BYTES = (size_t)512 << 20;

/* The next piece, aligned for the device. */
static size_t take(size_t *used, size_t count, size_t size)
{
    size_t at = *used;
    *used = size_sum(*used, size_sum(size_product(count, size), 255) / 256 * 256);
    return at;
}

static size_t rows_of(const size_t *offsets, size_t sequence)
{
    return offsets[sequence + 1] - offsets[sequence];
}

static struct yoso_gpu_sizes sizes_of(const struct device_batch *batch)
{
    const struct yoso_options *options = batch->options;
    struct yoso_gpu_sizes sizes = {.longest = 1};
    size_t width = size_max(batch->head_dim, batch->value_dim);
    for (size_t s = 0; s < batch->num_sequences; s++)
        sizes.longest = size_max(sizes.longest,
                                 size_max(rows_of(batch->query_offsets, s), rows_of(batch->key_offsets, s)));
    sizes.units = size_product(batch->num_sequences, batch->num_heads);
    sizes.ld = (sizes.longest + 7) / 8 * 8;
    sizes.width = width <= 32 ? 32 : width <= 64 ? 64 : 128;
    sizes.hashes = (size_t)options->num_hashes;
    sizes.bits = (size_t)options->hash_bits;
    sizes.some = options->gradient_hashes > 0 && options->gradient_hashes < options->num_hashes;
    sizes.drawn = sizes.some ? (size_t)options->gradient_hashes : sizes.hashes;
    sizes.ordered = size_min(ORDERED_HASHES, sizes.hashes);
    sizes.turns = batch->alike ? batch->num_heads : sizes.units;
    return sizes;
}

size_t yoso_gpu_codes_bytes(const struct yoso_gpu_sizes *sizes, size_t num_queries, size_t num_keys)
{
    size_t used = 0;
    for (int side = 0; side < GPU_SIDES; side++) {
        size_t n = side == GPU_QUERIES ? num_queries : num_keys;
        take(&used, size_product((n + 7) / 8 * 8, sizes->hashes), sizeof(uint16_t));
        take(&used, n, sizeof(float));
    }
    return used;
}

static void lay_wave(struct yoso_gpu_layout *l, const struct device_batch *batch, size_t *used)
{
    const struct yoso_options *options = batch->options;
    const struct yoso_gpu_sizes *s = &l->sizes;
    size_t wave = s->wave, rows = size_product(size_product(wave, s->longest), s->width);
    size_t buckets = (size_t)1 << s->bits, in_table = size_product(wave * s->hashes, buckets);
    size_t sorted = size_product(wave * s->ordered, s->ld);
    size_t *const arrays[] = {&l->query, &l->key, &l->value, &l->dx, &l->dquery, &l->dkey};
    l->packed = take(used, size_product(wave * s->bits * ((s->hashes + 7) / 8), s->width / 32), 512);
    l->most = take(used, 2 * wave, sizeof(uint32_t));
    l->fullest = l->most + wave * sizeof(uint32_t);
    l->counts = take(used, options->normalize == YOSO_NORMALIZE_SUM ? in_table : 0, sizeof(uint32_t));
    l->table = take(used, batch->causal ? 0 : size_product(in_table, s->width), sizeof(float));
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++)
        *arrays[a] = take(used, rows, a < 3 ? element_bytes(batch->dtype) : sizeof(float));
    l->bias = take(used, size_product(wave, s->longest), sizeof(float));
    for (int side = 0; side < GPU_SIDES; side++) {
        l->order[side][0] = take(used, sorted, sizeof(uint32_t));
        l->order[side][1] = take(used, sorted, sizeof(uint16_t));
        l->order[side][2] = take(used, size_product(wave * s->ordered, buckets + 1), sizeof(uint32_t));
    }
    l->codes = *used;
    if (options->recompute)
        take(used, wave, yoso_gpu_codes_bytes(s, s->longest, s->longest));
}

struct yoso_gpu_layout yoso_gpu_lay_out(const struct device_batch *batch)
{
    const struct yoso_options *options = batch->options;
    struct yoso_gpu_layout l = {.sizes = sizes_of(batch)};
    struct yoso_gpu_sizes *s = &l.sizes;
    struct planes_form form = hasher_form(options, batch->head_dim);
    size_t used = 0, of_unit = 0;
    l.units = take(&used, s->units, sizeof(struct gpu_unit));
    l.permutation = take(&used, size_product(s->turns, batch->head_dim), sizeof(uint32_t));
    l.sign = take(&used, size_product(s->turns, batch->head_dim), sizeof(float));
    l.planes = take(&used, planes_count(&form), sizeof(float));
    l.kept = take(&used, batch->masked ? batch->key_offsets[batch->num_sequences] : 0, sizeof(uint32_t));
    l.drawn = take(&used, s->some ? size_sum(size_product(s->units, s->drawn), 1) : 0, sizeof(uint32_t));
    l.uploaded_bytes = used;
    s->wave = 1;
    lay_wave(&l, batch, &of_unit);
    s->wave = size_max(1, size_min(size_min(s->units, 1024), WAVE_BYTES / of_unit));
    lay_wave(&l, batch, &used);
    l.scratch_bytes = used;
    for (size_t q = 0; q < batch->num_sequences; q++) {
        size_t queries = rows_of(batch->query_offsets, q), keys = rows_of(batch->key_offsets, q), unit = 0;
        if (options->normalize != YOSO_NORMALIZE_NONE)
            take(&unit, queries, sizeof(float));
        if (!options->recompute)
            unit = size_sum(unit, yoso_gpu_codes_bytes(s, queries, keys));
        l.saved_bytes = size_sum(l.saved_bytes, size_product(unit, batch->num_heads));
    }
    l.staging_bytes =
        size_sum(size_sum(l.uploaded_bytes, sizeof(struct drawn_planes)), planes_work_size(&form, 1));
    return l;
}

/* ---- filling ------------------------------------------------------------------------------------------- */

/* The numbers of the kept keys of each sequence, from its place in key_offsets on. Returns their number. */
static size_t fill_kept(const struct device_call *call, size_t sequence, uint32_t *kept)
{
    const size_t *offsets = call->batch->key_offsets;
    size_t first = offsets[sequence], count = 0;
    for (size_t j = 0; j < rows_of(offsets, sequence); j++)
        if (call->key_mask[first + j] != 0)
            kept[first + count++] = (uint32_t)j;
    return count;
}

static void fill_units(const struct device_call *call, const struct yoso_gpu_layout *l)
{
    const struct device_batch *batch = call->batch;
    const struct yoso_options *options = batch->options;
    const unsigned most_heads = (1u << GPU_HEAD_BITS) - 1;
    unsigned char *staging = call->staging;
    struct gpu_unit *units = (struct gpu_unit *)(void *)(staging + l->units);
    uint32_t *kept = (uint32_t *)(void *)(staging + l->kept);
    size_t saved = 0, of_codes = yoso_gpu_codes_bytes(&l->sizes, l->sizes.longest, l->sizes.longest);
    for (size_t u = 0, keys = 0; u < l->sizes.units; u++) {
        size_t sequence = u / batch->num_heads, head = u % batch->num_heads;
        size_t queries = rows_of(batch->query_offsets, sequence), all = rows_of(batch->key_offsets, sequence);
        if (head == 0)
            keys = call->key_mask == NULL ? all : fill_kept(call, sequence, kept);
        struct gpu_unit unit = {
            .rows = {(unsigned)queries, (unsigned)keys},
            .all_keys = (unsigned)all,
            .sequence = (unsigned)sequence,
            .head = (unsigned)head,
            .name = (unsigned)(size_min(sequence, 0xffff) << GPU_HEAD_BITS | size_min(head, most_heads)),
            .turn = (unsigned)(batch->alike ? head : u),
            .first = {batch->query_offsets[sequence], batch->key_offsets[sequence]},
            .kept = call->key_mask == NULL ? GPU_EVERY_KEY : batch->key_offsets[sequence],
            .length = saved};
        if (options->normalize != YOSO_NORMALIZE_NONE)
            take(&saved, queries, sizeof(float));
        size_t at = options->recompute ? u % l->sizes.wave * of_codes : saved;
        for (int side = 0; side < GPU_SIDES; side++) {
            size_t n = unit.rows[side];
            unit.codes[side] = take(&at, (n + 7) / 8 * 8 * l->sizes.hashes, sizeof(uint16_t));
            unit.inverse[side] = take(&at, n, sizeof(float));
        }
        if (!options->recompute)
            saved += yoso_gpu_codes_bytes(&l->sizes, queries, all);
        units[u] = unit;
    }
}

/* As planes_rotate draws them. */
static void fill_turns(const struct device_call *call, const struct yoso_gpu_layout *l)
{
    unsigned char *staging = call->staging;
    size_t dim = call->batch->head_dim;
    for (size_t t = 0; t < l->sizes.turns; t++) {
        random_permutation(random_key(call->unit_keys[t], RANDOM_TURN, 0),
                           (uint32_t *)(void *)(staging + l->permutation) + t * dim, dim);
        random_signs(random_key(call->unit_keys[t], RANDOM_TURN, 1),
                     (float *)(void *)(staging + l->sign) + t * dim, dim);
    }
}

static void fill_planes(const struct device_call *call, const struct yoso_gpu_layout *l)
{
    unsigned char *staging = call->staging;
    struct planes_form form = hasher_form(call->batch->options, call->batch->head_dim);
    struct drawn_planes *drawn = (struct drawn_planes *)(void *)(staging + l->uploaded_bytes);
    if (drawn->made == 0 || drawn->key != call->call_key)
        planes_draw(call->kernels, NULL, &form, call->call_key, (float *)(void *)(staging + l->planes),
                    drawn + 1);
    *drawn = (struct drawn_planes){.key = call->call_key, .made = 1};
}

void yoso_gpu_fill(const struct device_call *call, const struct yoso_gpu_layout *l, bool backward)
{
    const struct device_batch *batch = call->batch;
    const struct yoso_options *options = batch->options;
    unsigned char *staging = call->staging;
    fill_units(call, l);
    if (!backward || options->recompute) {
        fill_turns(call, l);
        fill_planes(call, l);
    }
    uint32_t *drawn = (uint32_t *)(void *)(staging + l->drawn);
    for (size_t u = 0; backward && l->sizes.some && u < l->sizes.units; u++)
        pairs_draw_hashes(drawn + u * l->sizes.drawn, l->sizes.drawn, l->sizes.hashes,
                          call->unit_keys[batch->alike ? u % batch->num_heads : u]);
}
