//! The descriptions of the network interfaces.

use crate::processors::ProcessorsSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{SpecError, require};
use system::PortEnergySpec;

/// Checks that the longest frame fits into the output buffer, where it is assembled.
fn check_output(buffer_bytes: u32, frame_bytes: u32) -> Result<(), SpecError> {
    let accepted = format!("it must be max_frame_bytes, {frame_bytes}, or more");
    let key = "output_buffer_bytes";
    require(buffer_bytes >= frame_bytes, key, buffer_bytes, accepted)
}

/// A network interface on the chip, as IceNIC of FireSim (Karandikar et al., ISCA 2018) is: the
/// *traditional* one that nanoPU is compared with.
///
/// Defaults: its published source, in the configuration that FireSim and nanoPU's prototype build
/// (`WithIceNIC`, `ctrlQueueDepth = 64`, `inBufFlits = 8192`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IceNicSpec {
    /// Entries of each of the four queues: requests and completions, to send and to receive.
    #[schemars(range(min = 1, max = 255))]
    pub queue_entries: u32,
    /// Outstanding reads of lines, and as many outstanding writes: `nMemXacts`.
    #[schemars(range(min = 1, max = 64))]
    pub transactions: u32,
    /// Bytes of the buffer for received frames: 8192 words of 8.
    #[schemars(range(min = 1520, max = 1 << 24))]
    pub input_buffer_bytes: u32,
    /// Bytes of the buffer for frames that are being read and sent: twice `ETH_MAX_BYTES`.
    #[schemars(range(min = 64, max = 1 << 24))]
    pub output_buffer_bytes: u32,
    /// Bytes of the longest frame: `ETH_MAX_BYTES`.
    #[schemars(range(min = 64, max = 16384))]
    pub max_frame_bytes: u32,
    /// Whether each line of a received frame, when it is in the last-level cache, is hinted to core
    /// 0, which fetches it into its data cache: nanoPU's traditional interface if it "placed
    /// arriving messages directly in the L1 cache" (Section 5.2.1).
    pub first_level: bool,
    /// Nanoseconds in the MAC and serial I/O in each direction. The prototype has none; nanoPU adds
    /// 52 ns for both directions together (Section 5.2.1: 69 ns instead of 17).
    #[schemars(range(min = 0.0, max = 1e6))]
    pub mac_latency_ns: f64,
    /// The energy of its port.
    pub energy: PortEnergySpec,
}

impl Default for IceNicSpec {
    fn default() -> IceNicSpec {
        IceNicSpec {
            queue_entries: 64,
            transactions: 8,
            input_buffer_bytes: 65536,
            output_buffer_bytes: 2 * 1520,
            max_frame_bytes: 1520,
            first_level: false,
            mac_latency_ns: 0.0,
            energy: PortEnergySpec::default(),
        }
    }
}

impl IceNicSpec {
    /// Checks whether such an interface is possible.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        check_output(self.output_buffer_bytes, self.max_frame_bytes)
    }
}

/// PCI Express between a device and the chip.
///
/// Defaults: latency and bandwidth are measured and computed by Neugebauer et al. ("Understanding
/// PCIe performance for end host networking", SIGCOMM 2018), for a device with eight lanes of the
/// third generation; bytes of headers are those of their published model, with 64-bit addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExpressSpec {
    /// Gigabits of packets of the transaction layer in a second, in each direction. Eight lanes of
    /// 8 GT/s carry 63.0 in 128b/130b; acknowledgements, credits and clock compensation leave
    /// 57.88.
    #[schemars(range(min = 0.1, max = 10000.0))]
    pub rate_gbit_per_s: f64,
    /// Nanoseconds from the end of a packet's transmission to its arrival at the other end,
    /// including all stages of both controllers. The median read of 64 bytes that are in the
    /// last-level cache takes 547 ns on their Xeon E5 (Section 6.2): two ways, 15 ns of
    /// transmission, and the access on the chip, some 30 ns.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub latency_ns: f64,
    /// The maximum payload of a packet, of writes and of read completions: the usual maximum.
    #[schemars(range(min = 64, max = 4096))]
    pub payload_bytes: u32,
    /// Outstanding reads: the tags of a device without extended ones.
    #[schemars(range(min = 1, max = 256))]
    pub reads: u32,
    /// Bytes of posted writes that the root port accepts before the first of them has been written:
    /// its credits. 0: no limit.
    #[schemars(range(max = 1 << 24))]
    pub posted_bytes: u32,
    /// The IOMMU at the root port. Absent: the device's addresses are physical ones.
    pub iommu: Option<IommuSpec>,
    /// The energy of events, and the leakage.
    pub energy: ExpressEnergySpec,
}

/// An IOMMU, which translates the addresses of a device; `{}` has pages of 4 KB.
///
/// Defaults: 64 entries, as Neugebauer et al. conclude from the working set of 256 KB at which
/// their Xeons begin to miss ("Understanding PCIe performance for end host networking", SIGCOMM
/// 2018, Section 6.5). Intel publishes neither this number nor that of concurrent page walks: 2 are
/// chosen, as in a Skylake core. Tables have four levels, as those of VT-d.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IommuSpec {
    /// The pages in which memory is mapped: 4096, 2097152 or 1073741824 bytes.
    #[schemars(range(min = 4096, max = 1 << 30))]
    pub page_bytes: u64,
    /// Entries of the IOTLB, each for a page of any size, with LRU replacement.
    #[schemars(range(min = 1, max = 4096))]
    pub iotlb_entries: u32,
    /// The maximum number of concurrent page walks.
    #[schemars(range(min = 1, max = 64))]
    pub page_walkers: u32,
    /// The energy of events, and the leakage.
    pub energy: IommuEnergySpec,
}

energy::costs! {
    /// An IOTLB of 64 entries of 16 bytes: McPAT's data cache of that size (docs/energy.md).
    IommuEnergySpec {
        /// A look-up in the IOTLB. A page that is put in costs another.
        iotlb_pj = 4.55,
        /// Leakage of the IOTLB.
        iotlb_static_mw = 16.4,
    }
}

impl Default for IommuSpec {
    fn default() -> IommuSpec {
        IommuSpec {
            page_bytes: 4096,
            iotlb_entries: 64,
            page_walkers: 2,
            energy: IommuEnergySpec::default(),
        }
    }
}

impl IommuSpec {
    /// The binary logarithm of a page's bytes.
    pub(crate) fn page_bits(&self) -> u32 {
        self.page_bytes.trailing_zeros()
    }
}

energy::costs! {
    /// PCI Express, with the controllers of both ends: as the link between two sockets.
    ExpressEnergySpec {
        /// A byte of a packet: McPAT's PCIe controller, with the physical, the link and the
        /// transaction layer, 3.75 nJ a cycle of 350 MHz for eight lanes of 0.5 GB/s each way at
        /// 65 nm and 1.1 V; times 32/65 and (0.9/1.1)^2, twice.
        byte_pj = 54.1,
        /// The power of the transmitters and receivers of both ends for each GB/s each way: two of
        /// 10 mW for each Gb/s at 90 nm and 1.2 V ("A 100mW 9.6Gb/s Transceiver in 90nm CMOS",
        /// ISSCC 2006), times the root of 32/90 and (0.9/1.2)^2.
        static_mw_per_gb_per_s = 53.7,
    }
}

impl Default for ExpressSpec {
    fn default() -> ExpressSpec {
        ExpressSpec {
            rate_gbit_per_s: 57.88,
            latency_ns: 250.0,
            payload_bytes: 256,
            reads: 32,
            posted_bytes: 0,
            iommu: None,
            energy: ExpressEnergySpec::default(),
        }
    }
}

impl ExpressSpec {
    fn check_payload(&self) -> Result<(), SpecError> {
        require(
            self.payload_bytes.is_power_of_two(),
            "express.payload_bytes",
            self.payload_bytes,
            "it must be a power of two",
        )?;
        let page_bytes = self.iommu.as_ref().map_or(4096, |iommu| iommu.page_bytes);
        require(
            [1 << 12, 1 << 21, 1 << 30].contains(&page_bytes),
            "express.iommu.page_bytes",
            page_bytes,
            "pages have 4096, 2097152 or 1073741824 bytes",
        )
    }
}

/// A network interface behind PCI Express, with rings of descriptors in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DmaNicSpec {
    /// Pairs of a receive and a send queue.
    #[schemars(range(min = 1, max = 1024))]
    pub queues: u32,
    /// The maximum number of descriptors of each queue that it reads ahead, and of frames of each
    /// that it is about to send: as many as a read of four lines returns.
    #[schemars(range(min = 1, max = 1024))]
    pub descriptors_ahead: u32,
    /// Bytes of the buffer for received frames: the 512 KB of Intel's 82599.
    #[schemars(range(min = 1520, max = 1 << 24))]
    pub input_buffer_bytes: u32,
    /// Bytes of the buffer for frames that are being read and sent: the 160 KB of Intel's 82599.
    #[schemars(range(min = 64, max = 1 << 24))]
    pub output_buffer_bytes: u32,
    /// Bytes of the longest frame.
    #[schemars(range(min = 64, max = 16384))]
    pub max_frame_bytes: u32,
    /// Whether its writes go into the last-level cache (Intel's DDIO).
    pub ddio: bool,
    /// Nanoseconds in the MAC and serial I/O in each direction: half of nanoPU's number for both
    /// (Section 5.2.1: 69 ns instead of 17), measured on a switch for 100 Gb/s.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub mac_latency_ns: f64,
    /// The link to the chip.
    pub express: ExpressSpec,
    /// Cores that run firmware between the port and the receive rings: a programmable interface;
    /// `{}` has those of CARGO. Absent: there are none, and receive-side scaling chooses the ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<ProcessorsSpec>,
    /// The energy of its port.
    pub energy: PortEnergySpec,
}

impl Default for DmaNicSpec {
    fn default() -> DmaNicSpec {
        DmaNicSpec {
            queues: 1,
            descriptors_ahead: 16,
            input_buffer_bytes: 512 * 1024,
            output_buffer_bytes: 160 * 1024,
            max_frame_bytes: 1520,
            ddio: true,
            mac_latency_ns: 26.0,
            express: ExpressSpec::default(),
            processors: None,
            energy: PortEnergySpec::default(),
        }
    }
}

impl DmaNicSpec {
    /// Checks whether such an interface is possible.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        self.express.check_payload()?;
        self.processors
            .as_ref()
            .map_or(Ok(()), ProcessorsSpec::check)?;
        check_output(self.output_buffer_bytes, self.max_frame_bytes)
    }
}

/// A network interface behind PCI Express with completion queues and two ports, in the manner of
/// ConnectX-5.
///
/// Defaults: Mellanox's product brief of ConnectX-5 Ex and EN cards (100 Gb/s, two ports, PCI
/// Express of the third generation with 16 lanes) where it gives a number; unpublished numbers are
/// marked as such.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CqeNicSpec {
    /// Ports, each with a link of its own.
    #[schemars(range(min = 1, max = 2))]
    pub ports: u32,
    /// Pairs of a receive and a send queue of each port. DPDK's driver had 512 at most (Section 5
    /// of the text of spin-polling data planes).
    #[schemars(range(min = 1, max = 1024))]
    pub queues: u32,
    /// The maximum number of buffers of each receive queue that it reads ahead. Not published: four
    /// reads of 256 bytes, so that the queue can take a packet every 10 ns while the next ones are
    /// read, which takes 0.6 us.
    #[schemars(range(min = 1, max = 1024))]
    pub buffers_ahead: u32,
    /// The maximum number of blocks of 64 bytes of each send queue that it reads ahead.
    #[schemars(range(min = 16, max = 1024))]
    pub blocks_ahead: u32,
    /// Bytes of each port's buffer for received frames: the output of `mlnx_qos` for a ConnectX-5.
    #[schemars(range(min = 1520, max = 1 << 24))]
    pub input_buffer_bytes: u32,
    /// Bytes of each port's buffer for frames that are being read and sent. Not published: as much
    /// as for those that have come.
    #[schemars(range(min = 64, max = 1 << 24))]
    pub output_buffer_bytes: u32,
    /// Bytes of the longest frame: without jumbo frames.
    #[schemars(range(min = 64, max = 16384))]
    pub max_frame_bytes: u32,
    /// The maximum rate of received frames at both ports together, in millions a second: "100
    /// million packets per second is the limit of the NIC hardware capability for RX" (Section 6 of
    /// the text).
    #[schemars(range(min = 0.1, max = 10000.0))]
    pub receive_mpps: f64,
    /// The maximum rate of sent frames: the product brief's rate of messages.
    #[schemars(range(min = 0.1, max = 10000.0))]
    pub send_mpps: f64,
    /// Nanoseconds for which a completion waits for others, if the program has completions
    /// compressed: the `cqe_compression_timeout` of its capabilities. Not published; chosen: as
    /// long as a packet takes to the chip.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub compression_timeout_ns: f64,
    /// Whether it can count the completions of a receive queue in memory (register `COUNTER`),
    /// where a monitoring set watches the count. The root port has a cache for that.
    pub counters: bool,
    /// Whether its writes go into the last-level cache (Intel's DDIO).
    pub ddio: bool,
    /// Nanoseconds in the MAC and serial I/O in each direction: as of `dma_nic`.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub mac_latency_ns: f64,
    /// The link to the chip: by default 16 lanes with 115.76 Gb/s, 256 reads, and credits for 92
    /// lines.
    pub express: ExpressSpec,
    /// The energy of each of its ports.
    pub energy: PortEnergySpec,
}

impl Default for CqeNicSpec {
    fn default() -> CqeNicSpec {
        CqeNicSpec {
            ports: 2,
            queues: 512,
            buffers_ahead: 64,
            blocks_ahead: 64,
            input_buffer_bytes: 262_016,
            output_buffer_bytes: 262_016,
            max_frame_bytes: 1520,
            receive_mpps: 100.0,
            send_mpps: 200.0,
            compression_timeout_ns: 250.0,
            counters: false,
            ddio: true,
            mac_latency_ns: 26.0,
            // 16 lanes, twice the default's; extended tags (PCI Express 2.1, 8 bits). A root port
            // of Cascade Lake takes 92 lines of writes ("Understanding the Host Network", SIGCOMM
            // 2024).
            express: ExpressSpec {
                rate_gbit_per_s: 115.76,
                reads: 256,
                posted_bytes: 92 * 64,
                ..ExpressSpec::default()
            },
            energy: PortEnergySpec::default(),
        }
    }
}

impl CqeNicSpec {
    /// Checks whether such an interface is possible.
    pub fn check(&self) -> Result<(), SpecError> {
        spec::check(self)?;
        self.express.check_payload()?;
        if let Some(iommu) = &self.express.iommu {
            let pages = format!("an IOMMU with pages of {} bytes", iommu.page_bytes);
            return Err(SpecError::new(
                "express.iommu",
                pages,
                "only `server.dma_nic` can be behind one",
            ));
        }
        check_output(self.output_buffer_bytes, self.max_frame_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_are_named() {
        assert!(IceNicSpec::default().check().is_ok());
        assert!(DmaNicSpec::default().check().is_ok());
        let narrow = IceNicSpec {
            output_buffer_bytes: 1519,
            ..IceNicSpec::default()
        };
        assert_eq!(
            narrow.check().unwrap_err().to_string(),
            "output_buffer_bytes is 1519; it must be max_frame_bytes, 1520, or more"
        );
        let mut odd = DmaNicSpec::default();
        odd.express.payload_bytes = 96;
        assert_eq!(odd.check().unwrap_err().key, "express.payload_bytes");
        odd.express.payload_bytes = 256;
        odd.express.iommu = Some(IommuSpec {
            page_bytes: 8192,
            ..IommuSpec::default()
        });
        assert_eq!(
            odd.check().unwrap_err().to_string(),
            "express.iommu.page_bytes is 8192; pages have 4096, 2097152 or 1073741824 bytes"
        );
        odd.express = ExpressSpec {
            latency_ns: f64::NAN,
            ..ExpressSpec::default()
        };
        assert_eq!(odd.check().unwrap_err().key, "express.latency_ns");
    }

    /// The arithmetic of the published model for its bandwidth: eight lanes of 8 GT/s in 128b/130b;
    /// an acknowledgement and an update of credits of 8 bytes each in 203 bytes, which PCI Express
    /// recommends for payloads of 256; and 4 bytes of clock compensation in 1538.
    #[test]
    fn bandwidth_is_what_the_model_gives() {
        let raw = 8.0 * 8.0 * 128.0 / 130.0;
        let left: f64 = raw * (1.0 - 2.0 * 8.0 / 203.0 - 4.0 / 1538.0);
        assert_eq!((left * 100.0).round() / 100.0, 57.88);
        assert_eq!(ExpressSpec::default().rate_gbit_per_s, 57.88);
    }
}
