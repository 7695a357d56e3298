//! The laws on the model.

use std::sync::Arc;

use insula_store::Store;
use insula_store::memory::Memory;

async fn fresh() -> Option<(Arc<dyn Store>, ())> {
    Some((Arc::new(Memory::new()), ()))
}

insula_store::store_laws!(fresh);
