//! The embedded engine keeps the laws.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::sync::Arc;

use insula_store::Store;
use insula_store::embedded::{Embedded, Options};
use tempfile::TempDir;

async fn open(options: Options) -> Option<(Arc<dyn Store>, TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), options).await;
    Some((Arc::new(store.unwrap()), folder))
}

mod as_it_comes {
    use super::*;

    async fn fresh() -> Option<(Arc<dyn Store>, TempDir)> {
        open(Options::default()).await
    }

    insula_store::store_laws!(fresh);
}

/// With so little memory that tables are written and merged, and log segments filled and
/// removed, in the middle of every law.
mod in_little_room {
    use super::*;

    async fn fresh() -> Option<(Arc<dyn Store>, TempDir)> {
        let options = Options {
            segment_bytes: 0,
            memory_bytes: 4 << 10,
            cache_bytes: 64 << 10,
        };
        open(options).await
    }

    insula_store::store_laws!(fresh);
}
