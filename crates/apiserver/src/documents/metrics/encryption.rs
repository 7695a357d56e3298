//! Metrics of encryption at rest.

use std::fmt::Write;

use insula_encryption::Stats;

/// Appends the metrics.
pub fn write(text: &mut String, stats: &Stats) {
    let gauge = "gauge";
    let counter = "counter";
    for (name, kind, help, value) in [
        (
            "sealed_transactions_total",
            counter,
            "Committed or attempted writes with sealed values.",
            stats.sealed_transactions,
        ),
        (
            "destroyed_data_keys_total",
            counter,
            "Data keys destroyed with their tenants.",
            stats.destroyed_keys,
        ),
        (
            "undestroyed_data_keys",
            gauge,
            "Data keys of deleted tenants that could not be destroyed yet.",
            stats.undestroyed_keys,
        ),
        (
            "rotations_total",
            counter,
            "Changes of the root key.",
            stats.rotations,
        ),
        (
            "rotation_pending",
            gauge,
            "1 while keys other than the first provider's are in use.",
            u64::from(stats.rotation_pending),
        ),
        (
            "rewritten_values_total",
            counter,
            "Values rewritten after changes of the configuration.",
            stats.rewritten_values,
        ),
        (
            "rewrite_pending",
            gauge,
            "1 while values are stored otherwise than the configuration says.",
            u64::from(stats.rewrite_pending),
        ),
        (
            "config_reloads_total",
            counter,
            "Changed configuration files put into use.",
            stats.reloads,
        ),
        (
            "config_reload_failures_total",
            counter,
            "Changed configuration files refused.",
            stats.failed_reloads,
        ),
    ] {
        let name = format!("insula_encryption_{name}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
        writeln!(text, "{name} {value}").ok();
    }
}
