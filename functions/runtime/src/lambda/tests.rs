use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::clock::{ManualClock, SystemClock};

const START: Timestamp = Timestamp::from_ms(1_767_225_600_000);

fn reading(wall_ms: u64, monotonic_ms: u64) -> Reading {
    Reading { wall: START.plus(Duration::from_millis(wall_ms)), monotonic: Duration::from_millis(monotonic_ms) }
}

#[test]
fn a_limit_is_reached_by_whichever_clock_comes_first() {
    let limit = Limit::new(reading(0, 0), Duration::from_secs(10));
    assert_eq!(limit.stop_at(), START.plus(Duration::from_secs(10)));
    assert_eq!(limit.remaining(reading(4_000, 4_000)), Duration::from_secs(6));
    assert!(limit.fits(reading(4_000, 4_000), Duration::from_secs(6)));
    assert!(!limit.fits(reading(4_001, 4_001), Duration::from_secs(6)));
    assert!(limit.is_over(reading(10_000, 100)), "frozen: only the wall clock went on");
    assert!(limit.is_over(reading(0, 10_000)), "the wall clock was set back");
    assert!(!limit.fits(reading(10_000, 0), Duration::ZERO), "nothing fits when it is over");
}

/// Invokes a handler with a function time limit of 10s.
async fn invoke<F, Fut>(clock: Arc<ManualClock>, handler: F) -> Result<Value, FunctionError>
where
    F: Fn(Arc<u32>, Value, Invocation) -> Fut,
    Fut: Future<Output = Result<Value, FunctionError>>,
{
    let deadline = clock.now().wall.plus(Duration::from_secs(10));
    let edge = Edge { clock, init: || async { Ok(5) }, handler, shared: OnceCell::new() };
    edge.invoke(json!({"n": 2}), "r-1".to_owned(), "arn:f".to_owned(), deadline).await
}

#[tokio::test]
async fn a_handler_gets_its_input_what_init_built_and_a_limit_before_the_functions_own() {
    let clock = Arc::new(ManualClock::new(START));
    let answer = invoke(clock, |shared, input, invocation| async move {
        assert_eq!(invocation.request_id, "r-1");
        assert_eq!(invocation.function_arn, "arn:f");
        assert_eq!(invocation.limit.stop_at(), START.plus(Duration::from_secs(9)));
        Ok(json!(input["n"].as_u64().unwrap() * u64::from(*shared)))
    });
    assert_eq!(answer.await, Ok(json!(10)));
}

#[tokio::test]
async fn a_handler_that_does_not_end_is_dropped_before_the_functions_limit() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let clock = Arc::new(ManualClock::skipping(START));
    let dropped = Arc::new(AtomicBool::new(false));
    let guard = dropped.clone();
    let outcome = invoke(clock.clone(), move |_, _, _| {
        let guard = Dropped(guard.clone());
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    assert_eq!(outcome.await.unwrap_err().error_type, ErrorType::StoreTimedOut);
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(clock.now().wall, START.plus(Duration::from_millis(9_750)));
}

#[tokio::test]
async fn a_panic_becomes_an_error_type_and_its_words_stay_inside() {
    let clock = Arc::new(ManualClock::new(START));
    let in_future = invoke(clock.clone(), |_, _, _| async { panic!("a device's secret") }).await.unwrap_err();
    let in_call = invoke(clock, |_, input, _| {
        assert!(input.is_null(), "a device's secret");
        async { Ok(Value::Null) }
    });
    for error in [in_future, in_call.await.unwrap_err()] {
        assert_eq!(error.error_type, ErrorType::HandlerPanicked);
        assert!(!error.message.contains("secret"));
    }
}

#[tokio::test]
async fn a_failed_init_answers_with_its_own_error_and_is_tried_again() {
    let tries = AtomicU32::new(0);
    let edge = Edge {
        clock: Arc::new(ManualClock::new(START)),
        init: || async {
            match tries.fetch_add(1, Ordering::SeqCst) {
                0 => Err(FunctionError::new(ErrorType::SettingsInvalid, "FENCEPOST_LEASE: is missing")),
                n => Ok(n),
            }
        },
        handler: |shared: Arc<u32>, _, _| async move { Ok(json!(*shared)) },
        shared: OnceCell::new(),
    };
    let once = || edge.invoke(Value::Null, String::new(), String::new(), START.plus(Duration::from_secs(3)));
    assert_eq!(once().await.unwrap_err().error_type, ErrorType::SettingsInvalid);
    assert_eq!(once().await, Ok(json!(1)));
    assert_eq!(once().await, Ok(json!(1)), "built once");
}

const CHILD: &str = "FENCEPOST_TEST_SERVES";

/// Not a test of its own: the process that `the_platform_sees_answers_and_error_types` starts.
#[test]
#[ignore = "runs only as the child process of another test"]
fn serving_child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let handler = |_: Arc<()>, input: Value, invocation: Invocation| async move {
        match input["do"].as_str() {
            Some("panic") => panic!("on purpose"),
            Some("fail") => Err(FunctionError::new(ErrorType::StoreThrottled, "slow down")),
            _ => Ok(json!({"request_id": invocation.request_id})),
        }
    };
    start(serve(Arc::new(SystemClock::new()), || async { Ok(()) }, handler));
}

/// One HTTP request: its path and its body.
async fn read_request(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
    let path = head.split_whitespace().nth(1)?.to_owned();
    let length: Option<usize> = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let chunked = head.contains("transfer-encoding: chunked");
    let complete = |bytes: &[u8]| match length {
        Some(length) => bytes.len() >= head_end + length,
        None => !chunked || bytes.ends_with(b"0\r\n\r\n"),
    };
    while !complete(&bytes) {
        stream.read_buf(&mut bytes).await.ok()?;
    }
    let body = String::from_utf8_lossy(&bytes[head_end..]).into_owned();
    let json = body.find('{').zip(body.rfind('}')).map(|(from, to)| &body[from..=to]);
    Some((path, json.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)))
}

/// A stub of the platform's runtime API: hands out `inputs`, keeps what comes back, and hangs when it has no more.
async fn runtime_api(listener: TcpListener, inputs: Mutex<VecDeque<Value>>, answers: Arc<Mutex<Vec<(String, Value)>>>) {
    let inputs = Arc::new(inputs);
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (inputs, answers) = (inputs.clone(), answers.clone());
        tokio::spawn(async move {
            while let Some((path, body)) = read_request(&mut stream).await {
                let reply = if path.ends_with("/invocation/next") {
                    let next = inputs.lock().unwrap().pop_front();
                    let Some(input) = next else { return std::future::pending().await };
                    let id = format!("r-{}", inputs.lock().unwrap().len());
                    let deadline = SystemClock::new().now().wall.as_ms() + 30_000;
                    let body = input.to_string();
                    format!(
                        "HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: {id}\r\nLambda-Runtime-Deadline-Ms: {deadline}\r\n\
                         Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:x:1:function:f\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    )
                } else {
                    answers.lock().unwrap().push((path, body));
                    "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned()
                };
                if stream.write_all(reply.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

#[tokio::test]
async fn the_platform_sees_answers_and_error_types() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let inputs = [json!({"do": "answer"}), json!({"do": "fail"}), json!({"do": "panic"}), json!({"do": "answer"})];
    let answers = Arc::new(Mutex::new(Vec::new()));
    let api = tokio::spawn(runtime_api(listener, Mutex::new(inputs.into()), answers.clone()));
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lambda::tests::serving_child", "--ignored", "--nocapture"])
        .env(CHILD, "1")
        .env("AWS_LAMBDA_RUNTIME_API", address)
        .env("AWS_LAMBDA_FUNCTION_NAME", "f")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let all = async {
        while answers.lock().unwrap().len() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("the child answers four invocations");
    child.kill().await.unwrap();
    api.abort();

    let answers = answers.lock().unwrap().clone();
    let prefix = "/2018-06-01/runtime/invocation";
    assert_eq!(answers[0], (format!("{prefix}/r-3/response"), json!({"request_id": "r-3"})));
    assert_eq!(answers[1].0, format!("{prefix}/r-2/error"));
    assert_eq!(answers[1].1["errorType"], "StoreThrottled");
    assert_eq!(answers[1].1["errorMessage"], "slow down");
    assert_eq!(answers[2].1["errorType"], "HandlerPanicked");
    assert_eq!(answers[3].1["request_id"], "r-0", "a panic ends neither the process nor the next invocation");
}
