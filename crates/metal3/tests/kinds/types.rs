//! The types of the kinds and their schemas agree.

use std::fmt::Debug;

use insula_metal3::kinds::cluster::{Metal3ClusterSpec, Metal3ClusterTemplateSpec};
use insula_metal3::kinds::data::Metal3DataSpec;
use insula_metal3::kinds::data_claim::Metal3DataClaimSpec;
use insula_metal3::kinds::machine::{Metal3MachineSpec, Metal3MachineTemplateSpec};
use insula_metal3::kinds::remediation::{Metal3RemediationSpec, Metal3RemediationTemplateSpec};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::objects::infrastructure;

/// Reads the specification with all fields into the type, and writes it again.
fn assert_complete<T: Serialize + DeserializeOwned + Debug>(plural: &str) {
    let all = infrastructure();
    let it = all.into_iter().find(|it| it.plural == plural).unwrap();
    let read: T = serde_json::from_value(it.new.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), it.new, "{plural}");
}

#[test]
fn types_have_every_field_of_the_schemas() {
    assert_complete::<Metal3ClusterSpec>("metal3clusters");
    assert_complete::<Metal3ClusterTemplateSpec>("metal3clustertemplates");
    assert_complete::<Metal3MachineSpec>("metal3machines");
    assert_complete::<Metal3MachineTemplateSpec>("metal3machinetemplates");
    assert_complete::<Metal3DataClaimSpec>("metal3dataclaims");
    assert_complete::<Metal3DataSpec>("metal3datas");
    assert_complete::<Metal3RemediationSpec>("metal3remediations");
    assert_complete::<Metal3RemediationTemplateSpec>("metal3remediationtemplates");
}
