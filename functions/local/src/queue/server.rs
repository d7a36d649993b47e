//! The HTTP edge: the action from the header, faults, the wait of a long poll, and errors in the form SDKs decode.

use std::net::TcpListener;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use serde_json::{Value, json};

use super::QueueFault;
use super::protocol::answer;
use super::receive::Receive;
use super::refusal::{Refusal, RefusalKind};
use super::state::Shared;
use crate::endpoint::StopSignal;

/// A request of 1 MiB in which every byte is escaped, and room for names.
const REQUEST_BYTES_MAX: usize = 16 * 1_048_576;
/// How often a long poll looks, beside the changes it is told of: a message can become visible by time alone.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// What the action's name is prefixed with in the header.
const TARGET_PREFIX: &str = "AmazonSQS.";

/// Serves until told to stop. Open connections are cut then.
pub(crate) async fn serve(listener: TcpListener, shared: Shared, stop: StopSignal) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the SQS endpoint lost its listener"),
    };
    let router = Router::new().fallback(handle).layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX)).with_state(shared);
    tokio::select! {
        ended = axum::serve(listener, router) => {
            if let Err(error) = ended {
                tracing::error!(%error, "the SQS endpoint ended");
            }
        }
        () = stop.stopped() => {}
    }
}

async fn handle(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let fault = shared.fault();
    let outcome = match fault {
        QueueFault::Unavailable => {
            Err(Refusal::new(RefusalKind::Internal, "The queue is unavailable (injected fault)."))
        }
        QueueFault::Throttle => Err(Refusal::new(RefusalKind::Throttled, "Slow down (injected fault).")),
        QueueFault::None | QueueFault::BlackHole => dispatch(&shared, &headers, &body).await,
    };
    if fault == QueueFault::BlackHole {
        // The connection stays open and silent until the client gives up or the server stops.
        std::future::pending::<()>().await;
    }
    match outcome {
        Ok(value) => response(StatusCode::OK, &value, None),
        Err(refusal) => refused(&refusal),
    }
}

async fn dispatch(shared: &Shared, headers: &HeaderMap, body: &[u8]) -> Result<Value, Refusal> {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let Some(action) = target.strip_prefix(TARGET_PREFIX) else {
        let message = "No action: this endpoint speaks AWS JSON 1.0, with the header X-Amz-Target: AmazonSQS.<Action>. \
                       A client that sends something else is too old for it.";
        return Err(Refusal::new(RefusalKind::InvalidAction, message));
    };
    if action == "ReceiveMessage" {
        let (receive, wait_s) = Receive::parse(shared, body)?;
        return receive_until(shared, &receive, Duration::from_secs(wait_s)).await;
    }
    answer(shared, action, body)
}

/// Receives; with a wait, until something is there or the wait is over.
async fn receive_until(shared: &Shared, receive: &Receive, wait: Duration) -> Result<Value, Refusal> {
    let nothing = || json!({});
    if wait.is_zero() {
        return Ok(receive.attempt(shared)?.unwrap_or_else(nothing));
    }
    // A receive never suspends between taking messages and returning them, so the time-out cannot swallow any.
    let waiting = async {
        loop {
            let changed = shared.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(received) = receive.attempt(shared)? {
                return Ok(received);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    };
    tokio::time::timeout(wait, waiting).await.unwrap_or_else(|_| Ok(nothing()))
}

fn refused(refusal: &Refusal) -> Response<Body> {
    let ours = refusal.kind.is_our_fault();
    let status = if ours { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::BAD_REQUEST };
    let query_error = format!("{};{}", refusal.kind.code(), if ours { "Receiver" } else { "Sender" });
    let body = json!({ "__type": refusal.kind.shape(), "message": refusal.message });
    response(status, &body, Some(&query_error))
}

fn response(status: StatusCode, value: &Value, query_error: Option<&str>) -> Response<Body> {
    let mut builder = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/x-amz-json-1.0")
        .header("x-amzn-requestid", uuid::Uuid::new_v4().to_string());
    if let Some(query_error) = query_error {
        builder = builder.header("x-amzn-query-error", query_error);
    }
    builder.body(Body::from(value.to_string())).unwrap_or_else(|error| {
        tracing::error!(%error, "an answer could not be built");
        let mut fallback = Response::new(Body::empty());
        *fallback.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        fallback
    })
}
