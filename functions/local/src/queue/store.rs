//! The queues in one SQLite file: what changed is written in one transaction, before the client is answered.
//!
//! WAL with `synchronous = FULL`: a commit is on the disk when it returns. The memory holds the queues while the server
//! runs; the file is read at the start, and again when a write failed, because then it alone is the truth.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, params};

use super::model::{Changes, Message, Queue, Queues, Remembered};
use super::settings::QueueSettings;

#[cfg(test)]
mod tests;

/// The version of the tables below.
const SCHEMA: i64 = 1;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS queues (
        name TEXT PRIMARY KEY, attributes TEXT NOT NULL, created_at_ms INTEGER NOT NULL, purged_at_ms INTEGER,
        last_sequence INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS messages (
        queue TEXT NOT NULL, sequence INTEGER NOT NULL, message_id TEXT NOT NULL, body TEXT NOT NULL,
        attributes TEXT NOT NULL, system_attributes TEXT NOT NULL, group_id TEXT, deduplication_id TEXT,
        sent_at_ms INTEGER NOT NULL, visible_at_ms INTEGER NOT NULL, first_received_at_ms INTEGER,
        receive_count INTEGER NOT NULL, receipt TEXT,
        PRIMARY KEY (queue, sequence)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS remembered (
        queue TEXT NOT NULL, key TEXT NOT NULL, message_id TEXT NOT NULL, sequence INTEGER NOT NULL,
        until_ms INTEGER NOT NULL,
        PRIMARY KEY (queue, key)) WITHOUT ROWID;";

/// The file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// SQLite failed.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A row has something in it that we never write.
    #[error("damaged row: {0}")]
    Damaged(String),
    /// The file was written by another version.
    #[error("its tables have version {0}, and this program knows version {SCHEMA}")]
    OtherSchema(i64),
}

/// The open file.
pub(crate) struct Store {
    path: PathBuf,
    connection: Connection,
}

impl Store {
    /// Opens the file, and makes the tables in a new one.
    ///
    /// # Errors
    /// It is no SQLite file, or another version's.
    pub(crate) fn open(path: &Path) -> Result<Store, StoreError> {
        let connection = Connection::open(path)?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
        if version != SCHEMA && !(version == 0 && objects == 0) {
            return Err(StoreError::OtherSchema(version));
        }
        let _mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        connection.execute_batch("PRAGMA synchronous = FULL")?;
        connection.execute_batch(&format!("BEGIN; {TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;"))?;
        Ok(Store { path: path.to_path_buf(), connection })
    }

    /// The file, for messages about it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All queues as the file has them.
    ///
    /// # Errors
    /// The file cannot be read, or a row is damaged.
    pub(crate) fn load(&self) -> Result<Queues, StoreError> {
        let mut queues = Queues::default();
        let mut statement = self
            .connection
            .prepare("SELECT name, attributes, created_at_ms, purged_at_ms, last_sequence FROM queues")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let queue = read_queue(row)?;
            queues.by_name.insert(queue.name.clone(), queue);
        }
        for queue in queues.by_name.values_mut() {
            self.load_messages(queue)?;
            self.load_remembered(queue)?;
            queue.take_changes();
        }
        Ok(queues)
    }

    fn load_messages(&self, queue: &mut Queue) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare(
            "SELECT sequence, message_id, body, attributes, system_attributes, group_id, deduplication_id, sent_at_ms,
                visible_at_ms, first_received_at_ms, receive_count, receipt
             FROM messages WHERE queue = ?1 ORDER BY sequence",
        )?;
        let mut rows = statement.query([&queue.name])?;
        while let Some(row) = rows.next()? {
            queue.restore(read_message(row)?);
        }
        Ok(())
    }

    fn load_remembered(&self, queue: &mut Queue) -> Result<(), StoreError> {
        let mut statement =
            self.connection.prepare("SELECT key, message_id, sequence, until_ms FROM remembered WHERE queue = ?1")?;
        let mut rows = statement.query([&queue.name])?;
        while let Some(row) = rows.next()? {
            let remembered = Remembered { message_id: row.get(1)?, sequence: row.get(2)?, until_ms: row.get(3)? };
            queue.remembered.insert(row.get(0)?, remembered);
        }
        Ok(())
    }

    /// Writes what changed in the queues, all of it or nothing, and tells whether anything did.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn save(&mut self, queues: &mut Queues) -> Result<bool, StoreError> {
        let changed: Vec<(&Queue, Changes)> = queues
            .by_name
            .values_mut()
            .map(|queue| {
                let changes = queue.take_changes();
                (&*queue, changes)
            })
            .filter(|(_, changes)| *changes != Changes::default())
            .collect();
        if changed.is_empty() {
            return Ok(false);
        }
        let transaction = self.connection.transaction()?;
        for (queue, changes) in &changed {
            save_queue(&transaction, queue, changes)?;
        }
        transaction.commit()?;
        Ok(true)
    }
}

fn save_queue(connection: &Connection, queue: &Queue, changes: &Changes) -> Result<(), StoreError> {
    if changes.queue {
        let attributes = to_json(&queue.settings.shown)?;
        connection.prepare_cached("INSERT OR REPLACE INTO queues VALUES (?1, ?2, ?3, ?4, ?5)")?.execute(params![
            queue.name,
            attributes,
            queue.created_at_ms,
            queue.purged_at_ms,
            queue.last_sequence
        ])?;
    }
    if changes.emptied {
        connection.execute("DELETE FROM messages WHERE queue = ?1", [&queue.name])?;
    }
    for sequence in &changes.messages {
        match queue.messages.get(sequence) {
            Some(message) => save_message(connection, &queue.name, message)?,
            None => {
                connection
                    .prepare_cached("DELETE FROM messages WHERE queue = ?1 AND sequence = ?2")?
                    .execute(params![queue.name, sequence])?;
            }
        }
    }
    for key in &changes.remembered {
        match queue.remembered.get(key) {
            Some(remembered) => connection
                .prepare_cached("INSERT OR REPLACE INTO remembered VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![queue.name, key, remembered.message_id, remembered.sequence, remembered.until_ms])?,
            None => connection
                .prepare_cached("DELETE FROM remembered WHERE queue = ?1 AND key = ?2")?
                .execute(params![queue.name, key])?,
        };
    }
    Ok(())
}

fn save_message(connection: &Connection, queue: &str, message: &Message) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO messages VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            queue,
            message.sequence,
            message.message_id,
            message.body,
            to_json(&message.attributes)?,
            to_json(&message.system_attributes)?,
            message.group_id,
            message.deduplication_id,
            message.sent_at_ms,
            message.visible_at_ms,
            message.first_received_at_ms,
            message.receive_count,
            message.receipt,
        ])?;
    Ok(())
}

fn read_queue(row: &Row<'_>) -> Result<Queue, StoreError> {
    let name: String = row.get("name")?;
    let attributes: BTreeMap<String, String> = from_json(&name, row.get("attributes")?)?;
    let settings = QueueSettings::from_attributes(&name, &attributes)
        .map_err(|refusal| StoreError::Damaged(format!("queue {name}: {refusal}")))?;
    let mut queue = Queue::new(&name, settings, row.get("created_at_ms")?);
    queue.purged_at_ms = row.get("purged_at_ms")?;
    queue.last_sequence = row.get("last_sequence")?;
    Ok(queue)
}

fn read_message(row: &Row<'_>) -> Result<Message, StoreError> {
    let message_id: String = row.get("message_id")?;
    Ok(Message {
        sequence: row.get("sequence")?,
        body: row.get("body")?,
        attributes: from_json(&message_id, row.get("attributes")?)?,
        system_attributes: from_json(&message_id, row.get("system_attributes")?)?,
        message_id,
        group_id: row.get("group_id")?,
        deduplication_id: row.get("deduplication_id")?,
        sent_at_ms: row.get("sent_at_ms")?,
        visible_at_ms: row.get("visible_at_ms")?,
        first_received_at_ms: row.get("first_received_at_ms")?,
        receive_count: row.get("receive_count")?,
        receipt: row.get("receipt")?,
    })
}

fn to_json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Damaged(error.to_string()))
}

fn from_json<T: serde::de::DeserializeOwned>(of: &str, text: String) -> Result<T, StoreError> {
    serde_json::from_str(&text).map_err(|error| StoreError::Damaged(format!("attributes of {of}: {error}")))
}
