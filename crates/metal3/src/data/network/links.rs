//! Links: bonds, interfaces and virtual networks, in this order.

use serde_json::{Map, Value, json};

use crate::data::sources::{RenderError, Sources, set};
use crate::kinds::data_template::{Bond, Links, MacSource};

/// The MTU of links that set none.
const DEFAULT_MTU: i32 = 1500;

pub(super) fn render(links: &Links, sources: &Sources<'_>) -> Result<Vec<Value>, RenderError> {
    let mut rendered = Vec::new();
    for bond in &links.bonds {
        rendered.push(render_bond(bond, sources)?);
    }
    for link in &links.ethernets {
        let mut fields = fields(&link.kind, &link.id, link.mtu, &link.name);
        let mac = link.mac_address.as_ref();
        put_mac(&mut fields, "ethernet_mac_address", &link.id, mac, sources)?;
        rendered.push(Value::Object(fields));
    }
    for link in &links.vlans {
        let number = link.vlan_id;
        let number = number.ok_or_else(|| RenderError::NoVlanId(link.id.clone()))?;
        let mut fields = fields("vlan", &link.id, link.mtu, &link.name);
        fields.insert("vlan_link".to_owned(), json!(link.vlan_link));
        fields.insert("vlan_id".to_owned(), json!(number));
        let mac = link.mac_address.as_ref();
        put_mac(&mut fields, "vlan_mac_address", &link.id, mac, sources)?;
        rendered.push(Value::Object(fields));
    }
    Ok(rendered)
}

fn render_bond(bond: &Bond, sources: &Sources<'_>) -> Result<Value, RenderError> {
    let mut fields = fields("bond", &bond.id, bond.mtu, &bond.name);
    let policy = bond.bond_xmit_hash_policy.clone().unwrap_or_default();
    fields.insert("bond_mode".to_owned(), json!(bond.bond_mode));
    fields.insert("bond_xmit_hash_policy".to_owned(), json!(policy));
    fields.insert("bond_links".to_owned(), json!(bond.bond_links));
    let mac = bond.mac_address.as_ref();
    put_mac(&mut fields, "ethernet_mac_address", &bond.id, mac, sources)?;
    let mut names = Vec::new();
    for parameter in &bond.parameters {
        let key = format!("bond_{}", parameter.name);
        match fields.contains_key(&key) {
            true => names.push(parameter.name.clone()),
            false => {
                fields.insert(key, parameter.value.clone());
            }
        }
    }
    match names.is_empty() {
        true => Ok(Value::Object(fields)),
        false => Err(RenderError::BondParameters {
            bond: bond.id.clone(),
            names,
        }),
    }
}

/// Returns the fields that all links have.
fn fields(kind: &str, id: &str, mtu: Option<i32>, name: &Option<String>) -> Map<String, Value> {
    let mtu = mtu.filter(|mtu| *mtu != 0).unwrap_or(DEFAULT_MTU);
    let mut fields = Map::new();
    fields.insert("type".to_owned(), json!(kind));
    fields.insert("id".to_owned(), json!(id));
    fields.insert("mtu".to_owned(), json!(mtu));
    if let Some(name) = set(name) {
        fields.insert("name".to_owned(), json!(name));
    }
    fields
}

fn put_mac(
    fields: &mut Map<String, Value>,
    key: &str,
    link: &str,
    mac: Option<&MacSource>,
    sources: &Sources<'_>,
) -> Result<(), RenderError> {
    if let Some(mac) = mac {
        let mac = sources.mac(link, mac)?;
        fields.insert(key.to_owned(), json!(mac));
    }
    Ok(())
}
