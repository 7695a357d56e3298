//! Lists of amounts on the command line: `objects=1000,bytes=100Mi`.

use serde_json::{Value, json};

/// A name that may have an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmountName {
    /// The field of the object.
    pub field: &'static str,
    /// Whether the amount is a quantity of bytes; otherwise it is a plain number.
    pub is_bytes: bool,
}

/// An amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number or a quantity.
    Limit(Value),
    /// `none`: no limit.
    Unlimited,
    /// `default`: the default of the server.
    Default,
}

/// The errors of a list of amounts.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAmounts {
    /// A part is not NAME=AMOUNT.
    #[error("{0:?} is not NAME=AMOUNT")]
    Form(String),
    /// The name is unknown.
    #[error("{0:?} is not a limit; the limits are {1}")]
    Name(String, String),
    /// A name occurs twice.
    #[error("duplicate limit {0}")]
    Duplicate(&'static str),
    /// The amount is not a number.
    #[error("{0:?} is not a number of {1}")]
    Amount(String, &'static str),
}

/// Parses the list.
pub fn parse(
    text: &str,
    names: &[AmountName],
) -> Result<Vec<(&'static str, Amount)>, InvalidAmounts> {
    let mut amounts: Vec<(&'static str, Amount)> = Vec::new();
    for part in text.split(',') {
        let form = || InvalidAmounts::Form(part.to_owned());
        let (name, amount) = part.split_once('=').ok_or_else(form)?;
        let unknown = || {
            let known: Vec<_> = names.iter().map(|name| name.field).collect();
            InvalidAmounts::Name(name.to_owned(), known.join(", "))
        };
        let name = names.iter().find(|known| known.field == name);
        let name = name.ok_or_else(unknown)?;
        let field = name.field;
        if amounts.iter().any(|(known, _)| *known == field) {
            return Err(InvalidAmounts::Duplicate(field));
        }
        amounts.push((field, parse_amount(amount, *name)?));
    }
    Ok(amounts)
}

fn parse_amount(text: &str, name: AmountName) -> Result<Amount, InvalidAmounts> {
    Ok(match text {
        "none" => Amount::Unlimited,
        "default" => Amount::Default,
        // A quantity, which the server parses.
        _ if name.is_bytes && !text.is_empty() => Amount::Limit(json!(text)),
        _ => {
            let wrong = |_| InvalidAmounts::Amount(text.to_owned(), name.field);
            Amount::Limit(json!(text.parse::<u32>().map_err(wrong)?))
        }
    })
}
