use super::*;

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn a_busy_port_names_address_and_option() {
    let (_held, addr) = listen(loopback(0), "--sqs-port").unwrap();
    let error = listen(addr, "--sqs-port").unwrap_err();
    assert!(matches!(error, StartError::PortBusy { .. }));
    let text = error.to_string();
    assert!(text.contains(&addr.to_string()) && text.contains("--sqs-port"), "{text}");
}

#[test]
fn only_loopback_is_listened_on() {
    let error = listen(SocketAddr::from(([0, 0, 0, 0], 0)), "--mqtt-port").unwrap_err();
    assert!(matches!(error, StartError::NotLoopback { .. }), "{error}");
}

#[test]
fn a_directory_that_cannot_be_made_names_the_path_and_the_option() {
    let file = std::env::temp_dir().join(format!("fencepost-plain-file-{}", uuid::Uuid::new_v4()));
    std::fs::write(&file, b"not a directory").unwrap();
    let error = DataFile::claim(&file.join("data").join("tables.sqlite")).unwrap_err();
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(error, StartError::DataUnwritable { .. }));
    let text = error.to_string();
    assert!(text.contains(file.to_str().unwrap()) && text.contains("--data DIR"), "{text}");
}

#[test]
fn a_data_file_keeps_its_content_and_has_one_user() {
    let directory = std::env::temp_dir().join(format!("fencepost-prepare-{}", uuid::Uuid::new_v4()));
    let file = directory.join("queue.sqlite");
    drop(DataFile::claim(&file).unwrap());
    std::fs::write(&file, b"kept").unwrap();
    let held = DataFile::claim(&file).unwrap();
    assert!(matches!(DataFile::claim(&file), Err(StartError::DataInUse { .. })));
    drop(held);
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[tokio::test]
async fn stop_waits_for_the_server_to_end() {
    let (ended, has_ended) = std::sync::mpsc::channel();
    let thread = EndpointThread::spawn("test endpoint", move |stop| async move {
        stop.stopped().await;
        ended.send(()).unwrap();
    })
    .unwrap();
    thread.stop().await;
    assert!(has_ended.try_recv().is_ok());
}
