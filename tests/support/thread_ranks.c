/* A queue of copied messages for each pair of ranks, under one lock.
   SPDX-License-Identifier: Apache-2.0 */
#include "support/thread_ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct letter {
    struct letter *next;
    size_t size;
    char bytes[];
};

/* An exchange under way. */
struct waiting {
    struct waiting *next, **link; /* in the list of the world */
    size_t count, arrived;
    hashattn_message receives[];
};

struct world {
    pthread_mutex_t lock;
    struct waiting *open; /* given up: nobody tests them again */
    struct letter *first[MOST_RANKS][MOST_RANKS], *last[MOST_RANKS][MOST_RANKS]; /* from, to */
    bool aborted;
    char sentence[300];
    rank_body *body;
    void *argument;
};

struct place {
    struct world *world;
    struct host host;
    struct comm comm;
};

void rank_require_at(bool holds, const char *expression, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "ERROR: %s:%d: not so on a rank: %s\n", file, line, expression);
    abort();
}

static void *begin(void *user, const hashattn_message *sends, size_t num_sends,
                   const hashattn_message *receives, size_t num_receives)
{
    struct place *place = user;
    struct world *world = place->world;
    int rank = place->comm.peer.rank;
    struct waiting *waiting = malloc(sizeof *waiting + num_receives * sizeof *receives);
    rank_require(waiting != NULL);
    waiting->count = num_receives;
    waiting->arrived = 0;
    if (num_receives > 0)
        memcpy(waiting->receives, receives, num_receives * sizeof *receives);
    pthread_mutex_lock(&world->lock);
    waiting->next = world->open;
    waiting->link = &world->open;
    if (waiting->next != NULL)
        waiting->next->link = &waiting->next;
    world->open = waiting;
    for (size_t i = 0; i < num_sends; i++) {
        struct letter *letter = malloc(sizeof *letter + sends[i].size);
        rank_require(letter != NULL && sends[i].size > 0 && sends[i].rank != rank);
        letter->next = NULL;
        letter->size = sends[i].size;
        memcpy(letter->bytes, sends[i].bytes, sends[i].size);
        struct letter **last = &world->last[rank][sends[i].rank];
        *(*last == NULL ? &world->first[rank][sends[i].rank] : &(*last)->next) = letter;
        *last = letter;
    }
    pthread_mutex_unlock(&world->lock);
    return waiting;
}

static void close_waiting(struct waiting *waiting)
{
    *waiting->link = waiting->next;
    if (waiting->next != NULL)
        waiting->next->link = waiting->link;
    free(waiting);
}

static int test(void *user, void *started, int *rank)
{
    struct place *place = user;
    struct world *world = place->world;
    struct waiting *waiting = started;
    int own = place->comm.peer.rank, result = 1;
    pthread_mutex_lock(&world->lock);
    for (; waiting->arrived < waiting->count; waiting->arrived++) {
        const hashattn_message *wanted = &waiting->receives[waiting->arrived];
        struct letter *letter = world->first[wanted->rank][own];
        *rank = wanted->rank;
        if (letter == NULL) {
            result = world->aborted ? -1 : 0;
            break;
        }
        rank_require(letter->size == wanted->size);
        memcpy(wanted->bytes, letter->bytes, letter->size);
        world->first[wanted->rank][own] = letter->next;
        if (letter->next == NULL)
            world->last[wanted->rank][own] = NULL;
        free(letter);
    }
    if (result != 0)
        close_waiting(waiting);
    pthread_mutex_unlock(&world->lock);
    return result;
}

static void end_all(void *user, const char *sentence)
{
    struct place *place = user;
    struct world *world = place->world;
    pthread_mutex_lock(&world->lock);
    if (!world->aborted)
        snprintf(world->sentence, sizeof world->sentence, "%s", sentence);
    world->aborted = true;
    pthread_mutex_unlock(&world->lock);
}

static void *run(void *argument)
{
    struct place *place = argument;
    place->world->body(&place->comm, place->world->argument);
    return NULL;
}

static void drop_letters(struct world *world)
{
    for (int from = 0; from < MOST_RANKS; from++)
        for (int to = 0; to < MOST_RANKS; to++)
            while (world->first[from][to] != NULL) {
                struct letter *letter = world->first[from][to];
                world->first[from][to] = letter->next;
                free(letter);
            }
}

const char *run_ranks(int size, double timeout, rank_body *body, void *argument)
{
    static struct world world;
    static struct place places[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    rank_require(size >= 1 && size <= MOST_RANKS);
    world = (struct world){.body = body, .argument = argument};
    pthread_mutex_init(&world.lock, NULL);
    for (int rank = 0; rank < size; rank++) {
        const hashattn_communicator peer = {.struct_size = sizeof peer,
                                            .rank = rank,
                                            .size = size,
                                            .timeout = timeout,
                                            .user = &places[rank],
                                            .begin = begin,
                                            .test = test,
                                            .end = end_all};
        places[rank] = (struct place){.world = &world};
        host_init(&places[rank].host);
        rank_require(comm_new(&places[rank].host, &peer, &places[rank].comm) == HASHATTN_OK);
    }
    for (int rank = 0; rank < size; rank++)
        rank_require(pthread_create(&threads[rank], NULL, run, &places[rank]) == 0);
    for (int rank = 0; rank < size; rank++) {
        pthread_join(threads[rank], NULL);
        comm_free(&places[rank].host, &places[rank].comm);
    }
    drop_letters(&world);
    while (world.open != NULL)
        close_waiting(world.open);
    pthread_mutex_destroy(&world.lock);
    return world.sentence;
}
