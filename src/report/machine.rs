//! The machine that measured a case. Figures of two machines are never set against each other.

use super::{CaseResult, Host, ReportDoc};
use crate::base::figures::counted;
use crate::record::Cpu;

/// A machine as far as figures depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Machine<'a> {
    pub name: &'a str,
    pub cpu: &'a str,
    /// What distinguishes the CPU from others of its name; empty where a report does not have it.
    pub identity: &'a str,
    pub cores: u32,
}

impl<'a> Machine<'a> {
    /// The machine that executed the case; of a case that does not have it, the one that wrote the report.
    pub fn of(doc: &'a ReportDoc, case: &'a CaseResult) -> Self {
        let named = case.host.as_deref();
        if let Some(cpu) = &case.cpu {
            return Self {
                name: named.unwrap_or(&doc.host.name),
                cpu: &cpu.name,
                identity: &cpu.identity,
                cores: cpu.cores,
            };
        }
        let host = named.and_then(|name| doc.hosts().iter().find(|host| host.name == name));
        Self {
            name: named.unwrap_or(&doc.host.name),
            ..Self::from(host.unwrap_or(&doc.host))
        }
    }

    /// Whether both have the same CPU, with as many cores: one that orch before this version described has no identity.
    pub fn has_cpu_of(&self, other: &Self) -> bool {
        let is_known = !self.identity.is_empty() && !other.identity.is_empty();
        (self.cpu, self.cores) == (other.cpu, other.cores)
            && (!is_known || self.identity == other.identity)
    }

    /// Whether both are one machine.
    pub fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.has_cpu_of(other)
    }

    /// What a record holds of the machine besides its name.
    pub(super) fn own_cpu(&self) -> Cpu {
        Cpu {
            name: self.cpu.to_owned(),
            identity: self.identity.to_owned(),
            cores: self.cores,
        }
    }

    /// `build-07 (AMD EPYC 9454, 16 cores)`
    pub fn description(&self) -> String {
        format!(
            "{} ({}, {})",
            self.name,
            self.cpu,
            counted(self.cores, "core")
        )
    }
}

impl<'a> From<&'a Host> for Machine<'a> {
    fn from(host: &'a Host) -> Self {
        Self {
            name: &host.name,
            cpu: &host.cpu,
            identity: &host.cpu_identity,
            cores: host.cores,
        }
    }
}

impl Host {
    /// What a record holds of the machine besides its name.
    pub fn own_cpu(&self) -> Cpu {
        Cpu {
            name: self.cpu.clone(),
            identity: self.cpu_identity.clone(),
            cores: self.cores,
        }
    }
}

/// The letters that stand for machines where a report has figures of several.
const LETTERS: [&str; 26] = [
    "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", "Q", "R", "S",
    "T", "U", "V", "W", "X", "Y", "Z",
];
const BEYOND: &str = "+";

/// The machines of a report's figures.
pub(super) struct Machines<'a> {
    /// Each with how many figures it measured, in the order of the document.
    each: Vec<(Machine<'a>, usize)>,
    /// The one that wrote the report.
    here: Machine<'a>,
}

impl<'a> Machines<'a> {
    pub(super) fn of(doc: &'a ReportDoc) -> Self {
        let mut each: Vec<(Machine<'a>, usize)> = Vec::new();
        for case in doc.cases.iter().filter(|case| case.metrics.is_some()) {
            let machine = Machine::of(doc, case);
            match each.iter_mut().find(|(known, _)| known.is(&machine)) {
                Some((_, count)) => *count += 1,
                None => each.push((machine, 1)),
            }
        }
        Self {
            each,
            here: Machine::from(&doc.host),
        }
    }

    /// The letter of the machine that measured a case; None where one machine measured all.
    pub(super) fn letter(&self, machine: &Machine<'_>) -> Option<&'static str> {
        let at = self.each.iter().position(|(known, _)| known.is(machine))?;
        (self.each.len() > 1).then(|| LETTERS.get(at).copied().unwrap_or(BEYOND))
    }

    /// The machine of the figures; None where all are of the machine that wrote the report.
    pub(super) fn remark(&self) -> Option<String> {
        match &self.each[..] {
            [] => None,
            [(one, _)] if one.is(&self.here) => None,
            [(one, _)] => Some(format!("measured on {}", one.description())),
            several => {
                let each: Vec<String> = several
                    .iter()
                    .map(|(machine, count)| {
                        let letter = self.letter(machine).unwrap_or_default();
                        let unlike = self.unlike(machine);
                        format!("{letter} {}{unlike}: {count}", machine.description())
                    })
                    .collect();
                Some(format!(
                    "measured on several machines, which are never compared: {}",
                    each.join("; ")
                ))
            }
        }
    }

    /// What distinguishes a machine from another one of the same description: ` [GenuineIntel 6/143/8, …]`.
    fn unlike(&self, machine: &Machine<'_>) -> String {
        let is_twin = |(other, _): &&(Machine<'_>, usize)| {
            (other.name, other.cpu, other.cores) == (machine.name, machine.cpu, machine.cores)
        };
        if self.each.iter().filter(is_twin).count() > 1 {
            format!(" [{}]", machine.identity)
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn on(doc: &mut ReportDoc, at: usize, name: &str, identity: &str) {
        let cpu = Cpu {
            identity: identity.to_owned(),
            ..doc.host.own_cpu()
        };
        doc.cases[at].host = Some(name.to_owned());
        doc.cases[at].cpu = Some(cpu);
    }

    #[test]
    fn figures_of_one_machine_have_no_letter_and_name_it_if_it_is_another() {
        let mut doc = fixture();
        doc.cases.retain(|case| case.metrics.is_some());
        assert_eq!(Machines::of(&doc).remark(), None);
        for at in 0..doc.cases.len() {
            on(&mut doc, at, "vm12", "");
        }
        let machines = Machines::of(&doc);
        let remark = machines.remark().unwrap();
        assert!(remark.starts_with("measured on vm12 ("), "{remark}");
        assert_eq!(machines.letter(&Machine::of(&doc, &doc.cases[0])), None);
    }

    #[test]
    fn two_cpus_of_one_name_are_two_machines() {
        let mut doc = fixture();
        doc.cases.retain(|case| case.metrics.is_some());
        let all = doc.cases.len();
        for at in 0..all {
            let stepping = if at == 0 { "AMD 23/49/0" } else { "AMD 25/1/1" };
            on(&mut doc, at, "vm", stepping);
        }
        let machines = Machines::of(&doc);
        let letter = |at: usize| machines.letter(&Machine::of(&doc, &doc.cases[at]));
        assert_eq!((letter(0), letter(1)), (Some("A"), Some("B")));
        let remark = machines.remark().unwrap();
        assert!(remark.contains("[AMD 23/49/0]: 1; B vm"), "{remark}");
        // What a report of before does not have distinguishes nothing.
        let [one, other] = [0, 1].map(|at| Machine::of(&doc, &doc.cases[at]));
        let unknown = Machine {
            identity: "",
            ..one
        };
        assert!(!one.is(&other) && unknown.is(&one) && unknown.is(&other));
    }
}
