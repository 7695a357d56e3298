//! A fake KMS v2 plugin: a real unix socket, real gRPC, AES-GCM with named keys, and faults on
//! request.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use insula_kms::wire::EncryptResponse;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::service::Plugin;

mod service;

/// The key that a new plugin encrypts with.
pub const FIRST_KEY: &str = "key-1";

/// A plugin that listens on a socket until it is stopped or dropped. Its keys and settings
/// survive a restart.
#[derive(Debug)]
pub struct FakeKms {
    socket: PathBuf,
    plugin: Arc<Plugin>,
    running: Option<Running>,
    _folder: Option<TempDir>,
}

/// A call that the plugin has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `Status`, `Encrypt` or `Decrypt`.
    pub method: &'static str,
    /// The request's UID; empty for Status.
    pub uid: String,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl FakeKms {
    /// Starts a plugin on a socket in a folder of its own.
    ///
    /// # Errors
    ///
    /// If the socket cannot be created.
    pub fn start() -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        let mut plugin = Self::start_at(&folder.path().join("kms.sock"))?;
        plugin._folder = Some(folder);
        Ok(plugin)
    }

    /// Starts a plugin on this socket. A path that begins with NUL is an abstract socket.
    ///
    /// # Errors
    ///
    /// If the socket cannot be created.
    pub fn start_at(socket: &Path) -> anyhow::Result<Self> {
        let mut plugin = Self {
            socket: socket.to_owned(),
            plugin: Arc::new(Plugin::new(FIRST_KEY)?),
            running: None,
            _folder: None,
        };
        plugin.restart()?;
        Ok(plugin)
    }

    /// The endpoint for an EncryptionConfiguration.
    pub fn endpoint(&self) -> String {
        let path = self.socket.to_string_lossy();
        match path.strip_prefix('\0') {
            Some(name) => format!("unix:///@{name}"),
            None => format!("unix://{path}"),
        }
    }

    /// The socket's path.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Delays each answer from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.plugin.settings().delay = delay;
    }

    /// Sets the health that Status reports; `ok` is healthy.
    pub fn set_healthz(&self, healthz: &str) {
        healthz.clone_into(&mut self.plugin.settings().healthz);
    }

    /// Sets the version that Status reports.
    pub fn set_version(&self, version: &str) {
        version.clone_into(&mut self.plugin.settings().version);
    }

    /// Encrypts with another key from now on; a new name is a new key. Earlier keys still decrypt.
    ///
    /// # Errors
    ///
    /// If there is no randomness for a key.
    pub fn rotate(&self, key_id: &str) -> anyhow::Result<()> {
        self.plugin.settings().rotate(key_id)
    }

    /// Destroys a key: nothing that it encrypted can be decrypted any more.
    pub fn destroy_key(&self, key_id: &str) {
        self.plugin.settings().keys.remove(key_id);
    }

    /// Answers each Encrypt with this response from now on, whatever the request; `None` encrypts
    /// again.
    pub fn set_encrypt_response(&self, response: Option<EncryptResponse>) {
        self.plugin.settings().encrypt_response = response;
    }

    /// The calls until now, in their order.
    pub fn calls(&self) -> Vec<Call> {
        self.plugin.settings().calls.clone()
    }

    /// Closes the socket and all connections, and removes the socket's file.
    pub fn stop(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        // The thread may have ended with a panic, which its join reports.
        let _ = running.stop.send(());
        running.thread.join().expect("the plugin's thread ends");
        // An abstract socket has no file.
        let _ = std::fs::remove_file(&self.socket);
    }

    /// Starts again on the same socket with the same keys, after stopping if it runs.
    ///
    /// # Errors
    ///
    /// If the socket cannot be created.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.stop();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _runtime = runtime.enter();
            UnixListener::bind(&self.socket).context("cannot listen on the plugin's socket")?
        };
        let (stop, stopped) = oneshot::channel();
        let plugin = Arc::clone(&self.plugin);
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, plugin) => {}
                    _ = stopped => {}
                }
            });
        });
        self.running = Some(Running { stop, thread });
        Ok(())
    }
}

impl Drop for FakeKms {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Serves until it is dropped, and its connections with it.
async fn serve(listener: UnixListener, plugin: Arc<Plugin>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let plugin = Arc::clone(&plugin);
        connections.spawn(async move {
            let service =
                hyper::service::service_fn(move |request| Arc::clone(&plugin).answer(request));
            // A client that disconnects is no failure of the plugin.
            let _ = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
