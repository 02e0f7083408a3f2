/* Lookups in the table of mechanisms, and what follows from their rows.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTENTION_MECHANISMS_H
#define ATTENTION_MECHANISMS_H

#include "attention/mechanism.h"

/* All mechanisms in the order of lists, ended by NULL. */
const struct mechanism *const *attention_mechanisms(void);
const struct mechanism *attention_find(const char *name); /* NULL: unknown */
/* INVALID with the list of names; name may be NULL. */
hashattn_status attention_named(struct host *host, const char *name, const struct mechanism **mechanism);

/* The option of this mechanism called "num_buckets", or "lha.num_buckets" if this is lha; NULL if it has
   none. */
const struct option_row *attention_option(const struct mechanism *mechanism, const char *name);

/* Number of learned floats per head. */
size_t attention_param_count(const struct mechanism *mechanism, const void *options,
                             const struct parameter_sizes *sizes);

/* true: the mechanism learns how far a key is from a query (parameter_row.places). */
bool attention_places(const struct mechanism *mechanism, const void *options, size_t head_dim);

/* Writes the names of the mechanisms that ranks can share the rows of to list, as "softmax, yoso". */
void attention_shared_names(char *list, size_t size);

#endif
