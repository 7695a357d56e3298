//! Who this process is among others like it.

use std::time::SystemTime;

/// The name of the pod or the machine, and what no two processes there have in common.
pub fn of_this_process() -> String {
    let pod = std::env::var("POD_NAME")
        .ok()
        .filter(|name| !name.is_empty());
    let machine = || {
        let name = nix::unistd::gethostname().ok()?;
        name.into_string().ok()
    };
    let place = pod
        .or_else(machine)
        .unwrap_or_else(|| "somewhere".to_owned());
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let began = began.unwrap_or_default().as_micros();
    format!("{place}_{}_{began:x}", std::process::id())
}
