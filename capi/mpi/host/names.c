/* Looks up the functions of the host by name at run time, because the library is also loaded into
 * programs without MPI, such as the launcher, and into programs that load their MPI late. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* Paths of loaded objects, as dl_iterate_phdr visits them. */
struct objects {
    char **paths;
    size_t count, room;
};

static int keep_path(struct dl_phdr_info *info, size_t size, void *kept) {
    struct objects *objects = kept;
    (void)size;
    if (!info->dlpi_name[0]) return 0;
    if (objects->count == objects->room) {
        size_t room = objects->room ? 2 * objects->room : 256;
        char **paths = realloc(objects->paths, room * sizeof *paths);
        if (!paths) return 1;
        objects->paths = paths;
        objects->room = room;
    }
    objects->paths[objects->count++] = strdup(info->dlpi_name);
    return 0;
}

/* Gives the symbols of the host's library to the whole process, where a module brought it with
 * dlopen for itself alone: Python's mpi4py does so. The host's library is the object that defines
 * PMPI_Get_library_version. */
static void open_to_all(void) {
    struct objects objects = {0};
    dl_iterate_phdr(keep_path, &objects);
    for (size_t i = 0; i < objects.count; i++) {
        Dl_info place;
        void *object = objects.paths[i] ? dlopen(objects.paths[i], RTLD_LAZY | RTLD_NOLOAD) : 0;
        void *found = object ? dlsym(object, "PMPI_Get_library_version") : 0;
        /* An object's names include those of the objects that it needs. */
        if (found && dladdr(found, &place) && strcmp(place.dli_fname, objects.paths[i]) == 0) {
            void *opened = dlopen(objects.paths[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
            if (opened) dlclose(opened);
        }
        if (object) dlclose(object);
        free(objects.paths[i]);
    }
    free(objects.paths);
}

/* The host's definition of this name; 0 in a program without an MPI. This library defines many of
 * the PMPI names itself, so that the host's definition is the next one. */
void *host_defines(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found || dlsym(RTLD_NEXT, "PMPI_Get_library_version")) return found;
    open_to_all();
    return dlsym(RTLD_NEXT, name);
}

/* The function to call for a name of the host. Stand-ins for an MPI, with which serial programs are
 * built, have the MPI names alone. */
void *host_function(const char *name) {
    void *found = host_defines(name);
    return found || strncmp(name, "PMPI", 4) ? found : dlsym(RTLD_NEXT, name + 1);
}
