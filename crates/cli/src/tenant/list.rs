//! `insula tenant list`.

use serde_json::{Value, json};

use super::show::{self, Format};
use super::{Server, TENANTS};
use crate::failure::Failure;
use crate::output;

/// What it can be told.
#[derive(clap::Args)]
pub struct Args {
    /// How to show them
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// As kubectl has it.
const PAGE: usize = 500;

/// Shows all tenants.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let tenants = all(server).await?;
    output::print(&show::many(tenants, args.output)?)
}

async fn all(server: &Server) -> Result<Vec<Value>, Failure> {
    let mut tenants = Vec::new();
    let mut path = format!("{TENANTS}?limit={PAGE}");
    loop {
        let page = server.client.get(&path).await;
        let mut page = page.map_err(|error| error.told("cannot list tenants"))?;
        if let Value::Array(items) = page["items"].take() {
            tenants.extend(items.into_iter().map(with_type));
        }
        match page["metadata"]["continue"].as_str() {
            Some(after) if !after.is_empty() => {
                path = format!("{TENANTS}?limit={PAGE}&continue={}", escape(after));
            }
            _ => return Ok(tenants),
        }
    }
}

/// Items of a list need not say what they are; on their own they must.
fn with_type(mut tenant: Value) -> Value {
    tenant["apiVersion"] = json!("v1");
    tenant["kind"] = json!("Tenant");
    tenant
}

/// As a value in a query.
fn escape(text: &str) -> String {
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
    fn whatever_a_token_is_made_of_it_is_one_value() {
        assert_eq!(escape("aZ9-_.~"), "aZ9-_.~");
        assert_eq!(escape("a=b&c d/ä"), "a%3Db%26c%20d%2F%C3%A4");
    }
}
