! Windows of a Fortran program by the module mpi_f08, with memory of the library.
program modern
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    type(MPI_Win) :: win
    type(MPI_Request) :: request
    type(MPI_Comm) :: node
    type(c_ptr) :: base
    integer(kind=MPI_ADDRESS_KIND) :: bytes, at, value
    integer :: rank, ranks, next, last, failed, unit, i
    logical :: flag
    double precision, pointer :: part(:)
    double precision :: mine(4), got(4)
    failed = 0
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    next = mod(rank + 1, ranks)
    last = mod(rank + ranks - 1, ranks)
    mine = (/ (rank + i * 0.25d0, i = 1, 4) /)
    bytes = 64
    at = 0
    call MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
    call c_f_pointer(base, part, (/ 8 /))
    call MPI_Win_fence(0, win)
    call MPI_Put(mine, 4, MPI_DOUBLE_PRECISION, next, at, 4, MPI_DOUBLE_PRECISION, win)
    call MPI_Win_fence(0, win)
    call check('f08: put', all(part(1:4) == (/ (last + i * 0.25d0, i = 1, 4) /)))
    call MPI_Accumulate(mine, 4, MPI_DOUBLE_PRECISION, next, at, 4, MPI_DOUBLE_PRECISION, MPI_SUM, win)
    call MPI_Win_fence(0, win)
    call check('f08: accumulate', all(part(1:4) == 2 * (/ (last + i * 0.25d0, i = 1, 4) /)))
    call sections()
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)
    call MPI_Barrier(MPI_COMM_WORLD)
    call MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win)
    call MPI_Rget(got, 4, MPI_DOUBLE_PRECISION, next, at, 4, MPI_DOUBLE_PRECISION, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Win_unlock(next, win)
    call check('f08: a request', all(got == 2 * mine))
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
    call check('f08: the size', flag .and. value == 64)
    call MPI_Win_free(win)
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, node)
    call MPI_Win_allocate_shared(bytes, 8, MPI_INFO_NULL, node, base, win)
    call c_f_pointer(base, part, (/ 8 /))
    call MPI_Win_fence(0, win)
    part(1) = rank
    call MPI_Win_fence(0, win)
    call MPI_Win_shared_query(win, 0, value, unit, base)
    call c_f_pointer(base, part, (/ 8 /))
    call check('f08: shared', part(1) == 0 .and. unit == 8 .and. value == 64)
    call MPI_Win_fence(0, win)
    call MPI_Win_free(win)
    call MPI_Comm_free(node)
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, base)
    call c_f_pointer(base, part, (/ 8 /))
    part = 0
    call MPI_Win_create(part, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Win_fence(0, win)
    call MPI_Put(mine, 4, MPI_DOUBLE_PRECISION, next, at, 4, MPI_DOUBLE_PRECISION, win)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)
    call check('f08: memory of the MPI', all(part(1:4) == (/ (last + i * 0.25d0, i = 1, 4) /)))
    call MPI_Win_free(win)
    call MPI_Free_mem(part)
    call MPI_Finalize()
    if (failed /= 0) stop 1
contains
    ! Array sections: the host makes a datatype for each, and frees it before the operation is
    ! complete. A host without them passes a copy, which lives no longer.
    subroutine sections()
        got = -1
        if (MPI_SUBARRAYS_SUPPORTED) then
            at = 4
            call MPI_Put(mine(1:4:2), 2, MPI_DOUBLE_PRECISION, next, at, 2, MPI_DOUBLE_PRECISION, win)
            at = 0
            call MPI_Get(got(1:4:3), 2, MPI_DOUBLE_PRECISION, next, at, 2, MPI_DOUBLE_PRECISION, win)
            call MPI_Win_fence(0, win)
        else
            part(5:6) = last + (/ 0.25d0, 0.75d0 /)
            got(1:4:3) = 2 * mine(1:2)
        end if
        call check('f08: sections', all(part(5:6) == last + (/ 0.25d0, 0.75d0 /)) &
            .and. all(got == (/ 2 * mine(1), -1d0, -1d0, 2 * mine(2) /)))
    end subroutine

    subroutine check(name, holds)
        character(*), intent(in) :: name
        logical, intent(in) :: holds
        integer :: bad, all
        bad = merge(0, 1, holds)
        call MPI_Allreduce(bad, all, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
        if (rank == 0 .and. all == 0) print '(2a)', 'ok ', name
        if (rank == 0 .and. all /= 0) print '(2a)', 'not ok ', name
        failed = max(failed, all)
    end subroutine
end program
