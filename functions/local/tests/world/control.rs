//! The control port, as a second terminal uses it.

use std::net::Ipv4Addr;

use fencepost_local::world::Status;
use fencepost_local::world::control::request;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::{leader, options_of_one_leader, other, start, until};

#[tokio::test]
async fn a_second_terminal_kills_starts_and_asks() {
    let (world, _) = start(options_of_one_leader()).await;
    let first = leader(&world).await;
    let port = world.control_addr().port();

    let (status, body) = request(port, "POST", "/kill/north").await.unwrap();
    assert_eq!(status, 404);
    let error = body["error"].as_str().unwrap();
    assert!(error.contains("north") && error.contains("east, west"), "{error}");

    let standby = other(&first);
    let (status, body) = request(port, "POST", &format!("/kill/{standby}")).await.unwrap();
    assert_eq!((status, &body["done"]), (200, &"killed".into()));
    let (status, body) = request(port, "POST", &format!("/kill/{standby}")).await.unwrap();
    assert_eq!(status, 409);
    assert!(body["error"].as_str().unwrap().contains(&format!("fencepost local start {standby}")), "{body}");

    let (status, body) = request(port, "GET", "/status").await.unwrap();
    assert_eq!(status, 200);
    let seen: Status = serde_json::from_value(body).unwrap();
    assert_eq!(seen.lease.unwrap().owner.unwrap().name.as_str(), first);
    let alive: Vec<bool> = seen.instances.iter().map(|instance| instance.alive).collect();
    assert_eq!(alive.iter().filter(|alive| **alive).count(), 1);

    let (status, _) = request(port, "POST", &format!("/start/{standby}")).await.unwrap();
    assert_eq!(status, 200);
    let (status, body) = request(port, "POST", &format!("/step-down/{standby}")).await.unwrap();
    assert_eq!((status, &body["released"]), (200, &false.into()), "it does not hold the lease: {body}");
    let (status, body) = request(port, "POST", &format!("/resume/{first}")).await.unwrap();
    assert_eq!((status, &body["state"]), (200, &"nothing_to_resume".into()), "{body}");
    let (status, _) = request(port, "GET", "/elsewhere").await.unwrap();
    assert_eq!(status, 404);
    world.stop().await;
    assert!(request(port, "GET", "/status").await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_start_goes_on_when_whoever_asked_goes_away() {
    let (world, _) = start(options_of_one_leader()).await;
    leader(&world).await;
    world.kill("west").await.unwrap();
    let port = world.control_addr().port();
    let mut asking = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    asking.write_all(b"POST /start/west HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    tokio::task::yield_now().await;
    drop(asking);
    until("west lives", async || {
        let seen = world.status().await.unwrap();
        seen.instances.iter().any(|instance| instance.name.as_str() == "west" && instance.alive)
    })
    .await;
    world.kill("west").await.unwrap();
    world.stop().await;
}
