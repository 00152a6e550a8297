//! Walks of numbers, texts and collections.

use crate::{Plain, State, Walker};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;

/// Passes items to the walker as numbers, many with each call.
fn numbers<T: Copy>(
    items: &mut [T],
    walker: &mut dyn Walker,
    number: impl Fn(T) -> u64,
    item: impl Fn(u64) -> T,
) {
    // Most arrays are this short, and zeroing more takes longer than walking them.
    let mut room = [0; 32];
    for items in items.chunks_mut(room.len()) {
        let numbers = &mut room[..items.len()];
        for (to, from) in numbers.iter_mut().zip(&*items) {
            *to = number(*from);
        }
        walker.numbers(numbers);
        for (to, from) in items.iter_mut().zip(numbers) {
            *to = item(*from);
        }
    }
}

macro_rules! integers {
    ($($integer:ident),*) => {
        $(
            impl State for $integer {
                #[inline]
                fn walk(&mut self, walker: &mut dyn Walker) {
                    let mut number = *self as u64;
                    walker.number(&mut number);
                    *self = number as $integer;
                }

                fn walk_all(items: &mut [$integer], walker: &mut dyn Walker) {
                    numbers(items, walker, |item| item as u64, |number| number as $integer);
                }
            }

            impl Plain for $integer {
                fn blank() -> $integer {
                    0
                }
            }
        )*
    };
}

integers!(u8, u16, u32, u64, usize);

impl State for bool {
    #[inline]
    fn walk(&mut self, walker: &mut dyn Walker) {
        let mut number = u64::from(*self);
        walker.number(&mut number);
        *self = number != 0;
    }

    fn walk_all(items: &mut [bool], walker: &mut dyn Walker) {
        numbers(items, walker, u64::from, |number| number != 0);
    }
}

impl Plain for bool {
    fn blank() -> bool {
        false
    }
}

impl State for f64 {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let mut bits = self.to_bits();
        walker.number(&mut bits);
        *self = f64::from_bits(bits);
    }
}

impl Plain for f64 {
    fn blank() -> f64 {
        0.0
    }
}

impl State for () {
    fn walk(&mut self, _walker: &mut dyn Walker) {}
}

impl Plain for () {
    fn blank() {}
}

impl<T: Plain> State for Option<T> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let mut some = self.is_some();
        some.walk(walker);
        if some != self.is_some() {
            *self = some.then(T::blank);
        }
        if let Some(value) = self {
            value.walk(walker);
        }
    }
}

impl<T: Plain> Plain for Option<T> {
    fn blank() -> Option<T> {
        None
    }
}

impl<T: Plain, E: Plain> State for Result<T, E> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let mut ok = self.is_ok();
        ok.walk(walker);
        if ok != self.is_ok() {
            *self = if ok { Ok(T::blank()) } else { Err(E::blank()) };
        }
        match self {
            Ok(value) => value.walk(walker),
            Err(error) => error.walk(walker),
        }
    }
}

impl<T: Plain, E: Plain> Plain for Result<T, E> {
    fn blank() -> Result<T, E> {
        Ok(T::blank())
    }
}

impl<T: State + ?Sized> State for Box<T> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        (**self).walk(walker);
    }
}

impl<T: Plain> Plain for Box<T> {
    fn blank() -> Box<T> {
        Box::new(T::blank())
    }
}

impl<T: State, const N: usize> State for [T; N] {
    fn walk(&mut self, walker: &mut dyn Walker) {
        T::walk_all(self, walker);
    }
}

impl<T: Plain, const N: usize> Plain for [T; N] {
    fn blank() -> [T; N] {
        std::array::from_fn(|_| T::blank())
    }
}

macro_rules! tuples {
    ($($name:ident),*) => {
        impl<$($name: State),*> State for ($($name,)*) {
            #[allow(non_snake_case)]
            fn walk(&mut self, walker: &mut dyn Walker) {
                let ($($name,)*) = self;
                $($name.walk(walker);)*
            }
        }

        impl<$($name: Plain),*> Plain for ($($name,)*) {
            fn blank() -> Self {
                ($($name::blank(),)*)
            }
        }
    };
}

tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);

/// The number of items of a collection; while restoring, the serialized number.
fn length(length: usize, walker: &mut dyn Walker) -> usize {
    let mut number = length as u64;
    walker.number(&mut number);
    if number > walker.max_items() && walker.is_restoring() {
        walker.refuse(format!("there cannot be {number} items"));
        return 0;
    }
    number as usize
}

impl<T: Plain> State for Vec<T> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.resize_with(length(self.len(), walker), T::blank);
        T::walk_all(self, walker);
    }
}

impl<T: Plain> Plain for Vec<T> {
    fn blank() -> Vec<T> {
        Vec::new()
    }
}

impl<T: Plain> State for VecDeque<T> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.resize_with(length(self.len(), walker), T::blank);
        self.iter_mut().for_each(|item| item.walk(walker));
    }
}

impl<T: Plain> Plain for VecDeque<T> {
    fn blank() -> VecDeque<T> {
        VecDeque::new()
    }
}

impl<K: Plain + Ord + Clone, V: Plain> State for BTreeMap<K, V> {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let mut pairs: Vec<(K, V)> = std::mem::take(self).into_iter().collect();
        pairs.walk(walker);
        self.extend(pairs);
    }
}

impl State for String {
    fn walk(&mut self, walker: &mut dyn Walker) {
        let mut bytes = std::mem::take(self).into_bytes();
        items(&mut bytes, walker);
        match String::from_utf8(bytes) {
            Ok(text) => *self = text,
            Err(_) => walker.refuse("there is a text that is none".to_string()),
        }
    }
}

impl Plain for String {
    fn blank() -> String {
        String::new()
    }
}

/// Texts of the program itself. They are few; each restored text is kept for the life of the
/// process.
impl State for &'static str {
    fn walk(&mut self, walker: &mut dyn Walker) {
        static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let mut text = self.to_string();
        text.walk(walker);
        if text != *self {
            let mut known = KNOWN.lock().unwrap_or_else(|error| error.into_inner());
            *self = known.get(text.as_str()).copied().unwrap_or_else(|| {
                let text: &'static str = text.leak();
                known.insert(text);
                text
            });
        }
    }
}

impl Plain for &'static str {
    fn blank() -> &'static str {
        ""
    }
}

/// A variable number of bytes.
pub fn items(bytes: &mut Vec<u8>, walker: &mut dyn Walker) {
    bytes.resize(length(bytes.len(), walker), 0);
    walker.bytes(bytes);
}

/// Whether a collection has the serialized number of items.
fn is_as_long(items: usize, walker: &mut dyn Walker) -> bool {
    let found = length(items, walker);
    if found != items {
        walker.refuse(format!("there are {found} items, and {items} are expected"));
    }
    found == items
}

/// A fixed number of items.
pub fn slice<T: State>(items: &mut [T], walker: &mut dyn Walker) {
    if is_as_long(items.len(), walker) {
        T::walk_all(items, walker);
    }
}

/// A fixed number of bytes.
pub fn octets(bytes: &mut [u8], walker: &mut dyn Walker) {
    if is_as_long(bytes.len(), walker) {
        walker.bytes(bytes);
    }
}

/// The number of a cycle, or none.
pub fn maybe_cycle(cycle: &mut Option<u64>, walker: &mut dyn Walker) {
    let mut some = cycle.is_some();
    some.walk(walker);
    *cycle = some.then(|| cycle.unwrap_or_default());
    if let Some(cycle) = cycle {
        walker.cycle(cycle);
    }
}

/// The places of a set of `ways` that begins at `start`, most recently used first, from the ranks
/// of its ways, at most 64. The way of an entry does not matter, so sets are compared in this
/// order.
pub fn by_rank(ranks: &[u8], start: usize) -> impl Iterator<Item = usize> {
    let mut ways = [0; 64];
    for (way, &rank) in ranks.iter().enumerate() {
        ways[usize::from(rank)] = way as u8;
    }
    (0..ranks.len()).map(move |rank| start + usize::from(ways[rank]))
}
