//! The life of a virtual machine.

use insula_identity::credential::Hidden;
use insula_identity::endpoint::Trust;
use insula_testkit::vcenter::FakeVCenter;
use insula_testkit::vcsim::VcSim;
use insula_vsphere::vcenter::{Card, Clone, Error, Hardware, Object, Place, Session, Task};

use super::{done, log_in, outcome};

const UUID: &str = "5f0c7a52-3a4e-4d0b-9c39-1d7f0a9a2b11";

async fn place(session: &Session, what: Place, dc: &Object, text: &str) -> Object {
    let found = session.locate(what, dc, Some(text)).await;
    found.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the specification of a clone on these networks.
async fn clone_spec(session: &Session, dc: &Object, template: &Object, networks: &[&str]) -> Clone {
    let machine = session.machine(template).await.expect("known");
    let mut cards = Vec::new();
    for (network, mac) in networks
        .iter()
        .zip([None, Some("00:50:56:01:02:03".to_owned())])
    {
        let network = place(session, Place::Network, dc, network).await;
        cards.push(Card { network, mac });
    }
    Clone {
        name: "node-1".to_owned(),
        instance_uuid: UUID.to_owned(),
        folder: Some(place(session, Place::Folder, dc, "/DC0/vm").await),
        pool: Some(place(session, Place::ResourcePool, dc, "DC0_C0/Resources").await),
        datastore: Some(place(session, Place::Datastore, dc, "LocalDS_0").await),
        snapshot: None,
        hardware: Hardware {
            cpus: 4,
            cores_per_socket: Some(2),
            memory_mib: 3072,
        },
        extra: vec![("guestinfo.userdata".to_owned(), Hidden::new("I2Nsb3Vk <&>"))],
        cards,
        cards_of_template: machine.cards.iter().map(|card| card.key).collect(),
        first_disk: machine
            .disks
            .first()
            .map(|disk| (disk.key, 1 + disk.kib / (1 << 20))),
    }
}

#[tokio::test]
async fn machine_is_cloned_configured_started_stopped_and_destroyed() {
    let Some(vcsim) = VcSim::start("u", "p") else {
        return;
    };
    let session = log_in(&vcsim.address(), &Trust::AnyCertificate, "u", "p")
        .await
        .expect("logged in");
    let dc = session.datacenter(None).await.expect("the only one");
    let template = place(&session, Place::VirtualMachine, &dc, "DC0_C0_RP0_VM0").await;
    let clone = clone_spec(&session, &dc, &template, &["VM Network", "DC0_DVPG0"]).await;
    let before = session.machine(&template).await.expect("known");
    assert!(
        !before.cards.is_empty() && !before.disks.is_empty(),
        "{before:?}"
    );

    let task = session.clone_vm(&template, &clone).await.expect("accepted");
    let vm = done(&session, &task).await.expect("a machine");
    assert_eq!(
        session.find_vm_by_instance_uuid(UUID).await,
        Ok(Some(vm.clone()))
    );
    assert_eq!(
        session.find_by_path("/DC0/vm/node-1").await,
        Ok(Some(vm.clone()))
    );
    let machine = session.machine(&vm).await.expect("known");
    assert_eq!(machine.name, "node-1");
    assert_eq!(machine.instance_uuid.as_deref(), Some(UUID));
    assert!(!machine.powered_on && !machine.is_template && machine.bios_uuid.is_some());
    assert_eq!(machine.cards.len(), 2, "{:?}", machine.cards);
    assert_eq!(machine.cards[1].mac, "00:50:56:01:02:03");
    let gib = clone.first_disk.expect("a disk").1;
    assert_eq!(machine.disks[0].kib, gib << 20);

    let extra = [
        ("guestinfo.metadata", "bWV0YQ== <&>"),
        ("SET.guest.ipAddress", "10.0.0.42"),
    ];
    let extra = extra.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let task = session
        .set_extra_config(&vm, &extra)
        .await
        .expect("accepted");
    assert_eq!(done(&session, &task).await, None);
    let machine = session.machine(&vm).await.expect("known");
    assert_eq!(machine.metadata.as_deref(), Some("bWV0YQ== <&>"));

    let task = session.power_on(&vm).await.expect("accepted");
    done(&session, &task).await;
    let machine = session.machine(&vm).await.expect("known");
    assert!(machine.powered_on);
    assert!(machine.host.is_some());
    let host = machine.host_name.as_deref().expect("a host");
    assert!(host.starts_with("DC0_C0_H"), "{host}");
    let addresses: Vec<_> = machine
        .cards
        .iter()
        .flat_map(|card| &card.addresses)
        .collect();
    assert_eq!(addresses, ["10.0.0.42"]);

    let again = session.power_on(&vm).await.expect("accepted");
    assert_eq!(
        failure(outcome(&session, &again).await),
        "InvalidPowerState"
    );
    let too_early = session.destroy(&vm).await.expect("accepted");
    assert_eq!(
        failure(outcome(&session, &too_early).await),
        "InvalidPowerState"
    );
    let task = session.power_off(&vm).await.expect("accepted");
    done(&session, &task).await;
    let task = session.destroy(&vm).await.expect("accepted");
    done(&session, &task).await;
    assert_eq!(session.machine(&vm).await, Err(Error::Gone(vm.to_string())));
    assert_eq!(
        session.power_off(&vm).await,
        Err(Error::Gone(vm.to_string()))
    );
    assert_eq!(session.find_vm_by_instance_uuid(UUID).await, Ok(None));
    let forgotten = Object::new("Task", "task-99999");
    assert_eq!(session.task(&forgotten).await, Ok(Task::Unknown));
}

fn failure(task: Task) -> String {
    match task {
        Task::Failed { fault, .. } => fault,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn taken_name_fails_the_task() {
    let Some(vcsim) = VcSim::start("u", "p") else {
        return;
    };
    let session = log_in(&vcsim.address(), &Trust::AnyCertificate, "u", "p")
        .await
        .expect("logged in");
    let dc = session.datacenter(None).await.expect("the only one");
    let template = place(&session, Place::VirtualMachine, &dc, "DC0_C0_RP0_VM0").await;
    let mut clone = clone_spec(&session, &dc, &template, &["VM Network"]).await;
    clone.name = "DC0_C0_RP0_VM1".to_owned();
    let fault = match session.clone_vm(&template, &clone).await {
        Ok(task) => failure(outcome(&session, &task).await),
        Err(Error::Fault { fault, .. }) => fault,
        Err(other) => panic!("{other}"),
    };
    assert_eq!(fault, "DuplicateName");
}

#[tokio::test]
async fn linked_clone_in_schema_order_is_accepted_by_a_strict_vcenter() {
    let fake = FakeVCenter::start(&[("a", "p")]).await.expect("a vCenter");
    let session = log_in(&fake.address(), &Trust::AnyCertificate, "a", "p")
        .await
        .expect("logged in");
    let dc = session.datacenter(None).await.expect("the only one");
    for (template, networks) in [
        ("templates/linked", &["DC0_DVPG0"][..]),
        ("ubuntu", &["VM Network", "DC0_DVPG0"][..]),
    ] {
        let template = place(&session, Place::VirtualMachine, &dc, template).await;
        let known = session.machine(&template).await.expect("known");
        assert!(known.is_template);
        let mut clone = clone_spec(&session, &dc, &template, networks).await;
        clone.name = format!("node-{}", template.id);
        clone.instance_uuid = uuid::Uuid::new_v4().to_string();
        clone.snapshot = known
            .snapshots
            .first()
            .map(|snapshot| snapshot.object.clone());
        assert_eq!(clone.snapshot, known.current_snapshot);
        assert_eq!(clone.snapshot.is_some(), networks.len() == 1);
        let task = session.clone_vm(&template, &clone).await.expect("accepted");
        let vm = done(&session, &task).await.expect("a machine");
        let machine = session.machine(&vm).await.expect("known");
        assert_eq!(machine.cards.len(), networks.len());
        let task = session.power_on(&vm).await.expect("accepted");
        done(&session, &task).await;
        assert!(session.machine(&vm).await.expect("known").powered_on);
    }
}

#[tokio::test]
async fn clone_without_a_folder_is_beside_its_template() {
    let fake = FakeVCenter::start(&[("a", "p")]).await.expect("a vCenter");
    let session = log_in(&fake.address(), &Trust::AnyCertificate, "a", "p")
        .await
        .expect("logged in");
    let dc = session.datacenter(None).await.expect("the only one");
    let template = place(&session, Place::VirtualMachine, &dc, "templates/linked").await;
    let mut clone = clone_spec(&session, &dc, &template, &[]).await;
    clone.folder = None;
    let task = session.clone_vm(&template, &clone).await.expect("accepted");
    let vm = done(&session, &task).await;
    assert_eq!(
        session.find_by_path("/DC0/vm/templates/node-1").await,
        Ok(vm)
    );
}
