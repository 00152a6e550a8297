#![no_main]

libfuzzer_sys::fuzz_target!(|input: (u32, u64, [u64; 3], u8)| fuzz::decode(input));
