//! Clocks, which show simulated time, and sleep.

use crate::errno::Errno;
use crate::kernel::{Call, EPOCH_NS, Effect, Kernel};
use crate::signals::SIGALRM;
use crate::user::{Outcome, Pause, User};

const NANOSECONDS: u64 = 1_000_000_000;

/// A `timespec`, in nanoseconds.
pub(crate) fn read_timespec(user: &mut User, address: u64) -> Outcome {
    let [seconds, nanoseconds] = user.words(address)?;
    if seconds as i64 >= 0 && nanoseconds < NANOSECONDS {
        Ok(seconds
            .saturating_mul(NANOSECONDS)
            .saturating_add(nanoseconds))
    } else {
        Err(Errno::INVAL.into())
    }
}

/// The words of a `timespec`.
pub(crate) fn timespec(time_ns: u64) -> [u64; 2] {
    [time_ns / NANOSECONDS, time_ns % NANOSECONDS]
}

/// The timer of `setitimer` and `alarm`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarm {
    /// When it rings next.
    at_ns: Option<u64>,
    /// How long after that again; 0: not.
    interval_ns: u64,
    /// Counts how often it was set, so that an older setting is known.
    number: u64,
}

impl Alarm {
    /// The words of an `itimerval`.
    fn words(&self, now_ns: u64) -> [u64; 4] {
        let left = self
            .at_ns
            .map_or(0, |at| at.saturating_sub(now_ns).max(1000));
        let [[a, b], [c, d]] = [self.interval_ns, left].map(timespec);
        [a, b / 1000, c, d / 1000]
    }
}

impl Kernel {
    /// Whether a timer is the one of real time, which is the only one.
    fn check_timer(&mut self, which: u64) -> Result<(), Errno> {
        match which {
            0 => Ok(()),
            1 | 2 => {
                self.tell_once(
                    "the program wants a timer of its own time (setitimer), which is not there; \
                     the call answers ENOSYS"
                        .to_string(),
                );
                Err(Errno::NOSYS)
            }
            _ => Err(Errno::INVAL),
        }
    }

    pub fn getitimer(&mut self, call: &mut Call, which: u64, address: u64) -> Outcome {
        self.check_timer(which)?;
        let now = self.now_ns();
        call.user.write_words(address, &self.alarm.words(now))?;
        Ok(0)
    }

    pub fn setitimer(&mut self, call: &mut Call, which: u64, new: u64, old: u64) -> Outcome {
        self.check_timer(which)?;
        let [interval, interval_us, value, value_us] = match new {
            0 => [0; 4],
            _ => call.user.words(new)?,
        };
        if interval_us >= 1_000_000 || value_us >= 1_000_000 {
            return Err(Errno::INVAL.into());
        }
        let now = self.now_ns();
        if old != 0 {
            call.user.write_words(old, &self.alarm.words(now))?;
        }
        let duration = |seconds: u64, us: u64| {
            let ns = seconds.saturating_mul(NANOSECONDS);
            ns.saturating_add(us * 1000)
        };
        let value = duration(value, value_us);
        self.alarm.interval_ns = duration(interval, interval_us);
        self.set_alarm((value > 0).then(|| now.saturating_add(value)));
        Ok(0)
    }

    fn set_alarm(&mut self, at_ns: Option<u64>) {
        self.alarm.at_ns = at_ns;
        self.alarm.number += 1;
        if let Some(at_ns) = at_ns {
            let number = self.alarm.number;
            self.effects.push(Effect::Alarm { at_ns, number });
        }
    }

    /// The time of an alarm has come.
    pub fn alarm_rings(&mut self, number: u64) {
        if let Some(at) = self.alarm.at_ns
            && number == self.alarm.number
        {
            let interval = self.alarm.interval_ns;
            self.set_alarm((interval > 0).then(|| at.saturating_add(interval)));
            self.send_signal(None, SIGALRM);
        }
    }

    /// What all threads have run.
    pub fn cpu_ns(&self) -> u64 {
        let now = self.now_ns();
        let running = self.threads.iter().flatten();
        self.ended_cpu_ns + running.map(|thread| thread.cpu_ns(now)).sum::<u64>()
    }

    fn clock(&mut self, hart: usize, clock: u64) -> Result<u64, Errno> {
        let now = self.now_ns();
        match clock as u32 {
            // Real time, coarse or with leap seconds or to wake a machine, too.
            0 | 5 | 8 | 11 => Ok(EPOCH_NS + now),
            1 | 4 | 6 | 7 | 9 => Ok(now),
            2 => Ok(self.cpu_ns()),
            3 => Ok(self.thread(hart).cpu_ns(now)),
            // The clock of a thread or process by its number, as `pthread_getcpuclockid` makes it.
            other if other & 0x8000_0000 != 0 => {
                let id = u64::from(!other >> 3);
                match (other & 7, self.hart_of(id)) {
                    (6, Some(of)) => Ok(self.thread(of).cpu_ns(now)),
                    (2, _) => Ok(self.cpu_ns()),
                    _ => Err(Errno::INVAL),
                }
            }
            _ => Err(Errno::INVAL),
        }
    }

    pub fn clock_gettime(
        &mut self,
        hart: usize,
        call: &mut Call,
        clock: u64,
        address: u64,
    ) -> Outcome {
        let time = self.clock(hart, clock)?;
        call.user.write_words(address, &timespec(time))?;
        Ok(0)
    }

    pub fn clock_getres(&mut self, call: &mut Call, clock: u64, address: u64) -> Outcome {
        self.clock(0, clock)?;
        if address != 0 {
            call.user.write_words(address, &timespec(1))?;
        }
        Ok(0)
    }

    pub fn gettimeofday(&mut self, call: &mut Call, address: u64) -> Outcome {
        let [seconds, nanoseconds] = timespec(EPOCH_NS + self.now_ns());
        if address != 0 {
            call.user
                .write_words(address, &[seconds, nanoseconds / 1000])?;
        }
        Ok(0)
    }

    /// `nanosleep`, or with a clock, which may mean a time and not a duration, `clock_nanosleep`.
    pub fn sleep(
        &mut self,
        call: &mut Call,
        request: u64,
        clock: Option<(u64, bool)>,
        remaining: u64,
    ) -> Outcome {
        if call.timed_out {
            return Ok(0);
        }
        let time = read_timespec(&mut call.user, request)?;
        let (clock, absolute) = clock.unwrap_or((1, false));
        let deadline = match (clock, absolute) {
            (0..=1 | 7 | 11, false) => call.begin_ns.saturating_add(time),
            (0 | 11, true) => time.saturating_sub(EPOCH_NS),
            (1 | 7, true) => time,
            _ => return Err(Errno::INVAL.into()),
        };
        let now = self.now_ns();
        if deadline <= now {
            return Ok(0);
        }
        if call.interrupted {
            if remaining != 0 && !absolute {
                call.user
                    .write_words(remaining, &timespec(deadline - now))?;
            }
            // An error would forget what is written.
            return Ok(Errno::INTR.result());
        }
        call.only_woken = true;
        Err(Pause::Block {
            deadline_ns: Some(deadline),
        })
    }

    pub fn times(&mut self, call: &mut Call, address: u64) -> Outcome {
        const TICK_NS: u64 = 10_000_000;
        if address != 0 {
            let user = self.cpu_ns() / TICK_NS;
            call.user.write_words(address, &[user, 0, 0, 0])?;
        }
        Ok(self.now_ns() / TICK_NS)
    }

    pub fn getrusage(&mut self, call: &mut Call, address: u64) -> Outcome {
        let [seconds, nanoseconds] = timespec(self.cpu_ns());
        let mut words = [0; 18];
        words[0] = seconds;
        words[1] = nanoseconds / 1000;
        words[4] = self.space.used_bytes() / 1024;
        call.user.write_words(address, &words)?;
        Ok(0)
    }
}
