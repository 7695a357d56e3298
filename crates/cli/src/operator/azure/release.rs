//! `insula operator azure release`.

use insula_azure::upgrade::held_secrets;

use super::upgrade::failure;
use crate::client::{self, AGENT};
use crate::failure::Failure;
use crate::kubeconfig::Source;
use crate::operator::life;
use crate::output;
use crate::terminal;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Namespace of the Secrets (default: all)
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    source: Source,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    life::run(async {
        let client = client::connect(args.source.config(AGENT).await?)?;
        let released = held_secrets::release(&client, args.namespace.as_deref()).await;
        let released = released.map_err(failure)?;
        output::print(&terminal::sanitize(&format_released(&released)))
    })
}

fn format_released(released: &[String]) -> String {
    match released {
        [] => "no Secret is held\n".to_owned(),
        released => {
            let lines = released.iter().map(|name| format!("{name} released\n"));
            lines.collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secret_has_a_line() {
        let names = ["a/x", "b/y"].map(str::to_owned);
        assert_eq!(format_released(&names), "a/x released\nb/y released\n");
        assert_eq!(format_released(&[]), "no Secret is held\n");
    }
}
