//! Revocations of expired credentials.

use insula_testkit::server::TestServer;
use serde_json::json;

use super::{create, until_gone};

const REVOCATIONS: &str = "/apis/access.insula.dev/v1/credentialrevocations";

#[tokio::test]
async fn revocation_of_an_expired_credential_is_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let tenant = server.tenant("t1").await?;
    let spec = json!({"token": "t", "expires": "2020-01-31T12:00:00Z"});
    let object = json!({"metadata": {"name": "expired"}, "spec": spec});
    create(&tenant, REVOCATIONS, object).await?;
    until_gone(&tenant, &format!("{REVOCATIONS}/expired")).await
}
