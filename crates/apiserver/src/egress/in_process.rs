//! Services that are served by handlers in this process.
//!
//! An operator that runs inside the server has no address that a Service could lead to. Its
//! webhooks are called directly instead, without network and TLS. Only webhooks of the system
//! space are: a tenant that names the same Service in a configuration of its own means a Service
//! of its own space, and gets no further than that.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use insula_core::Space;

use super::connection::Reply;

/// A handler of webhook requests. Requests about one object have its [`Space`] as an extension.
pub type InProcessHandler =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync>;

/// The Services of the system space that are served by handlers in this process.
#[derive(Clone, Default)]
pub struct InProcessServices {
    /// By namespace and name.
    handlers: BTreeMap<(String, String), InProcessHandler>,
}

impl InProcessServices {
    /// Registers the handler of a Service, for all of its ports. The Service need not exist as
    /// an object, and its endpoints are not used.
    pub fn register(&mut self, namespace: &str, name: &str, handler: InProcessHandler) {
        let service = (namespace.to_owned(), name.to_owned());
        self.handlers.insert(service, handler);
    }

    /// Returns the handler of a Service for webhooks that `space` configured.
    pub(super) fn find(
        &self,
        space: &Space,
        namespace: &str,
        name: &str,
    ) -> Option<&InProcessHandler> {
        match space {
            Space::System => {
                let service = (namespace.to_owned(), name.to_owned());
                self.handlers.get(&service)
            }
            Space::Tenant(_) => None,
        }
    }
}

impl fmt::Debug for InProcessServices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.handlers.keys()).finish()
    }
}

/// Calls a handler. A panic fails this call only. The error is a message.
pub(super) async fn call(
    handler: &InProcessHandler,
    request: Request<Bytes>,
    max_bytes: usize,
) -> Result<Reply, String> {
    let response = AssertUnwindSafe(async { handler(request).await }).catch_unwind();
    let response = response.await.map_err(|_| "handler panicked".to_owned())?;
    let (head, body) = response.into_parts();
    if body.len() > max_bytes {
        return Err(format!("the answer is longer than {max_bytes} bytes"));
    }
    let content_type = head.headers.get(CONTENT_TYPE);
    Ok(Reply {
        code: head.status.as_u16(),
        content_type: content_type.map(|of| String::from_utf8_lossy(of.as_bytes()).into_owned()),
        body,
    })
}
