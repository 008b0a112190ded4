//! What each step claims of this machine: what its kind says, and the memory that it is expected to take.
//!
//! How much memory NVIDIA's cards have is known to their driver's library only. So a run in which a step must hold such a
//! device asks the library, in a child and beside whatever else it begins with; steps that would claim memory there wait
//! for the answer. A run without such a step asks nothing. Without an answer nothing limits the claims, and a warning
//! says so.

use crate::device::{Backend, BackendRow, Lease};
use crate::exec::schedule::devices::Devices;
use crate::exec::schedule::memory::{Known, Memory};
use crate::exec::schedule::resources::{Claim, DeviceClaim, Held, Host, Machine};
use crate::exec::schedule::steps::Steps;
use crate::step::{Needs, Step, StepId};

pub(super) struct Claims<'a> {
    devices: Devices<'a>,
    pub(super) memory: Memory,
    pub(super) is_probing: bool,
    /// Steps that wait until the memory of their device is known.
    pub(super) waiting: Vec<StepId>,
}

impl<'a> Claims<'a> {
    pub(super) fn new(devices: Devices<'a>) -> Self {
        Self {
            devices,
            memory: Memory::default(),
            is_probing: false,
            waiting: Vec::new(),
        }
    }

    /// What a step takes of the machine, and the warning that goes with it.
    pub(super) fn claim(
        &mut self,
        id: StepId,
        steps: &Steps<'_>,
        machine: &Machine,
    ) -> (Claim, Vec<String>) {
        let plan = steps.world.plan;
        let store = steps.world.store;
        let step = plan.step(id);
        if steps.world.sends(step) {
            return (
                Claim {
                    host: Host::Away,
                    memory: 0,
                    device: None,
                },
                vec![],
            );
        }
        let size = |from| steps.world.tree_bytes(&steps.output(from)?);
        let known = Known {
            plan,
            store,
            size: &|from| size(from).unwrap_or(0),
        };
        let memory = self.memory.claim(id, &known);
        let (host, device) = match step.kind.needs(step) {
            Needs::Shared { cores } => (Host::Cores(cores), None),
            Needs::Exclusive => (Host::Whole, None),
            Needs::Device {
                backend,
                device,
                timed,
            } => match self.devices.any_of(&backend, &device) {
                // An emulator, or nobody can say what it computes on: nothing runs beside what is timed there.
                none if none.is_empty() => (if timed { Host::Whole } else { Host::Cores(1) }, None),
                any_of => {
                    let vram = self.memory.device_claim(id, &known);
                    (
                        Host::Cores(1),
                        Some(DeviceClaim {
                            any_of,
                            timed,
                            vram,
                        }),
                    )
                }
            },
        };
        let claim = Claim {
            host,
            memory,
            device,
        };
        let warnings = self
            .memory
            .warn_too_large(id, &step.name, &claim, &machine.capacity)
            .collect();
        (machine.fitted(claim), warnings)
    }

    /// Looks which of the devices other processes use, for steps that have the choice.
    pub(super) fn look_elsewhere(&self, machine: &mut Machine) {
        let in_use = self.devices.in_use().enumerate();
        in_use.for_each(|(at, is_in_use)| machine.set_elsewhere(at, is_in_use));
    }

    /// Whether a step holds a device whose memory only its driver knows, and was not queried yet.
    pub(super) fn lacks_size(&self, step: &Step, machine: &Machine) -> bool {
        let Needs::Device {
            backend, device, ..
        } = step.kind.needs(step)
        else {
            return false;
        };
        let units = &machine.capacity.units;
        BackendRow::named(&backend).is_some_and(|row| !row.tells_memory)
            && self
                .devices
                .any_of(&backend, &device)
                .iter()
                .any(|at| units[*at].vram.is_none())
    }

    /// Takes in the drivers' answers and returns warnings about them.
    pub(super) fn sized(&mut self, answers: &[Backend], machine: &mut Machine) -> Vec<String> {
        self.is_probing = false;
        let mut warnings = Vec::new();
        for (at, size) in answers.iter().flat_map(|answer| self.devices.sizes(answer)) {
            let unit = &mut machine.capacity.units[at];
            match size {
                Ok(bytes) => unit.vram = Some(bytes),
                Err(why) => {
                    let token = &unit.token;
                    warnings.push(format!(
                        "the memory of {token} is unknown: {why}; orch cannot limit how much of it steps claim"
                    ));
                }
            }
        }
        warnings
    }

    /// The device that a step was given, as its backend knows it.
    pub(super) fn lease(&self, step: &Step, held: &Held, machine: &Machine) -> Option<Lease> {
        let Needs::Device {
            backend, device, ..
        } = step.kind.needs(step)
        else {
            return None;
        };
        let at = held.unit?;
        let lease = self.devices.lease(at, &backend, &device)?;
        let size = lease.memory_bytes.or(machine.capacity.units[at].vram);
        Some(Lease {
            memory_bytes: size,
            ..lease
        })
    }
}
