//! Where the programs are that tests talk to.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;

/// The binary that the environment variable names, or the one of this name that
/// `tools/peers/install` made.
pub fn installed(variable: &str, name: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    let found = named.or_else(|| Some(folder()?.join(name)));
    found.filter(|path| path.is_file())
}

/// The same for what is a folder: a library, not a program.
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

/// Says that this test is skipped.
///
/// The test harness names each test's thread after the test. It swallows what a passing
/// test prints, but not what is written to the stream itself.
pub fn skipped(why: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let text = format!("SKIPPED: {test}: {why}\n");
    // Without a stderr there is nobody to tell.
    let _ = io::stderr().write_all(text.as_bytes());
}
