//! The control port: a second terminal kills, starts and steps instances down.
//!
//! Loopback only and without credentials, like the endpoints. `POST /kill/{name}`, `/start/{name}`, `/step-down/{name}`,
//! `/resume/{name}`; `GET /status`. An error is `{"error": "…"}` in a sentence that names the fix.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::WorldError;
use super::command::Commands;

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, commands: Arc<Commands>) -> std::io::Result<()> {
    let router = Router::new()
        .route("/status", get(status))
        .route("/kill/{name}", post(kill))
        .route("/start/{name}", post(start))
        .route("/step-down/{name}", post(step_down))
        .route("/resume/{name}", post(resume))
        .fallback(unknown)
        .with_state(commands);
    axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await
}

async fn unknown() -> Response {
    let known = "GET /status and POST /kill/NAME, /start/NAME, /step-down/NAME, /resume/NAME";
    (StatusCode::NOT_FOUND, Json(json!({ "error": format!("no such command; there are {known}") }))).into_response()
}

async fn status(State(commands): State<Arc<Commands>>) -> Response {
    answer(commands.status().await.map(|status| json!(status)))
}

async fn kill(State(commands): State<Arc<Commands>>, Path(name): Path<String>) -> Response {
    let kill = async move {
        commands.regions.kill(&name).await?;
        Ok(json!({ "instance": name, "done": "killed" }))
    };
    answer(to_its_end(kill).await)
}

async fn start(State(commands): State<Arc<Commands>>, Path(name): Path<String>) -> Response {
    let start = async move {
        commands.regions.start(&name).await?;
        Ok(json!({ "instance": name, "done": "started" }))
    };
    answer(to_its_end(start).await)
}

async fn step_down(State(commands): State<Arc<Commands>>, Path(name): Path<String>) -> Response {
    answer(to_its_end(async move { commands.step_down(&name).await }).await)
}

async fn resume(State(commands): State<Arc<Commands>>, Path(name): Path<String>) -> Response {
    answer(to_its_end(async move { commands.resume(&name).await }).await)
}

/// What `work` answers. It goes on to its end also when whoever asked has gone away: a server drops the handler of a connection
/// that broke, and an instance would stand half started for ever.
async fn to_its_end(
    work: impl Future<Output = Result<Value, WorldError>> + Send + 'static,
) -> Result<Value, WorldError> {
    let failed =
        |error: tokio::task::JoinError| WorldError::Internal { what: "the command", problem: error.to_string() };
    tokio::spawn(work).await.unwrap_or_else(|error| Err(failed(error)))
}

fn answer(outcome: Result<Value, WorldError>) -> Response {
    match outcome {
        Ok(value) => Json(value).into_response(),
        Err(error) => {
            let status = match error {
                WorldError::UnknownInstance { .. } => StatusCode::NOT_FOUND,
                WorldError::NotRunning { .. } | WorldError::AlreadyRunning { .. } => StatusCode::CONFLICT,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            (status, Json(json!({ "error": error.to_string() }))).into_response()
        }
    }
}

/// Asks the control port of a world on this machine, and gives the HTTP status and the JSON answer.
///
/// # Errors
/// Nobody listens on the port (`ConnectionRefused`), or what listens there does not answer as a world does (`InvalidData`).
pub async fn request(port: u16, method: &str, path: &str) -> std::io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await?;
    parse_reply(&reply).ok_or_else(|| {
        let problem = format!("what listens on port {port} is no control port of a local world");
        std::io::Error::new(std::io::ErrorKind::InvalidData, problem)
    })
}

/// The status and the JSON body of a reply that is not chunked: the server's replies all have a length.
fn parse_reply(reply: &[u8]) -> Option<(u16, Value)> {
    let text = std::str::from_utf8(reply).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.lines().next()?.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}
