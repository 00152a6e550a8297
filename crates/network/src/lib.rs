//! Links and transports: [packets](packet) and the [transports](transport) that split messages into
//! them, the links and switches of a [rack], and the hosts that send requests to its servers
//! ([`LoadGenerator`]).

mod load_generator;
pub mod packet;
pub mod rack;
pub mod transport;

pub use load_generator::{
    AddressSpan, LoadGenerator, LoadGeneratorReport, LoadGeneratorSpec, LoadGeneratorStatistics,
    Offer, RequestSpec, UnexpectedMessages, Word,
};
