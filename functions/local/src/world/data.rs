//! The data directory: three files, each locked while a world uses it.
//!
//! `world.json` says of what form the world is whose tables lie beside it, so that a restart with other options cannot leave
//! rows where nobody looks.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::WorldError;
use crate::endpoint::DataFile;
use crate::queue::QueueStorage;
use crate::table_server::TableStorage;

/// The form of `world.json`.
const SCHEMA: u32 = 1;

/// What `world.json` holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    schema: u32,
    lease: String,
    /// Rows may lie in this many shards.
    shards: u16,
}

/// The right to use a data directory, held until it is dropped.
#[derive(Debug)]
pub(super) struct DataDirectory {
    directory: PathBuf,
    _form: DataFile,
}

impl DataDirectory {
    /// Takes the directory for a world of this lease, whose drainers look into `drained_shards` shards.
    ///
    /// # Errors
    /// It cannot be made or written, another process uses it, or it holds a world whose rows this one would not find.
    pub(super) fn claim(directory: &Path, lease: &str, drained_shards: u16) -> Result<Self, WorldError> {
        let path = directory.join("world.json");
        let file = DataFile::claim(&path)?;
        let text = fs::read_to_string(&path).map_err(|error| file.unusable(error))?;
        let found = if text.trim().is_empty() {
            None
        } else {
            Some(serde_json::from_str::<Form>(&text).map_err(|error| file.unusable(error))?)
        };
        let shards = check(found.as_ref(), lease, drained_shards)
            .map_err(|problem| WorldError::Data { path: path.clone(), problem })?;
        let form = Form { schema: SCHEMA, lease: lease.to_owned(), shards };
        if found.as_ref() != Some(&form) {
            let text = serde_json::to_string(&form).map_err(|error| file.unusable(error))?;
            write_whole(&path, &text).map_err(|error| file.unusable(error))?;
        }
        Ok(Self { directory: directory.to_path_buf(), _form: file })
    }

    /// Where the tables are.
    pub(super) fn tables(&self) -> TableStorage {
        TableStorage::File(self.directory.join("tables.sqlite"))
    }

    /// Where the queue is.
    pub(super) fn queue(&self) -> QueueStorage {
        QueueStorage::File(self.directory.join("queue.sqlite"))
    }
}

/// How many shards may hold rows from now on, or why this world does not fit the directory.
fn check(found: Option<&Form>, lease: &str, drained_shards: u16) -> Result<u16, String> {
    let Some(form) = found else { return Ok(drained_shards) };
    if form.schema != SCHEMA {
        return Err(format!(
            "schema is {}, and this program knows {SCHEMA}; name another directory with --data DIR",
            form.schema
        ));
    }
    if form.lease != lease {
        return Err(format!(
            "lease is {:?}, and this world's is {lease:?}; name another directory with --data DIR",
            form.lease
        ));
    }
    if form.shards > drained_shards {
        return Err(format!(
            "shards is {}, and with {drained_shards} some rows would never be drained; use --shards {}, or name another \
             directory with --data DIR",
            form.shards, form.shards
        ));
    }
    Ok(drained_shards)
}

/// Writes a file so that it is either the old one or the whole new one.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("json.new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}
