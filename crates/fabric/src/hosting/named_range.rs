//! Memory maps: ranges of addresses and their contents.

use crate::AddressRange;

/// The unit that responds to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// An agent: registers.
    Device,
    /// Memory, as much of the range as the server needs.
    Memory,
}

/// A part of a memory map.
#[derive(Clone, Copy, Debug)]
pub struct NamedRange {
    /// The name in programs.
    pub name: &'static str,
    /// The unit that responds.
    pub answers: Answers,
    /// The largest extent.
    pub range: AddressRange,
    /// The servers with this range.
    pub servers: &'static str,
    /// The file with its code, below `crates`.
    pub owner: &'static str,
    /// Its contents, in sentences.
    pub text: &'static str,
}

impl NamedRange {
    /// Its last address, which may be the last one of all.
    pub const fn last(&self) -> u64 {
        self.range.start + (self.range.length - 1)
    }
}

/// Declares a memory map: each range as a constant, an [`AddressRange`], and a list of all
/// [`NamedRange`]s. A range's comment is its text.
///
/// ```
/// fabric::named_ranges! {
///     /// All ranges.
///     MAP:
///
///     /// A timer.
///     TIMER: Device = 0x1000, 0x100, "all", "server/timer.rs";
/// }
/// assert_eq!((TIMER.start, MAP[0].text), (0x1000, " A timer."));
/// ```
#[macro_export]
macro_rules! named_ranges {
    (
        $(#[$about:meta])* $map:ident:
        $(
            $(#[doc = $text:literal])+
            $name:ident: $answers:ident =
                $start:expr, $length:expr, $servers:literal, $owner:literal;
        )+
    ) => {
        $(
            $(#[doc = $text])+
            pub const $name: $crate::AddressRange = $crate::AddressRange {
                start: $start,
                length: $length,
            };
        )+
        $(#[$about])*
        pub const $map: &[$crate::NamedRange] = &[$($crate::NamedRange {
            name: stringify!($name),
            answers: $crate::Answers::$answers,
            range: $name,
            servers: $servers,
            owner: $owner,
            text: concat!($($text),+),
        }),+];
    };
}
