/* idx files, the format of MNIST: a magic number with type and rank, the sizes, then the elements in C order;
   all numbers are big-endian. Only unsigned bytes are read. Source: the format's description on the page of
   MNIST (LeCun, Cortes and Burges 1998).
   SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_IDX_H
#define IO_IDX_H

#include <stddef.h>

#include "base/host.h"

enum { IDX_RANK = 3, IDX_HEADER = 4 + 4 * IDX_RANK }; /* the largest rank; bytes of its header */

struct idx {
    size_t rank;
    size_t shape[IDX_RANK];
    size_t header; /* bytes before the elements */
};

/* Reads the header of a file of `size` bytes that should have this rank (1 to IDX_RANK). `bytes` may hold
   only the first IDX_HEADER of them. BAD_FILE: another magic number, or a file shorter or longer than its
   sizes say. */
hashattn_status idx_parse(struct host *host, const void *bytes, size_t size, size_t rank, struct idx *idx);

#endif
