//! Where the etcd binary is.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;

/// As pinned in `tools/peers/go.mod`.
const NAME: &str = "etcd-3.6.16";

/// The binary that `INSULA_ETCD` names, or the one that `tools/peers/install` made. If
/// there is none, says that this test is skipped.
pub(super) fn find() -> Option<PathBuf> {
    let named = env::var_os("INSULA_ETCD").map(PathBuf::from);
    let found = named.or_else(installed).filter(|path| path.is_file());
    if found.is_none() {
        skipped();
    }
    found
}

fn installed() -> Option<PathBuf> {
    let peers = env::var_os("INSULA_PEERS_DIR").map(PathBuf::from);
    Some(peers.or_else(default_folder)?.join(NAME))
}

fn default_folder() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    Some(cache.or_else(home)?.join("insula/peers"))
}

/// The test harness names each test's thread after the test. It swallows what a passing
/// test prints, but not what is written to the stream itself.
fn skipped() {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let text = format!("SKIPPED: {test}: etcd is not installed (run tools/peers/install)\n");
    // Without a stderr there is nobody to tell.
    let _ = io::stderr().write_all(text.as_bytes());
}
