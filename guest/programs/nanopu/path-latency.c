/**
 * Monitors the latency of paths in a network: receives reports of in-band network telemetry, and
 * sends an event when a flow's latency is far from the mean of its last ones.
 *
 * The nanoPU paper's INT processing (Table 1).
 *
 * - A report is two words of a flow, and a word for each hop of its path: the switch in bits 63 to
 *   32, its latency in ns in 31 to 0.
 * - An event is 1, the two words of the flow, the latency of its path in ns, and the mean, or 0 if
 *   this is the flow's first report.
 * - A summary is 2, the number of reports since the last one, and the number of events.
 *
 * In the second word of a flow the ports are in bits 63 to 48 and 47 to 32, the protocol in 31 to
 * 24, and the number of hops in 7 to 0, at most 6. A flow has an event with its first report, and
 * whenever the latency of its path, the sum over the hops, differs by more than 1000 ns from the
 * mean of its last ten, this one included, as in the published program. There is a summary every 50
 * reports. Both are sent to the sender of the report.
 *
 * There are entries for 256 flows, indexed by a hash of the flow; a colliding flow replaces the
 * previous one.
 */
#include <lnic.h>
#include <nanopu/service.h>
#include <operations.h>

enum {
  FLOWS = 256,
  MAX_HOPS = 6,
  THRESHOLD_NS = 1000,
  REPORTS = 50,
  FLOW_WORDS = 2,
  SAMPLES = 10, /* The latencies of a flow that are remembered. */
  EVENT = 1,
  SUMMARY = 2,
};

static struct flow {
  uint64_t words[FLOW_WORDS]; /* The second one is 0 in an empty entry. */
  uint64_t samples, oldest, total_ns;
  uint64_t latencies_ns[SAMPLES]; /* As many as there are samples; they add up to the total. */
} flows[FLOWS];

static uint64_t reports, events;

/* Adds a latency to a flow's last ones; returns their mean. */
static inline uint64_t mean_with(struct flow *flow, uint64_t latency_ns) {
  if (flow->samples < SAMPLES)
    flow->samples++;
  else
    flow->total_ns -= flow->latencies_ns[flow->oldest];
  flow->latencies_ns[flow->oldest] = latency_ns;
  flow->total_ns += latency_ns;
  flow->oldest = flow->oldest + 1 < SAMPLES ? flow->oldest + 1 : 0;
  return flow->total_ns / flow->samples;
}

static inline void serve(void) {
  uint64_t header, words = message_begin(&header, FLOW_WORDS);
  if (words == 0)
    return;
  uint64_t addresses = lnic_read(), rest = lnic_read();
  uint64_t hops = rest & 0xff;
  if (hops == 0 || hops > MAX_HOPS || words != FLOW_WORDS + hops) {
    refuse(header, FLOW_WORDS);
    return;
  }
  rest &= ~(uint64_t)0xff; /* A path whose length has changed belongs to the same flow. */
  uint64_t latency_ns = 0;
  for (; hops > 0; hops--)
    latency_ns += (uint32_t)lnic_read();

  struct flow *flow = &flows[operation_mix(addresses ^ operation_mix(rest)) % FLOWS];
  uint64_t marked = rest | 1; /* Not 0, even if all fields are. */
  int is_known = flow->words[0] == addresses && flow->words[1] == marked;
  if (!is_known) {
    flow->words[0] = addresses;
    flow->words[1] = marked;
    flow->samples = flow->oldest = flow->total_ns = 0;
  }
  uint64_t mean_ns = mean_with(flow, latency_ns);
  uint64_t off_ns = latency_ns > mean_ns ? latency_ns - mean_ns : mean_ns - latency_ns;
  reports++;
  if (!is_known || off_ns > THRESHOLD_NS) {
    events++;
    lnic_write_r(header_to(header, 5));
    lnic_write_i(EVENT);
    lnic_write_r(addresses);
    lnic_write_r(rest);
    lnic_write_r(latency_ns);
    lnic_write_r(is_known ? mean_ns : 0);
  }
  if (reports == REPORTS) {
    lnic_write_r(header_to(header, 3));
    lnic_write_i(SUMMARY);
    lnic_write_r(reports);
    lnic_write_r(events);
    reports = events = 0;
  }
}

int main(void) { return service_on_one_hart(); }
