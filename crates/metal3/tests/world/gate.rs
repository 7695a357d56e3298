//! A gate in front of a server.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A listener that accepts connections and says nothing until it is opened. It forwards them to a
/// server then. Dropping it closes all of them.
pub struct Gate {
    address: SocketAddr,
    is_open: watch::Sender<bool>,
    connections: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Gate {
    /// Starts a closed one in front of a server.
    pub async fn closed(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let is_open = watch::Sender::new(false);
        let (count, connections) = watch::channel(0);
        let opened = is_open.subscribe();
        let task = tokio::spawn(async move {
            let mut forwarded = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                let mut opened = opened.clone();
                forwarded.spawn(async move {
                    opened.wait_for(|is_open| *is_open).await.ok();
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        copy_bidirectional(&mut client, &mut server).await.ok();
                    }
                });
            }
        });
        Ok(Self {
            address,
            is_open,
            connections,
            task,
        })
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the address as errors name it.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Forwards all connections from now on.
    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// Returns how many connections were accepted.
    pub fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    /// Waits until a connection was accepted.
    pub async fn wait_for_connection(&self) -> anyhow::Result<()> {
        let mut connections = self.connections.clone();
        let accepted = connections.wait_for(|count| *count > 0);
        tokio::time::timeout(super::DEADLINE, accepted).await??;
        Ok(())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}
