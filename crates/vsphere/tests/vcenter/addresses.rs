//! The addresses that vCenters of teams may have.

use crate::LogInAt;
use insula_identity::endpoint::{AllowedEndpoints, Trust};
use insula_identity::reason::Reason;
use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::operator::default_addresses;
use insula_vsphere::vcenter::VCenters;

use super::{TIMEOUT, credential, endpoint, log_out};

const HINT: &str = "the operator's --allow-address or --allowed-server allows it";

#[tokio::test]
async fn server_of_a_team_cannot_be_at_the_operators_machine_or_link() {
    let fake = FakeVCenter::start(&[("green", "mellon")])
        .await
        .expect("a vCenter");
    let vcenters =
        |trusted| VCenters::new(TIMEOUT, Vec::new()).restricted(default_addresses(), trusted);
    let (own, account) = (fake.address(), credential("green", "mellon"));
    let port = own.rsplit(':').next().expect("a port");
    let teams = vcenters(AllowedEndpoints::Nowhere);
    for (host, why) in [
        ("127.0.0.1", "address is not allowed"),
        ("localhost", "no such host, or its address is not allowed"),
        (
            "nowhere.invalid",
            "no such host, or its address is not allowed",
        ),
        ("169.254.169.254", "address is not allowed"),
    ] {
        let address = endpoint(&format!("{host}:{port}"));
        let login = teams.log_in_at(&address, &Trust::AnyCertificate, &account);
        let refused = login.await.expect_err("refused");
        assert_eq!(refused.reason, Reason::Unreachable, "{host}");
        let expected = format!("cannot connect ({why}; {HINT})");
        assert!(
            refused.message.ends_with(&expected),
            "{host}: {}",
            refused.message
        );
    }
    assert_eq!(fake.connections(), 0);
    // The platform engineer's own server may be anywhere.
    let listed = AllowedEndpoints::Only(vec![(endpoint(&own), None)]);
    let (vcenters, address) = (vcenters(listed), endpoint(&own));
    let login = vcenters.log_in_at(&address, &Trust::AnyCertificate, &account);
    log_out(&login.await.expect("logged in")).await;
}
