/* The communicator of MPI: started under mpirun with 1 to 4 ranks, this program loads libhashattn-mpi and
   does with it what test_comm.c does with threads. SKIPPED without mpirun or the library. Bugs planted and
   caught: the last part of a message not sent (with PART lowered to 1 MiB); `test` that reports done at the
   first completed message.
   Covers: comm_mpi.c
   SPDX-License-Identifier: Apache-2.0 */
#include "hashattn/mpi.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm_sum.h"
#include "support/check.h"
#include "support/thread_ranks.h"

static char program[4096], library[4200];

/* ---- on a rank ----------------------------------------------------------------------------------------- */

static void *function_of(void *loaded, const char *name)
{
    void *found = dlsym(loaded, name);
    rank_require(found != NULL);
    return found;
}

/* 3 MB from each rank, beyond what MPI sends before the receiver is ready. */
static void gather_much(struct host *host, struct comm *comm)
{
    enum { EACH = 750000 };
    size_t count = (size_t)comm_size(comm) * EACH;
    uint32_t *items = malloc(count * sizeof *items);
    rank_require(items != NULL);
    for (size_t i = 0; i < EACH; i++)
        items[(size_t)comm_rank(comm) * EACH + i] = (uint32_t)(comm_rank(comm) * 1000003) + (uint32_t)i;
    rank_require(comm_gather(host, comm, items, count * sizeof *items, EACH * sizeof *items) == HASHATTN_OK);
    for (size_t i = 0; i < count; i++)
        rank_require(items[i] == (uint32_t)(i / EACH * 1000003 + i % EACH));
    free(items);
}

/* Leaf k is k + 1 everywhere but at its own place, so order and place matter. */
static float leaf_value(size_t leaf, size_t i)
{
    return (i % 8 == leaf ? 1e8f : 1.0f) + (float)leaf;
}

static float sum_of(size_t first, size_t count, size_t i)
{
    if (count == 1)
        return leaf_value(first, i);
    return sum_of(first, count / 2, i) + sum_of(first + count / 2, count - count / 2, i);
}

static void sum_eight(struct host *host, struct comm *comm)
{
    enum { LEAVES = 8, N = 100003 };
    struct pool *pool;
    struct tree_node nodes[TREE_NODES];
    float *arrays[LEAVES], *sum = malloc(N * sizeof *sum);
    void *room = malloc(comm_sum_scratch(comm, LEAVES, N) + 1);
    size_t first, end;
    rank_require(pool_new(host, 1, &pool) == HASHATTN_OK && sum != NULL && room != NULL);
    comm_span(comm, LEAVES, &first, &end);
    size_t count = tree_nodes(LEAVES, first, end, nodes);
    for (size_t k = 0; k < count; k++) {
        arrays[k] = malloc(N * sizeof **arrays);
        rank_require(arrays[k] != NULL);
        for (size_t i = 0; i < N; i++)
            arrays[k][i] = sum_of(nodes[k].first, nodes[k].count, i);
    }
    rank_require(comm_sum(host, comm, pool, LEAVES, arrays, sum, N, room) == HASHATTN_OK);
    for (size_t i = 0; i < N; i++)
        rank_require(sum[i] == sum_of(0, LEAVES, i));
    for (size_t k = 0; k < count; k++)
        free(arrays[k]);
    free(sum), free(room);
    pool_free(host, pool);
}

static void small_collectives(struct host *host, struct comm *comm)
{
    int rank = comm_rank(comm), size = comm_size(comm), out = rank, in = -1;
    float x = 1.0f / (float)(3 + rank), before = -1, want = 0;
    rank_require(comm_ring(host, comm, &out, &in, sizeof out) == HASHATTN_OK);
    rank_require(in == (rank + size - 1) % size);
    rank_require(comm_scan(host, comm, &x, &before, 1, false) == HASHATTN_OK);
    for (int r = 0; r < rank; r++)
        want = r == 0 ? 1.0f / 3 : want + 1.0f / (float)(3 + r);
    rank_require(before == want);
    bool wish = rank == size - 1;
    rank_require(comm_any(host, comm, &wish) == HASHATTN_OK && wish);
    hashattn_status own =
        rank == size - 1 ? host_fail(host, HASHATTN_NO_DISK, "the disk is full") : HASHATTN_OK;
    rank_require(comm_agree(host, comm, own) == HASHATTN_NO_DISK);
    rank_require(strstr(host->message, "the disk is full") != NULL);
}

static int run_rank(const char *path)
{
    hashattn_status (*open_mpi)(const void *, hashattn_communicator *, char *, size_t);
    void (*close_mpi)(hashattn_communicator *);
    void *loaded = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    rank_require(loaded != NULL);
    *(void **)&open_mpi = function_of(loaded, "hashattn_mpi_open");
    *(void **)&close_mpi = function_of(loaded, "hashattn_mpi_close");
    char message[200] = "";
    hashattn_communicator peer = {0};
    rank_require(open_mpi(NULL, &peer, message, sizeof message) == HASHATTN_INVALID);
    peer.struct_size = sizeof peer;
    rank_require(open_mpi(NULL, &peer, message, sizeof message) == HASHATTN_OK);
    struct host host;
    struct comm comm;
    host_init(&host);
    rank_require(comm_new(&host, &peer, &comm) == HASHATTN_OK && peer.timeout > 0);
    gather_much(&host, &comm);
    sum_eight(&host, &comm);
    small_collectives(&host, &comm);
    bool none = false; /* no rank closes before all are here */
    rank_require(comm_any(&host, &comm, &none) == HASHATTN_OK);
    comm_free(&host, &comm);
    close_mpi(&peer);
    printf("rank %d of %d is done\n", peer.rank, peer.size);
    return 0;
}

/* ---- the test ------------------------------------------------------------------------------------------ */

/* Open MPI refuses root and more ranks than processors unless it is told otherwise; one machine needs no
   network. Other implementations ignore these variables. */
static void prepare(void)
{
    static const char *const variables[][2] = {
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
        {"OMPI_MCA_btl", "self,vader"},
        {"OMPI_MCA_oob_tcp_if_include", "lo"},
        {"OMPI_MCA_hwloc_base_binding_policy", "none"},
    };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        setenv(variables[i][0], variables[i][1], 1);
    const char *options = getenv("ASAN_OPTIONS");
    char more[500];
    snprintf(more, sizeof more, "%s:detect_leaks=0", options == NULL ? "" : options); /* those of MPI */
    setenv("ASAN_OPTIONS", more, 1);
}

static void ranks_work_together(void **state)
{
    (void)state;
    if (access(library, R_OK) != 0 || system("timeout 60 mpirun -n 2 true >/dev/null 2>&1") != 0) {
        puts("SKIPPED: MPI (libhashattn-mpi is not built, or mpirun starts no processes)");
        skip();
    }
    for (int size = 1; size <= 4; size++) {
        char line[9000], seen[200];
        int done = 0;
        snprintf(line, sizeof line, "timeout 60 mpirun -n %d '%s' rank '%s' 2>&1", size, program, library);
        FILE *pipe = popen(line, "r");
        assert_non_null(pipe);
        while (fgets(seen, sizeof seen, pipe) != NULL)
            if (strstr(seen, " is done") != NULL)
                done++;
            else
                fputs(seen, stderr);
        assert_int_equal(pclose(pipe), 0);
        assert_int_equal(done, size);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "rank") == 0)
        return run_rank(argv[2]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_work_together)};
    if (realpath(argv[0], program) == NULL)
        return 1;
    char folder[4096];
    strcpy(folder, program);
    snprintf(library, sizeof library, "%s/../libhashattn-mpi.so", dirname(folder));
    prepare();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
