//! What repairs itself: jobs that take no input, are safe twice and bounded per run. Each is one file; this one runs them
//! side by side until the node stops. A run that fails is logged and tried again at its next time.

mod expire_holds;

use crate::app::App;
use crate::shutdown::Phase;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Runs every job until the node stops.
pub async fn run(app: Arc<App>) {
    let sweep = app.config.inventory.sweep_interval;
    every(&app, "expire_holds", sweep, || expire_holds::run(&app)).await;
}

/// Runs `job` again and again with `pause` between two runs, a tenth more or less, so that nodes do not march in step.
async fn every<F>(app: &App, name: &'static str, pause: Duration, job: impl Fn() -> F)
where
    F: Future<Output = anyhow::Result<()>>,
{
    let stopping = app.shutdown.reached(Phase::Stopping);
    tokio::pin!(stopping);
    loop {
        if let Err(error) = job().await {
            tracing::warn!(job = name, error = %format!("{error:#}"), "a job failed; it runs again");
        }
        let pause = pause.mul_f64(rand::random_range(0.9..1.1));
        tokio::select! {
            () = &mut stopping => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
