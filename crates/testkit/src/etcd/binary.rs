//! Finds the etcd binary.

use std::path::PathBuf;

use crate::peer;

/// The version pinned in `tools/peers/go.mod`.
const NAME: &str = "etcd-3.6.16";

/// The binary that `INSULA_ETCD` names, or the one installed by `tools/peers/install`. If there is
/// none, reports that the test is skipped.
pub(super) fn find() -> Option<PathBuf> {
    let found = peer::installed("INSULA_ETCD", NAME);
    if found.is_none() {
        peer::skipped("etcd is not installed (run tools/peers/install)");
    }
    found
}
