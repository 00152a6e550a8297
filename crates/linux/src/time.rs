//! Clocks, which show simulated time, and sleeping.

use crate::errno::Errno;
use crate::kernel::{Call, EPOCH_NS, Effect, Kernel};
use crate::signals::{SIGALRM, Sent};
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
    /// The time at which it next goes off.
    at_ns: Option<u64>,
    /// The interval at which it goes off again; 0: never.
    interval_ns: u64,
    /// Unique for each setting of an alarm, so that stale alarms are recognized.
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
    /// Checks that the timer is the real-time one, which is the only one.
    fn check_timer(&mut self, which: u64) -> Result<(), Errno> {
        match which {
            0 => Ok(()),
            1 | 2 => {
                self.tell_once(
                    "the program wants a timer of its CPU time (setitimer), which is not \
                     implemented; the call returns ENOSYS"
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
        call.user
            .write_words(address, &self.process.alarm.words(now))?;
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
            call.user.write_words(old, &self.process.alarm.words(now))?;
        }
        let duration = |seconds: u64, us: u64| {
            let ns = seconds.saturating_mul(NANOSECONDS);
            ns.saturating_add(us * 1000)
        };
        let value = duration(value, value_us);
        self.process.alarm.interval_ns = duration(interval, interval_us);
        self.set_alarm((value > 0).then(|| now.saturating_add(value)));
        Ok(0)
    }

    fn set_alarm(&mut self, at_ns: Option<u64>) {
        self.alarms += 1;
        self.process.alarm.at_ns = at_ns;
        self.process.alarm.number = self.alarms;
        if let Some(at_ns) = at_ns {
            let number = self.alarms;
            self.effects.push(Effect::Alarm { at_ns, number });
        }
    }

    /// Handles an alarm whose time has come.
    pub fn alarm_rings(&mut self, number: u64) {
        let ids = self.process_ids();
        let is_its = |id: &u32| {
            let process = self.process_mut(*id);
            process.is_some_and(|one| one.alarm.number == number)
        };
        let Some(id) = ids.into_iter().find(is_its) else {
            return;
        };
        if let Some(&slot) = self.threads_of(id).first() {
            self.enter_process(slot);
        }
        if let Some(at) = self.process.alarm.at_ns {
            const SI_KERNEL: i32 = 0x80;
            let interval = self.process.alarm.interval_ns;
            self.set_alarm((interval > 0).then(|| at.saturating_add(interval)));
            let sent = Sent {
                code: SI_KERNEL,
                process: 0,
                value: 0,
            };
            self.send_to_process(id, SIGALRM, sent);
        }
    }

    /// Total CPU time of all threads of the process.
    pub fn cpu_ns(&self) -> u64 {
        let now = self.now_ns();
        let threads = self.threads.iter().flatten();
        let running = threads.filter(|thread| thread.process == self.process.id);
        self.process.ended_cpu_ns + running.map(|thread| thread.cpu_ns(now)).sum::<u64>()
    }

    fn clock(&mut self, slot: usize, clock: u64) -> Result<u64, Errno> {
        let now = self.now_ns();
        match clock as u32 {
            // Real time, including its coarse, leap-second and wake-up variants.
            0 | 5 | 8 | 11 => Ok(EPOCH_NS + now),
            1 | 4 | 6 | 7 | 9 => Ok(now),
            2 => Ok(self.cpu_ns()),
            3 => Ok(self.thread(slot).cpu_ns(now)),
            // The clock of a thread or process, encoded as by `pthread_getcpuclockid`.
            other if other & 0x8000_0000 != 0 => {
                let id = u64::from(!other >> 3);
                match (other & 7, self.slot_of(id)) {
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
        slot: usize,
        call: &mut Call,
        clock: u64,
        address: u64,
    ) -> Outcome {
        let time = self.clock(slot, clock)?;
        call.user.write_words(address, &timespec(time))?;
        Ok(0)
    }

    pub fn clock_getres(
        &mut self,
        slot: usize,
        call: &mut Call,
        clock: u64,
        address: u64,
    ) -> Outcome {
        self.clock(slot, clock)?;
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

    /// `nanosleep`; with a clock, which may make the time absolute, `clock_nanosleep`.
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
            // An error would discard the writes.
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
            let children = self.process.children_cpu_ns / TICK_NS;
            call.user.write_words(address, &[user, 0, children, 0])?;
        }
        Ok(self.now_ns() / TICK_NS)
    }

    pub fn getrusage(&mut self, call: &mut Call, who: u64, address: u64) -> Outcome {
        const CHILDREN: i32 = -1;
        let [seconds, nanoseconds] = timespec(match who as i32 {
            CHILDREN => self.process.children_cpu_ns,
            _ => self.cpu_ns(),
        });
        let mut words = [0; 18];
        words[0] = seconds;
        words[1] = nanoseconds / 1000;
        words[4] = self.process.space.borrow().used_bytes() / 1024;
        call.user.write_words(address, &words)?;
        Ok(0)
    }
}
