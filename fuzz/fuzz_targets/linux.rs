#![no_main]

use std::env::{current_dir, set_current_dir};

// The directory of the corpus may have been named from where this began.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let before = current_dir().expect("there is one");
    set_current_dir(fuzz::sandbox()).expect("it is there");
    fuzz::linux(bytes);
    set_current_dir(before).expect("it is there");
});
