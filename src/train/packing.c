/* Copies the rows and targets of examples: tens of kilobytes per step.
   SPDX-License-Identifier: Apache-2.0 */
#include "train/packing.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "nn/distil.h"
#include "tasks/dataset.h"
#include "train/masking.h"

static size_t each_of(const struct dataset *dataset)
{
    return dataset->pairs ? 2 : 1;
}

size_t packing_max_rows(const struct dataset *dataset, size_t batch)
{
    size_t longest = 0;
    for (size_t s = 0; s < dataset_sequences(dataset); s++)
        longest = size_max(longest, dataset_length(dataset, s));
    return size_product(longest, size_product(batch, each_of(dataset)));
}

static size_t example_rows(const struct dataset *dataset, size_t example)
{
    size_t each = each_of(dataset), rows = 0;
    for (size_t s = 0; s < each; s++)
        rows += dataset_length(dataset, example * each + s);
    return rows;
}

double packing_weight(const struct dataset *dataset, size_t objective, size_t example)
{
    const struct target_set *set = &dataset->targets[objective];
    bool of_rows = set->kind != TARGETS_EXAMPLE;
    size_t first = of_rows ? dataset->offsets[example * each_of(dataset)] : example;
    size_t count = of_rows ? example_rows(dataset, example) : 1;
    if (set->kind == TARGETS_MASKED)
        return (double)masking_count(&dataset->masks, dataset->ids + first, count);
    if (set->weights == NULL)
        return (double)count;
    double sum = 0;
    for (size_t i = first; i < first + count; i++)
        sum += set->scaled ? set->weights[i] > 0 : (double)set->weights[i];
    return sum;
}

/* Room for the decoder's rows, to the end of the last tile. */
static hashattn_status decoder_new(struct host *host, const struct dataset *dataset, size_t batch,
                                   struct packed_examples *packed)
{
    void *block;
    size_t rows = size_product(windows_decoder_rows(&dataset->windows), batch);
    rows = rows_padded(rows);
    TRY(memory_new_zeroed(host, size_sum(batch, 1), sizeof *packed->decoder_offsets,
                          "offsets of a decoder's batch", &block));
    packed->decoder_offsets = block;
    TRY(memory_new_zeroed(host, size_product(MODEL_HALVINGS, size_sum(batch, 1)),
                          sizeof *packed->halved_offsets, "offsets of halved sequences", &block));
    packed->halved_offsets = block;
    TRY(memory_new_zeroed(host, rows, size_product(dataset->row_width, sizeof(float)),
                          "rows of a decoder's batch", &block));
    packed->decoder_floats = block;
    return HASHATTN_OK;
}

hashattn_status packed_examples_new(struct host *host, const struct dataset *dataset, size_t batch,
                                    struct packed_examples *packed)
{
    struct dataset_column columns[DATASET_COLUMNS];
    hashattn_status status;
    void *block;
    size_t sequences = size_product(batch, each_of(dataset)), rows = packing_max_rows(dataset, batch);
    memset(packed, 0, sizeof *packed);
    packed->mask_key = random_key(0, RANDOM_EVALUATION, 0);
    struct dataset *data = &packed->data;
    *data = (struct dataset){.row_width = dataset->row_width,
                             .segmented = dataset->segmented,
                             .pairs = dataset->pairs,
                             .num_targets = dataset->num_targets};
    for (size_t i = 0; i < dataset->num_targets; i++) {
        const struct target_set *set = &dataset->targets[i];
        data->targets[i] =
            (struct target_set){.kind = set->kind == TARGETS_EXAMPLE ? TARGETS_EXAMPLE : TARGETS_ROW,
                                .width = set->width,
                                .weighted = set->weighted || set->kind == TARGETS_MASKED};
    }
    rows = rows_padded(rows); /* float rows are read to the end of the last tile */
    size_t count = dataset_columns(data, columns);
    for (size_t i = 0; i < count; i++)
        TRY_DONE(memory_new(host, columns[i].of_rows ? rows : batch, columns[i].size, columns[i].what,
                            columns[i].array));
    TRY_DONE(
        memory_new_zeroed(host, size_sum(sequences, 1), sizeof *data->offsets, "offsets of a batch", &block));
    data->offsets = block;
    TRY_DONE(memory_new(host, sequences, sizeof *packed->sample_ids, "ids of a batch", &block));
    packed->sample_ids = block;
    TRY_DONE(memory_new(host, sequences, sizeof *packed->totals, "lengths of a batch", &block));
    packed->totals = block;
    TRY_DONE(memory_new(host, sequences, sizeof *packed->starts, "first rows of a batch", &block));
    packed->starts = block;
    if (dataset->windows.marks != NULL)
        TRY_DONE(decoder_new(host, dataset, batch, packed));
    for (size_t i = 0; i < data->num_targets; i++)
        packed->targets[i] =
            (struct targets){data->targets[i].ids, data->targets[i].floats, data->targets[i].weights};
done:
    if (status != HASHATTN_OK)
        packed_examples_free(host, packed);
    return status;
}

void packed_examples_free(struct host *host, struct packed_examples *packed)
{
    memory_free(host, packed->decoder_floats);
    memory_free(host, packed->halved_offsets);
    memory_free(host, packed->decoder_offsets);
    memory_free(host, packed->starts);
    memory_free(host, packed->totals);
    memory_free(host, packed->sample_ids);
    dataset_free(host, &packed->data);
    memset(packed, 0, sizeof *packed);
}

void packing_begin(struct packed_examples *packed)
{
    packed->data.count = 0;
    packed->cut.ranks = NULL;
}

/* Copies elements [from, from + count) of one array to index `to` of another. */
static void copy(void *array, size_t to, const void *source, size_t from, size_t count, size_t size)
{
    if (source != NULL)
        memcpy((char *)array + to * size, (const char *)source + from * size, count * size);
}

static void copy_targets(struct target_set *set, size_t to, const struct target_set *source, size_t from,
                         size_t count)
{
    copy(set->ids, to, source->ids, from, count, sizeof *set->ids);
    copy(set->floats, to, source->floats, from, count, set->width * sizeof *set->floats);
    for (size_t i = 0; source->sparse && i < count; i++)
        target_read(source, from + i, set->floats + (to + i) * set->width);
    copy(set->weights, to, source->weights, from, count, sizeof *set->weights);
}

static void add_sequence(struct dataset *data, const struct dataset *dataset, size_t sequence, size_t at)
{
    size_t from = dataset->offsets[sequence], length = dataset_length(dataset, sequence);
    copy(data->ids, at, dataset->ids, from, length, sizeof *data->ids);
    copy(data->floats, at, dataset->floats, from, length, data->row_width * sizeof *data->floats);
    if (dataset->windows.values != NULL)
        windows_read(&dataset->windows, sequence, data->floats + at * data->row_width);
    copy(data->segments, at, dataset->segments, from, length, 1);
    for (size_t k = 0; k < data->num_targets; k++) {
        const struct target_set *source = &dataset->targets[k];
        if (source->kind == TARGETS_ROW)
            copy_targets(&data->targets[k], at, source, from, length);
        if (source->kind == TARGETS_NEXT)
            copy(data->targets[k].ids, at, dataset->ids, from + 1, length, sizeof *data->ids);
    }
}

void packing_add(struct packed_examples *packed, const struct dataset *dataset, size_t example, uint64_t id)
{
    struct dataset *data = &packed->data;
    size_t each = each_of(dataset), place = data->count;
    for (size_t s = 0; s < each; s++) {
        size_t sequence = place * each + s, at = data->offsets[sequence];
        add_sequence(data, dataset, example * each + s, at);
        packed->sample_ids[sequence] = id * each + s;
        data->offsets[sequence + 1] = at + dataset_length(dataset, example * each + s);
    }
    if (packed->decoder_offsets != NULL) {
        size_t rows = windows_decoder_rows(&dataset->windows);
        windows_read_decoder(&dataset->windows, example,
                             packed->decoder_floats + place * rows * data->row_width);
        packed->decoder_offsets[place + 1] = (place + 1) * rows;
    }
    if (dataset->windows.values != NULL)
        windows_ask(&dataset->windows, example, data->targets[0].floats + place * data->targets[0].width);
    size_t start = data->offsets[place * each], rows = data->offsets[(place + 1) * each] - start;
    for (size_t k = 0; k < data->num_targets; k++) {
        const struct target_set *set = &data->targets[k];
        if (dataset->targets[k].kind == TARGETS_EXAMPLE)
            copy_targets(&data->targets[k], place, &dataset->targets[k], example, 1);
        if (dataset->targets[k].kind == TARGETS_MASKED)
            masking_draw(&dataset->masks, random_key(packed->mask_key, RANDOM_MASK, id), data->ids + start,
                         rows, set->ids + start, set->weights + start);
    }
    data->count++;
}

/* Float rows are read to the end of the last tile. */
static void clear_after(float *floats, size_t rows, size_t width)
{
    size_t padded = rows_padded(rows);
    memset(floats + rows * width, 0, (padded - rows) * width * sizeof *floats);
}

static void clear_last_tile(struct dataset *data)
{
    if (data->floats != NULL)
        clear_after(data->floats, data->offsets[dataset_sequences(data)], data->row_width);
}

void packing_end(struct packed_examples *packed)
{
    size_t count = packed->data.count;
    clear_last_tile(&packed->data);
    if (packed->decoder_offsets == NULL)
        return;
    clear_after(packed->decoder_floats, packed->decoder_offsets[count], packed->data.row_width);
    const size_t *offsets = packed->data.offsets;
    for (size_t k = 0; k < MODEL_HALVINGS; k++) {
        size_t *halved = packed->halved_offsets + k * (count + 1);
        distil_offsets(count, offsets, halved);
        offsets = halved;
    }
}

/* Moves the rows that stay to the front of every array. */
static void keep_rows(struct dataset *data, size_t to, size_t from, size_t count)
{
    struct dataset_column columns[DATASET_COLUMNS];
    size_t num_columns = dataset_columns(data, columns);
    for (size_t i = 0; i < num_columns; i++) {
        char *array = *(char **)columns[i].array;
        if (columns[i].of_rows)
            memmove(array + to * columns[i].size, array + from * columns[i].size, count * columns[i].size);
    }
}

void packing_cut(struct packed_examples *packed, struct row_ranks *ranks)
{
    struct dataset *data = &packed->data;
    size_t kept = 0, offset = 0;
    if (row_ranks_count(ranks) == 1)
        return;
    for (size_t s = 0; s < dataset_sequences(data); s++) {
        size_t first, end, total = data->offsets[s + 1] - offset;
        comm_span(ranks->comm, total, &first, &end);
        keep_rows(data, kept, offset + first, end - first);
        packed->totals[s] = total;
        packed->starts[s] = first;
        kept += end - first;
        offset = data->offsets[s + 1];
        data->offsets[s + 1] = kept;
    }
    packed->cut = (struct rows_cut){ranks, packed->totals, packed->starts};
    clear_last_tile(data);
}

void packing_range(struct packed_examples *packed, const struct dataset *dataset, size_t first, size_t count)
{
    packing_begin(packed);
    for (size_t i = first; i < first + count; i++)
        packing_add(packed, dataset, i, i);
    packing_end(packed);
}

struct model_batch packed_batch(const struct packed_examples *packed, const struct kernels *kernels,
                                struct pool *pool, bool targeted)
{
    const struct dataset *data = &packed->data;
    return (struct model_batch){
        .kernels = kernels,
        .pool = pool,
        .num_sequences = dataset_sequences(data),
        .offsets = data->offsets,
        .input = {.ids = data->ids, .floats = data->floats, .segments = data->segments},
        .decoder_offsets = packed->decoder_offsets,
        .decoder_floats = packed->decoder_floats,
        .halved_offsets = packed->halved_offsets,
        .targets = targeted ? packed->targets : NULL,
        .sample_ids = packed->sample_ids,
        .cut = packed->cut.ranks == NULL ? NULL : &packed->cut,
    };
}
