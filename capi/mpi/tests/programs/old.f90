! Windows of a Fortran program by mpif.h: all kinds of calls once, each verified.
program old
    use, intrinsic :: iso_c_binding
    implicit none
    include 'mpif.h'
    integer :: error, rank, ranks, win, i, next, last, request, status(MPI_STATUS_SIZE), failed, group, one, other, to(1)
    integer(kind=MPI_ADDRESS_KIND) :: bytes, at, value
    integer :: part(64), mine(8), got(8), fetched, type
    type(c_ptr) :: base
    integer, pointer :: memory(:)
    logical :: flag
    failed = 0
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    next = mod(rank + 1, ranks)
    last = mod(rank + ranks - 1, ranks)
    part = 0
    mine = (/ (rank * 100 + i, i = 1, 8) /)
    bytes = 256
    call MPI_Win_create(part, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, error)
    call MPI_Win_fence(0, win, error)
    at = 0
    call MPI_Put(mine, 8, MPI_INTEGER, next, at, 8, MPI_INTEGER, win, error)
    call MPI_Win_fence(0, win, error)
    call check('fortran: put', all(part(1:8) == (/ (last * 100 + i, i = 1, 8) /)))
    call MPI_Get(got, 8, MPI_INTEGER, next, at, 8, MPI_INTEGER, win, error)
    call MPI_Win_fence(0, win, error)
    call check('fortran: get', all(got == mine))
    at = 16
    call MPI_Accumulate(mine, 8, MPI_INTEGER, next, at, 8, MPI_INTEGER, MPI_SUM, win, error)
    call MPI_Win_fence(0, win, error)
    call check('fortran: accumulate', all(part(17:24) == (/ (last * 100 + i, i = 1, 8) /)))
    call MPI_Type_vector(4, 1, 2, MPI_INTEGER, type, error)
    call MPI_Type_commit(type, error)
    at = 32
    call MPI_Put(mine, 4, MPI_INTEGER, next, at, 1, type, win, error)
    call MPI_Type_free(type, error)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, error)
    call check('fortran: a vector', all(part(33:39:2) == (/ (last * 100 + i, i = 1, 4) /)) .and. all(part(34:38:2) == 0))
    call MPI_Win_lock_all(0, win, error)
    at = 60
    do i = 1, 10
        call MPI_Fetch_and_op(1, fetched, MPI_INTEGER, 0, at, MPI_SUM, win, error)
        call MPI_Win_flush(0, win, error)
    end do
    call MPI_Barrier(MPI_COMM_WORLD, error)
    call MPI_Fetch_and_op(0, fetched, MPI_INTEGER, 0, at, MPI_NO_OP, win, error)
    call MPI_Win_flush_all(win, error)
    call check('fortran: fetch_and_op', fetched == 10 * ranks)
    at = 50
    call MPI_Rput(mine, 1, MPI_INTEGER, next, at, 1, MPI_INTEGER, win, request, error)
    call MPI_Wait(request, status, error)
    call MPI_Rget(got, 1, MPI_INTEGER, next, at, 1, MPI_INTEGER, win, request, error)
    call MPI_Wait(request, MPI_STATUS_IGNORE, error)
    call check('fortran: requests', got(1) == mine(1) .and. request == MPI_REQUEST_NULL)
    call MPI_Win_unlock_all(win, error)
    call MPI_Win_get_group(win, group, error)
    to(1) = next
    call MPI_Group_incl(group, 1, to, one, error)
    to(1) = last
    call MPI_Group_incl(group, 1, to, other, error)
    call MPI_Win_post(other, 0, win, error)
    call MPI_Win_start(one, 0, win, error)
    at = 52
    call MPI_Put(mine(2), 1, MPI_INTEGER, next, at, 1, MPI_INTEGER, win, error)
    call MPI_Win_complete(win, error)
    call MPI_Win_wait(win, error)
    call check('fortran: post, start, complete, wait', part(53) == last * 100 + 2)
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag, error)
    call check('fortran: the size', flag .and. value == 256)
    call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag, error)
    call check('fortran: the displacement unit', flag .and. value == 4)
    call MPI_Get_address(part, at, error)
    call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag, error)
    call check('fortran: the base', flag .and. value == at)
    call MPI_Win_free(win, error)
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, base, error)
    call c_f_pointer(base, memory, (/ 64 /))
    memory = 0
    call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, error)
    call MPI_Win_fence(0, win, error)
    at = 3
    call MPI_Put(mine, 8, MPI_INTEGER, next, at, 8, MPI_INTEGER, win, error)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, error)
    call check('fortran: memory of the MPI', all(memory(4:11) == (/ (last * 100 + i, i = 1, 8) /)))
    call MPI_Win_free(win, error)
    call MPI_Free_mem(memory, error)
    call MPI_Finalize(error)
    if (failed /= 0) stop 1
contains
    subroutine check(name, holds)
        character(*), intent(in) :: name
        logical, intent(in) :: holds
        integer :: bad, all, code
        bad = merge(0, 1, holds)
        call MPI_Allreduce(bad, all, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, code)
        if (rank == 0 .and. all == 0) print '(2a)', 'ok ', name
        if (rank == 0 .and. all /= 0) print '(2a)', 'not ok ', name
        failed = max(failed, all)
    end subroutine
end program
