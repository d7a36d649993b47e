//! An embedded DynamoDB: dynoxide over SQLite, served over HTTP on a loopback port, so that the real SDK client talks to
//! it. In memory, or in one file.
//!
//! **What an HTTP 200 acknowledged is in the file** after a `kill -9` of the process: every request is one SQLite
//! transaction, committed before its reply is written. dynoxide runs SQLite in WAL mode with SQLite's own default,
//! `synchronous = FULL`, so each commit is flushed to the disk and a power cut keeps it too (as far as the disk tells
//! the truth). The next start replays the WAL file that lies beside the data file.
//!
//! Streams: dynoxide records a change of every table that has a stream, in the same transaction. Its own queries on that
//! record are unindexed and it never trims it, so a write would become slower with every write before it. We add the
//! index that is missing and drop the records of earlier runs at the start, through a connection that is closed before
//! the first request.
//!
//! Creating tables stays out: `storage` does it through the SDK, as on AWS. Items whose time to live has passed stay
//! until [`TableServer::expire`] is called; AWS takes up to days over it, so nothing may depend on it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use dynoxide::Database;
use rusqlite::Connection;

use crate::endpoint::{self, DataFile, EndpointThread, StartError};

mod stream;
#[cfg(test)]
mod tests;

pub use stream::{StreamError, StreamReader};

/// The option of `fencepost local` that sets the port.
const PORT_OPTION: &str = "--dynamodb-port";
/// How long a stop waits for requests that are running.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The index that dynoxide's two queries on stream records need: the newest of a table, and those after a position.
const STREAM_INDEX: &str = "CREATE INDEX IF NOT EXISTS fencepost_stream_order
    ON _stream_records (table_name, CAST(sequence_number AS INTEGER));
    DELETE FROM _stream_records;";

/// Where the tables are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableStorage {
    /// In memory, gone with the server.
    Memory,
    /// In this file. Directories above it are made. One process at a time may use it.
    File(PathBuf),
}

/// A running DynamoDB endpoint. Dropping it stops it without waiting.
pub struct TableServer {
    addr: SocketAddr,
    database: Database,
    thread: EndpointThread,
    file: Option<DataFile>,
}

impl std::fmt::Debug for TableServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TableServer").field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl TableServer {
    /// Starts the endpoint on a loopback address (port 0 takes any free port).
    ///
    /// # Errors
    /// The port is taken or refused, or the file cannot be made, written or read. The message names the option to change.
    pub fn start(addr: SocketAddr, storage: TableStorage) -> Result<TableServer, StartError> {
        let (listener, addr) = endpoint::listen(addr, PORT_OPTION)?;
        let (database, file) = match &storage {
            TableStorage::Memory => (open_in_memory()?, None),
            TableStorage::File(path) => {
                let file = DataFile::claim(path)?;
                (open_file(&file)?, Some(file))
            }
        };
        let served = database.clone();
        let thread = EndpointThread::spawn("dynamodb endpoint", move |stop| async move {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!(%error, "the DynamoDB endpoint lost its listener"),
            };
            let (grace_starts, grace_started) = tokio::sync::oneshot::channel::<()>();
            let shutdown = async move {
                stop.stopped().await;
                drop(grace_starts);
            };
            let grace = async move {
                let _ = grace_started.await;
                tokio::time::sleep(STOP_GRACE).await;
            };
            tokio::select! {
                ended = dynoxide::server::serve_with_shutdown(listener, served, shutdown) => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "the DynamoDB endpoint ended");
                    }
                }
                () = grace => tracing::warn!("the DynamoDB endpoint stopped with requests still running"),
            }
        })?;
        Ok(TableServer { addr, database, thread, file })
    }

    /// The URL for the SDK, for example `http://127.0.0.1:8000`.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Reads the stream of `table` from now on. The table must exist and have a stream.
    ///
    /// # Errors
    /// There is no such table, or it has no stream.
    pub fn stream_reader(&self, table: &str) -> Result<StreamReader, StreamError> {
        StreamReader::from_now(self.database.clone(), table)
    }

    /// Deletes the items whose time to live has passed, by the system's clock, and tells how many there were.
    ///
    /// # Errors
    /// The database failed.
    pub fn expire(&self) -> Result<usize, StreamError> {
        self.database
            .sweep_ttl()
            .map_err(|error| StreamError { table: "every table".into(), problem: error.to_string() })
    }

    /// Stops the endpoint: no new requests, two seconds for those that run, then the port is free and the file closed.
    pub async fn stop(self) {
        let TableServer { database, thread, file, .. } = self;
        drop(database);
        thread.stop().await;
        drop(file);
    }
}

/// Opens a database in memory. It has a name of its own, because the connection that adds the index must find it.
fn open_in_memory() -> Result<Database, StartError> {
    let name = format!("file:fencepost-{}?mode=memory&cache=shared", uuid::Uuid::new_v4());
    let failed = |problem: String| StartError::Prepare { what: "the tables in memory", problem };
    let database = Database::new(&name).map_err(|error| failed(error.to_string()))?;
    add_stream_index(&name).map_err(|error| failed(error.to_string()))?;
    Ok(database)
}

fn open_file(file: &DataFile) -> Result<Database, StartError> {
    let path = file.path().to_str().ok_or_else(|| file.unusable("its path is not UTF-8"))?;
    let database = Database::new(path).map_err(|error| file.unusable(error))?;
    add_stream_index(path).map_err(|error| file.unusable(error))?;
    Ok(database)
}

fn add_stream_index(path: &str) -> Result<(), rusqlite::Error> {
    Connection::open(path)?.execute_batch(STREAM_INDEX)
}
