/* Written by `make docs` from crates/server/src/registry.rs. */
#ifndef IO_NOTIFY_H
#define IO_NOTIFY_H

/** How the data plane learns of work. */
enum io_notify {
  /** It polls the doorbell of every queue, in the tightest loop. */
  IO_NOTIFY_SPIN = 0,
  /** It waits with HyperPlane's `QWAIT`. */
  IO_NOTIFY_HYPERPLANE = 1,
  /** It calls a receive-burst function for every queue, as DPDK's poll-mode drivers have it. */
  IO_NOTIFY_SPIN_POLL_MODE = 2,
  /** It polls every doorbell, and sleeps with `WRS.NTO` while all queues are empty. */
  IO_NOTIFY_WRS = 3,
  /** It finds ready queues in a bitmap that producers and consumers keep in memory. */
  IO_NOTIFY_SOFTWARE_BITMAP = 4,
  /** HyperPlane's monitoring set, with a list of ready queues that software iterates over. */
  IO_NOTIFY_SOFTWARE_READY_SET = 5,
  /** It gets messages from an integrated network interface, which dispatches them to cores as
   * RPCValet does. The queues are the nodes of the cluster around the server. */
  IO_NOTIFY_RPCVALET = 6,
  /** It looks at a bitmap of the queues with items, and sleeps until a user-level interrupt. */
  IO_NOTIFY_USER_INTERRUPT = 7,
  /** It polls completions of 64 bytes as DPDK's vector driver for ConnectX does: four completions
   * and four buffers a poll. */
  IO_NOTIFY_SPIN_MLX5 = 8,
  /** It polls descriptors of 16 bytes as DPDK's vector driver for the 82599 does: one descriptor an
   * empty poll. */
  IO_NOTIFY_SPIN_IXGBE_VECTOR = 9,
  /** It gets messages from nanoPU's network interface in a register, stores them into a buffer and
   * sends what is in another. The queues are the ports of the clients. */
  IO_NOTIFY_NANOPU = 10,
};

#endif
