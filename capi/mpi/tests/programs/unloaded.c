/* A program without MPI that loads the library by dlopen, as a plugin does, and closes it again. */
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    dlclose(library);
    printf("closed\n");
    return 0;
}
