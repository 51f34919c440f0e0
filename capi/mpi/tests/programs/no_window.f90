! A handle that belongs to no window is an error of the call, and other windows still work.
program no_window
    use, intrinsic :: iso_c_binding
    implicit none
    include 'mpif.h'
    external :: handled
    integer :: error, rank, win, ended, i, handler, calls, class, failed
    integer(kind=MPI_ADDRESS_KIND) :: bytes, value
    type(c_ptr) :: base
    logical :: flag
    common /state/ calls
    failed = 0
    bytes = 256
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_create_errhandler(handled, handler, error)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler, error)
    call MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, error)
    ended = win
    call MPI_Win_free(win, error)
    do i = 0, 1
        calls = 0
        call MPI_Win_get_attr(ended + 100000 * i, MPI_WIN_DISP_UNIT, value, flag, error)
        call MPI_Error_class(error, class, error)
        call check('fortran: a handle of no window', calls == 1 .and. class == MPI_ERR_WIN)
    end do
    call MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, error)
    call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag, error)
    call check('fortran: a later window', flag .and. value == 8)
    call MPI_Win_free(win, error)
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

subroutine handled(comm, code)
    implicit none
    integer :: comm, code, calls
    common /state/ calls
    calls = calls + 1
end subroutine
