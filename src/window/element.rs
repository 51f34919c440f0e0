//! The types that windows hold. Which of them accumulates work on, `reduce` says.

/// A type that windows can hold: any bytes are a value of it, since peers may write any.
pub trait RmaElem: bytemuck::Pod + Send + Sync {}

impl<T: bytemuck::Pod + Send + Sync> RmaElem for T {}
