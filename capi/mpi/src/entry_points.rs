//! The macro that defines entry points which MPI has in two forms: with counts and displacement
//! units of type `int`, and with large ones (`_c`, MPI-4.1 §12). Both forms have one text.

/// Defines functions in the modules `int` and `large`; with `large_if` and a condition of `cfg`,
/// `large` exists only under this condition. In a function's parameters, `Count` and `Unit` are the
/// types of the form. The name after `as` calls the host's function with the same arguments.
macro_rules! both_forms {
    (large_if $condition:ident; $($functions:tt)*) => {
        both_forms! { @int $($functions)* }
        #[cfg($condition)]
        both_forms! { @large $($functions)* }
    };
    (@int $($functions:tt)*) => {
        pub(crate) mod int {
            use super::*;

            type Count = c_int;
            #[allow(dead_code)] // operations have no unit
            type Unit = c_int;

            entry_points! { "" $($functions)* }
        }
    };
    (@large $($functions:tt)*) => {
        pub(crate) mod large {
            use super::*;

            type Count = i64;
            #[allow(dead_code)] // operations have no unit
            type Unit = isize;

            entry_points! { "_c" $($functions)* }
        }
    };
    ($($functions:tt)*) => {
        both_forms! { @int $($functions)* }
        both_forms! { @large $($functions)* }
    };
}

/// The functions of one form. Their MPI names end with the suffix.
macro_rules! entry_points {
    ($suffix:literal $(fn $name:ident = $mpi:literal $(as $by_host:ident)? ($($parameters:tt)*) $work:block)*) => {$(
        entry_point! { $suffix fn $name = $mpi $(as $by_host)? ($($parameters)*) $work }
    )*};
}

macro_rules! entry_point {
    (
        $suffix:literal
        fn $name:ident = $mpi:literal as $by_host:ident ($($parameter:ident: $ty:ty),* $(,)?) $work:block
    ) => {
        entry_point! { $suffix fn $name = $mpi ($($parameter: $ty),*) {
            // SAFETY: the declaration is that of host/calls.h.
            unsafe extern "C" {
                #[link_name = concat!("host_", $mpi, $suffix)]
                fn of_host($($parameter: $ty),*) -> c_int;
            }
            let $by_host = || of_host($($parameter),*);
            $work
        } }
    };
    ($suffix:literal fn $name:ident = $mpi:literal ($($parameter:ident: $ty:ty),* $(,)?) $work:block) => {
        // SAFETY: no other function has this name.
        #[unsafe(export_name = concat!("PMPI_", $mpi, $suffix))]
        pub(crate) unsafe extern "C" fn $name($($parameter: $ty),*) -> c_int {
            // SAFETY: the caller's arguments, as MPI defines them.
            unsafe { $work }
        }
    };
}
