use super::super::submission::{AttributeContent, MessageAttribute, Submission};
use super::*;

fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("fencepost-queue-{}.sqlite", uuid::Uuid::new_v4()))
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
}

fn submission(body: &str) -> Submission {
    let attribute = MessageAttribute { data_type: "Binary".to_owned(), content: AttributeContent::Bytes(vec![0, 255]) };
    Submission {
        body: body.to_owned(),
        attributes: BTreeMap::from([("bytes".to_owned(), attribute)]),
        group_id: Some("device-1".to_owned()),
        deduplication_id: Some(body.to_owned()),
        ..Submission::default()
    }
}

fn filled() -> Queues {
    let mut queues = Queues::default();
    let given =
        BTreeMap::from([("FifoQueue".to_owned(), "true".to_owned()), ("DelaySeconds".to_owned(), "0".to_owned())]);
    queues.create("orders.fifo", given, 7).unwrap();
    let queue = queues.get("orders.fifo").unwrap();
    for body in ["a", "b", "c"] {
        queue.send(submission(body), 1_000, format!("id-{body}")).unwrap();
    }
    queue.receive(2, Some(60), 2_000, || "receipt".to_owned());
    queues
}

#[test]
fn what_was_saved_is_what_is_loaded() {
    let path = scratch();
    let mut queues = filled();
    let mut store = Store::open(&path).unwrap();
    assert!(store.save(&mut queues).unwrap());
    assert!(!store.save(&mut queues).unwrap(), "nothing changed since");
    drop(store);

    let loaded = Store::open(&path).unwrap().load().unwrap();
    let (before, after) = (&queues.by_name["orders.fifo"], &loaded.by_name["orders.fifo"]);
    assert_eq!(before.messages, after.messages);
    assert_eq!(before.remembered, after.remembered);
    assert_eq!(before.settings, after.settings);
    assert_eq!((after.created_at_ms, after.last_sequence), (7, 3));
    remove(&path);
}

#[test]
fn deletions_purges_and_forgotten_ids_reach_the_file() {
    let path = scratch();
    let mut queues = filled();
    let mut store = Store::open(&path).unwrap();
    store.save(&mut queues).unwrap();

    let queue = queues.get("orders.fifo").unwrap();
    queue.delete("1:receipt", 3_000).unwrap();
    store.save(&mut queues).unwrap();
    let left: Vec<u64> = store.load().unwrap().by_name["orders.fifo"].messages.keys().copied().collect();
    assert_eq!(left, [2, 3]);

    let queue = queues.get("orders.fifo").unwrap();
    queue.purge(400_000).unwrap();
    queue.counts(400_000);
    queue.send(submission("d"), 400_000, "id-d".to_owned()).unwrap();
    store.save(&mut queues).unwrap();
    let mut loaded = store.load().unwrap();
    let queue = loaded.get("orders.fifo").unwrap();
    assert_eq!(queue.messages.keys().copied().collect::<Vec<_>>(), [4]);
    assert_eq!(queue.remembered.keys().collect::<Vec<_>>(), ["d"]);
    assert_eq!(queue.purged_at_ms, Some(400_000));
    remove(&path);
}

#[test]
fn another_programs_or_versions_file_is_refused() {
    let path = scratch();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::OtherSchema(0))));
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 9").unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::OtherSchema(9))));
    remove(&path);
}

#[test]
fn a_damaged_row_is_named() {
    let path = scratch();
    let mut store = Store::open(&path).unwrap();
    store.save(&mut filled()).unwrap();
    store.connection.execute("UPDATE messages SET attributes = 'x' WHERE message_id = 'id-b'", []).unwrap();
    let error = store.load().err().unwrap();
    assert!(error.to_string().contains("id-b"), "{error}");
    remove(&path);
}
