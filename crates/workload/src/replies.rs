//! Validation of stores' replies to requests of [`Operations`](crate::Operations).
//!
//! A reply belongs to its request if it has the request's kind and number. The value of a get must
//! be one that its key can have: the initial one, or that of a put, unless another put began after
//! that one ended, and ended before the get began. Times are those of the client, so requests that
//! overlap there can be ordered either way.

use crate::operations::{
    DONE, GET, HEAD_BYTES, NEW_ORDER, NO_ROOM, NOT_FOUND, OUTPUT_BYTES, OperationsSpec, PUT, SCAN,
    mix,
};
use fabric::Time;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of the head of requests and replies.
const HEAD: usize = HEAD_BYTES as usize;

/// Replies of a store, by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, state::State)]
#[state(all(count))]
pub struct ReplyCounts {
    /// The store has performed the operation.
    pub done: u64,
    /// The store has no such key; a transaction of TPC-C has rolled itself back.
    pub not_found: u64,
    /// The store is full.
    pub no_room: u64,
}

/// The information about a request that is needed when its reply arrives.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
pub struct Asked {
    kind: u8,
    number: u32,
    /// The first word of the key.
    key: u64,
    /// For a put, the [`hash`] of its value.
    value: u64,
}

impl Asked {
    /// Whether a reply claims to be for this request.
    pub fn is_answered_by(&self, reply: &[u8]) -> bool {
        head(reply).is_some_and(|([_, kind], _, number)| (kind, number) == (self.kind, self.number))
    }
}

/// A put whose value a get may find.
#[derive(Clone, Copy, Debug, Default, PartialEq, state::State, state::Plain)]
struct Put {
    value: u64,
    number: u32,
    begun: Time,
    /// `NEVER` until it has been answered.
    done: Time,
}

/// The possible values of a key besides its initial one.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Values {
    puts: Vec<Put>,
}

/// Checks the replies of stores.
#[derive(Clone, Debug, state::State)]
pub struct Replies {
    #[state(fixed)]
    spec: OperationsSpec,
    /// Whether no other client puts values into the stores.
    #[state(fixed)]
    is_alone: bool,
    /// By the store and the first word of the key; only for keys that have been put.
    values: BTreeMap<(u32, u64), Values>,
    counts: ReplyCounts,
}

/// A hash of a value; different values have different hashes except in one of 2^64 cases.
fn hash(value: &[u8]) -> u64 {
    value.chunks(8).fold(value.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash ^ u64::from_le_bytes(word))
    })
}

/// The hash of the initial value of a key with this second word: `operation_first_value()` of the
/// guest's `operations.h`.
fn first_value(second: u64, bytes: usize) -> u64 {
    let mut value = Vec::with_capacity(bytes + 8);
    while value.len() < bytes {
        value.extend(mix(second.wrapping_add(value.len() as u64)).to_le_bytes());
    }
    value.truncate(bytes);
    hash(&value)
}

fn head(message: &[u8]) -> Option<([u8; 2], u16, u32)> {
    let &[first, second, a, b, c, d, e, f] = message.get(..HEAD)? else {
        return None;
    };
    let (count, number) = (u16::from_le_bytes([a, b]), u32::from_le_bytes([c, d, e, f]));
    Some(([first, second], count, number))
}

impl Replies {
    /// A checker for stores with the contents described by `spec`. Values are checked if
    /// `is_alone`: if no other client puts values.
    pub fn new(spec: &OperationsSpec, is_alone: bool) -> Replies {
        Replies {
            spec: spec.clone(),
            is_alone,
            values: BTreeMap::new(),
            counts: ReplyCounts::default(),
        }
    }

    /// Counts of the replies.
    pub fn counts(&self) -> ReplyCounts {
        self.counts
    }

    /// The information to keep about a generated request to `store`, which is sent at `now`.
    pub fn ask(&mut self, request: &[u8], store: u32, now: Time) -> Asked {
        let ([kind, key_bytes], _, number) = head(request).unwrap_or_default();
        let body = request.get(HEAD..).unwrap_or_default();
        let word = body.first_chunk().map(|word| u64::from_le_bytes(*word));
        let value = body.get(usize::from(key_bytes)..).unwrap_or_default();
        let asked = Asked {
            kind,
            number,
            key: word.unwrap_or_default(),
            value: hash(value),
        };
        if kind == PUT && self.is_alone {
            let values = self.values.entry((store, asked.key)).or_default();
            values.puts.push(Put {
                value: asked.value,
                number,
                begun: now,
                done: Time::NEVER,
            });
        }
        asked
    }

    /// Checks the `reply` to a request sent at `begun` to `store`, which has arrived at `now`; the
    /// oldest outstanding request was sent at `oldest`. Returns the error, if any.
    pub fn check(
        &mut self,
        asked: &Asked,
        store: u32,
        reply: &[u8],
        [begun, now, oldest]: [Time; 3],
    ) -> Result<(), String> {
        let Asked {
            kind, number, key, ..
        } = *asked;
        let Some(([status, answered], count, of)) = head(reply) else {
            return Err(format!("it has {} bytes, and no head", reply.len()));
        };
        if (answered, of) != (kind, number) {
            return Err(format!(
                "it is for a request of kind {answered} with number {of}"
            ));
        }
        let is_transaction = kind >= NEW_ORDER;
        match status {
            DONE => self.counts.done += 1,
            NOT_FOUND if kind == GET || kind == NEW_ORDER => self.counts.not_found += 1,
            NO_ROOM if kind == PUT || is_transaction => self.counts.no_room += 1,
            _ => return Err(format!("its status is {status}")),
        }
        let second = mix(key);
        let expected = match (kind, status) {
            _ if is_transaction => OUTPUT_BYTES,
            (GET, DONE) => self.spec.value_bytes_of(second),
            _ => 0,
        };
        // A word may be padded.
        let bytes = HEAD + expected as usize;
        if kind != SCAN
            && (u32::from(count) != expected || !(bytes..bytes + 8).contains(&reply.len()))
        {
            return Err(format!(
                "it has {} bytes and tells {count} behind its head, where {expected} are right",
                reply.len()
            ));
        }
        if !self.is_alone {
            return Ok(());
        }
        let place = (store, key);
        if kind == PUT
            && let Some(values) = self.values.get_mut(&place)
        {
            values.answered(asked, begun, now, status == DONE);
            values.forget(oldest);
        }
        if kind == GET && status == DONE {
            let value = hash(&reply[HEAD..bytes]);
            let first = first_value(second, expected as usize);
            let none = Values::default();
            let values = self.values.get(&place).unwrap_or(&none);
            if !values.can_be(value, first, begun) {
                return Err(
                    "its value is neither the first one of the key nor that of a put which can be \
                     the last"
                        .to_string(),
                );
            }
        }
        Ok(())
    }
}

impl Values {
    /// Handles the reply to a put, which arrived at `now`.
    fn answered(&mut self, asked: &Asked, begun: Time, now: Time, is_done: bool) {
        let is_it = |put: &Put| {
            (put.number, put.value, put.begun) == (asked.number, asked.value, begun)
                && put.done == Time::NEVER
        };
        let Some(place) = self.puts.iter().position(is_it) else {
            return;
        };
        match is_done {
            true => self.puts[place].done = now,
            false => {
                self.puts.remove(place);
            }
        }
    }

    /// The start of the last put that was done before `begun`: puts that were done before that
    /// start are overwritten for a request that began at `begun`.
    fn last_begun(&self, begun: Time) -> Option<Time> {
        let before = self.puts.iter().filter(|put| put.done < begun);
        before.map(|put| put.begun).max()
    }

    /// Removes the values that no request sent at `oldest` or later can find. The put that
    /// overwrites them stays.
    fn forget(&mut self, oldest: Time) {
        if let Some(last) = self.last_begun(oldest) {
            self.puts.retain(|put| put.done >= last);
        }
    }

    /// Whether a request sent at `begun` can find `value`, if the key's initial value was `first`.
    fn can_be(&self, value: u64, first: u64, begun: Time) -> bool {
        let last = self.last_begun(begun);
        let is_left = |put: &&Put| last.is_none_or(|last| put.done >= last);
        let mut puts = self.puts.iter().filter(is_left);
        (last.is_none() && value == first) || puts.any(|put| put.value == value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Operations, Random, Stream};

    fn ns(ns: u64) -> Time {
        Time::from_ns(ns as f64)
    }

    /// A client of a store of one key, and its requests.
    struct Client {
        replies: Replies,
        next: u32,
    }

    const BYTES: usize = 13;

    impl Client {
        fn new(is_alone: bool) -> Client {
            let spec = OperationsSpec {
                keys: 1,
                value_bytes: BYTES as u32,
                ..OperationsSpec::default()
            };
            Client {
                replies: Replies::new(&spec, is_alone),
                next: 0,
            }
        }

        /// A request at `now`, a put if it has a value, in the format of [`Operations`].
        fn ask(&mut self, value: Option<&[u8]>, now: u64) -> Asked {
            let kind = value.map_or(GET, |_| PUT);
            let mut request = vec![kind, 16, value.map_or(0, <[u8]>::len) as u8, 0];
            self.next += 1;
            request.extend(self.next.to_le_bytes());
            let first = mix(0);
            request.extend(first.to_le_bytes());
            request.extend(mix(first).to_le_bytes());
            request.extend(value.unwrap_or_default());
            self.replies.ask(&request, 7, ns(now))
        }

        fn check(&mut self, asked: &Asked, value: &[u8], times: [u64; 3]) -> Result<(), String> {
            let mut reply = vec![DONE, asked.kind, value.len() as u8, 0];
            reply.extend(asked.number.to_le_bytes());
            reply.extend(value);
            self.replies.check(asked, 7, &reply, times.map(ns))
        }
    }

    fn first() -> Vec<u8> {
        let second = mix(mix(0));
        let mut value = mix(second).to_le_bytes().to_vec();
        value.extend(mix(second + 8).to_le_bytes());
        value.truncate(BYTES);
        value
    }

    /// Gets find the initial value until a put is done, either value while one is in flight, and
    /// then the last one.
    #[test]
    fn a_get_finds_what_can_be_there() {
        for forgets in [false, true] {
            let mut client = Client::new(true);
            let (one, two) = ([1; BYTES], [2; BYTES]);
            // Values older than all outstanding requests are removed.
            let oldest = |time: u64| if forgets { time } else { 0 };
            let early = client.ask(None, 1);
            client.check(&early, &first(), [1, 5, oldest(1)]).unwrap();
            let put = client.ask(Some(&one), 10);
            for value in [first(), one.to_vec()] {
                let get = client.ask(None, 11);
                client.check(&get, &value, [11, 15, oldest(10)]).unwrap();
            }
            let get = client.ask(None, 11);
            assert!(client.check(&get, &two, [11, 15, oldest(10)]).is_err());
            client.check(&put, &[], [10, 20, oldest(10)]).unwrap();
            // A get that began before the put was done can still find the initial value.
            let (before, after) = (client.ask(None, 20), client.ask(None, 21));
            client
                .check(&before, &first(), [20, 30, oldest(20)])
                .unwrap();
            assert!(
                client
                    .check(&after, &first(), [21, 30, oldest(21)])
                    .is_err()
            );
            client.check(&after, &one, [21, 30, oldest(21)]).unwrap();
            // Two overlapping puts can be ordered either way.
            let (a, b) = (client.ask(Some(&one), 40), client.ask(Some(&two), 41));
            client.check(&b, &[], [41, 50, oldest(40)]).unwrap();
            client.check(&a, &[], [40, 60, oldest(60)]).unwrap();
            for value in [one, two] {
                let get = client.ask(None, 61);
                client.check(&get, &value, [61, 62, oldest(61)]).unwrap();
            }
            let last = client.ask(Some(&two), 70);
            client.check(&last, &[], [70, 80, oldest(81)]).unwrap();
            let get = client.ask(None, 81);
            assert!(client.check(&get, &one, [81, 90, oldest(81)]).is_err());
            client.check(&get, &two, [81, 90, oldest(81)]).unwrap();
        }
    }

    /// Puts of other clients are unknown, and refused puts of a full store have no effect.
    #[test]
    fn values_of_others_are_not_judged() {
        let mut client = Client::new(false);
        let get = client.ask(None, 1);
        client.check(&get, &[9; BYTES], [1, 2, 1]).unwrap();
        assert!(client.check(&get, &[9; BYTES - 1], [1, 2, 1]).is_err());

        let mut client = Client::new(true);
        let put = client.ask(Some(&[3; BYTES]), 1);
        let mut reply = vec![NO_ROOM, PUT, 0, 0];
        reply.extend(put.number.to_le_bytes());
        let times = [1, 2, 1].map(ns);
        client.replies.check(&put, 7, &reply, times).unwrap();
        let get = client.ask(None, 3);
        assert!(client.check(&get, &[3; BYTES], [3, 4, 3]).is_err());
        client.check(&get, &first(), [3, 4, 3]).unwrap();
        let counts = client.replies.counts();
        assert_eq!((counts.done, counts.no_room), (2, 1));
    }

    #[test]
    fn replies_to_something_else_are_wrong() {
        let mut client = Client::new(true);
        let get = client.ask(None, 1);
        let wrong: [(&[u8], &str); 5] = [
            (&[0; 7], "it has 7 bytes, and no head"),
            (
                &[DONE, PUT, 0, 0, 1, 0, 0, 0],
                "it is for a request of kind 1 with number 1",
            ),
            (
                &[DONE, GET, 0, 0, 2, 0, 0, 0],
                "it is for a request of kind 0 with number 2",
            ),
            (&[7, GET, 0, 0, 1, 0, 0, 0], "its status is 7"),
            (
                &[DONE, GET, 0, 0, 1, 0, 0, 0],
                "it has 8 bytes and tells 0 behind its head, where 13 are right",
            ),
        ];
        for (reply, sentence) in wrong {
            let checked = client.replies.check(&get, 7, reply, [1, 2, 1].map(ns));
            assert_eq!(checked.unwrap_err(), sentence);
        }
    }

    /// Each transaction returns its output; New-Orders can roll themselves back.
    #[test]
    fn transactions_answer_their_output() {
        let spec = OperationsSpec {
            warehouses: Some(2),
            ..OperationsSpec::default()
        };
        let operations = Operations::new(&spec);
        let mut replies = Replies::new(&spec, true);
        let mut random = Random::new(1, Stream::Packets);
        let mut statuses = 0;
        for _ in 0..1000 {
            let mut request = Vec::new();
            operations.append_next(&mut random, &mut request);
            let asked = replies.ask(&request, 1, ns(1));
            for status in [DONE, NOT_FOUND, NO_ROOM, 3] {
                let mut reply = vec![status, asked.kind, 32, 0];
                reply.extend(asked.number.to_le_bytes());
                reply.resize(HEAD + 32, 0);
                let times = [1, 2, 1].map(ns);
                let is_right = replies.check(&asked, 1, &reply, times).is_ok();
                let expected = match status {
                    DONE | NO_ROOM => true,
                    NOT_FOUND => asked.kind == NEW_ORDER,
                    _ => false,
                };
                assert_eq!(is_right, expected);
                statuses += u64::from(is_right);
                reply.truncate(HEAD);
                assert!(replies.clone().check(&asked, 1, &reply, times).is_err());
            }
        }
        let ReplyCounts {
            done,
            not_found,
            no_room,
        } = replies.counts();
        assert_eq!((done, no_room), (1000, 1000));
        assert_eq!(done + not_found + no_room, statuses);
    }
}
