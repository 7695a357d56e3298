//! The scope of a provider's operator.

use insula_operator::provider::Settings;

/// The arguments that say where an operator works, and with the rights of which account.
#[derive(clap::Args)]
pub struct ScopeArgs {
    /// Work in the spaces of all tenants of an Insula server too
    #[arg(long)]
    pub tenants: bool,

    /// Namespaces to work in (default: all)
    #[arg(long, value_name = "NAME", value_delimiter = ',', alias = "namespace")]
    namespaces: Vec<String>,

    /// Value of the label cluster.x-k8s.io/watch-filter to work on
    #[arg(long, value_name = "VALUE")]
    watch_filter: Option<String>,

    /// Service account of each namespace to act as there, with its rights only (default: none; the
    /// operator acts as itself)
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,

    /// Number of objects to reconcile concurrently
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = at_least_one)]
    concurrency: usize,
}

impl ScopeArgs {
    /// Writes the arguments to the settings.
    pub fn apply(self, settings: &mut Settings) {
        settings.tenants = self.tenants;
        settings.namespaces = self.namespaces.into_iter().collect();
        settings.watch_filter = self.watch_filter;
        settings.service_account = self.service_account;
        settings.concurrency = self.concurrency;
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "must be a number of at least 1".to_owned())
}
