//! The front for the real `gh`: plain HTTP over a unix socket, until SIGTERM.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ForgeError;
use super::answer::refusal;
use super::fault::Sent;
use super::request::Request;
use super::store::Store;
use super::wire::{self, Read};

/// Whether the connection can carry another request.
#[derive(PartialEq, Eq)]
enum Then {
    Next,
    Close,
}

pub(super) async fn serve(store: Store, socket: &Path) -> Result<ExitCode, ForgeError> {
    let listener = UnixListener::bind(socket).map_err(ForgeError::file("listen on", socket))?;
    let mut end =
        signal(SignalKind::terminate()).map_err(ForgeError::system("listen for signals"))?;
    let store = Arc::new(Mutex::new(store));
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    loop {
        let stream = tokio::select! {
            _ = end.recv() => break,
            accepted = listener.accept() => accepted.map_err(ForgeError::file("accept on", socket))?.0,
        };
        let (store, stop) = (Arc::clone(&store), stop.clone());
        tracker.spawn(async move {
            // A client that is gone has no use for an error, and one that stays sees the connection break.
            stop.run_until_cancelled(attend(stream, &store))
                .await
                .transpose()
                .ok();
        });
    }
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    std::fs::remove_file(socket).map_err(ForgeError::file("remove", socket))?;
    Ok(ExitCode::SUCCESS)
}

async fn attend(mut stream: UnixStream, store: &Mutex<Store>) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        match wire::read(&bytes) {
            Read::More => {
                if stream.read_buf(&mut bytes).await? == 0 {
                    return Ok(());
                }
            }
            Read::Request(request, taken) => {
                bytes.drain(..taken);
                if answer(&mut stream, store, &request).await? == Then::Close {
                    return Ok(());
                }
            }
            Read::Bad(what) => {
                return stream
                    .write_all(&wire::whole(&refusal(400, what).answer()))
                    .await;
            }
        }
    }
}

async fn answer(
    stream: &mut UnixStream,
    store: &Mutex<Store>,
    request: &Request,
) -> io::Result<Then> {
    let sent = store.lock().await.answer(request).await;
    let answer = match sent {
        Ok(Sent::Whole(answer)) => answer,
        Ok(Sent::Late(answer, after)) => {
            tokio::time::sleep(after).await;
            answer
        }
        Ok(Sent::Cut(answer)) => {
            stream.write_all(&wire::cut(&answer)).await?;
            return Ok(Then::Close);
        }
        // A server can't refuse a connection that it has taken, and can't end its client: what is left is to go away.
        Ok(Sent::Dropped | Sent::Refused | Sent::Exit { .. } | Sent::Killed) => {
            return Ok(Then::Close);
        }
        Ok(Sent::Never) => {
            // Until the client goes.
            while stream.read_buf(&mut Vec::with_capacity(1024)).await? > 0 {}
            return Ok(Then::Close);
        }
        Ok(Sent::NoToken) => refusal(401, "Requires authentication").answer(),
        Ok(Sent::Unknown(what)) => {
            refusal(501, format!("the stand-in for GitHub does not know {what}")).answer()
        }
        Err(error) => refusal(500, format!("the stand-in for GitHub failed: {error}")).answer(),
    };
    stream.write_all(&wire::whole(&answer)).await?;
    let is_last = request
        .header("Connection")
        .is_some_and(|how| how.eq_ignore_ascii_case("close"));
    Ok(if is_last { Then::Close } else { Then::Next })
}
