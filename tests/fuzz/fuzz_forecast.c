/* Any bytes as a table with dates, under options that the first byte chooses: every part has windows whose
   values are finite and whose rows lie in the file; the dates after the end can be written; a refusal names
   the file.
   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "fuzz/fuzz_file.h"
#include "io/dates/calendar.h"
#include "support/task_case.h"

static void check_windows(const struct dataset *dataset, const struct task_facts *facts)
{
    const struct windows *w = &dataset->windows;
    size_t floats = windows_rows(w) * windows_row_width(w), asked = dataset->targets[0].width;
    size_t decoded = windows_decoder_rows(w), longest = windows_rows(w) > decoded ? windows_rows(w) : decoded;
    float *rows = malloc(floats * sizeof *rows), *target = malloc(asked * sizeof *target),
          *decoder = malloc((decoded * windows_row_width(w) + 1) * sizeof *decoder);
    FUZZ_CHECK(rows != NULL && target != NULL && decoder != NULL && dataset->count > 0);
    FUZZ_CHECK(windows_row_width(w) == facts->row_width && longest == facts->max_len);
    for (size_t i = 0; i<dataset->count; i += dataset->count> 1 ? dataset->count - 1 : 1) {
        windows_read(w, i, rows);
        if (decoded > 0)
            windows_read_decoder(w, i, decoder);
        for (size_t k = 0; k < decoded * windows_row_width(w); k++)
            FUZZ_CHECK(!isnan(decoder[k]));
        windows_ask(w, i, target);
        windows_restore(w, i, 1, target);
        for (size_t k = 0; k < floats; k++)
            FUZZ_CHECK(!isnan(rows[k]));
    }
    free(rows);
    free(target);
    free(decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const settings[] = {
        "seq_len=4 horizon=2 patch_len=2",
        "seq_len=3 horizon=1 patch_len=1 features=MS level=mean",
        "seq_len=2 horizon=3 model=seasonal season=2 features=S target=OT",
        "seq_len=5 horizon=1 patch_len=3 stride=2 input=joint level=none train_share=0.5",
        "seq_len=4 horizon=3 label_len=2 model=informer",
        "seq_len=3 horizon=1 patch_len=1 missing=interpolate duplicates=mean freq=h decimal=comma",
        "seq_len=2 horizon=1 patch_len=1 missing=last duplicates=last series_column=OT date_format=day-first",
        "seq_len=2 horizon=1 patch_len=1 missing=last duplicates=first freq=M delimiter=; date_column=none"};
    const struct task *task = task_find("forecast");
    struct task_options options = task_options_of("forecast", settings[size > 0 ? (data[0] + 4) % 8 : 0]);
    struct task_facts facts;
    struct host host;
    char text[DATE_TEXT];
    host_init(&host);
    const char *path = fuzz_file("table.csv", data, size);
    hashattn_status status = task->facts(&host, &options, path, NULL, &facts);
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_COUNT && status == HASHATTN_OK; split++) {
        struct dataset dataset;
        struct calendar calendar;
        size_t first;
        status = task->load_dated(&host, &options, &facts, path, split, &dataset, &calendar, &first);
        /* Only the end of a series can be too short, and only if there are several. */
        if (status == HASHATTN_BAD_FILE && facts.num_series > 1)
            break;
        FUZZ_CHECK(status == HASHATTN_OK);
        FUZZ_CHECK(dataset.windows.origins != NULL || first + dataset.windows.times <= calendar.count);
        for (size_t w = 0; w < dataset.windows.count && dataset.windows.origins != NULL; w++)
            FUZZ_CHECK(dataset.windows.origins[w].row < calendar.count &&
                       dataset.windows.origins[w].series < facts.num_series);
        check_windows(&dataset, &facts);
        for (size_t i = 0; i < calendar.count + 3; i++)
            FUZZ_CHECK(calendar_date(&calendar, i, text) || i >= calendar.count);
        dataset_free(&host, &dataset);
    }
    FUZZ_CHECK(status == HASHATTN_OK || status == HASHATTN_BAD_FILE || status == HASHATTN_INVALID);
    FUZZ_CHECK(status == HASHATTN_OK || strstr(host.message, path) == host.message);
    task_facts_free(&host, &facts);
    fuzz_remove(path);
    return 0;
}
