/**
 * A data plane that switches between scale-out and scale-up by its load. Section 7 of the study of
 * spinning data planes proposes "an adaptive system that switches queuing disciplines in response
 * to load", of which no implementation was published. The cores have the roles of `dispatch`:
 * dispatchers, each with a receive queue of the first port, and as many forwarders, each with a
 * send queue of the second one. A dispatcher writes to the ring of its forwarder (scale-out) or to
 * a shared ring (scale-up); a forwarder polls its own ring, and the shared one if its own is empty.
 * So every packet in a ring is forwarded, whatever dispatchers do.
 *
 * **When it switches.** The paper would switch at "the latency break-even point", and the signal
 * here is that latency: scale-out loses by packets that wait behind a slow one, scale-up by
 * contention of the cores at the shared ring, and both show only in the waiting times of packets.
 * (The load alone is not enough: the break-even point depends on hiccups and on the number of
 * sharing cores. The depth of a ring does not show packets that wait in front of it.) A dispatcher
 * stamps its packets with the time of the poll before the one that returned them, so that their
 * wait for the dispatcher is included, and forwarders add up the times from there until the packets
 * are passed to the interface. The first dispatcher evaluates the mean in each window, and keeps a
 * mean over windows for each of the two organisations. It switches when the stored mean of the
 * other organisation is shorter by the factor `margin`, which is the hysteresis. The stored mean of
 * the inactive organisation decreases by a fraction `forget` per window, so that it is tried again:
 * the sooner, the closer the two are. When the packet rate of a window is less than half of or more
 * than twice the rate at which the other organisation was left, that organisation's mean is
 * discarded, and it is tried at once.
 *
 * **Order.** Before a dispatcher continues after a switch, all packets that it has put into the
 * previous ring have been passed to the interface: they have been taken out of the ring, and each
 * forwarder that may have them has since finished an iteration of its loop. So packets of a flow,
 * which belong to one dispatcher, are not reordered across a switch, nor in scale-out; in scale-up
 * they are, as in `dispatch`. Forwarders have their own send queues, and the interface serves these
 * round-robin.
 *
 * Parameters: those of `dispatch` except `shared` and `threads`: `pairs` (1), `hiccup_ns` (0),
 * `hiccup_part` (0.01), `burst` (32), `ring` (1024), `descriptors` (512), `rx_vec_en` (0); and
 * `window_us` (20) and `window_packets` (512; a window has at least both), `margin` (1.25),
 * `forget` (0.05), `period_us` (switch at this period instead; 0), `up` (1: start in scale-up, 0),
 * `log` (1: print each switch, 0), and `check` (1: end the run when a packet overtakes one that it
 * must not, 0).
 */
#include <io.h>
#include <poll_mode/hiccup.h>
#include <poll_mode/port.h>
#include <stdio.h>

enum { MAX_BURST = 64 };

/* The state of a dispatcher. */
struct dispatcher {
  uint64_t given;        /* Packets that it has put into rings, ... */
  uint64_t given_before; /* ... and before the last switch. */
  int is_up;
} __cache_aligned;

/* Written by a forwarder and read by dispatchers: iterations of its loop, read at switches; its
 * packets and their total time in cycles, read at the end of a window. */
struct forwarder {
  uint64_t iterations;
  uint64_t packets, waited;
} __cache_aligned;

static unsigned pairs, burst;
static int logs, checks;
static uint64_t hz;
static struct ring *rings[MAX_LCORE], *shared;
static struct dispatcher dispatchers[MAX_LCORE];
static struct forwarder forwarders[MAX_LCORE];
/* Packets of each dispatcher that were passed to the interface, if the order is checked. */
static struct {
  uint64_t packets;
} __cache_aligned handed_over[MAX_LCORE];

/* The organisation that all dispatchers follow: a line that is written only at a switch. */
static struct {
  int is_up;
} __cache_aligned organisation;

/* The stored measurements of an organisation: the mean time of its packets in cycles, or 0 if there
 * is none, and the mean cycles between two packets. */
struct memory {
  double wait, gap;
};

/* The state of the first dispatcher's decisions. */
static struct {
  uint64_t begin, end, length; /* Start of the window, its earliest end, and the cycles between
                                  them. */
  uint64_t packets, waited;    /* Of all forwarders, before the window. */
  uint64_t least_packets;
  double margin, keep;
  struct memory memories[2]; /* Of scale-out and scale-up. */
  int is_periodic, is_new;   /* Switch by time only; this is the first window since a switch. */
} control;

void prepare(void) {
  lcore_begin(0);
  pairs = (unsigned)io_parameter("pairs", 1);
  hiccup_prepare();
  burst = (unsigned)io_parameter("burst", 32);
  eth_devargs.rx_vec_en = io_parameter("rx_vec_en", 0) != 0;
  logs = io_parameter("log", 0) != 0;
  checks = io_parameter("check", 0) != 0;
  organisation.is_up = io_parameter("up", 0) != 0;
  double period_us = io_parameter("period_us", 0);
  control.is_periodic = period_us > 0;
  control.length = (uint64_t)(control.is_periodic ? period_us : io_parameter("window_us", 20));
  control.least_packets = (uint64_t)io_parameter("window_packets", 512);
  control.margin = io_parameter("margin", 1.25);
  control.keep = 1 - io_parameter("forget", 0.05);
  uint32_t slots = (uint32_t)io_parameter("ring", 1024);
  uint32_t descriptors = (uint32_t)io_parameter("descriptors", 512);
  if (pairs < 1 || 2 * pairs > harts || burst < 1 || burst > MAX_BURST || control.length < 1)
    fail("There are %lu harts; there must be one for each of 2 * pairs, burst must be 1 to %d, and "
         "window_us and period_us 1 at least.",
         harts, MAX_BURST);
  uint32_t buffers = pairs * (descriptors + 2 * slots + 512 + 6 * 256);
  struct mempool *pool = pktmbuf_pool_create(buffers, 256, MBUF_DEFAULT_BUF_SIZE);
  eth_dev_configure(0, (uint16_t)pairs, 0);
  eth_dev_configure(1, 0, (uint16_t)pairs);
  shared = ring_create(slots, 0);
  for (unsigned pair = 0; pair < pairs; pair++) {
    if (eth_rx_queue_setup(0, (uint16_t)pair, descriptors, pool))
      fail("descriptors must be a power of two of %d or more.", RX_REARM_THRESH);
    eth_tx_queue_setup(1, (uint16_t)pair, 512);
    rings[pair] = ring_create(slots, RING_F_SP_ENQ | RING_F_SC_DEQ);
    dispatchers[pair].is_up = organisation.is_up;
    if (rings[pair] == NULL || shared == NULL)
      fail("ring must be a power of two.");
  }
}

/* Whether to switch to the other organisation after a window with these means. */
static int is_better(struct memory *own, struct memory *other, double wait, double gap) {
  /* The first window since a switch has packets of both organisations. */
  if (control.is_new)
    return control.is_new = 0;
  own->wait = own->wait == 0 ? wait : (own->wait + wait) / 2;
  own->gap = gap;
  other->wait *= control.keep;
  if (gap > 2 * other->gap || 2 * gap < other->gap)
    other->wait = 0;
  return own->wait > control.margin * other->wait;
}

/* Chooses the organisation of all dispatchers, if a window has ended. */
static void decide(uint64_t now) {
  uint64_t packets = 0, waited = 0;
  for (unsigned pair = 0; pair < pairs; pair++) {
    packets += __atomic_load_n(&forwarders[pair].packets, __ATOMIC_RELAXED);
    waited += __atomic_load_n(&forwarders[pair].waited, __ATOMIC_RELAXED);
  }
  control.end = now + control.length;
  uint64_t came = packets - control.packets;
  if (came < control.least_packets && !control.is_periodic && !control.is_new)
    return;
  int is_up = organisation.is_up;
  struct memory *own = &control.memories[is_up], *other = &control.memories[!is_up];
  double wait = (double)(waited - control.waited) / (double)came;
  double gap = (double)(now - control.begin) / (double)came;
  if (control.is_periodic || is_better(own, other, wait, gap)) {
    __atomic_store_n(&organisation.is_up, !is_up, __ATOMIC_RELEASE);
    control.is_new = 1;
    if (logs)
      printf("scale-%s after %lu packets, %lu and %lu cycles\n", is_up ? "out" : "up", packets,
             (uint64_t)own->wait, (uint64_t)other->wait);
    other->wait = 0;
  }
  control.begin = now;
  control.packets = packets;
  control.waited = waited;
}

/* Waits until a forwarder has finished its current iteration. */
static void await_iteration(unsigned pair, uint64_t iterations) {
  while (__atomic_load_n(&forwarders[pair].iterations, __ATOMIC_ACQUIRE) == iterations)
    pause();
}

/* Waits until the ring's packets before `end` have been taken. */
static void await_taken(const struct ring *ring, uint32_t end) {
  while ((int32_t)(end - __atomic_load_n(&ring->cons.tail, __ATOMIC_ACQUIRE)) > 0)
    pause();
}

/* Waits until all packets that a dispatcher has put into rings are passed to the interface. */
static void settle(unsigned pair) {
  struct dispatcher *own = &dispatchers[pair];
  if (own->is_up) {
    uint64_t iterations[MAX_LCORE];
    await_taken(shared, __atomic_load_n(&shared->prod.head, __ATOMIC_RELAXED));
    for (unsigned other = 0; other < pairs; other++)
      iterations[other] = __atomic_load_n(&forwarders[other].iterations, __ATOMIC_ACQUIRE);
    for (unsigned other = 0; other < pairs; other++)
      await_iteration(other, iterations[other]);
  } else {
    await_taken(rings[pair], rings[pair]->prod.head);
    await_iteration(pair, __atomic_load_n(&forwarders[pair].iterations, __ATOMIC_ACQUIRE));
  }
  own->given_before = own->given;
}

static void dispatch(unsigned pair) {
  struct dispatcher *own = &dispatchers[pair];
  struct mbuf *pkts[MAX_BURST];
  uint64_t polled = rdtsc();
  for (;;) {
    uint64_t polled_before = polled;
    polled = rdtsc();
    uint16_t received = eth_rx_burst(0, (uint16_t)pair, pkts, (uint16_t)burst);
    if (pair == 0 && unlikely(polled >= control.end))
      decide(polled);
    if (received == 0)
      continue;
    int is_up = __atomic_load_n(&organisation.is_up, __ATOMIC_ACQUIRE);
    if (unlikely(is_up != own->is_up)) {
      settle(pair);
      own->is_up = is_up;
    }
    for (unsigned place = 0; place < received; place++)
      pkts[place]->timestamp = polled_before;
    if (unlikely(checks))
      for (unsigned place = 0; place < received; place++)
        pkts[place]->userdata = (is_up ? own->given_before : own->given + place) << 8 | pair;
    struct ring *ring = is_up ? shared : rings[pair];
    unsigned given = ring_enqueue_burst(ring, (void **)pkts, received);
    own->given += given;
    for (; unlikely(given < received); given++)
      pktmbuf_free(pkts[given]);
  }
}

/* Ends the run if a packet overtakes one that it must not. */
static void check_order(struct mbuf **pkts, unsigned count) {
  for (unsigned place = 0; place < count; place++) {
    uint64_t pair = pkts[place]->userdata & 0xff, before = pkts[place]->userdata >> 8;
    uint64_t handed = __atomic_load_n(&handed_over[pair].packets, __ATOMIC_ACQUIRE);
    for (unsigned other = 0; other < place; other++)
      handed += (pkts[other]->userdata & 0xff) == pair;
    if (handed < before)
      fail("A packet of dispatcher %lu has passed %lu others.", pair, before - handed);
  }
}

static void forward(unsigned pair) {
  struct mbuf *pkts[MAX_BURST];
  uint32_t random = hiccup_seed(pair);
  for (uint64_t iteration = 1;; iteration++) {
    unsigned taken = ring_dequeue_burst(rings[pair], (void **)pkts, burst);
    if (taken == 0)
      taken = ring_dequeue_burst(shared, (void **)pkts, burst);
    if (taken != 0) {
      hiccup(taken, &random, hz);
      uint64_t stamps = 0;
      for (unsigned place = 0; place < taken; place++)
        stamps += pkts[place]->timestamp;
      uint8_t of[MAX_BURST];
      if (unlikely(checks)) {
        check_order(pkts, taken);
        for (unsigned place = 0; place < taken; place++)
          of[place] = (uint8_t)pkts[place]->userdata;
      }
      eth_tx_or_drop(1, (uint16_t)pair, pkts, (uint16_t)taken);
      if (unlikely(checks))
        for (unsigned place = 0; place < taken; place++)
          __atomic_add_fetch(&handed_over[of[place]].packets, 1, __ATOMIC_RELEASE);
      struct forwarder *own = &forwarders[pair];
      __atomic_store_n(&own->waited, own->waited + taken * rdtsc() - stamps, __ATOMIC_RELAXED);
      __atomic_store_n(&own->packets, own->packets + taken, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&forwarders[pair].iterations, iteration, __ATOMIC_RELEASE);
  }
}

int hart_main(int hart) {
  unsigned role = (unsigned)hart;
  if (role >= 2 * pairs)
    return 0;
  lcore_begin(hart);
  if (role < pairs)
    dispatch(role);
  else
    forward(role - pairs);
  return 0;
}

int main(void) {
  eth_dev_start(0);
  eth_dev_start(1);
  hz = get_tsc_hz();
  control.length *= hz / 1000000;
  control.begin = rdtsc();
  control.end = control.begin + control.length;
  harts_release();
  return hart_main(0);
}
