//! A context of a core: a thread's queues, and its state for the scheduler.

use crate::mailbox::Words;
use pipeline::Word;
use std::collections::VecDeque;

/// A message in a receive queue. A word of it comes in each cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
struct Received {
    words: Vec<u64>,
    /// How many have been read.
    read: usize,
    /// From when on the first can be read.
    #[state(cycle)]
    readable: u64,
}

/// A context that is bound to a core.
#[derive(Clone, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub(crate) struct Context {
    /// The layer-4 port.
    pub number: u16,
    /// 0 is the highest.
    pub priority: u8,
    /// It has a message, or has not declared itself idle since.
    pub is_active: bool,
    /// It has read of its oldest message.
    pub has_begun: bool,
    /// Cycles that it has spent on its oldest message, without those since it runs.
    pub used_cycles: u64,
    /// When each message that is not done has come, in cycles, oldest first.
    pub arrivals: VecDeque<u64>,
    received: VecDeque<Received>,
    /// The message that is being written, and how many words are missing.
    sending: Vec<u64>,
    missing: usize,
    /// The interface takes no messages of this context now; how many bytes have been written since.
    pub is_stopped: bool,
    pub stopped_bytes: u64,
}

impl Context {
    pub fn new(number: u16, priority: u8) -> Context {
        Context {
            number,
            priority,
            ..Context::default()
        }
    }

    /// A message has come, whose first word can be read at `readable`.
    pub fn receive(&mut self, message: Words, readable: u64) {
        self.arrivals.push_back(readable);
        self.is_active = true;
        self.received.push_back(Received {
            words: message.words,
            read: 0,
            readable,
        });
    }

    /// The next word, if there is one.
    pub fn first_word(&self) -> Option<Word> {
        let message = self.received.front()?;
        Some(Word {
            value: *message.words.get(message.read)?,
            readable: message.readable + message.read as u64,
        })
    }

    /// The next word is read.
    pub fn take_word(&mut self) {
        self.has_begun = true;
        if let Some(message) = self.received.front_mut() {
            message.read += 1;
            if message.read == message.words.len() {
                self.received.pop_front();
            }
        }
    }

    /// Whether a message is being written.
    pub fn is_sending(&self) -> bool {
        self.missing > 0
    }

    /// Begins a message of so many words, the header included.
    pub fn begin_message(&mut self, words: usize) {
        self.sending = Vec::with_capacity(words);
        self.missing = words;
    }

    /// Appends a word; the message, if it is whole now.
    pub fn write_word(&mut self, word: u64) -> Option<Words> {
        self.sending.push(word);
        self.missing -= 1;
        (self.missing == 0).then(|| Words {
            context: self.number,
            words: std::mem::take(&mut self.sending),
        })
    }
}
