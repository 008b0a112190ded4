//! Job threads. Not rayon's: a rayon worker that waits may pick up another job, and with it another step's slot.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::Scope;

use crate::base::lock;

type Job<'env> = Box<dyn FnOnce() + Send + 'env>;

/// A pool of as many threads as steps may execute at a time. They live as long as the run: the kernel ends a child
/// together with the thread that started it.
pub(in crate::exec) struct Pool<'env> {
    jobs: Sender<Job<'env>>,
}

impl<'env> Pool<'env> {
    pub(in crate::exec) fn start<'scope>(scope: &'scope Scope<'scope, 'env>, threads: u32) -> Self {
        let (jobs, queue) = channel::<Job<'env>>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads.max(1) {
            let queue: Arc<Mutex<Receiver<Job<'env>>>> = queue.clone();
            scope.spawn(move || {
                while let Ok(job) = { lock(&queue).recv() } {
                    job();
                }
            });
        }
        Self { jobs }
    }

    pub(in crate::exec) fn spawn(&self, job: impl FnOnce() + Send + 'env) {
        self.jobs
            .send(Box::new(job))
            .expect("BUG: the job threads outlive the scheduler");
    }
}
