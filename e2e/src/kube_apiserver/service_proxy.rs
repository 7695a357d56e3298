//! Connects a kube-apiserver to Services, which have no network: all of them lead to one address.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};

/// Starts the proxy on the current runtime, and returns the configuration that names it.
///
/// # Errors
///
/// If it cannot listen.
pub fn start(folder: &Path, target: SocketAddr) -> anyhow::Result<PathBuf> {
    let socket = folder.join("services.socket");
    let listener = UnixListener::bind(&socket)?;
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            // A connection that fails is the server's to report.
            tokio::spawn(async move { forward(connection, target).await.ok() });
        }
    });
    let connection = json!({
        "proxyProtocol": "HTTPConnect",
        "transport": {"uds": {"udsName": socket}},
    });
    let configuration = json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    });
    let file = folder.join("egress.yaml");
    std::fs::write(&file, configuration.to_string())?;
    Ok(file)
}

/// Answers a CONNECT request, whatever it names, and forwards both directions.
async fn forward(connection: UnixStream, target: SocketAddr) -> anyhow::Result<()> {
    let mut connection = BufReader::new(connection);
    let mut line = String::new();
    // The request ends with an empty line.
    while connection.read_line(&mut line).await? > 0 && line.trim_end() != "" {
        line.clear();
    }
    let mut target = TcpStream::connect(target).await?;
    connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut connection, &mut target).await?;
    Ok(())
}
