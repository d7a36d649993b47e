//! The control port, as a second terminal uses it.

use fencepost_local::world::Status;
use fencepost_local::world::control::request;

use crate::harness::{leader, options, other, start};

#[tokio::test]
async fn a_second_terminal_kills_starts_and_asks() {
    let (world, _) = start(options()).await;
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
