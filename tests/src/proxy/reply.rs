//! Errors in the form in which the two services give them.

use bytes::Bytes;
use hyper::{Response, StatusCode};
use serde_json::json;

const SQS_TARGET: &str = "AmazonSQS.";

/// HTTP 500.
pub(super) fn internal(target: &str) -> Response<Bytes> {
    if target.starts_with(SQS_TARGET) {
        let shape = "com.amazonaws.sqs#InternalFailure";
        error(StatusCode::INTERNAL_SERVER_ERROR, shape, Some("InternalFailure;Receiver"))
    } else {
        error(StatusCode::INTERNAL_SERVER_ERROR, "com.amazonaws.dynamodb.v20120810#InternalServerError", None)
    }
}

/// Too many requests.
pub(super) fn throttled(target: &str) -> Response<Bytes> {
    if target.starts_with(SQS_TARGET) {
        let shape = "com.amazonaws.sqs#RequestThrottled";
        error(StatusCode::BAD_REQUEST, shape, Some("RequestThrottled;Sender"))
    } else {
        let shape = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException";
        error(StatusCode::BAD_REQUEST, shape, None)
    }
}

/// No permission.
pub(super) fn denied(target: &str) -> Response<Bytes> {
    let shape = "com.amazon.coral.service#AccessDeniedException";
    if target.starts_with(SQS_TARGET) {
        error(StatusCode::FORBIDDEN, shape, Some("AccessDenied;Sender"))
    } else {
        error(StatusCode::BAD_REQUEST, shape, None)
    }
}

fn error(status: StatusCode, shape: &str, query_error: Option<&'static str>) -> Response<Bytes> {
    let body = json!({ "__type": shape, "message": "said by the proxy", "Message": "said by the proxy" });
    let mut reply = Response::new(Bytes::from(body.to_string()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert("content-type", hyper::header::HeaderValue::from_static("application/x-amz-json-1.0"));
    if let Some(query_error) = query_error {
        headers.insert("x-amzn-query-error", hyper::header::HeaderValue::from_static(query_error));
    }
    reply
}
