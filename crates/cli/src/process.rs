//! The identity of this process.

/// Returns the name of the pod, or of the machine.
pub fn name() -> String {
    let pod = std::env::var("POD_NAME").ok();
    let machine = || {
        let name = nix::unistd::gethostname().ok()?;
        name.into_string().ok()
    };
    let named = pod.filter(|name| !name.is_empty()).or_else(machine);
    named.unwrap_or_else(|| "insula".to_owned())
}
