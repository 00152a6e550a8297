//! Properties of a core that are fixed at compile time, so that no hot loop tests them.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A kind of core.
pub trait CoreKind: 'static {
    /// See [`Model`](crate::Model).
    const IN_ORDER: bool;
    /// Whether it has several harts.
    const MULTITHREADED: bool;
    /// Whether its extension is active: see [`Extension`](crate::Extension).
    const IS_ACTIVE: bool = false;
    /// Whether its extension may have a register port.
    const HAS_PORT: bool = Self::IS_ACTIVE && Self::IN_ORDER;
    /// The container of the current hart's state.
    type Place<T>: Place<T>;
}

/// A container of one value.
pub trait Place<T>: DerefMut<Target = T> {
    /// A container of `value`.
    fn of(value: T) -> Self;
}

/// An in-order core with one hart.
pub enum InOrder {}

/// An out-of-order core with one hart.
pub enum OutOfOrder {}

/// An out-of-order core with several harts.
pub enum Multithreaded {}

impl CoreKind for InOrder {
    const IN_ORDER: bool = true;
    const MULTITHREADED: bool = false;
    type Place<T> = Inside<T>;
}

impl CoreKind for OutOfOrder {
    const IN_ORDER: bool = false;
    const MULTITHREADED: bool = false;
    type Place<T> = Inside<T>;
}

impl CoreKind for Multithreaded {
    const IN_ORDER: bool = false;
    const MULTITHREADED: bool = true;
    type Place<T> = Box<T>;
}

/// A core of the kind `K` with an active extension.
pub struct Active<K>(PhantomData<K>);

impl<K: CoreKind> CoreKind for Active<K> {
    const IN_ORDER: bool = K::IN_ORDER;
    const MULTITHREADED: bool = K::MULTITHREADED;
    const IS_ACTIVE: bool = true;
    type Place<T> = K::Place<T>;
}

/// Inline storage: harts are never exchanged, and the host needs no pointer.
pub struct Inside<T>(T);

impl<T> Place<T> for Inside<T> {
    fn of(value: T) -> Inside<T> {
        Inside(value)
    }
}

impl<T> Deref for Inside<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Inside<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// With several harts, a pointer is exchanged.
impl<T> Place<T> for Box<T> {
    fn of(value: T) -> Box<T> {
        Box::new(value)
    }
}
