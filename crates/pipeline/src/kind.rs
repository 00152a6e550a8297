//! Properties of a core that are fixed when the simulator is compiled, so that no hot loop tests
//! them.

use std::ops::{Deref, DerefMut};

/// A kind of core.
pub trait CoreKind: 'static {
    /// See [`Model`](crate::Model).
    const IN_ORDER: bool;
    /// Whether it has several harts.
    const MULTITHREADED: bool;
    /// The place of the current hart's state.
    type Place<T>: Place<T>;
}

/// A place for something.
pub trait Place<T>: DerefMut<Target = T> {
    /// Puts `value` there.
    fn of(value: T) -> Self;
}

/// A core in order, with one hart.
pub enum InOrder {}

/// A core out of order, with one hart.
pub enum OutOfOrder {}

/// A core out of order, with several harts.
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

/// In the core itself: nothing is exchanged, and the host finds it without a pointer.
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

/// With several harts: a pointer is exchanged.
impl<T> Place<T> for Box<T> {
    fn of(value: T) -> Box<T> {
        Box::new(value)
    }
}
