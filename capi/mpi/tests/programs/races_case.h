/* A case of a program that races_main.h runs. */
#ifndef RACES_CASE_H
#define RACES_CASE_H

/* The racy form has a load or store, or only operations. */
enum { LOCAL, OPERATIONS };

struct races_case {
    const char *name;
    void (*run)(int racy);
    /* Whether the racy form is found without ThreadSanitizer too. */
    int are_operations;
};

#define CASE(name, accesses) {#name, name, accesses}

#endif
