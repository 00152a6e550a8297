//! The waiting requests of a bank and their causes, as sentences.

use super::*;

impl Bank {
    /// Describes the busy lines, and the events that they wait for.
    pub(crate) fn waiting_for(&self, sentences: &mut Vec<String>) {
        let slots = (0..self.used.len()).flat_map(|set| (0..self.ways).map(move |way| (set, way)));
        for entry in slots
            .map(|(set, way)| self.entry(set, way))
            .filter(|entry| entry.transaction != IDLE)
        {
            let transaction = &self.transactions[entry.transaction as usize];
            let what = match transaction.step {
                Step::Between => "nothing".to_string(),
                Step::Memory(_) => "memory".to_string(),
                Step::Invalidates {
                    request, missing, ..
                } => {
                    let who = match request {
                        Request::Get { cache, .. } => format!("cache {}", cache.0),
                        _ => "an agent".to_string(),
                    };
                    format!("{missing} sharers to give it up, so that {who} can write it")
                }
                Step::Forward { owner, request } => match request {
                    Request::Get { cache, .. } => {
                        format!("cache {owner} to send it to cache {}", cache.0)
                    }
                    Request::WriteAtHome(_) => {
                        format!("cache {owner} to give it up, so that an agent can write it")
                    }
                    _ => format!("cache {owner} to send it to its home, where an agent reads it"),
                },
                Step::ReadOut => "the bank to read it for an agent".to_string(),
                Step::Recall { owner, missing } => {
                    if owner == NO_OWNER {
                        format!("{missing} sharers to give it up, to make room at its home")
                    } else {
                        format!("cache {owner} to give it up, to make room at its home")
                    }
                }
            };
            sentences.push(format!(
                "The line at {:#x} waits for {what}; {} more requests for it wait.",
                transaction.line.base(),
                transaction.waiting.len()
            ));
        }
        for stalled in &self.stalled {
            for (line, _) in &stalled.waiting {
                sentences.push(format!(
                    "A request for the line at {:#x} waits for a way of its set in the {}.",
                    line.base(),
                    match self.lines {
                        None => "last-level cache",
                        Some(_) => "directory",
                    }
                ));
            }
        }
    }
}
