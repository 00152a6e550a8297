//! The compiler: it resolves names, folds constants, and counts the pipeline stages of each event.

use super::parse::{self, Operator, Tree};
use super::spec::{Beginning, Formula, Formulas, ProgramSpec, RuleSpec};
use crate::packet::{ACK, BUSY, CHOP, DATA, ECHO, ECN_CAPABLE, HEADER_BYTES, NACK, NO_ECN, PULL};
use crate::transport::TransportSpec;
use fabric::Time;
use spec::{SpecError, Under, require};
use state::{Plain, State, Walker};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of registers of each kind.
pub(super) const REGISTERS: usize = 8;
/// The maximum number of bitmaps, besides `to_send` and `missing`.
pub(super) const BITMAPS: usize = 2;
/// The maximum number of queues, of lists and of timers.
pub(super) const QUEUES: usize = 4;
/// The maximum number of selections.
pub(super) const SELECTIONS: usize = 2;
/// The maximum number of rules, of constants and, less one, of tables.
const MAX_RULES: usize = 64;
/// The maximum number of actions of a rule.
const MAX_ACTIONS: usize = 16;
/// Match-action stages of a pipeline: as many as in the chip that introduced the architecture
/// (Bosshart et al., *Forwarding Metamorphosis*, SIGCOMM 2013, Section 4).
const MAX_STAGES: u32 = 32;
/// The largest packet without data: an Ethernet frame.
const MAX_CONTROL_BYTES: u32 = 1514;

/// A value that an expression can read and, in some cases, an action can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Now,
    Flags,
    Packet,
    Credit,
    GrantedPriority,
    Priority,
    Bytes,
    Packets,
    SentUpTo,
    Trimmed,
    Duplicate,
    Marked,
    Rank,
    Active,
    Host(u8),
    Peer(u8),
    Send(u8),
    Receive(u8),
    Event(u8),
}

/// A set of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Map {
    ToSend,
    Missing,
    Own(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    Constant(u64),
    Read(Place),
    Not(Box<Expr>),
    Binary(Operator, Box<[Expr; 2]>),
    Count(Map),
    First(Map),
    BytesOf(Map),
    Has(Map, Box<Expr>),
    CountIn(Map, Box<[Expr; 2]>),
    RunEnd(Map, Box<[Expr; 2]>),
    Length(u8),
    Held(u8),
    RoundUp(u64, Box<Expr>),
    PacketsIn(Box<Expr>),
    PlaceIn(u8, Box<Expr>),
}

/// A queue of packets without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Sent on the link.
    Served(u8),
    /// Held until released.
    Held(u8),
}

#[derive(Clone, Debug)]
pub(super) struct Emit {
    pub(super) queue: Waiting,
    pub(super) flags: Expr,
    pub(super) packet: Option<Expr>,
    pub(super) credit: Expr,
    pub(super) granted_priority: Expr,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Assign(Place, Expr),
    Set(Map, Expr),
    Clear(Map, Expr),
    SetRange(Map, [Expr; 2]),
    /// Adds the second map's packets below a number to the first.
    Merge(Map, Map, Expr),
    Emit(Box<Emit>),
    /// Moves the oldest packet of a held queue to a queue.
    Release(u8, u8),
    Push(u8),
    Take(u8),
    StartTimer(Expr),
    Wake(u8, Expr),
    Accept,
    Deliver,
    Finish,
    Heard,
    TimedOut,
    Refuse,
    Select(u8),
    Pass,
    Stop,
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) condition: Option<Expr>,
    pub(super) actions: Box<[Action]>,
    /// The rule is skipped if the event has no message.
    pub(super) needs_message: bool,
}

/// A priority queue of incoming messages.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) when: Expr,
    pub(super) key: Expr,
    pub(super) most: u64,
    pub(super) rules: Box<[Rule]>,
}

/// The initial values of registers; `times` has a bit for each register that holds a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    pub(super) initial: Vec<Expr>,
    pub(super) times: u64,
}

/// Values of registers; `times` has a bit for each register that holds a time.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) values: [u64; REGISTERS],
    pub(super) times: u64,
}

impl File {
    /// Registers with the value 0.
    pub(super) fn of(registers: &Registers) -> File {
        File {
            values: [0; REGISTERS],
            times: registers.times,
        }
    }
}

impl State for File {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.times.walk(walker);
        for (number, value) in self.values.iter_mut().enumerate() {
            match self.times >> number & 1 {
                0 => walker.number(value),
                _ => walker.time(value),
            }
        }
    }
}

impl Plain for File {
    fn blank() -> File {
        File::default()
    }
}

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Bytes of a packet without data beyond its headers.
    pub(super) padding: u16,
    /// The explicit congestion notification of packets of data.
    pub(super) ecn: u8,
    pub(super) tables: Vec<Vec<u64>>,
    /// The initial registers of the host, of other hosts and of events.
    pub(super) host: File,
    pub(super) peer: File,
    pub(super) event: File,
    pub(super) send: Registers,
    pub(super) receive: Registers,
    pub(super) bitmaps: Vec<Beginning>,
    pub(super) ready: Expr,
    pub(super) key: Option<Expr>,
    pub(super) message: Box<[Rule]>,
    pub(super) data: Box<[Rule]>,
    pub(super) over: Box<[Rule]>,
    pub(super) control: Box<[Rule]>,
    pub(super) busy: Box<[Rule]>,
    pub(super) egress: Box<[Rule]>,
    pub(super) send_timer: Box<[Rule]>,
    pub(super) receive_timer: Box<[Rule]>,
    pub(super) timers: Vec<Box<[Rule]>>,
    pub(super) selections: Vec<Selection>,
    stages: BTreeMap<String, u32>,
}

impl Program {
    /// The number of match-action stages that each event needs.
    pub fn stages(&self) -> &BTreeMap<String, u32> {
        &self.stages
    }

    /// The number of stages for an arriving packet, and for a departing packet of data.
    pub fn packet_stages(&self) -> (u32, u32) {
        let of = |event: &&str| self.stages.get(*event).copied().unwrap_or(0);
        let events = ["data", "over", "control", "busy"];
        (events.iter().map(of).max().unwrap_or(0), of(&"egress"))
    }
}

/// The meaning of a declared name, which is the same in all events.
#[derive(Clone, Copy, Debug)]
enum Entity {
    Constant(u64),
    Table(u8),
    Register(Place),
    Bitmap(u8),
    Queue(u8),
    Held(u8),
    List(u8),
    Timer(u8),
    Selection(u8),
}

type PlaceOf = fn(u8) -> Place;
type EntityOf = fn(u8) -> Entity;

/// The values that exist while an expression is evaluated.
#[derive(Clone, Copy, Debug, Default)]
struct Scope {
    packet: bool,
    send: bool,
    receive: bool,
    /// A packet of data has arrived.
    data: bool,
    /// A packet of data is being sent.
    egress: bool,
    selected: bool,
    /// Only the message's own state is visible.
    alone: bool,
    /// The message's registers do not exist yet.
    beginning: bool,
}

const CONSTANTS_ONLY: Scope = Scope {
    packet: false,
    send: false,
    receive: false,
    data: false,
    egress: false,
    selected: false,
    alone: true,
    beginning: true,
};

/// Compiles a program; the error names what is wrong in it.
pub fn compile(
    program: &ProgramSpec,
    spec: &TransportSpec,
    packet_time: Time,
) -> Result<Program, SpecError> {
    let mut compiler = Compiler {
        names: BTreeMap::new(),
        tables: Vec::new(),
    };
    compiler.declare(program, spec, packet_time)?;
    compiler.program(program)
}

struct Compiler {
    names: BTreeMap<String, Entity>,
    tables: Vec<Vec<u64>>,
}

/// A text of the program in quotes, for error messages.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// The text of a formula, for error messages.
fn written(formula: &Formula) -> String {
    match formula {
        Formula::Number(number) => number.to_string(),
        Formula::Text(text) => text.clone(),
    }
}

fn tree_of(formula: &Formula) -> Result<Tree, String> {
    match formula {
        Formula::Number(number) => Ok(Tree::Number(*number)),
        Formula::Text(text) => parse::expression(text),
    }
}

impl Compiler {
    fn name(&mut self, key: &str, name: &str, entity: Entity) -> Result<(), SpecError> {
        let mut characters = name.chars();
        let begins = characters
            .next()
            .is_some_and(|first| first.is_ascii_lowercase());
        let is_word = begins
            && characters
                .all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_');
        let accepted = "a name must have small letters, digits and underscores, and begin with a \
                        letter";
        require(is_word, key, quoted(name), accepted)?;
        let is_taken = self.names.contains_key(name)
            || FUNCTIONS.contains(&name)
            || ["and", "or", "not"].contains(&name)
            || PLACES.iter().any(|(known, _)| *known == name);
        let accepted = "this name has another meaning already";
        require(!is_taken, key, quoted(name), accepted)?;
        self.names.insert(name.to_string(), entity);
        Ok(())
    }

    /// Enters all declared names into the symbol table.
    fn declare(
        &mut self,
        program: &ProgramSpec,
        spec: &TransportSpec,
        packet_time: Time,
    ) -> Result<(), SpecError> {
        let rtt_bytes = spec.rtt_packets.saturating_mul(spec.packet_bytes);
        let given = [
            ("DATA", u64::from(DATA)),
            ("ACK", u64::from(ACK)),
            ("NACK", u64::from(NACK)),
            ("PULL", u64::from(PULL)),
            ("CHOP", u64::from(CHOP)),
            ("BUSY", u64::from(BUSY)),
            ("ECHO", u64::from(ECHO)),
            ("ns", Time::from_ns(1.0).as_fs()),
            ("us", Time::from_ns(1000.0).as_fs()),
            ("timeout", spec.timeout().as_fs()),
            ("packet_time", packet_time.as_fs()),
            ("packet_bytes", u64::from(spec.packet_bytes)),
            ("rtt_packets", u64::from(spec.rtt_packets)),
            ("rtt_bytes", u64::from(rtt_bytes)),
            (
                "largest_message_bytes",
                u64::from(spec.largest_message_bytes),
            ),
            ("priorities", u64::from(spec.homa.priorities)),
            ("overcommitment", u64::from(spec.homa.overcommitment)),
        ];
        for (name, value) in given {
            self.names.insert(name.to_string(), Entity::Constant(value));
        }
        let limits = spec.homa.unscheduled_up_to_bytes.iter();
        self.tables
            .push(limits.map(|&limit| limit.into()).collect());
        let table = "unscheduled_up_to_bytes".to_string();
        self.names.insert(table, Entity::Table(0));
        for (name, table) in &program.tables {
            let key = format!("tables.{name}");
            self.name(&key, name, Entity::Table(self.tables.len() as u8))?;
            let is_sorted = table.is_sorted_by(|one, next| one < next);
            let accepted = "each number must be larger than the one before";
            require(is_sorted, &key, format!("{table:?}"), accepted)?;
            require(
                self.tables.len() < MAX_RULES,
                "tables",
                format!("a list of {}", program.tables.len()),
                format!("a program has at most {} tables", MAX_RULES - 1),
            )?;
            self.tables.push(table.clone());
        }
        let constants = program.constants.len();
        at_most("constants", constants, MAX_RULES, "constants")?;
        // Constants may refer to each other in any order: repeat until no further one resolves.
        let mut waiting: Vec<_> = program.constants.iter().collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut error = None;
            let mut later = Vec::new();
            for (name, formula) in waiting {
                let key = format!("constants.{name}");
                match self.constant(formula) {
                    Ok(value) => self.name(&key, name, Entity::Constant(value))?,
                    Err(why) => {
                        error.get_or_insert(SpecError::new(key, quoted(&written(formula)), why));
                        later.push((name, formula));
                    }
                }
            }
            if later.len() == before
                && let Some(error) = error
            {
                return Err(error);
            }
            waiting = later;
        }
        let registers = &program.registers;
        let kinds: [(&str, &Formulas, PlaceOf); 5] = [
            ("host", &registers.host, Place::Host),
            ("peer", &registers.peer, Place::Peer),
            ("send", &registers.send, Place::Send),
            ("receive", &registers.receive, Place::Receive),
            ("event", &registers.event, Place::Event),
        ];
        for (kind, formulas, place) in kinds {
            let key = format!("registers.{kind}");
            at_most(&key, formulas.len(), REGISTERS, "registers")?;
            for (number, name) in formulas.keys().enumerate() {
                let entity = Entity::Register(place(number as u8));
                self.name(&format!("{key}.{name}"), name, entity)?;
            }
        }
        at_most("bitmaps", program.bitmaps.len(), BITMAPS, "bitmaps")?;
        for (number, name) in program.bitmaps.keys().enumerate() {
            let key = format!("bitmaps.{name}");
            self.name(&key, name, Entity::Bitmap(number as u8))?;
        }
        let lists: [(&str, &[String], EntityOf); 4] = [
            ("queues", &program.queues, Entity::Queue),
            ("held", &program.held, Entity::Held),
            ("lists", &program.lists, Entity::List),
            ("timers", &program.timers, Entity::Timer),
        ];
        for (kind, names, entity) in lists {
            at_most(kind, names.len(), QUEUES, kind)?;
            for (number, name) in names.iter().enumerate() {
                self.name(&format!("{kind}.{number}"), name, entity(number as u8))?;
            }
        }
        let selections = program.selections.keys();
        at_most("selections", selections.len(), SELECTIONS, "selections")?;
        for (number, name) in selections.enumerate() {
            let key = format!("selections.{name}");
            self.name(&key, name, Entity::Selection(number as u8))?;
        }
        Ok(())
    }

    fn constant(&self, formula: &Formula) -> Result<u64, String> {
        match self.resolve(&tree_of(formula)?, CONSTANTS_ONLY)? {
            Expr::Constant(value) => Ok(value),
            _ => Err("it must consist of constants".to_string()),
        }
    }

    fn formula(&self, key: &str, formula: &Formula, scope: Scope) -> Result<Expr, SpecError> {
        let tree = tree_of(formula);
        let expression = tree.and_then(|tree| self.resolve(&tree, scope));
        expression.map_err(|why| SpecError::new(key, quoted(&written(formula)), why))
    }

    fn text(&self, key: &str, text: &str, scope: Scope) -> Result<Expr, SpecError> {
        self.formula(key, &Formula::Text(text.to_string()), scope)
    }

    fn registers(
        &self,
        kind: &str,
        formulas: &Formulas,
        scope: Scope,
    ) -> Result<Registers, SpecError> {
        let mut registers = Registers::default();
        for (number, (name, formula)) in formulas.iter().enumerate() {
            let key = format!("registers.{kind}.{name}");
            registers.initial.push(self.formula(&key, formula, scope)?);
            registers.times |= u64::from(name.ends_with("_at")) << number;
        }
        Ok(registers)
    }

    /// Registers whose initial values are constants.
    fn constants(&self, kind: &str, formulas: &Formulas) -> Result<File, SpecError> {
        let registers = self.registers(kind, formulas, CONSTANTS_ONLY)?;
        let mut file = File::of(&registers);
        for (value, initial) in file.values.iter_mut().zip(&registers.initial) {
            // Folding has reduced an expression without names to a constant.
            if let Expr::Constant(constant) = initial {
                *value = *constant;
            }
        }
        Ok(file)
    }

    fn program(self, program: &ProgramSpec) -> Result<Program, SpecError> {
        let of_send = Scope {
            send: true,
            beginning: true,
            ..Scope::default()
        };
        let of_receive = Scope {
            receive: true,
            beginning: true,
            ..Scope::default()
        };
        let message_alone = |scope| Scope {
            alone: true,
            beginning: false,
            ..scope
        };
        let least = HEADER_BYTES as u32;
        require(
            (least..=MAX_CONTROL_BYTES).contains(&program.control_bytes),
            "control_bytes",
            program.control_bytes,
            format!("it must be from {least}, those of the headers, to {MAX_CONTROL_BYTES}"),
        )?;
        let at = "data.ready";
        let ready = self.text(at, &program.data.ready, message_alone(of_send))?;
        let key = program.data.key.as_ref();
        let key = key.map(|key| self.text("data.key", key, message_alone(of_send)));
        at_most("rules", program.rules.len(), MAX_RULES, "rules")?;
        let mut events: BTreeMap<String, Vec<Rule>> = BTreeMap::new();
        let mut stages: BTreeMap<String, Stages> = BTreeMap::new();
        for (number, rule) in program.rules.iter().enumerate() {
            let key = format!("rules.{number}");
            let count = stages.entry(rule.on.clone()).or_default();
            let compiled = self
                .rule(rule, count)
                .map_err(|error| match rule.name.as_str() {
                    "" => error,
                    name => {
                        let accepted = format!("in the rule {}: {}", quoted(name), error.accepted);
                        SpecError { accepted, ..error }
                    }
                });
            let compiled = compiled.under(&key)?;
            require(
                count.all <= MAX_STAGES,
                &key,
                quoted(&rule.name),
                format!(
                    "the rules for {} up to this one take {} consecutive stages; a pipeline has \
                     {MAX_STAGES}",
                    rule.on, count.all
                ),
            )?;
            events.entry(rule.on.clone()).or_default().push(compiled);
        }
        let mut rules = |event: &str| events.remove(event).unwrap_or_default().into_boxed_slice();
        let mut selections = Vec::new();
        for (name, selection) in &program.selections {
            let scope = message_alone(of_receive);
            let key = format!("selections.{name}");
            let most = self.constant(&selection.most);
            let most = most.map_err(|why| {
                let found = quoted(&written(&selection.most));
                SpecError::new(format!("{key}.most"), found, why)
            })?;
            selections.push(Selection {
                when: self.text(&format!("{key}.when"), &selection.when, scope)?,
                key: self.text(&format!("{key}.key"), &selection.key, scope)?,
                most,
                rules: rules(&format!("select {name}")),
            });
        }
        let timers = program.timers.iter();
        let registers = &program.registers;
        Ok(Program {
            padding: (program.control_bytes - least) as u16,
            ecn: match program.ecn {
                true => ECN_CAPABLE,
                false => NO_ECN,
            },
            host: self.constants("host", &registers.host)?,
            peer: self.constants("peer", &registers.peer)?,
            event: self.constants("event", &registers.event)?,
            send: self.registers("send", &registers.send, of_send)?,
            receive: self.registers("receive", &registers.receive, of_receive)?,
            bitmaps: program.bitmaps.values().copied().collect(),
            ready,
            key: key.transpose()?,
            message: rules("message"),
            data: rules("data"),
            over: rules("over"),
            control: rules("control"),
            busy: rules("busy"),
            egress: rules("egress"),
            send_timer: rules("send-timer"),
            receive_timer: rules("receive-timer"),
            timers: timers.map(|name| rules(&format!("timer {name}"))).collect(),
            selections,
            stages: stages
                .into_iter()
                .map(|(on, count)| (on, count.all))
                .collect(),
            tables: self.tables,
        })
    }

    fn scope(&self, on: &str) -> Result<Scope, String> {
        let none = Scope::default();
        let packet = Scope {
            packet: true,
            ..none
        };
        Ok(match on {
            "message" | "send-timer" => Scope { send: true, ..none },
            "data" => Scope {
                receive: true,
                data: true,
                ..packet
            },
            "over" => packet,
            "control" => Scope {
                send: true,
                ..packet
            },
            "busy" => Scope {
                receive: true,
                ..packet
            },
            "egress" => Scope {
                send: true,
                egress: true,
                ..packet
            },
            "receive-timer" => Scope {
                receive: true,
                ..none
            },
            _ => {
                let known = |name: &str| self.names.get(name);
                let entity = on.split_once(' ').and_then(|(kind, name)| match kind {
                    "timer" => known(name).filter(|of| matches!(of, Entity::Timer(_))),
                    "select" => known(name).filter(|of| matches!(of, Entity::Selection(_))),
                    _ => None,
                });
                let Some(entity) = entity else {
                    return Err(
                        "it must be message, data, over, control, busy, egress, send-timer, \
                         receive-timer, or `timer` or `select` with the name of one"
                            .to_string(),
                    );
                };
                Scope {
                    receive: true,
                    selected: matches!(entity, Entity::Selection(_)),
                    ..none
                }
            }
        })
    }

    fn rule(&self, rule: &RuleSpec, stages: &mut Stages) -> Result<Rule, SpecError> {
        let scope = self.scope(&rule.on);
        let scope = scope.map_err(|why| SpecError::new("on", quoted(&rule.on), why))?;
        at_most("do", rule.actions.len(), MAX_ACTIONS, "actions")?;
        let condition = rule.when.as_ref();
        let condition = condition.map(|text| self.text("if", text, scope));
        let condition = condition.transpose()?;
        let mut needs_message = condition.as_ref().is_some_and(reads_message);
        let matched = stages.matched(condition.as_ref());
        let (mut has_taken, mut is_over) = (false, false);
        let mut actions = Vec::new();
        for (number, text) in rule.actions.iter().enumerate() {
            let wrong = |why| SpecError::new(format!("do.{number}"), quoted(text), why);
            let tree = parse::action(text).map_err(wrong)?;
            let action = self.action(&tree, scope, &rule.on).map_err(wrong)?;
            // Without a packet to answer, the message determines the destination.
            let is_unasked = matches!(action, Action::Emit(_)) && !scope.packet;
            let needs = action_needs_message(&action) || is_unasked;
            if needs && is_over {
                let why = "the message no longer exists after deliver or finish";
                return Err(wrong(why.to_string()));
            }
            needs_message |= needs && !has_taken;
            has_taken |= matches!(action, Action::Take(_));
            is_over |= matches!(action, Action::Deliver | Action::Finish);
            stages.act(matched, &action);
            actions.push(action);
        }
        Ok(Rule {
            condition,
            actions: actions.into(),
            needs_message,
        })
    }

    fn action(&self, tree: &Tree, scope: Scope, on: &str) -> Result<Action, String> {
        let (name, arguments) = match tree {
            Tree::Assign(name, value) => {
                let place = self.place(name, scope)?;
                let is_header = matches!(
                    place,
                    Place::Credit | Place::GrantedPriority | Place::Priority
                );
                let is_register = matches!(
                    place,
                    Place::Host(_)
                        | Place::Peer(_)
                        | Place::Send(_)
                        | Place::Receive(_)
                        | Place::Event(_)
                );
                if !(is_register || is_header && scope.egress) {
                    return Err(format!("{name} cannot be changed here"));
                }
                return Ok(Action::Assign(place, self.resolve(value, scope)?));
            }
            Tree::Call(name, arguments) => (name.as_str(), arguments.as_slice()),
            Tree::Name(name) => (name.as_str(), &[][..]),
            _ => return Err("it is not an action".to_string()),
        };
        let only_on = |events: &[&str]| match events.contains(&on) {
            true => Ok(()),
            false => Err(format!("{name} is for the event {}", events.join(" or "))),
        };
        let expression = |at: usize| self.resolve(&arguments[at], scope);
        let source = |at: usize| self.map(&arguments[at], scope);
        let map = |at: usize| match source(at)? {
            Map::Missing => Err("only accept changes missing".to_string()),
            map => Ok(map),
        };
        let count = |wanted: usize| match arguments.len() == wanted {
            true => Ok(()),
            false => Err(format!(
                "{name} takes {wanted} arguments, and has {}",
                arguments.len()
            )),
        };
        let of = |at: usize, what: &str, choose: fn(Entity) -> Option<u8>| {
            let found = match &arguments[at] {
                Tree::Name(name) => self.names.get(name).copied().and_then(choose),
                _ => None,
            };
            found.ok_or_else(|| format!("{name} needs the name of a {what}"))
        };
        let list = |entity| match entity {
            Entity::List(number) => Some(number),
            _ => None,
        };
        let queue = |entity| match entity {
            Entity::Queue(number) => Some(number),
            _ => None,
        };
        let held = |entity| match entity {
            Entity::Held(number) => Some(number),
            _ => None,
        };
        Ok(match name {
            "set" => {
                count(2)?;
                Action::Set(map(0)?, expression(1)?)
            }
            "clear" => {
                count(2)?;
                Action::Clear(map(0)?, expression(1)?)
            }
            "set_range" => {
                count(3)?;
                Action::SetRange(map(0)?, [expression(1)?, expression(2)?])
            }
            "merge" => {
                count(3)?;
                Action::Merge(map(0)?, source(1)?, expression(2)?)
            }
            "emit" => {
                if arguments.len() < 2 {
                    return Err("emit needs a queue and flags".to_string());
                }
                if scope.egress {
                    return Err("egress rules cannot put a packet into a queue".to_string());
                }
                let queue = match of(0, "held queue", held) {
                    Ok(number) => Waiting::Held(number),
                    Err(_) => Waiting::Served(of(0, "queue", queue)?),
                };
                let mut emit = Emit {
                    queue,
                    flags: expression(1)?,
                    packet: None,
                    credit: Expr::Constant(0),
                    granted_priority: Expr::Constant(0),
                };
                for argument in &arguments[2..] {
                    match argument {
                        Tree::Assign(field, value) => {
                            let value = self.resolve(value, scope)?;
                            match field.as_str() {
                                "packet" => emit.packet = Some(value),
                                "credit" => emit.credit = value,
                                "granted_priority" => emit.granted_priority = value,
                                _ => {
                                    return Err(format!(
                                        "{field} is not a field; emit has packet, credit and \
                                         granted_priority"
                                    ));
                                }
                            }
                        }
                        _ => return Err("after the flags, fields are `name = value`".to_string()),
                    }
                }
                Action::Emit(Box::new(emit))
            }
            "release" => {
                count(2)?;
                if scope.egress {
                    return Err("while a packet is sent, no other can be put into a queue".into());
                }
                Action::Release(of(0, "held queue", held)?, of(1, "queue", queue)?)
            }
            "push" => {
                count(1)?;
                if !scope.receive {
                    return Err("lists hold incoming messages, and this event has none".to_string());
                }
                Action::Push(of(0, "list", list)?)
            }
            "take" => {
                count(1)?;
                if !on.starts_with("timer ") {
                    return Err("take is for the event of a timer".to_string());
                }
                Action::Take(of(0, "list", list)?)
            }
            "start_timer" => {
                count(1)?;
                if scope.send == scope.receive {
                    return Err("start_timer needs a message, and this event has none".to_string());
                }
                Action::StartTimer(expression(0)?)
            }
            "wake" => {
                count(2)?;
                if scope.egress {
                    return Err("egress rules cannot set a timer".to_string());
                }
                let timer = of(0, "timer", |entity| match entity {
                    Entity::Timer(number) => Some(number),
                    _ => None,
                })?;
                Action::Wake(timer, expression(1)?)
            }
            "select" => {
                count(1)?;
                if !["data", "receive-timer"].contains(&on) && !on.starts_with("timer ") {
                    let events = "data, receive-timer or that of a timer";
                    return Err(format!("select is for the event {events}"));
                }
                let selection = of(0, "selection", |entity| match entity {
                    Entity::Selection(number) => Some(number),
                    _ => None,
                })?;
                Action::Select(selection)
            }
            "accept" | "deliver" | "finish" | "heard" | "timed_out" | "refuse" | "pass"
            | "stop" => {
                count(0)?;
                match name {
                    "accept" => only_on(&["data"]).map(|()| Action::Accept)?,
                    "deliver" => only_on(&["data"]).map(|()| Action::Deliver)?,
                    "finish" => only_on(&["control"]).map(|()| Action::Finish)?,
                    "heard" => only_on(&["control"]).map(|()| Action::Heard)?,
                    "timed_out" => {
                        only_on(&["send-timer", "receive-timer"]).map(|()| Action::TimedOut)?
                    }
                    "refuse" => only_on(&["data", "control", "busy"]).map(|()| Action::Refuse)?,
                    "pass" if scope.selected => Action::Pass,
                    "pass" => return Err("pass is for the event of a selection".to_string()),
                    _ => Action::Stop,
                }
            }
            _ => {
                return Err(format!(
                    "there is no action {name}; there are assignments, {}",
                    ACTIONS.join(", ")
                ));
            }
        })
    }

    fn map(&self, tree: &Tree, scope: Scope) -> Result<Map, String> {
        let Tree::Name(name) = tree else {
            return Err("the name of a bitmap is missing".to_string());
        };
        let map = match name.as_str() {
            "to_send" => Some(Map::ToSend),
            "missing" => Some(Map::Missing),
            _ => match self.names.get(name) {
                Some(&Entity::Bitmap(number)) => Some(Map::Own(number)),
                _ => None,
            },
        };
        let map = map.ok_or_else(|| format!("{name} is not a bitmap"))?;
        let is_there = match map {
            Map::ToSend | Map::Own(_) => scope.send && !scope.beginning,
            Map::Missing => scope.receive && !scope.beginning,
        };
        match is_there {
            true => Ok(map),
            false => Err(format!(
                "{name} belongs to a message of a kind that this event does not have"
            )),
        }
    }

    fn place(&self, name: &str, scope: Scope) -> Result<Place, String> {
        let given = PLACES.iter().find(|(known, _)| *known == name);
        let place = match (given, self.names.get(name)) {
            (Some(&(_, place)), _) | (None, Some(&Entity::Register(place))) => place,
            (None, Some(_)) => return Err(format!("{name} is not a number that can be used here")),
            (None, None) => {
                let known = self.names.iter().filter_map(|(name, entity)| match entity {
                    Entity::Register(place) => is_there(*place, scope).then_some(name.as_str()),
                    _ => None,
                });
                let places = PLACES.iter().filter(|(_, place)| is_there(*place, scope));
                let known: Vec<_> = known.chain(places.map(|(name, _)| *name)).collect();
                return Err(match known.is_empty() {
                    true => format!("{name} is not known"),
                    false => format!("{name} is not known; known here are {}", known.join(", ")),
                });
            }
        };
        match is_there(place, scope) {
            true => Ok(place),
            false => Err(format!("{name} does not exist in this event")),
        }
    }

    /// Resolves the names of an expression, and folds constants.
    fn resolve(&self, tree: &Tree, scope: Scope) -> Result<Expr, String> {
        Ok(match tree {
            Tree::Number(number) => Expr::Constant(*number),
            Tree::Name(name) => match self.names.get(name) {
                Some(&Entity::Constant(value)) => Expr::Constant(value),
                _ => Expr::Read(self.place(name, scope)?),
            },
            Tree::Not(inside) => match self.resolve(inside, scope)? {
                Expr::Constant(value) => Expr::Constant(u64::from(value == 0)),
                inside => Expr::Not(Box::new(inside)),
            },
            Tree::Binary(operator, sides) => {
                let left = self.resolve(&sides[0], scope)?;
                let right = self.resolve(&sides[1], scope)?;
                binary(*operator, left, right)?
            }
            Tree::Assign(name, _) => {
                return Err(format!("`{name} = …` is not a value; `==` compares"));
            }
            Tree::Call(name, arguments) => self.call(name, arguments, scope)?,
        })
    }

    fn call(&self, name: &str, arguments: &[Tree], scope: Scope) -> Result<Expr, String> {
        let expression = |at: usize| self.resolve(&arguments[at], scope);
        let map = || self.map(&arguments[0], scope);
        let count = |wanted: &[usize]| match wanted.contains(&arguments.len()) {
            true => Ok(()),
            false => {
                let wanted: Vec<_> = wanted.iter().map(usize::to_string).collect();
                Err(format!(
                    "{name} takes {} arguments, and has {}",
                    wanted.join(" or "),
                    arguments.len()
                ))
            }
        };
        let entity = || match &arguments[0] {
            Tree::Name(name) => self.names.get(name).copied(),
            _ => None,
        };
        Ok(match name {
            "min" | "max" => {
                if arguments.len() < 2 {
                    return Err(format!("{name} takes 2 arguments or more"));
                }
                let operator = match name {
                    "min" => Operator::Minimum,
                    _ => Operator::Maximum,
                };
                let mut all = arguments.iter().map(|one| self.resolve(one, scope));
                let first = all.next().unwrap_or(Ok(Expr::Constant(0)))?;
                all.try_fold(first, |one, next| binary(operator, one, next?))?
            }
            "count" => {
                count(&[1, 3])?;
                match arguments.len() {
                    1 => Expr::Count(map()?),
                    _ => Expr::CountIn(map()?, Box::new([expression(1)?, expression(2)?])),
                }
            }
            "first" => {
                count(&[1])?;
                Expr::First(map()?)
            }
            "bytes_of" => {
                count(&[1])?;
                Expr::BytesOf(map()?)
            }
            "has" => {
                count(&[2])?;
                Expr::Has(map()?, Box::new(expression(1)?))
            }
            "run_end" => {
                count(&[3])?;
                Expr::RunEnd(map()?, Box::new([expression(1)?, expression(2)?]))
            }
            "length" => {
                count(&[1])?;
                match entity() {
                    Some(Entity::List(number)) if !scope.alone => Expr::Length(number),
                    Some(Entity::Held(number)) if !scope.alone => Expr::Held(number),
                    _ => return Err("length needs the name of a list or a held queue".to_string()),
                }
            }
            "round_up" => {
                count(&[2])?;
                match expression(1)? {
                    Expr::Constant(multiple) if multiple > 0 => {
                        Expr::RoundUp(multiple, Box::new(expression(0)?))
                    }
                    _ => return Err("round_up needs a constant above 0".to_string()),
                }
            }
            "packets_in" => {
                count(&[1])?;
                Expr::PacketsIn(Box::new(expression(0)?))
            }
            "place" | "entries" => {
                count(&[if name == "place" { 2 } else { 1 }])?;
                let Some(Entity::Table(table)) = entity() else {
                    return Err(format!("{name} needs the name of a table"));
                };
                match name {
                    "place" => Expr::PlaceIn(table, Box::new(expression(1)?)),
                    _ => Expr::Constant(self.tables[usize::from(table)].len() as u64),
                }
            }
            _ if ACTIONS.contains(&name) => {
                return Err(format!("{name} is an action, and has no value"));
            }
            _ => {
                return Err(format!(
                    "there is no function {name}; there are {}",
                    FUNCTIONS.join(", ")
                ));
            }
        })
    }
}

const FUNCTIONS: [&str; 12] = [
    "min",
    "max",
    "count",
    "first",
    "has",
    "bytes_of",
    "run_end",
    "length",
    "round_up",
    "packets_in",
    "place",
    "entries",
];

const ACTIONS: [&str; 19] = [
    "set",
    "clear",
    "set_range",
    "merge",
    "emit",
    "release",
    "push",
    "take",
    "start_timer",
    "wake",
    "accept",
    "deliver",
    "finish",
    "heard",
    "timed_out",
    "refuse",
    "select",
    "pass",
    "stop",
];

/// Values that every program can read, by name.
const PLACES: [(&str, Place); 14] = [
    ("now", Place::Now),
    ("header.flags", Place::Flags),
    ("header.packet", Place::Packet),
    ("header.credit", Place::Credit),
    ("header.granted_priority", Place::GrantedPriority),
    ("header.priority", Place::Priority),
    ("bytes", Place::Bytes),
    ("packets", Place::Packets),
    ("sent_up_to", Place::SentUpTo),
    ("trimmed", Place::Trimmed),
    ("duplicate", Place::Duplicate),
    ("marked", Place::Marked),
    ("rank", Place::Rank),
    ("active", Place::Active),
];

fn is_there(place: Place, scope: Scope) -> bool {
    match place {
        Place::Now | Place::Host(_) | Place::Event(_) => !scope.alone && !scope.beginning,
        Place::Flags | Place::Packet | Place::Credit | Place::GrantedPriority | Place::Priority => {
            scope.packet
        }
        Place::Bytes | Place::Packets => scope.send || scope.receive,
        Place::SentUpTo => scope.send && !scope.beginning,
        Place::Trimmed | Place::Duplicate => scope.data,
        Place::Marked => scope.packet && !scope.egress,
        Place::Rank | Place::Active => scope.selected,
        Place::Peer(_) => (scope.send || scope.receive) && !scope.alone,
        Place::Send(_) => scope.send && !scope.beginning,
        Place::Receive(_) => scope.receive && !scope.beginning,
    }
}

fn at_most(key: &str, found: usize, most: usize, what: &str) -> Result<(), SpecError> {
    let accepted = format!("at most {most} {what} are allowed");
    require(found <= most, key, format!("a list of {found}"), accepted)
}

/// A binary expression, folded if both operands are constants. Divisors are constants, so that
/// hardware can multiply and shift.
fn binary(operator: Operator, left: Expr, right: Expr) -> Result<Expr, String> {
    if matches!(operator, Operator::Divide | Operator::Remainder) {
        match right {
            Expr::Constant(0) => return Err("the divisor must not be 0".to_string()),
            Expr::Constant(_) => {}
            _ => return Err("the divisor must be a constant".to_string()),
        }
    }
    Ok(match (left, right) {
        (Expr::Constant(left), Expr::Constant(right)) => {
            Expr::Constant(computed(operator, left, right))
        }
        (left, right) => Expr::Binary(operator, Box::new([left, right])),
    })
}

/// The result of an operator. Arithmetic saturates at 0 and at 2^64 - 1.
#[inline]
pub(super) fn computed(operator: Operator, left: u64, right: u64) -> u64 {
    match operator {
        Operator::Or => u64::from(left != 0 || right != 0),
        Operator::And => u64::from(left != 0 && right != 0),
        Operator::Equal => u64::from(left == right),
        Operator::NotEqual => u64::from(left != right),
        Operator::Below => u64::from(left < right),
        Operator::AtMost => u64::from(left <= right),
        Operator::Above => u64::from(left > right),
        Operator::AtLeast => u64::from(left >= right),
        Operator::BitOr => left | right,
        Operator::BitAnd => left & right,
        Operator::Add => left.saturating_add(right),
        Operator::Subtract => left.saturating_sub(right),
        Operator::Multiply => left.saturating_mul(right),
        // `binary` refuses divisors of 0.
        Operator::Divide => left.checked_div(right).unwrap_or(u64::MAX),
        Operator::Remainder => left.checked_rem(right).unwrap_or(0),
        Operator::Minimum => left.min(right),
        Operator::Maximum => left.max(right),
    }
}

/// Collects the resources that an expression reads, and returns the length of its longest chain of
/// dependent operations. Comparisons, logical operators and masks are a stage's match and do not
/// count.
fn reads(expression: &Expr, into: &mut BTreeSet<Resource>) -> u32 {
    let mut both = |sides: &[Expr; 2]| {
        let left = reads(&sides[0], into);
        left.max(reads(&sides[1], into))
    };
    match expression {
        Expr::Constant(_) => 0,
        Expr::Read(place) => {
            into.insert(Resource::Place(*place));
            0
        }
        Expr::Not(inside) => reads(inside, into),
        Expr::Binary(operator, sides) => {
            let is_match = matches!(
                operator,
                Operator::Or
                    | Operator::And
                    | Operator::Equal
                    | Operator::NotEqual
                    | Operator::Below
                    | Operator::AtMost
                    | Operator::Above
                    | Operator::AtLeast
                    | Operator::BitAnd
            );
            both(sides) + u32::from(!is_match)
        }
        // Hardware maintains these with each bitmap.
        Expr::Count(map) | Expr::First(map) | Expr::BytesOf(map) => {
            into.insert(Resource::Map(*map));
            0
        }
        Expr::Has(map, inside) => {
            into.insert(Resource::Map(*map));
            reads(inside, into)
        }
        Expr::CountIn(map, sides) | Expr::RunEnd(map, sides) => {
            let depth = both(sides);
            into.insert(Resource::Map(*map));
            depth + 1
        }
        Expr::Length(list) => {
            into.insert(Resource::List(*list));
            0
        }
        Expr::Held(held) => {
            into.insert(Resource::Held(*held));
            0
        }
        Expr::RoundUp(_, inside) | Expr::PacketsIn(inside) | Expr::PlaceIn(_, inside) => {
            reads(inside, into) + 1
        }
    }
}

fn reads_message(expression: &Expr) -> bool {
    let mut found = BTreeSet::new();
    reads(expression, &mut found);
    found.iter().any(|resource| match resource {
        Resource::Place(place) => matches!(
            place,
            Place::Bytes
                | Place::Packets
                | Place::SentUpTo
                | Place::Send(_)
                | Place::Receive(_)
                | Place::Peer(_)
        ),
        Resource::Map(_) => true,
        Resource::List(_) | Resource::Held(_) | Resource::Timeouts => false,
    })
}

fn action_needs_message(action: &Action) -> bool {
    match action {
        Action::Assign(place, value) => reads_message(value) || reads_message(&Expr::Read(*place)),
        Action::Emit(emit) => {
            let Emit {
                flags,
                packet,
                credit,
                granted_priority,
                ..
            } = &**emit;
            [flags, credit, granted_priority]
                .into_iter()
                .chain(packet)
                .any(reads_message)
        }
        Action::Wake(_, at) => reads_message(at),
        Action::Release(..)
        | Action::Take(_)
        | Action::Select(_)
        | Action::Pass
        | Action::Stop
        | Action::Refuse => false,
        Action::Set(..)
        | Action::Clear(..)
        | Action::SetRange(..)
        | Action::Merge(..)
        | Action::Push(_)
        | Action::StartTimer(_)
        | Action::Accept
        | Action::Deliver
        | Action::Finish
        | Action::Heard
        | Action::TimedOut => true,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Place(Place),
    Map(Map),
    List(u8),
    Held(u8),
    Timeouts,
}

/// The pipeline stages of an event's rules so far.
///
/// An operation comes at least one stage after the operations that write one of its operands or its
/// destination, and no earlier than the operations that read its destination (match, action and
/// reverse-match dependencies; Jose et al., *Compiling Packet Programs to Reconfigurable Switches*,
/// NSDI 2015, Section 3). A condition is evaluated in the stage of its first action. A message's
/// state is fetched before the first stage and written back after the last.
#[derive(Debug, Default)]
struct Stages {
    /// The last stage that writes each resource.
    written: BTreeMap<Resource, u32>,
    /// The last stage that reads each resource.
    read: BTreeMap<Resource, u32>,
    all: u32,
}

impl Stages {
    fn after_writes(&self, of: &BTreeSet<Resource>) -> u32 {
        let stages = of.iter().filter_map(|one| self.written.get(one));
        stages.copied().max().unwrap_or(0)
    }

    fn note_reads(&mut self, of: &BTreeSet<Resource>, stage: u32) {
        for one in of {
            let read = self.read.entry(*one).or_default();
            *read = stage.max(*read);
        }
    }

    /// The stage that evaluates a condition.
    fn matched(&mut self, condition: Option<&Expr>) -> u32 {
        let mut found = BTreeSet::new();
        let depth = condition.map_or(0, |condition| reads(condition, &mut found));
        let stage = self.after_writes(&found) + depth + 1;
        self.note_reads(&found, stage);
        stage
    }

    fn act(&mut self, matched: u32, action: &Action) {
        let mut found = BTreeSet::new();
        let mut read = |of: &Expr| reads(of, &mut found);
        let (depth, writes) = match action {
            Action::Assign(place, value) => (read(value), vec![Resource::Place(*place)]),
            Action::Set(map, number) | Action::Clear(map, number) => {
                (read(number), vec![Resource::Map(*map)])
            }
            Action::SetRange(map, [from, to]) => {
                (read(from).max(read(to)), vec![Resource::Map(*map)])
            }
            Action::Merge(into, from, below) => {
                let depth = read(below);
                found.insert(Resource::Map(*from));
                (depth, vec![Resource::Map(*into)])
            }
            Action::Emit(emit) => {
                let all = [&emit.flags, &emit.credit, &emit.granted_priority];
                let all = all.into_iter().chain(&emit.packet);
                let writes = match emit.queue {
                    Waiting::Held(held) => vec![Resource::Held(held)],
                    Waiting::Served(_) => vec![],
                };
                (all.map(&mut read).max().unwrap_or(0), writes)
            }
            Action::Release(held, _) => (0, vec![Resource::Held(*held)]),
            Action::Push(list) | Action::Take(list) => (0, vec![Resource::List(*list)]),
            Action::StartTimer(value) | Action::Wake(_, value) => (read(value), vec![]),
            Action::Accept => (0, vec![Resource::Map(Map::Missing)]),
            Action::Heard | Action::TimedOut => (0, vec![Resource::Timeouts]),
            Action::Deliver
            | Action::Finish
            | Action::Refuse
            | Action::Select(_)
            | Action::Pass
            | Action::Stop => (0, vec![]),
        };
        let mut stage = matched.max(self.after_writes(&found) + depth.max(1));
        for one in &writes {
            let written = self.written.get(one).map_or(0, |stage| stage + 1);
            let read = self.read.get(one).copied().unwrap_or(0);
            stage = stage.max(written).max(read);
        }
        self.note_reads(&found, stage);
        self.written
            .extend(writes.into_iter().map(|one| (one, stage)));
        self.all = self.all.max(stage);
    }
}
