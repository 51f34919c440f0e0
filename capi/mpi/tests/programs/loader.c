/* A program without MPI that loads a module with MPI by dlopen and RTLD_LOCAL, as Python does.
 * Before, it loads as many other objects as LOADED says. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *opened(const char *path) {
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return object;
}

int main(int argc, char **argv) {
    const char *loaded = getenv("LOADED");
    for (int i = 0; loaded && i < atoi(loaded); i++) {
        char path[4096];
        snprintf(path, sizeof path, OBJECTS "/%d.so", i);
        opened(path);
    }
    int (*run)(int, char **) = (int (*)(int, char **))dlsym(opened(MODULE), "main_of_module");
    if (!run) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return run(argc, argv);
}
