"""Windows by mpi4py: each flavor, operation and synchronization, attributes and error handlers.

mpi4py loads the MPI late, and calls it from Python's own objects and callbacks.
"""

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
RIGHT, LEFT = (RANK + 1) % SIZE, (RANK - 1) % SIZE


def check(name, holds):
    """Collective: prints one line at rank 0."""
    everywhere = WORLD.allreduce(bool(holds), MPI.LAND)
    if not holds:
        print(f"rank {RANK}: {name}", flush=True)
    if RANK == 0:
        print(f"{'ok' if everywhere else 'not ok'} {name}", flush=True)


def error_of(call):
    """The class of the error that a call raises, or None."""
    try:
        call()
    except MPI.Exception as error:
        return error.Get_error_class()
    return None


def allocated():
    win = MPI.Win.Allocate(64 * 8, 8, comm=WORLD)
    part = np.frombuffer(win.tomemory(), dtype="d")
    part[:] = RANK
    base = win.Get_attr(MPI.WIN_BASE) == part.ctypes.data
    check("attributes", base and win.Get_attr(MPI.WIN_SIZE) == 512 and win.flavor == MPI.WIN_FLAVOR_ALLOCATE)
    win.Set_name("Fenster für alle")
    check("names", win.Get_name() == "Fenster für alle")
    data = np.full(8, 100 + RANK, dtype="d")
    win.Fence()
    win.Put(data, RIGHT, target=(4, 8, MPI.DOUBLE))
    win.Fence()
    check("put", (part[4:12] == 100 + LEFT).all() and part[3] == RANK and part[12] == RANK)
    result = np.zeros(8)
    win.Get(result, RIGHT, target=4)
    win.Fence()
    check("get", (result == 100 + RANK).all())
    win.Accumulate(np.ones(3), 0, target=20, op=MPI.SUM)
    win.Fence(MPI.MODE_NOSUCCEED)
    check("accumulate", RANK > 0 or (part[20:23] == SIZE).all())
    every_other = MPI.DOUBLE.Create_vector(4, 1, 2).Commit()
    win.Fence()
    win.Put([data, 4, MPI.DOUBLE], RIGHT, target=(48, 1, every_other))
    every_other.Free()
    win.Fence()
    check("a freed datatype", (part[48:56:2] == 100 + LEFT).all() and (part[49:56:2] == RANK).all())
    if SIZE > 1:
        others = win.Get_group().Excl([RANK])
        win.Post(others)
        win.Start(others)
        for target in set(range(SIZE)) - {RANK}:
            win.Put(data[:1], target, target=RANK)
        win.Complete()
        win.Wait()
        check("post and start", all(part[r] == 100 + r for r in range(SIZE) if r != RANK))
    errors_and_attributes(win, data)


def errors_and_attributes(win, data):
    seen = []
    win.Lock(0)
    outside = error_of(lambda: win.Put(data, 0, target=60))
    win.Unlock(0)
    check("an access outside", outside is not None)
    check("an unlock without a lock", error_of(lambda: win.Unlock(0)) == MPI.ERR_RMA_SYNC)
    handler = MPI.Win.Create_errhandler(lambda win, error: seen.append(error))
    win.Set_errhandler(handler)
    handler.Free()
    error_of(lambda: win.Unlock(0))
    check("an error handler in Python", len(seen) == 1)
    win.Set_errhandler(MPI.ERRORS_RETURN)
    key = MPI.Win.Create_keyval(None, lambda win, key, value: seen.append((win.Get_name(), value)))
    win.Set_attr(key, {"of": RANK})
    check("an attribute", win.Get_attr(key) == {"of": RANK})
    win.Free()
    check("a callback of Win.Free", seen[1:] == [("Fenster für alle", {"of": RANK})] and win == MPI.WIN_NULL)
    MPI.Win.Free_keyval(key)


def created():
    numbers = np.arange(10, dtype="i") + 10 * RANK
    has_part = RANK % 2 == 0
    win = MPI.Win.Create(numbers if has_part else None, 4 if has_part else 1, comm=WORLD)
    win.Fence()
    result = np.zeros(10, dtype="i")
    win.Get(result, 0)
    win.Fence()
    check("a window over an array of one rank", (result == np.arange(10)).all())
    win.Free()


def dynamic():
    win = MPI.Win.Create_dynamic(comm=WORLD)
    numbers = np.full(5, RANK, dtype="l")
    win.Attach(numbers)
    addresses = WORLD.allgather(MPI.Get_address(numbers))
    win.Lock(RIGHT, MPI.LOCK_SHARED)
    win.Put(np.full(5, 77 + RANK, dtype="l"), RIGHT, target=addresses[RIGHT])
    win.Unlock(RIGHT)
    WORLD.Barrier()
    check("an attached array", (numbers == 77 + LEFT).all())
    WORLD.Barrier()
    win.Detach(numbers)
    win.Free()


def shared():
    node = WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    win = MPI.Win.Allocate_shared(16, 8, comm=node)
    memory, unit = win.Shared_query(0)
    first = np.ndarray(buffer=memory, dtype="l", shape=(2,))
    win.Lock_all()
    if node.rank == 0:
        first[0] = 5
    win.Sync()
    node.Barrier()
    win.Sync()
    check("memory of another rank", first[0] == 5 and unit == 8)
    win.Unlock_all()
    win.Free()
    node.Free()


def passive():
    win = MPI.Win.Allocate(64, 8, comm=WORLD)
    part = np.frombuffer(win.tomemory(), dtype="l")
    part[:] = RANK
    WORLD.Barrier()
    win.Lock_all()
    previous, one = np.zeros(2, dtype="l"), np.array([1], dtype="l")
    win.Get_accumulate(np.array([3, 4], dtype="l"), previous, RIGHT, target=0, op=MPI.MAX)
    win.Flush(RIGHT)
    check("get_accumulate", (previous == RIGHT).all())
    win.Compare_and_swap(np.array([99], dtype="l"), np.array([RIGHT], dtype="l"), previous[:1], RIGHT, 5)
    win.Flush(RIGHT)
    check("compare_and_swap", previous[0] == RIGHT)
    win.Raccumulate(one, RIGHT, target=6).Wait()
    win.Rget_accumulate(one, previous[:1], RIGHT, target=6).Wait()
    check("operations with requests", previous[0] == RIGHT + 1)
    win.Fetch_and_op(one, previous[:1], 0, 7, MPI.SUM)
    win.Rput(one, RIGHT, target=4).Wait()
    win.Unlock_all()
    WORLD.Barrier()
    check("sums of all ranks", RANK > 0 or part[7] == SIZE)
    check("every element", part[0] == max(3, RANK) and part[4] == 1 and part[5] == 99 and part[6] == RANK + 2)
    check("a Fortran handle", MPI.Win.f2py(win.py2f()) == win)
    win.Free()


def informed():
    info = MPI.Info.Create({"no_locks": "true", "same_size": "true"})
    win = MPI.Win.Allocate(8, 1, info, WORLD)
    check("hints", win.Get_info()["no_locks"] == "true")
    win.Fence()
    win.Free()


for test in allocated, created, dynamic, shared, passive, informed:
    test()
