//! One walk over the state of a simulated server.
//!
//! Each component names its fields once, in [`State::walk`], and a [`Walker`] does with them what
//! it is for: writes them down, puts back what was written, or compares and moves on in time. The
//! macros take a component apart without `..`, so that a field that is forgotten is a compile
//! error; what follows from the description of the server, or is empty whenever a walk is made,
//! is called `fixed`.
//!
//! A walk restores *in place*: the server has been built from its description before, so what is
//! fixed is there.

mod bytes;
mod period;
mod walks;

pub use bytes::{Reader, Writer};
pub use period::{Comparer, Mover};
pub use walks::{by_rank, items, maybe_cycle, octets, slice};

/// What a walk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// All of the state, as it is.
    Exact,
    /// What decides on all that comes, relative to a point in time, so that two of them can be
    /// compared between which nothing has been stored. Two that are equal go on equally.
    Compare,
    /// What is in time, to be moved on.
    MoveOn,
}

/// What goes along the state of a component, and what it does there.
pub trait Walker {
    /// A number that is neither of the following.
    fn number(&mut self, value: &mut u64);

    /// Bytes whose number is fixed.
    fn bytes(&mut self, bytes: &mut [u8]);

    /// An absolute simulated time in femtoseconds; `u64::MAX` is never.
    fn time(&mut self, femtoseconds: &mut u64) {
        self.number(femtoseconds);
    }

    /// The number of a clock cycle; 2^62 and above are none.
    fn cycle(&mut self, cycle: &mut u64) {
        self.number(cycle);
    }

    /// What is only counted, and decides on nothing.
    fn count(&mut self, count: &mut u64) {
        self.number(count);
    }

    /// What it is for.
    fn purpose(&self) -> Purpose {
        Purpose::Exact
    }

    /// Whether what was written down is being put back.
    fn is_restoring(&self) -> bool;

    /// How many items there can be at most in what is being put back.
    fn max_items(&self) -> u64;

    /// The walk fails, because of what the sentence says; the first one counts.
    fn refuse(&mut self, sentence: String);
}

/// Something that a [`Walker`] can go along.
pub trait State {
    /// Shows every field to `walker`.
    fn walk(&mut self, walker: &mut dyn Walker);
}

/// A piece of state that can be made out of nothing, to be put back into a list.
pub trait Plain: State {
    /// Some value; a walk replaces all of it.
    fn blank() -> Self;
}

/// A number that is only counted.
pub trait Counted {
    /// The number.
    fn counted(&mut self) -> &mut u64;
}

impl Counted for u64 {
    fn counted(&mut self) -> &mut u64 {
        self
    }
}

/// Shows the fields of `self` to a walker, in the body of [`State::walk`]:
/// `fields!(self, walker, Type { field, other: cycle, spec: fixed })`.
///
/// How a field is walked: without a word as its type says; `cycle` and `count` as [`Walker`] says,
/// `maybe_cycle` for an option of a cycle, and `cycles` for an array or a slice of them; `slice`
/// and `octets` for items and bytes whose number is fixed; `inside` for an option that is there or
/// not for good; `own` by a method `walk` that is not [`State`]'s; `fixed` not at all. Before any
/// of them, or alone, `exact`: only if all is walked ([`Purpose::Exact`]); `apart`: not in a
/// comparison ([`Purpose::Compare`]), for which the component shows it in another way.
#[macro_export]
macro_rules! fields {
    ($self:expr, $walker:expr, $name:ident {
        $($(#[$meta:meta])* $field:ident $(: $($how:ident)+)?),* $(,)?
    }) => {{
        let $name { $($(#[$meta])* $field),* } = $self;
        $($(#[$meta])* { $crate::field!($walker, $field $($($how)+)?); })*
    }};
}

/// One field of [`fields`].
#[doc(hidden)]
#[macro_export]
macro_rules! field {
    ($walker:expr, $field:ident) => {
        $crate::State::walk($field, $walker)
    };
    ($walker:expr, $field:ident fixed) => {
        let _ = (&$walker, $field);
    };
    ($walker:expr, $field:ident exact $($how:ident)?) => {
        if $crate::Walker::purpose($walker) == $crate::Purpose::Exact {
            $crate::field!($walker, $field $($how)?);
        }
    };
    ($walker:expr, $field:ident apart $($how:ident)?) => {
        if $crate::Walker::purpose($walker) != $crate::Purpose::Compare {
            $crate::field!($walker, $field $($how)?);
        }
    };
    ($walker:expr, $field:ident own) => {
        $field.walk($walker)
    };
    ($walker:expr, $field:ident cycle) => {
        $crate::Walker::cycle($walker, $field)
    };
    ($walker:expr, $field:ident count) => {
        $crate::Walker::count($walker, $crate::Counted::counted($field))
    };
    ($walker:expr, $field:ident maybe_cycle) => {
        $crate::maybe_cycle($field, $walker)
    };
    ($walker:expr, $field:ident inside) => {
        if let Some(inside) = $field {
            $crate::State::walk(inside, $walker);
        }
    };
    ($walker:expr, $field:ident cycles) => {
        for cycle in $field.iter_mut() {
            $crate::Walker::cycle($walker, cycle);
        }
    };
    ($walker:expr, $field:ident slice) => {
        $crate::slice($field, $walker)
    };
    ($walker:expr, $field:ident octets) => {
        $crate::octets($field, $walker)
    };
}

/// Implements [`State`] for a struct, by [`fields`].
#[macro_export]
macro_rules! component {
    ($name:ident $fields:tt) => {
        impl $crate::State for $name {
            fn walk(&mut self, walker: &mut dyn $crate::Walker) {
                $crate::fields!(self, walker, $name $fields);
            }
        }
    };
}

/// Declares a struct with, for each field, its type, how it is walked ([`fields`]) and what it
/// begins as; implements [`State`] and the constructor:
///
/// ```
/// state::declare! {
///     /// A timer.
///     pub struct Timer {
///         pub rings_at: u64 => cycle = first,
///         rung: u64 => count = 0,
///     }
///     /// One that first rings at the cycle `first`.
///     pub fn new(first: u64);
/// }
/// assert_eq!(Timer::new(7).rings_at, 7);
/// ```
#[macro_export]
macro_rules! declare {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident $(<$parameter:ident: $bound:path>)? {
            $(
                $(#[$field_meta:meta])*
                $field_visibility:vis $field:ident: $type:ty
                    $(=> $($how:ident)+)? = $initial:expr
            ),* $(,)?
        }
        $(#[$new_meta:meta])*
        $new_visibility:vis fn new($($argument:ident: $argument_type:ty),* $(,)?);
    ) => {
        $(#[$meta])*
        $visibility struct $name $(<$parameter: $bound>)? {
            $($(#[$field_meta])* $field_visibility $field: $type),*
        }

        impl $(<$parameter: $bound>)? $name $(<$parameter>)? {
            $(#[$new_meta])*
            $new_visibility fn new($($argument: $argument_type),*) -> Self {
                $name { $($field: $initial),* }
            }
        }

        impl $(<$parameter: $bound>)? $crate::State for $name $(<$parameter>)? {
            fn walk(&mut self, walker: &mut dyn $crate::Walker) {
                $crate::fields!(self, walker, $name { $($field $(: $($how)+)?),* });
            }
        }
    };
}

/// Implements [`State`] and [`Plain`] for a struct, by [`fields`], of which none may be fixed.
#[macro_export]
macro_rules! plain {
    ($name:ident { $($field:ident $(: $how:ident)?),* $(,)? }) => {
        $crate::component!($name { $($field $(: $how)?),* });
        impl $crate::Plain for $name {
            fn blank() -> Self {
                $name { $($field: $crate::Plain::blank()),* }
            }
        }
    };
}

/// Implements [`State`] and [`Plain`] for an enumeration:
/// `choice!(Type { Nothing, Pair(first, second), Named { field, at: cycle } })`.
#[macro_export]
macro_rules! choice {
    ($name:ident { $($variant:ident
        $(( $($item:ident $(: $item_how:ident)?),* ))?
        $({ $($field:ident $(: $how:ident)?),* })?
    ),* $(,)? }) => {
        impl $crate::State for $name {
            // The last number is computed and not used.
            #[allow(unused_assignments)]
            fn walk(&mut self, walker: &mut dyn $crate::Walker) {
                let mut number = 0;
                let mut place = 0;
                $(
                    if let $name::$variant $(( $($item),* ))? $({ $($field),* })? = &*self {
                        $($(let _ = $item;)*)?
                        $($(let _ = $field;)*)?
                        number = place;
                    }
                    place += 1;
                )*
                let before = number;
                $crate::Walker::number(walker, &mut number);
                if number != before {
                    let mut place = 0;
                    let mut known = false;
                    $(
                        if number == place {
                            known = true;
                            *self = $name::$variant
                                $(( $({
                                    let $item = $crate::Plain::blank();
                                    $item
                                }),* ))?
                                $({ $($field: $crate::Plain::blank()),* })?;
                        }
                        place += 1;
                    )*
                    if !known {
                        let sentence = concat!("there is no such ", stringify!($name));
                        $crate::Walker::refuse(walker, sentence.to_string());
                        return;
                    }
                }
                match self {
                    $(
                        $name::$variant $(( $($item),* ))? $({ $($field),* })? => {
                            $($($crate::field!(walker, $item $($item_how)?);)*)?
                            $($($crate::field!(walker, $field $($how)?);)*)?
                        }
                    )*
                }
            }
        }

        impl $crate::Plain for $name {
            #[allow(unreachable_code)]
            fn blank() -> Self {
                $(
                    return $name::$variant
                        $(( $({
                            let $item = $crate::Plain::blank();
                            $item
                        }),* ))?
                        $({ $($field: $crate::Plain::blank()),* })?;
                )*
            }
        }
    };
}
