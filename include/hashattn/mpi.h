/* Communicators of MPI, made by the library libhashattn-mpi, which is built if mpicc finds mpi.h and which
   nothing else links. The tool loads it under mpirun. A program links it beside libhashattn, or loads it with
   dlopen. Not included by hashattn.h.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef HASHATTN_MPI_H
#define HASHATTN_MPI_H

#include "hashattn/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a communicator with the ranks of *mpi, which points to an MPI_Comm; NULL: MPI_COMM_WORLD. It uses a
   duplicate, so its messages cannot meet those of the program. Initialises MPI unless the program has done
   it. Collective. communicator->struct_size must be set. message: (message_size) chars that receive the
   explanation of a failure. FAILED: MPI cannot be initialised; NO_MEMORY. */
HASHATTN_API hashattn_status hashattn_mpi_open(const void *mpi, hashattn_communicator *communicator,
                                               char *message, size_t message_size);
/* Frees the duplicate, and finalises MPI if hashattn_mpi_open has initialised it. Collective. */
HASHATTN_API void hashattn_mpi_close(hashattn_communicator *communicator);

#ifdef __cplusplus
}
#endif
#endif
