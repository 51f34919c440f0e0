/* The state in which a program begins, and the `main` of races_atomics.c, races_epochs.c,
 * races_forms.c, races_kinds.c, races_lengths.c, races_messages.c, races_misuse.c, races_notices.c,
 * races_orders.c, races_own.c, races_patterns.c, races_requests.c and races_sync.c, which include
 * this file last. Without arguments the program lists its cases, as races.c does. With the name of
 * a case and `after` or `during` it runs one case, and with `right` all cases that have no race, of
 * which it prints the names. The variable RACES_WINDOW names the kind of the window: allocate or
 * create. */

#include <stdlib.h>
#include <string.h>

enum { CASES = sizeof cases / sizeof *cases };

/* Whether the program leaves its window to MPI_Finalize. */
#ifndef IS_LEFT
#define IS_LEFT 0
#endif

static const MPI_Aint SIZE = COUNT * sizeof(long);
static void begin_again(void) {
    barrier();
#ifdef BEGIN_AGAIN
    BEGIN_AGAIN;
#endif
    memset(part, 0, SIZE);
    barrier();
}

int main(int argc, char **argv) {
    static const char *const whens[] = {"after", "during"};
    const int all_right = argc == 2 && !strcmp(argv[1], "right");
    int provided, ran = argc == 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(all, &rank_);
    const char *const window = getenv("RACES_WINDOW");
    const int is_created = window && !strcmp(window, "create");
    if (is_created) part = malloc(SIZE), MPI_Win_create(part, SIZE, sizeof(long), MPI_INFO_NULL, all, &win);
    else MPI_Win_allocate(SIZE, sizeof(long), MPI_INFO_NULL, all, &part, &win);
    begin_again();
    for (int i = 0; i < CASES; i++) {
        for (int racy = 0; racy < 2; racy++) {
            if (argc == 1 && rank_ == 0) {
                printf("case %s %s: %s %s\n", cases[i].name, whens[racy], racy ? "racy" : "right",
                       cases[i].are_operations ? "operations" : "local");
            }
            if (all_right ? racy : argc < 3 || strcmp(argv[1], cases[i].name) || strcmp(argv[2], whens[racy])) continue;
            if (all_right) begin_again();
            if (all_right && rank_ == 0) printf("right %s %s\n", cases[i].name, whens[racy]), fflush(stdout);
            cases[i].run(racy);
            ran = 1;
        }
    }
    if (!(IS_LEFT)) MPI_Win_free(&win);
    if (!(IS_LEFT) && is_created) free(part);
    if (rank_ == 0) printf("%s\n", ran ? "done" : "no such case");
    MPI_Finalize();
    return !ran;
}
