//! One walk over the state of a simulated server.
//!
//! Each component lists its fields once, in [`State::walk`], and a [`Walker`] processes them: it
//! serializes them, restores them, or compares them and moves them on in time. The walk is derived,
//! so that no field can be forgotten; fields that follow from the description of the server, or are
//! empty at every walk, are called `fixed`.
//!
//! A walk restores *in place*: the server has been built from its description before, so that its
//! fixed fields are present.

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

/// The purpose of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// All of the state, unchanged.
    Exact,
    /// The state that determines all future behaviour, relative to a point in time, for comparing
    /// two states with no serialization in between. Equal states have the same future.
    Compare,
    /// Times, to be moved on.
    MoveOn,
}

/// A visitor of the state of a component.
pub trait Walker {
    /// A number of none of the kinds below.
    fn number(&mut self, value: &mut u64);

    /// Many such numbers, like [`Self::number`] for each.
    fn numbers(&mut self, values: &mut [u64]) {
        values.iter_mut().for_each(|value| self.number(value));
    }

    /// A fixed number of bytes.
    fn bytes(&mut self, bytes: &mut [u8]);

    /// An absolute simulated time in femtoseconds; `u64::MAX` is never.
    fn time(&mut self, femtoseconds: &mut u64) {
        self.number(femtoseconds);
    }

    /// The number of a clock cycle; 2^62 and above mean none.
    fn cycle(&mut self, cycle: &mut u64) {
        self.number(cycle);
    }

    /// A count, which has no influence on behaviour.
    fn count(&mut self, count: &mut u64) {
        self.number(count);
    }

    /// The purpose of the walk.
    fn purpose(&self) -> Purpose {
        Purpose::Exact
    }

    /// Whether serialized state is being restored.
    fn is_restoring(&self) -> bool {
        false
    }

    /// An upper bound on the number of items in the restored state.
    fn max_items(&self) -> u64 {
        u64::MAX
    }

    /// Makes the walk fail with this reason; only the first one counts.
    fn refuse(&mut self, sentence: String);
}

/// State that a [`Walker`] can visit.
pub trait State {
    /// Passes every field to `walker`.
    fn walk(&mut self, walker: &mut dyn Walker);

    /// Walks each of `items`. Numbers are passed together, since caches have millions.
    fn walk_all(items: &mut [Self], walker: &mut dyn Walker)
    where
        Self: Sized,
    {
        items.iter_mut().for_each(|item| item.walk(walker));
    }
}

/// State that can be created from nothing, for restoring lists.
pub trait Plain: State {
    /// Some value, which a walk replaces completely.
    fn blank() -> Self;
}

/// A number that is only a count.
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
/// `#[state(…)]` selects how a field is walked; the default depends on its type. `cycle` and
/// `count` are the kinds of [`Walker`], `maybe_cycle` is for an option of a cycle, and `cycles` for
/// an array or a slice of them; `slice` and `octets` are for fixed numbers of items and bytes;
/// `inside` is for an option that never changes between some and none; `own` calls a method `walk`
/// that is not [`State`]'s; `fixed` fields are not walked. Before one of them, or alone, `exact`
/// restricts the walk to [`Purpose::Exact`], and `apart` excludes it from comparisons
/// ([`Purpose::Compare`]), for which the component shows the field in another way.
///
/// On a struct, `#[state(all(count))]` sets the kind of fields without an attribute.
/// `#[state(fields)]` makes a method `walk_fields` instead, for a struct that implements `State` by
/// hand and walks more than its fields. `#[state(bound(T: state::Plain))]` sets bounds of type
/// parameters.
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

/// Declares a struct with the type, the kind of walk ([`State`](derive@State)) and the initial
/// value of each field; implements [`State`] and the constructor:
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

/// Implements [`State`] for a type with a method `name` whose state cannot be serialized.
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
