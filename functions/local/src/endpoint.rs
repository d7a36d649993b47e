//! What the endpoints of one machine share: a loopback listener, a thread of their own, and the errors of a start.
//!
//! Each endpoint runs on its own thread with its own single-threaded runtime, so a slow disk or a long poll in one never
//! delays another, and a caller that runs on paused test time does not freeze its servers.
//! Protocols and storage stay out: they belong to the endpoint's own room.

use std::fs::{File, TryLockError};
use std::future::Future;
use std::io::{Error as IoError, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

#[cfg(test)]
mod tests;

/// Why an endpoint could not start. Each message names the setting and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address can be reached from other machines, and these endpoints check no credentials.
    #[error(
        "{option}: {addr} is not a loopback address; these endpoints check no credentials, so use 127.0.0.1 or ::1"
    )]
    NotLoopback {
        /// The address that was asked for.
        addr: SocketAddr,
        /// The command's option that sets it.
        option: &'static str,
    },
    /// Another program listens on the port.
    #[error(
        "{addr} is already in use by another program; stop that program, or choose another port with {option} PORT"
    )]
    PortBusy {
        /// The address that was asked for.
        addr: SocketAddr,
        /// The command's option that sets it.
        option: &'static str,
    },
    /// The system reserves the port for privileged programs.
    #[error("no permission to listen on {addr}; choose a port above 1023 with {option} PORT")]
    PortDenied {
        /// The address that was asked for.
        addr: SocketAddr,
        /// The command's option that sets it.
        option: &'static str,
    },
    /// The listener failed for another reason.
    #[error("cannot listen on {addr}: {source}; choose another port with {option} PORT")]
    Listen {
        /// The address that was asked for.
        addr: SocketAddr,
        /// The command's option that sets it.
        option: &'static str,
        /// What the system said.
        source: IoError,
    },
    /// The data directory, or the file in it, cannot be made or written.
    #[error("cannot write {}: {source}; name a directory that you may write to with --data DIR", path.display())]
    DataUnwritable {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: IoError,
    },
    /// The file exists and is not ours, or it is damaged.
    #[error("cannot use {}: {problem}; move the file away, or name another directory with --data DIR", path.display())]
    DataUnusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Another process works on the same file.
    #[error("{} is in use by another process; stop it, or name another directory with --data DIR", path.display())]
    DataInUse {
        /// The file.
        path: PathBuf,
    },
    /// The system gave no thread, or no runtime for it.
    #[error("cannot start the thread of {what}: {source}; raise the limit of threads and open files for this user")]
    Thread {
        /// The endpoint.
        what: &'static str,
        /// What the system said.
        source: IoError,
    },
    /// The endpoint could not be prepared in memory.
    #[error("cannot prepare {what}: {problem}")]
    Prepare {
        /// The endpoint.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
}

/// Listens on `addr` (port 0 takes any free port), which must be a loopback address. The listener is non-blocking.
pub(crate) fn listen(addr: SocketAddr, option: &'static str) -> Result<(TcpListener, SocketAddr), StartError> {
    if !addr.ip().is_loopback() {
        return Err(StartError::NotLoopback { addr, option });
    }
    let failed = |source: IoError| match source.kind() {
        ErrorKind::AddrInUse => StartError::PortBusy { addr, option },
        ErrorKind::PermissionDenied => StartError::PortDenied { addr, option },
        _ => StartError::Listen { addr, option, source },
    };
    let listener = TcpListener::bind(addr).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// The right to use a data file, held until it is dropped, and given back by the system when the process dies.
#[derive(Debug)]
pub(crate) struct DataFile {
    path: PathBuf,
    /// Locked. A file of its own, because closing a second handle of an SQLite file would drop SQLite's locks on it.
    _lock: File,
}

impl DataFile {
    /// Makes the directories above `path`, proves that the file can be written (so that a missing permission is told as
    /// one and not as a database error), and takes the lock beside it. Leaves what is in an existing file.
    pub(crate) fn claim(path: &Path) -> Result<DataFile, StartError> {
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .map_err(|source| StartError::DataUnwritable { path: directory.to_path_buf(), source })?;
        }
        let writable = |path: &Path| {
            File::options()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|source| StartError::DataUnwritable { path: path.to_path_buf(), source })
        };
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = writable(Path::new(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StartError::DataInUse { path: path.to_path_buf() }),
            Err(TryLockError::Error(source)) => {
                return Err(StartError::DataUnwritable { path: lock_path.into(), source });
            }
        }
        drop(writable(path)?);
        Ok(DataFile { path: path.to_path_buf(), _lock: lock })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The error of a file that was opened and is not what it should be.
    pub(crate) fn unusable(&self, problem: impl ToString) -> StartError {
        StartError::DataUnusable { path: self.path.clone(), problem: problem.to_string() }
    }
}

/// A server on a thread of its own. Dropping it tells the server to stop, and does not wait.
#[derive(Debug)]
pub(crate) struct EndpointThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EndpointThread {
    /// Runs `serve` on a new thread. It is given a signal that resolves when the server shall stop, and everything it
    /// spawned ends when it returns.
    pub(crate) fn spawn<Serve, Served>(name: &'static str, serve: Serve) -> Result<EndpointThread, StartError>
    where
        Serve: FnOnce(StopSignal) -> Served + Send + 'static,
        Served: Future<Output = ()>,
    {
        let failed = |source| StartError::Thread { what: name, source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || runtime.block_on(serve(StopSignal(stopped))))
            .map_err(failed)?;
        Ok(EndpointThread { stop: Some(stop), thread: Some(thread) })
    }

    /// Tells the server to stop and waits until its thread has ended.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("an endpoint's thread ended by a panic");
            }
        }
    }
}

/// Resolves when the endpoint's owner stops it or drops it.
#[derive(Debug)]
pub(crate) struct StopSignal(oneshot::Receiver<()>);

impl StopSignal {
    /// Waits for the signal.
    pub(crate) async fn stopped(self) {
        // The sender is only ever dropped: an error is the signal.
        let _ = self.0.await;
    }
}
