//! One execution of one step, on a job thread: verified inputs in, work, published output and record out.

pub(in crate::exec) mod attempts;
pub(in crate::exec) mod bug;
pub(in crate::exec) mod ended;
mod execute;
pub(in crate::exec) mod inputs;
pub(in crate::exec) mod keep;
pub(in crate::exec) mod occupy;
pub(in crate::exec) mod outcome;
pub(in crate::exec) mod performer;
pub(in crate::exec) mod pool;
pub(in crate::exec) mod servers;
pub(in crate::exec) mod standing;
pub(in crate::exec) mod task;
pub(in crate::exec) mod workers;

pub(in crate::exec) use execute::{check_measure, worker_job};
