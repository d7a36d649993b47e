//! For tests: a small HTTP server on a loopback port that answers by a script, or stands between the SDK and a real
//! service and spoils some of the traffic. The SDK's whole stack is in the loop.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) mod world;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The last part of the `x-amz-target` header, for example `UpdateItem`; otherwise the method and path.
    pub(crate) operation: String,
    /// The whole head and body.
    raw: Vec<u8>,
    body_at: usize,
}

impl Request {
    /// The request line and the headers.
    pub(crate) fn head(&self) -> String {
        String::from_utf8_lossy(&self.raw[..self.body_at]).into_owned()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.raw[self.body_at..]).unwrap_or(serde_json::Value::Null)
    }
}

/// What to do with a request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Answer at once.
    Reply(u16, String),
    /// Never answer.
    Hang,
    /// Close the connection without an answer.
    Disconnect,
    /// Pass it on, and its reply back.
    Forward,
    /// Pass it on, and close the connection instead of the reply.
    ForwardThenDisconnect,
    /// Pass it on, and answer this instead of the reply.
    ForwardThenReply(u16, String),
    /// Pass it on, and never answer.
    ForwardThenHang,
    /// Pass it on, and change the body of the reply.
    ForwardThenEdit(fn(&mut serde_json::Value)),
}

/// An error reply as the JSON services of AWS give it.
pub(crate) fn error_reply(status: u16, code: &str) -> Act {
    Act::Reply(status, format!(r#"{{"__type":"com.amazonaws.test#{code}","message":"said by the stub"}}"#))
}

type Script = dyn Fn(usize, &Request) -> Act + Send + Sync;

/// The server. It ends with the value.
pub(crate) struct Loopback {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Loopback {
    /// Answers each request as `script` says; it is given the request's number, from 0.
    pub(crate) async fn start(
        upstream: Option<SocketAddr>,
        script: impl Fn(usize, &Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free loopback port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let task = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                while let Ok((connection, _)) = listener.accept().await {
                    tokio::spawn(serve(connection, upstream, Arc::clone(&script), Arc::clone(&seen)));
                }
            }
        });
        Self { url, seen, task }
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.lock().expect("not poisoned").clone()
    }

    /// How many requests of this operation so far.
    pub(crate) fn count(&self, operation: &str) -> usize {
        self.requests().iter().filter(|request| request.operation == operation).count()
    }
}

async fn serve(
    mut connection: TcpStream,
    upstream: Option<SocketAddr>,
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<Request>>>,
) {
    while let Some(request) = read_request(&mut connection).await {
        let number = {
            let mut seen = seen.lock().expect("not poisoned");
            seen.push(request.clone());
            seen.len() - 1
        };
        let forward = || async {
            let upstream = upstream.expect("a script that forwards has an upstream");
            let mut onward = TcpStream::connect(upstream).await.expect("the upstream listens");
            onward.write_all(&request.raw).await.expect("the upstream reads");
            read_message(&mut onward).await.expect("the upstream answers")
        };
        let reply = match script(number, &request) {
            Act::Reply(status, body) => reply(status, body.as_bytes()),
            Act::Hang => std::future::pending().await,
            Act::Disconnect => return,
            Act::Forward => forward().await.0,
            Act::ForwardThenDisconnect => {
                forward().await;
                return;
            }
            Act::ForwardThenReply(status, body) => {
                forward().await;
                reply(status, body.as_bytes())
            }
            Act::ForwardThenHang => {
                forward().await;
                std::future::pending().await
            }
            Act::ForwardThenEdit(edit) => {
                let (message, body_at) = forward().await;
                let mut body = serde_json::from_slice(&message[body_at..]).expect("the reply is JSON");
                edit(&mut body);
                reply(200, body.to_string().as_bytes())
            }
        };
        if connection.write_all(&reply).await.is_err() {
            return;
        }
    }
}

fn reply(status: u16, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} Stub\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

async fn read_request(connection: &mut TcpStream) -> Option<Request> {
    let (raw, body_at) = read_message(connection).await?;
    let head = String::from_utf8_lossy(&raw[..body_at]).into_owned();
    let target = header(&head, "x-amz-target").and_then(|target| target.rsplit('.').next().map(str::to_owned));
    let operation = target.unwrap_or_else(|| {
        let mut words = head.split_whitespace();
        format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default())
    });
    Some(Request { operation, raw, body_at })
}

/// One message with a stated length, and where its body begins.
async fn read_message(connection: &mut TcpStream) -> Option<(Vec<u8>, usize)> {
    let mut raw = Vec::new();
    let mut buffer = [0_u8; 16 * 1024];
    loop {
        let end = raw.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        if let Some(body_at) = end {
            let head = String::from_utf8_lossy(&raw[..body_at]).into_owned();
            let length: usize = header(&head, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            if raw.len() >= body_at + length {
                return Some((raw, body_at));
            }
        }
        match connection.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => raw.extend_from_slice(&buffer[..read]),
        }
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}
