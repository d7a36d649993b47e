//! The wishes of the terminal and of the system to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::CommandError;

/// Ctrl-C and the polite kill. From its making on, neither ends the process by itself.
pub(crate) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let listen = |kind| {
            signal(kind).map_err(|error| CommandError::environment(format!("cannot listen for Ctrl-C: {error}")))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for one of them.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
