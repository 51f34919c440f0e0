/* A stand-in for a host whose MPI_Type_get_value_index makes pairs without names. MPICH 5 returns
 * MPI_DATATYPE_NULL for them. It is loaded after the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>

enum { MOST = 16 };
static struct { MPI_Datatype pair, value, index; } made_[MOST];
static int count_;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int MPI_Type_get_value_index(MPI_Datatype value, MPI_Datatype index, MPI_Datatype *pair) {
    int code = NEXT(PMPI_Type_get_value_index)(value, index, pair);
    if (code != MPI_SUCCESS || *pair != MPI_DATATYPE_NULL) return code;
    for (int i = 0; i < count_; i++) {
        if (made_[i].value == value && made_[i].index == index) {
            *pair = made_[i].pair;
            return MPI_SUCCESS;
        }
    }
    MPI_Aint lb, bytes, align;
    MPI_Type_get_extent(value, &lb, &bytes), MPI_Type_get_extent(index, &lb, &align);
    MPI_Aint at[2] = {0, (bytes + align - 1) / align * align};
    /* All parts are powers of two in size. */
    MPI_Aint widest = bytes > align ? bytes : align, end = (at[1] + align + widest - 1) / widest * widest;
    int ones[2] = {1, 1};
    MPI_Datatype parts[2] = {value, index}, plain;
    MPI_Type_create_struct(2, ones, at, parts, &plain);
    MPI_Type_create_resized(plain, 0, end, pair);
    MPI_Type_commit(pair);
    MPI_Type_free(&plain);
    if (count_ == MOST) return MPI_ERR_OTHER;
    made_[count_].pair = *pair, made_[count_].value = value, made_[count_].index = index;
    count_++;
    return MPI_SUCCESS;
}

static int place_of(MPI_Datatype type) {
    int place = 0;
    while (place < count_ && made_[place].pair != type) place++;
    return place;
}

int PMPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count *numbers, MPI_Count *addresses, MPI_Count *large, MPI_Count *types,
                             int *combiner) {
    if (place_of(type) == count_) return NEXT(PMPI_Type_get_envelope_c)(type, numbers, addresses, large, types, combiner);
    *numbers = *addresses = *large = 0, *types = 2;
    *combiner = MPI_COMBINER_VALUE_INDEX;
    return MPI_SUCCESS;
}

int PMPI_Type_get_contents_c(MPI_Datatype type, MPI_Count n, MPI_Count a, MPI_Count l, MPI_Count t, int numbers[],
                             MPI_Aint addresses[], MPI_Count large[], MPI_Datatype types[]) {
    int place = place_of(type);
    if (place == count_) return NEXT(PMPI_Type_get_contents_c)(type, n, a, l, t, numbers, addresses, large, types);
    types[0] = made_[place].value, types[1] = made_[place].index;
    return MPI_SUCCESS;
}

/* These types are predefined. */
int PMPI_Type_free(MPI_Datatype *type) {
    if (place_of(*type) == count_) return NEXT(PMPI_Type_free)(type);
    return MPI_ERR_TYPE;
}
