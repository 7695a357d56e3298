//! Floods of connections without an authenticated request.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use rustls::pki_types::ServerName;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Duration;
use tokio_rustls::TlsConnector;

use super::Run;

/// The address of the flood: another than that of the quiet tenant.
const FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HANDSHAKES: usize = 64;
const SILENT: usize = 2_000;
const PAUSE: Duration = Duration::from_millis(10);

/// Completes handshakes and closes their connections.
pub async fn handshakes(run: &Run) -> Result<()> {
    run.workers(HANDSHAKES, |_, run| async move {
        let connector = TlsConnector::from(run.kubeconfig.tls.clone());
        while !run.is_over() {
            let Ok(stream) = dial(run.kubeconfig.address).await else {
                run.counts.refused();
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let name = ServerName::from(run.kubeconfig.address.ip());
            match connector.connect(name, stream).await {
                Ok(_) => run.counts.answered(),
                Err(_) => run.counts.cut_off(),
            }
        }
        Ok(())
    })
    .await
}

/// Opens connections, sends nothing, and opens another whenever the server closes one.
pub async fn silent(run: &Run) -> Result<()> {
    run.workers(SILENT, |_, run| async move {
        while !run.is_over() {
            let Ok(mut stream) = dial(run.kubeconfig.address).await else {
                run.counts.refused();
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            run.counts.answered();
            let closed = stream.read(&mut [0; 64]).await;
            if closed.is_ok_and(|read| read == 0) {
                run.counts.cut_off();
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    })
    .await
}

async fn dial(address: SocketAddr) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((FROM, 0)))?;
    Ok(socket.connect(address).await?)
}
