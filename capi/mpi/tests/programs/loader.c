/* A program without MPI that loads a module with MPI by dlopen and RTLD_LOCAL, as Python does. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    int (*run)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "main_of_module") : 0;
    if (!run) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return run(argc, argv);
}
