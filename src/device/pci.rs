//! GPUs and accelerators on the PCI bus: distinguishes "no such card" from "a card without a driver". Knows no backend.

use super::Host;

pub(crate) const NVIDIA: u32 = 0x10de;
pub(crate) const AMD: u32 = 0x1002;
pub(crate) const INTEL: u32 = 0x8086;

/// One display controller or processing accelerator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pci {
    /// `0000:17:00.0`
    pub(crate) address: String,
    pub(crate) vendor: u32,
    pub(crate) device: u32,
}

impl Pci {
    /// `10de:2335 at 0000:17:00.0`
    pub(crate) fn shown(&self) -> String {
        format!(
            "{:04x}:{:04x} at {}",
            self.vendor, self.device, self.address
        )
    }
}

pub(crate) fn scan(host: &Host) -> Vec<Pci> {
    const BUS: &str = "/sys/bus/pci/devices";
    let read = |address: &str, file: &str| hex(&host.text(&format!("{BUS}/{address}/{file}"))?);
    let card = |address: String| {
        // Class 03 is display; 12 is "processing accelerator", where AMD Instinct cards and Intel NPUs sit. A card's
        // audio function (class 04) has the same vendor and is no GPU.
        read(&address, "class").filter(|class| matches!(class >> 16, 0x03 | 0x12))?;
        let vendor = read(&address, "vendor")?;
        let device = read(&address, "device")?;
        Some(Pci {
            address,
            vendor,
            device,
        })
    };
    host.list(BUS).into_iter().filter_map(card).collect()
}

pub(crate) fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}
