/* Sweep: single operations by ranks with one thread. */
#include "sweep_operations.h"

static long cases(void) { return all_operations(); }

static void describe(long number, char text[PARAMETERS]) {
    char operation[PARAMETERS - 8];
    describe_operation(number, operation);
    snprintf(text, PARAMETERS, "data %s", operation);
}

static void run_case(long number) { run_operation(number); }

static void finish(void) { close_operations(); }
