/* The ranks of mpirun. Each launcher tells a process its place by environment variables; if they are set, the
   commands that ranks can share load libhashattn-mpi and work together. Rank 0 speaks for all: standard
   output of the others goes to /dev/null.
   SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "hashattn/hashattn.h"

/* The place that the launcher's variables give: OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE (Open MPI),
   PMI_RANK and PMI_SIZE (MPICH, Intel MPI, srun --mpi=pmi2), PMIX_RANK and SLURM_NTASKS (srun --mpi=pmix). 0
   and 1 without a launcher. */
void ranks_place(int *rank, int *size);

/* Joins the ranks. timeout: seconds. *communicator: NULL without a launcher. Returns EXIT_GOOD, or another
   exit code with the reason in message[capacity]: libhashattn-mpi cannot be loaded, though a single rank goes
   on without it, or MPI does not begin. */
int ranks_open(double timeout, const hashattn_communicator **communicator, char *message, size_t capacity);
/* Leaves them; all ranks do. */
void ranks_close(void);
/* Ends all ranks with this sentence, if they were joined; otherwise just returns. */
void ranks_end(const char *sentence);

#endif
