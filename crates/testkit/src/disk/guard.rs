//! Unmounts the disk if the process dies without doing so.
//!
//! A process that is killed while one of its threads waits for its own disk never ends: the
//! kernel waits for an answer that can no longer come, and keeps the mount. Only another process
//! can abort that.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits until process `$1` is gone, dead, or has been killed (bit 8 of its pending signals) and
/// cannot leave the kernel; then unmounts `$2` by force.
const WATCH: &str = r#"
while kill -0 "$1" && ! grep -qE '^State:.[ZX]|^SigPnd:.*[13579bdf]..$' "/proc/$1/status"
do sleep 1; done
umount -f -l -c "$2"
rmdir "$2"
"#;

pub(super) struct Guard(Option<Child>);

impl Guard {
    /// Without a shell there is no guard, which is harmless otherwise.
    pub(super) fn over(mount: &Path) -> Guard {
        let mut watch = Command::new("sh");
        watch.args(["-c", WATCH, "insula-disk-guard"]);
        watch.arg(std::process::id().to_string()).arg(mount);
        watch.stdin(Stdio::null());
        watch.stdout(Stdio::null()).stderr(Stdio::null());
        // An interrupt at the terminal is for the test, not for its guard.
        Guard(watch.process_group(0).spawn().ok())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut watch) = self.0.take() {
            // It can only have ended by itself already.
            let _ = watch.kill();
            let _ = watch.wait();
        }
    }
}
