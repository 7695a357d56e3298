//! Providers that are away, slow or wrong.

use std::sync::Arc;

use insula_encryption::{Error, KeySummary};
use insula_store::memory::Memory;
use insula_testkit::kms::FakeKms;

use crate::common::open;
use crate::{fill, folder_storage, kms_config};

#[tokio::test]
async fn refused_configuration_leaves_the_old_one_in_effect() {
    let mut kms = FakeKms::start().unwrap();
    kms.stop();
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = || folder_storage(folder.path());
    let store = open(inner, storage(), &["one"], "'*.*'").await;
    fill(&*store).await;
    let refused = store.reconfigure(&kms_config(&kms, &["one"])).await;
    assert!(
        matches!(refused, Err(Error::Provider { .. })),
        "{refused:?}"
    );
    store.rotate().await.unwrap();
    assert!(!store.stats().rotation_pending);
    let summary = KeySummary::read(storage()).await.unwrap();
    assert_eq!(summary.root_keys.len(), 1);
    assert_eq!(summary.root_keys[0].provider, "aesgcm:one");
}
