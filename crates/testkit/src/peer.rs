//! Finds the external programs that tests use.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;

/// The binary that the environment variable names, or the one of this name installed by
/// `tools/peers/install`.
pub fn installed(variable: &str, name: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    let found = named.or_else(|| Some(folder()?.join(name)));
    found.filter(|path| path.is_file())
}

/// The same for a folder: a library instead of a program.
pub fn installed_folder(variable: &str, name: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    let found = named.or_else(|| Some(folder()?.join(name)));
    found.filter(|path| path.is_dir())
}

fn folder() -> Option<PathBuf> {
    let peers = env::var_os("INSULA_PEERS_DIR").map(PathBuf::from);
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    peers.or_else(|| Some(cache.or_else(home)?.join("insula/peers")))
}

/// Reports that this test is skipped.
///
/// The test harness names each test's thread after the test. It captures what a passing test
/// prints, but not what is written directly to the stream.
pub fn skipped(why: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let text = format!("SKIPPED: {test}: {why}\n");
    // Without a stderr there is nowhere to report it.
    let _ = io::stderr().write_all(text.as_bytes());
}
