use fencepost_protocol::failure::FailureKind;

use super::*;
use crate::loopback::{Act, Loopback};

#[tokio::test]
async fn the_body_arrives_by_put_with_an_empty_content_type() {
    let server = Loopback::start(None, |_, _| Act::Reply(200, String::new())).await;
    let url = format!("{}/bucket/key%7Cpart?Signature=a%2Bb%3D&Expires=1", server.url);
    Callback::new().unwrap().put(&url, br#"{"Status":"SUCCESS"}"#.to_vec()).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let head = requests[0].head();
    assert!(head.starts_with("PUT /bucket/key%7Cpart?Signature=a%2Bb%3D&Expires=1 HTTP/1.1\r\n"), "{head}");
    let has = |line: &str| head.lines().any(|found| found.trim_end().eq_ignore_ascii_case(line));
    assert!(has("content-type:"), "{head}");
    assert!(has("content-length: 20"), "S3 refuses chunks here: {head}");
    assert_eq!(requests[0].json()["Status"], "SUCCESS");
}

#[tokio::test]
async fn each_failure_has_its_kind_and_none_quotes_the_address() {
    let cases = [
        (Act::Reply(403, String::new()), FailureKind::Denied),
        (Act::Reply(404, String::new()), FailureKind::Invalid),
        (Act::Reply(429, String::new()), FailureKind::Throttled),
        (Act::Reply(503, String::new()), FailureKind::Unavailable),
        (Act::Disconnect, FailureKind::Unavailable),
    ];
    for (act, kind) in cases {
        let told = act.clone();
        let server = Loopback::start(None, move |_, _| told.clone()).await;
        let url = format!("{}/?Signature=secret", server.url);
        let error = Callback::new().unwrap().put(&url, Vec::new()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{act:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_word_that_is_no_address_is_refused_and_not_quoted() {
    for url in ["", "no url secret", "mailto:secret", "/secret"] {
        let error = Callback::new().unwrap().put(url, Vec::new()).await.unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(matches!(error.kind, FailureKind::Invalid | FailureKind::Unavailable), "{url:?}: {error}");
    }
}
