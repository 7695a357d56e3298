//! A proxy that can go silent, as a network does: no bytes pass any more, and no connection ends.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub struct Proxy {
    endpoint: String,
    silent: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to `endpoint`, which is `http://host:port`.
    pub async fn start(endpoint: &str) -> Self {
        let target = endpoint.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let silent = watch::Sender::new(false);
        let serve = serve(listener, target, silent.subscribe());
        Self {
            endpoint: format!("http://{address}"),
            silent,
            task: tokio::spawn(serve),
        }
    }

    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Stops forwarding bytes.
    pub fn go_silent(&self) {
        self.silent.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: String, silent: watch::Receiver<bool>) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(server) = TcpStream::connect(&target).await else {
            continue;
        };
        tokio::spawn(join(client, server, silent.clone()));
    }
}

/// Copies bytes both ways. A failed connection ends.
async fn join(client: TcpStream, server: TcpStream, silent: watch::Receiver<bool>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = copy(from_client, to_server, silent.clone());
    let down = copy(from_server, to_client, silent);
    let _ = tokio::join!(up, down);
}

async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut silent: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        // It stays silent until the test ends.
        while *silent.borrow_and_update() {
            silent.changed().await.map_err(io::Error::other)?;
        }
        to.write_all(&buffer[..length]).await?;
    }
}
