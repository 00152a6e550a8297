//! The structures in memory: the receiver's descriptor, and the sender's table. The layouts are
//! Intel's (*Software Developer's Manual*, Volume 2, `SENDUIPI`).

/// Outstanding notification: the hart has been notified, and has not taken the vectors yet. Bit 0
/// of the first word of a user posted-interrupt descriptor (UPID), which is 16 bytes long.
pub const OUTSTANDING: u64 = 1 << 0;
/// Notifications are suppressed: vectors are posted without a notification.
pub const SUPPRESSED: u64 = 1 << 1;
/// The position of the notification vector in the first word; it has 8 bits.
pub const NOTIFICATION_VECTOR_SHIFT: u32 = 16;
/// The position of the notification's destination in the first word: the number of a hart, 32 bits.
pub const DESTINATION_SHIFT: u32 = 32;
/// The offset of the second word: the posted-interrupt requests, a bit for each of 64 vectors.
pub const REQUESTS: u64 = 8;

/// Bytes of an entry of the user-interrupt target table (UITT).
pub const TARGET_BYTES: u64 = 16;
/// The entry is valid: bit 0 of its first word.
pub const TARGET_VALID: u64 = 1 << 0;
/// The position of the vector in the first word; it has 6 bits.
pub const TARGET_VECTOR_SHIFT: u32 = 8;
/// The offset of the second word of an entry: the descriptor's address.
pub const TARGET_DESCRIPTOR: u64 = 8;

/// The vector of a table's entry, if the entry is valid.
pub fn vector(entry: u64) -> Option<u8> {
    let vector = entry >> TARGET_VECTOR_SHIFT & 0xff;
    (entry & TARGET_VALID != 0 && vector < 64).then_some(vector as u8)
}

/// The hart to notify, from a descriptor's first word.
pub fn destination(word: u64) -> u16 {
    (word >> DESTINATION_SHIFT) as u16
}

/// The notification vector, from a descriptor's first word.
pub fn notification_vector(word: u64) -> u8 {
    (word >> NOTIFICATION_VECTOR_SHIFT) as u8
}

/// Whether a sender that found this first word and posted a vector must notify the hart.
pub fn notifies(word: u64) -> bool {
    word & (OUTSTANDING | SUPPRESSED) == 0
}

/// Records the outstanding notification, if one must be sent.
pub const NOTIFY: fabric::Update = fabric::Update {
    unless: OUTSTANDING | SUPPRESSED,
    keep: !0,
    set: OUTSTANDING,
};

/// Posts a vector.
pub fn post(vector: u8) -> fabric::Update {
    fabric::Update {
        unless: 0,
        keep: !0,
        set: 1 << vector,
    }
}
