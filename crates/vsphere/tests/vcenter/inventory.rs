//! Lookup of inventory objects.

use insula_identity::endpoint::Trust;
use insula_testkit::vcenter::FakeVCenter;
use insula_testkit::vcsim::{Settings, VcSim};
use insula_vsphere::vcenter::{NotLocated, Object, Place, Session};

use super::log_in;

async fn name_of(session: &Session, what: Place, dc: &Object, text: Option<&str>) -> String {
    match session.locate(what, dc, text).await {
        Ok(found) => found.kind,
        Err(error) => error.to_string(),
    }
}

/// `None` stands for the first object of the row.
#[tokio::test]
async fn objects_are_found_by_path_name_id_or_as_the_only_one() {
    let Some(vcsim) = VcSim::start("u", "p") else {
        return;
    };
    let session = log_in(&vcsim.address(), &Trust::AnyCertificate, "u", "p")
        .await
        .expect("logged in");
    let dc = session.datacenter(None).await.expect("the only one");
    for text in ["DC0", "/DC0", "*", "", &dc.to_string()] {
        assert_eq!(
            session.datacenter(Some(text)).await,
            Ok(dc.clone()),
            "{text}"
        );
    }
    let table: &[(Place, &str, &[Option<&str>])] = &[
        (
            Place::Folder,
            "/DC0/vm",
            &[None, Some("*"), Some(""), Some("/DC0/vm/")],
        ),
        (
            Place::ResourcePool,
            "/DC0/host/DC0_C0/Resources",
            &[
                Some("DC0_C0/Resources"),
                Some("DC0_C0"),
                Some("/DC0/host/DC0_C0"),
                Some("DC0_C*/Resources"),
                Some("/*/host/DC0_C?/*"),
            ],
        ),
        (
            Place::ResourcePool,
            "/DC0/host/DC0_H0/Resources",
            &[Some("DC0_H0/Resources")],
        ),
        (
            Place::Datastore,
            "/DC0/datastore/LocalDS_0",
            &[Some("LocalDS_0"), None, Some("*")],
        ),
        (
            Place::Network,
            "/DC0/network/VM Network",
            &[Some("VM Network")],
        ),
        (
            Place::Network,
            "/DC0/network/DC0_DVPG0",
            &[Some("DC0_DVPG0")],
        ),
        (
            Place::ComputeCluster,
            "/DC0/host/DC0_C0",
            &[Some("DC0_C0"), None],
        ),
        (
            Place::VirtualMachine,
            "/DC0/vm/DC0_C0_RP0_VM0",
            &[Some("DC0_C0_RP0_VM0")],
        ),
    ];
    for (what, path, others) in table {
        let found = session.locate(*what, &dc, Some(path)).await;
        let found = found.unwrap_or_else(|error| panic!("{path}: {error}"));
        let by_path = session.find_by_path(path).await.expect("answered");
        assert_eq!(Some(&found), by_path.as_ref(), "{path}");
        for text in *others {
            let other = session.locate(*what, &dc, *text).await;
            assert_eq!(other, Ok(found.clone()), "{path} as {text:?}");
        }
        let by_id = session.locate(*what, &dc, Some(&found.to_string())).await;
        assert_eq!(by_id, Ok(found), "{path} by its ID");
    }
}

#[tokio::test]
async fn template_is_found_by_instance_uuid() {
    let Some(vcsim) = VcSim::start("u", "p") else {
        return;
    };
    let session = log_in(&vcsim.address(), &Trust::AnyCertificate, "u", "p")
        .await
        .expect("logged in");
    let dc = session.datacenter(None).await.expect("the only one");
    let vm = session
        .locate(Place::VirtualMachine, &dc, Some("DC0_H0_VM0"))
        .await
        .expect("there");
    let machine = session.machine(&vm).await.expect("known");
    let uuid = machine.instance_uuid.expect("an instance UUID");
    let found = session
        .locate(Place::VirtualMachine, &dc, Some(&uuid))
        .await;
    assert_eq!(found, Ok(vm.clone()));
    assert_eq!(
        session.find_vm_by_instance_uuid(&uuid).await,
        Ok(Some(vm.clone()))
    );
    let bios = machine.bios_uuid.expect("a BIOS UUID");
    assert_eq!(session.find_vm_by_bios_uuid(&bios).await, Ok(Some(vm)));
    let other = "00000000-0000-0000-0000-000000000000";
    assert_eq!(session.find_vm_by_bios_uuid(other).await, Ok(None));
}

#[tokio::test]
async fn missing_and_ambiguous_names_are_reported() {
    let flags = ["-dc", "2", "-cluster", "2", "-pool", "1", "-ds", "2"];
    let settings = Settings {
        flags: flags.map(str::to_owned).to_vec(),
        ..Settings::default()
    };
    let Some(vcsim) = VcSim::start_with(settings) else {
        return;
    };
    let session = log_in(&vcsim.address(), &Trust::AnyCertificate, "user", "pass").await;
    let session = session.expect("logged in");
    let ambiguous = session.datacenter(None).await.expect_err("two");
    assert!(
        matches!(&ambiguous, NotLocated::Ambiguous { what: "datacenter", text, .. } if text == "*"),
        "{ambiguous}"
    );
    let missing = session.datacenter(Some("DC9")).await.expect_err("none");
    assert_eq!(missing.to_string(), "there is no datacenter \"DC9\"");
    let dc = session.datacenter(Some("DC1")).await.expect("there");
    let table = [
        (
            Place::VirtualMachine,
            Some("none"),
            "there is no virtual machine \"none\"",
        ),
        (
            Place::VirtualMachine,
            Some("DC0_C0_RP0_VM0"),
            "there is no virtual machine \"DC0_C0_RP0_VM0\"",
        ),
        (
            Place::VirtualMachine,
            Some("VirtualMachine:vm-9999"),
            "there is no virtual machine \"VirtualMachine:vm-9999\"",
        ),
        (Place::Folder, Some("a/b"), "there is no folder \"a/b\""),
        (
            Place::Folder,
            Some("DC1_C0_RP0_VM0"),
            "there is no folder \"DC1_C0_RP0_VM0\"",
        ),
        (
            Place::Datastore,
            Some("/DC1/vm"),
            "there is no datastore \"/DC1/vm\"",
        ),
        (Place::Network, Some("DVS0"), "there is no network \"DVS0\""),
        (Place::ResourcePool, Some("DC1_C0_RP1"), "ResourcePool"),
        (
            Place::ComputeCluster,
            Some("DC1_H0"),
            "there is no compute cluster \"DC1_H0\"",
        ),
    ];
    for (what, text, expected) in table {
        assert_eq!(name_of(&session, what, &dc, text).await, expected);
    }
    for (what, text, whole) in [
        (
            Place::ResourcePool,
            None,
            "resource pool \"*\" may be any of \"DC1_C0\" (",
        ),
        (
            Place::ResourcePool,
            Some("Resources"),
            "resource pool \"Resources\" may be any of ",
        ),
        (
            Place::Datastore,
            None,
            "datastore \"*\" may be any of \"LocalDS_0\" (",
        ),
        (
            Place::VirtualMachine,
            None,
            "virtual machine \"*\" may be any of ",
        ),
    ] {
        let said = name_of(&session, what, &dc, text).await;
        assert!(said.starts_with(whole), "{said}");
    }
}

#[tokio::test]
async fn nested_and_escaped_names_are_found() {
    let fake = FakeVCenter::start(&[("a", "p")]).await.expect("a vCenter");
    fake.add_folder("/DC0/vm/team");
    fake.add_folder("/DC0/vm/team/deep");
    fake.add_folder("/DC0/vm/other");
    let deep = fake.add_template("/DC0/vm/team/deep/debian", None);
    let twice = [
        fake.add_machine("/DC0/vm/team/same"),
        fake.add_machine("/DC0/vm/other/same"),
    ];
    let odd = fake.add_machine("/DC0/vm/team/100%");
    fake.add_pool("/DC0/host/DC0_C0/Resources/team");
    fake.page(2);
    let session = log_in(&fake.address(), &Trust::AnyCertificate, "a", "p")
        .await
        .expect("logged in");
    let dc = session.datacenter(Some("DC0")).await.expect("there");
    let vm = |id: &str| Object::new("VirtualMachine", id);
    for text in ["debian", "team/deep/debian", "/DC0/vm/team/deep/debian"] {
        let found = session.locate(Place::VirtualMachine, &dc, Some(text)).await;
        assert_eq!(found, Ok(vm(&deep)), "{text}");
    }
    for text in ["100%", "100%25", "team/100%25"] {
        let found = session.locate(Place::VirtualMachine, &dc, Some(text)).await;
        assert_eq!(found, Ok(vm(&odd)), "{text}");
    }
    let several = session
        .locate(Place::VirtualMachine, &dc, Some("same"))
        .await;
    let mut found = twice.map(|id| format!("\"same\" (VirtualMachine:{id})"));
    found.sort();
    let said = format!(
        "virtual machine \"same\" may be any of {}",
        found.join(", ")
    );
    assert_eq!(several.expect_err("two").to_string(), said);
    let below = name_of(&session, Place::ResourcePool, &dc, Some("*/Resources/*")).await;
    assert_eq!(below, "ResourcePool");
    let several = name_of(&session, Place::Folder, &dc, Some("*/*")).await;
    assert_eq!(several, "Folder");
    assert_eq!(
        name_of(&session, Place::ResourcePool, &dc, Some("team")).await,
        "ResourcePool"
    );
    assert_eq!(
        name_of(&session, Place::Folder, &dc, Some("deep")).await,
        "Folder"
    );
}
