//! `insula tenant list`.

use serde_json::{Value, json};

use super::show::{self, Format};
use super::{Server, TENANTS};
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// The page size, as in kubectl.
const PAGE_SIZE: usize = 500;

/// Lists all tenants.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let tenants = all(server).await?;
    output::print(&show::many(tenants, args.output)?)
}

async fn all(server: &Server) -> Result<Vec<Value>, Failure> {
    let mut tenants = Vec::new();
    let mut path = format!("{TENANTS}?limit={PAGE_SIZE}");
    loop {
        let page = server.client.get(&path).await;
        let mut page = page.map_err(|error| error.to_failure("cannot list tenants"))?;
        if let Value::Array(items) = page["items"].take() {
            tenants.extend(items.into_iter().map(with_type));
        }
        match page["metadata"]["continue"].as_str() {
            Some(after) if !after.is_empty() => {
                path = format!("{TENANTS}?limit={PAGE_SIZE}&continue={}", escape(after));
            }
            _ => return Ok(tenants),
        }
    }
}

/// Sets apiVersion and kind, which items of a list may omit.
fn with_type(mut tenant: Value) -> Value {
    tenant["apiVersion"] = json!("v1");
    tenant["kind"] = json!("Tenant");
    tenant
}

/// Escapes a query value.
pub fn escape(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_are_escaped() {
        assert_eq!(escape("aZ9-_.~"), "aZ9-_.~");
        assert_eq!(escape("a=b&c d/ä"), "a%3Db%26c%20d%2F%C3%A4");
    }
}
