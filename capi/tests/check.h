/* Shared by the test programs: checks that print their line and end the rank, a watchdog, and the
 * job. */
#ifndef CHECK_H
#define CHECK_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transom.h"

/* The last call, for the watchdog; of any thread. */
static const char *volatile where_ = "nothing";

static void hangs(int number) {
    static const char text[] = "watchdog: this rank hangs in ";
    (void)number;
    if (write(2, text, sizeof text - 1) < 0 || write(2, where_, strlen(where_)) < 0 || write(2, "\n", 1) < 0) _exit(2);
    /* The launcher ends the job: the other ranks print their lines first. */
    sleep(2);
    _exit(1);
}

/* Ends this rank where the condition does not hold. */
#define CHECK(holds)                                                                                       \
    do {                                                                                                   \
        if (!(holds)) {                                                                                    \
            fprintf(stderr, "%s:%d: the condition does not hold: %s\n", __FILE__, __LINE__, #holds);                            \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

/* Ends this rank where the call fails. */
#define OK(call)                                                                                           \
    do {                                                                                                   \
        int class_ = (where_ = #call, call);                                                               \
        if (class_ != TRANSOM_SUCCESS) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, transom_error_string(class_), \
                    transom_last_error());                                                                 \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

/* Ends this rank where the call does not fail with this class and a text that has these words. */
#define FAILS(expected, words, call)                                                                       \
    do {                                                                                                   \
        int class_ = (call);                                                                               \
        if (class_ != (expected) || strstr(transom_last_error(), words) == NULL) {                         \
            fprintf(stderr, "%s:%d: %s: %s: %s, instead of %s with \"%s\"\n", __FILE__, __LINE__, #call,   \
                    transom_error_string(class_), transom_last_error(), transom_error_string(expected), words); \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

static transom_job *world;
static int me, size, next, before;

/* Joins the job; the watchdog ends a rank that hangs. */
static void begin(void) {
    signal(SIGALRM, hangs);
    alarm(100);
    OK(transom_init(&world));
    OK(transom_job_rank(world, &me));
    OK(transom_job_size(world, &size));
    next = (me + 1) % size;
    before = (me + size - 1) % size;
}

/* Leaves the job; rank 0 prints that the program has passed. */
static int end(const char *name) {
    int rank = me;
    OK(transom_job_barrier(world));
    OK(transom_finalize(&world));
    CHECK(world == NULL);
    if (rank == 0) {
        printf("%s: passed\n", name);
    }
    return 0;
}

#endif
