//! The interrupt controller: delivers interrupts to harts, and posts those of devices.

use crate::descriptor::{self, NOTIFY, REQUESTS};
use crate::extension::{Counts, SharedCounts, notice, request};
use crate::spec::UserInterruptSpec;
use crate::ways::Ways;
use fabric::{
    Agent, AgentContext, AgentId, AgentMessage, LineData, MemoryAccess, Request, RequestKind, Time,
};
use state::Walker;

/// Maximum number of device sources.
const MAXIMUM_SOURCES: u64 = 1 << 16;

/// The socket of the devices, and of the unit that posts for them.
const DEVICE_SOCKET: usize = 0;

/// The route of a device's interrupt.
#[derive(Clone, Copy, Debug, Default, state::State, state::Plain)]
struct Route {
    /// The address of the descriptor; 0: no route.
    descriptor: u64,
    hart: u16,
    vector: u8,
}

/// The purpose of an access: bit 32 of its token. The lower bits are the source's number.
const NOTIFYING: u64 = 1 << 32;

/// The agent that models the local interrupt controllers of all harts, and the part of an I/O
/// memory-management unit that posts the message-signalled interrupts of devices.
#[derive(state::State)]
#[state(fields)]
pub struct InterruptController {
    #[state(fixed)]
    forwarding: bool,
    #[state(fixed)]
    ways: Ways,
    /// Indexed by the number of the source.
    routes: Vec<Route>,
    #[state(fixed)]
    counts: SharedCounts,
}

impl InterruptController {
    pub(crate) fn new(
        spec: &UserInterruptSpec,
        ways: Ways,
        counts: SharedCounts,
    ) -> InterruptController {
        InterruptController {
            forwarding: spec.forwarding,
            ways,
            routes: Vec::new(),
            counts,
        }
    }

    /// The counts so far.
    pub fn statistics(&self) -> crate::Statistics {
        self.counts().told
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Sends a notice from a socket to a hart.
    fn notify(&self, context: &mut AgentContext<'_>, from: usize, hart: u16, header: u64) {
        let hops = self.ways.notify(context, from, hart, header);
        self.counts.borrow_mut().hops += hops;
    }

    /// Handles an interrupt of a device's source.
    fn raise(&mut self, context: &mut AgentContext<'_>, source: u64) {
        let route = self.routes.get(source as usize).copied();
        let route = route.filter(|route| route.descriptor != 0);
        let Some(route) = route else {
            self.counts.borrow_mut().told.unrouted += 1;
            return;
        };
        if self.forwarding {
            self.counts.borrow_mut().told.forwarded += 1;
            let header = notice::forward(route.vector);
            self.notify(context, DEVICE_SOCKET, route.hart, header);
        } else {
            self.counts.borrow_mut().told.posted += 1;
            let access = MemoryAccess::Update {
                address: route.descriptor + REQUESTS,
                update: descriptor::post(route.vector),
            };
            context.access(access, source);
        }
    }
}

impl Agent for InterruptController {
    fn name(&self) -> String {
        "interrupt controller".to_string()
    }

    fn request(&mut self, context: &mut AgentContext<'_>, request: Request) {
        let RequestKind::Custom { code, arguments } = request.kind else {
            return context.refuse(request.reply_to);
        };
        let [first, second] = arguments;
        match code {
            request::NOTIFY => {
                let hart = descriptor::destination(first);
                let header = notice::notify(descriptor::notification_vector(first));
                let from = self.ways.socket_of(request.reply_to.core.0);
                self.notify(context, from, hart, header);
            }
            request::ROUTE => {
                let (source, vector, hart) = request::decode_route(first);
                if source >= MAXIMUM_SOURCES
                    || !context.in_memory(second)
                    || !second.is_multiple_of(64)
                {
                    return context.refuse(request.reply_to);
                }
                let source = source as usize;
                if self.routes.len() <= source {
                    self.routes.resize(source + 1, Route::default());
                }
                self.routes[source] = Route {
                    descriptor: second,
                    hart,
                    vector,
                };
                context.reply(request.reply_to, 0, Time::ZERO);
            }
            _ => context.refuse(request.reply_to),
        }
    }

    /// Handles a device's message-signalled interrupt; the header is the number of its source.
    fn message(&mut self, context: &mut AgentContext<'_>, _from: AgentId, message: AgentMessage) {
        self.raise(context, message.header);
    }

    fn access_done(
        &mut self,
        context: &mut AgentContext<'_>,
        token: u64,
        access: MemoryAccess,
        data: LineData,
    ) {
        let MemoryAccess::Update { address, .. } = access else {
            return;
        };
        if token & NOTIFYING == 0 {
            let notify = MemoryAccess::Update {
                address: address - REQUESTS,
                update: NOTIFY,
            };
            return context.access(notify, token | NOTIFYING);
        }
        let word = data.read((address % 64) as usize, 8);
        if descriptor::notifies(word) {
            let hart = descriptor::destination(word);
            let header = notice::notify(descriptor::notification_vector(word));
            self.notify(context, DEVICE_SOCKET, hart, header);
        }
    }

    /// Handles a notice from the other socket.
    fn timer(&mut self, context: &mut AgentContext<'_>, token: u64) {
        self.ways.arrive(context, token);
    }
}

impl state::State for InterruptController {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        // The harts share the counts; they are walked once.
        self.counts.borrow_mut().walk(walker);
    }
}
