//! The types of the kinds and their schemas agree.

use std::fmt::Debug;

use insula_metal3::ipam::kinds::{IPAddress, IPClaim, IPPool};
use insula_metal3::kinds::cluster::{Metal3Cluster, Metal3ClusterTemplate};
use insula_metal3::kinds::data::Metal3Data;
use insula_metal3::kinds::data_claim::Metal3DataClaim;
use insula_metal3::kinds::data_template::Metal3DataTemplate;
use insula_metal3::kinds::machine::{Metal3Machine, Metal3MachineTemplate};
use insula_metal3::kinds::remediation::{Metal3Remediation, Metal3RemediationTemplate};
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::objects::{addresses, infrastructure, statuses};
use crate::scene::object;

/// Reads an object with all fields into the type, and writes it again.
fn assert_complete<T>()
where
    T: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Debug,
{
    let plural = T::plural(&());
    let infrastructure = infrastructure().into_iter();
    let infrastructure = infrastructure.map(|it| (it.plural, it.name, it.new));
    let addresses = addresses().into_iter();
    let mut all = infrastructure.chain(addresses.map(|(of, spec)| (of, "x", spec)));
    let (_, name, spec) = all.find(|(of, ..)| *of == plural).unwrap();
    let mut whole = object(&T::version(&()), &plural, name, &spec);
    if let Some(status) = statuses().into_iter().find(|it| it.plural == plural) {
        whole["status"] = status.new;
    }
    let read: T = serde_json::from_value(whole.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), whole);
}

#[test]
fn types_have_every_field_of_the_schemas() {
    assert_complete::<Metal3Cluster>();
    assert_complete::<Metal3ClusterTemplate>();
    assert_complete::<Metal3Machine>();
    assert_complete::<Metal3MachineTemplate>();
    assert_complete::<Metal3DataTemplate>();
    assert_complete::<Metal3DataClaim>();
    assert_complete::<Metal3Data>();
    assert_complete::<Metal3Remediation>();
    assert_complete::<Metal3RemediationTemplate>();
    assert_complete::<IPPool>();
    assert_complete::<IPClaim>();
    assert_complete::<IPAddress>();
}
