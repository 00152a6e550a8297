//! One walk over the state of a simulated server.
//!
//! Each component names its fields once, in [`State::walk`], and a [`Walker`] does with them what
//! it is for: writes them down, puts back what was written, or compares and moves on in time. The
//! walk is derived, so that no field can be forgotten; what follows from the description of the
//! server, or is empty whenever a walk is made, is called `fixed`.
//!
//! A walk restores *in place*: the server has been built from its description before, so what is
//! fixed is there.

mod bytes;
mod counts;
mod period;
mod walks;

// The derived implementations name this crate.
extern crate self as state;

pub use bytes::{Reader, Writer};
pub use counts::{add_counts, repeat_counts};
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
    fn is_restoring(&self) -> bool {
        false
    }

    /// How many items there can be at most in what is being put back.
    fn max_items(&self) -> u64 {
        u64::MAX
    }

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

/// Implements [`State`]: every field is walked, in the order of the declaration.
///
/// `#[state(…)]` says how a field is walked: without it as its type says; `cycle` and `count` as
/// [`Walker`] says, `maybe_cycle` for an option of a cycle, and `cycles` for an array or a slice of
/// them; `slice` and `octets` for items and bytes whose number is fixed; `inside` for an option
/// that is there or not for good; `own` by a method `walk` that is not [`State`]'s; `fixed` not at
/// all. Before one of them, or alone, `exact`: only if all is walked ([`Purpose::Exact`]); `apart`:
/// not in a comparison ([`Purpose::Compare`]), for which the component shows it in another way.
///
/// Of a struct, `#[state(all(count))]` says how fields without an attribute are walked.
/// `#[state(fields)]` makes a method `walk_fields` instead, for a struct that implements `State`
/// by hand and walks more than its fields. `#[state(bound(T: state::Plain))]` says what the type
/// parameters must be.
///
/// An enumeration is walked as the number of its variant and the fields of that; it must be
/// [`Plain`]. It takes no `all`, its variants take no attribute, and no field takes two:
///
/// ```compile_fail
/// #[derive(state::State, state::Plain)]
/// #[state(all(count))]
/// enum Counted {
///     Once(u64),
/// }
/// ```
/// ```compile_fail
/// #[derive(state::State, state::Plain)]
/// enum Fixed {
///     #[state(fixed)]
///     Once(u64),
/// }
/// ```
/// ```compile_fail
/// #[derive(state::State)]
/// struct Twice {
///     #[state(exact)]
///     #[state(cycle)]
///     rings_at: u64,
/// }
/// ```
///
/// ```
/// #[derive(state::State)]
/// struct Timer {
///     #[state(fixed)]
///     period: u64,
///     #[state(cycle)]
///     rings_at: u64,
///     is_set: bool,
/// }
/// let mut timer = Timer { period: 5, rings_at: 7, is_set: true };
/// let bytes = state::Writer::write(&mut timer).unwrap();
/// let mut other = Timer { period: 5, rings_at: 0, is_set: false };
/// state::Reader::read(&mut other, &bytes).unwrap();
/// assert_eq!((other.rings_at, other.is_set), (7, true));
/// ```
pub use state_derive::State;

/// Implements [`Plain`]: every field is blank; an enumeration begins as its first variant.
pub use state_derive::Plain;

/// Declares a struct with, for each field, its type, how it is walked ([`State`](derive@State)) and
/// what it begins as; implements [`State`] and the constructor:
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
        #[derive($crate::State)]
        $visibility struct $name $(<$parameter: $bound>)? {
            $($(#[$field_meta])* $(#[state($($how),+)])? $field_visibility $field: $type),*
        }

        impl $(<$parameter: $bound>)? $name $(<$parameter>)? {
            $(#[$new_meta])*
            $new_visibility fn new($($argument: $argument_type),*) -> Self {
                $name { $($field: $initial),* }
            }
        }
    };
}

/// Implements [`State`] for something with a method `name` whose state cannot be written down.
#[macro_export]
macro_rules! unsaved {
    ($type:ty) => {
        impl $crate::State for $type {
            fn walk(&mut self, walker: &mut dyn $crate::Walker) {
                walker.refuse(format!(
                    "the state of {} cannot be written down",
                    self.name()
                ));
            }
        }
    };
}
