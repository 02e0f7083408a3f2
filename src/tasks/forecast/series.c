/* Frees what series_read made.
   SPDX-License-Identifier: Apache-2.0 */
#include "tasks/forecast/series.h"

#include "base/memory.h"

void series_free(struct host *host, struct series *series)
{
    for (size_t i = 0; i < series->columns; i++)
        memory_free(host, series->names[i]);
    for (size_t i = 0; i < series->num_pieces; i++)
        memory_free(host, series->pieces[i].name);
    memory_free(host, series->names);
    memory_free(host, series->values);
    memory_free(host, series->pieces);
    *series = (struct series){.columns = 0};
}
