//! The HTTP server for the real `gh`: plain HTTP on a unix socket, until SIGTERM.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::FakeGithubError;
use crate::fault::Delivery;
use crate::http_message::{self, Parse};
use crate::request::Request;
use crate::response::refusal;
use crate::store::Store;

/// Use of the connection for another request.
#[derive(PartialEq, Eq)]
enum Connection {
    KeepAlive,
    Close,
}

pub(crate) fn serve(store: Store, socket: &Path) -> Result<ExitCode, FakeGithubError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(FakeGithubError::system("start a runtime"))?
        .block_on(accept(store, socket))
}

async fn accept(store: Store, socket: &Path) -> Result<ExitCode, FakeGithubError> {
    let listener =
        UnixListener::bind(socket).map_err(FakeGithubError::file("listen on", socket))?;
    let mut terminate =
        signal(SignalKind::terminate()).map_err(FakeGithubError::system("listen for signals"))?;
    let store = Arc::new(store);
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    loop {
        let stream = tokio::select! {
            _ = terminate.recv() => break,
            accepted = listener.accept() => accepted.map_err(FakeGithubError::file("accept on", socket))?.0,
        };
        let (store, stop) = (Arc::clone(&store), stop.clone());
        tracker.spawn(async move {
            // An I/O error means that the client is gone; otherwise it sees the connection close.
            stop.run_until_cancelled(serve_connection(stream, &store))
                .await
                .transpose()
                .ok();
        });
    }
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    std::fs::remove_file(socket).map_err(FakeGithubError::file("remove", socket))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve_connection(mut stream: UnixStream, store: &Store) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        match http_message::parse(&bytes) {
            Parse::Incomplete => {
                if stream.read_buf(&mut bytes).await? == 0 {
                    return Ok(());
                }
            }
            Parse::Request(request, length) => {
                bytes.drain(..length);
                if respond(&mut stream, store, &request).await? == Connection::Close {
                    return Ok(());
                }
            }
            Parse::Invalid(reason) => {
                let response = refusal(400, reason).into_response();
                return stream.write_all(&http_message::complete(&response)).await;
            }
        }
    }
}

/// Handles a request, which may block this thread while git runs: requests are handled one at a time anyway.
async fn respond(
    stream: &mut UnixStream,
    store: &Store,
    request: &Request,
) -> io::Result<Connection> {
    let response = match store.handle(request) {
        Ok(Delivery::Whole(response)) => response,
        Ok(Delivery::Late(response, delay)) => {
            tokio::time::sleep(delay).await;
            response
        }
        Ok(Delivery::Cut(response)) => {
            stream
                .write_all(&http_message::truncated(&response))
                .await?;
            return Ok(Connection::Close);
        }
        // A server can neither refuse a connection that it has accepted nor end its client.
        Ok(Delivery::Dropped | Delivery::Refused | Delivery::Exit { .. } | Delivery::Killed) => {
            return Ok(Connection::Close);
        }
        Ok(Delivery::Never) => {
            // Wait until the client closes the connection.
            while stream.read_buf(&mut Vec::with_capacity(1024)).await? > 0 {}
            return Ok(Connection::Close);
        }
        Ok(Delivery::NoToken) => refusal(401, "Requires authentication").into_response(),
        Ok(Delivery::Unsupported(what)) => {
            refusal(501, format!("the fake GitHub does not support {what}")).into_response()
        }
        Err(error) => refusal(500, format!("the fake GitHub failed: {error}")).into_response(),
    };
    stream.write_all(&http_message::complete(&response)).await?;
    let is_last = request
        .header("Connection")
        .is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(if is_last {
        Connection::Close
    } else {
        Connection::KeepAlive
    })
}
