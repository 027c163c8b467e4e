//! Signals that stop the program.

use std::future::poll_fn;
use std::task::Poll;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Listens for signals until it is dropped.
pub(super) struct StopSignals {
    stop: CancellationToken,
    /// Aborted on drop.
    _listener: JoinSet<()>,
}

impl StopSignals {
    pub(super) fn listen<const N: usize>(kinds: [SignalKind; N]) -> anyhow::Result<Self> {
        let mut signals = Vec::new();
        for kind in kinds {
            let one = signal(kind)
                .with_context(|| format!("cannot listen for signal {}", kind.as_raw_value()))?;
            signals.push(one);
        }
        let stop = CancellationToken::new();
        let mut listener = JoinSet::new();
        listener.spawn(wait(signals, stop.clone()));
        Ok(Self {
            stop,
            _listener: listener,
        })
    }

    /// Returns the token that the first signal cancels. A second signal ends the program
    /// immediately; the shims then end the agents.
    pub(super) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }
}

async fn wait(mut signals: Vec<Signal>, stop: CancellationToken) {
    any(&mut signals).await;
    tracing::info!("stopping");
    stop.cancel();
    any(&mut signals).await;
    tracing::warn!("second signal, stopping immediately");
    super::end_at_once();
}

async fn any(signals: &mut [Signal]) {
    poll_fn(|context| {
        let is_here = |signal: &mut Signal| signal.poll_recv(context).is_ready();
        match signals.iter_mut().any(is_here) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}
