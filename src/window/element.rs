//! The types that windows hold. `reduce` defines on which of them accumulates work.

/// A type that windows can hold: every pattern of bytes is a value, since peers may write any.
///
/// Integers, floats, [`Complex`](crate::Complex) and arrays of them are such types. A struct of the
/// program becomes one by the derive macros of [`bytemuck`](crate::bytemuck), which this crate
/// re-exports. The struct must be `repr(C)` and have no padding.
///
/// ```
/// use transom::bytemuck::{Pod, Zeroable};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
/// #[bytemuck(crate = "transom::bytemuck")]
/// #[repr(C)]
/// struct Particle {
///     position: [f64; 3],
///     charge: f64,
/// }
///
/// let world = transom::init()?;
/// let win = transom::Window::<Particle>::allocate(&world, 2)?;
/// let one = Particle { position: [1.0, 2.0, 3.0], charge: -1.0 };
/// win.fence(|epoch| epoch.put_value(world.rank(), 1, one))?;
/// let mut found = [Particle::zeroed(); 2];
/// win.load(0, &mut found)?;
/// assert_eq!(found[1], one);
/// win.free()?;
/// # Ok::<(), transom::Error>(())
/// ```
///
/// ```compile_fail
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Padded {
///     tag: u8,
///     value: u64,
/// }
/// # fn try_it(world: &transom::Job) -> transom::Result<()> {
/// // `Padded` is no element: the compiler says what is missing.
/// transom::Window::<Padded>::allocate(world, 2)?.free()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the element of a transom window",
    label = "not every pattern of bytes is known to be a value of `{Self}`",
    note = "a `repr(C)` struct without padding becomes one by `#[derive(Clone, Copy, transom::bytemuck::Pod, \
            transom::bytemuck::Zeroable)]` with `#[bytemuck(crate = \"transom::bytemuck\")]`",
    note = "for `bool` use `transom::reduce::Logical`; references, enums and types that own memory stay in their process"
)]
pub trait RmaElem: bytemuck::Pod + Send + Sync {}

impl<T: bytemuck::Pod + Send + Sync> RmaElem for T {}
