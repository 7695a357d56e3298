//! Every tenant has an issuer of its own, so that services which trust issuer, subject and audience
//! distinguish equal names of two tenants.

use insula_access::jwt::{KeySet, Signed};
use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use super::{
    ISSUER, SECRETS, claims, create, delete, issuer_of, kept_claims, review, robot, sign, token,
    whoami,
};

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

/// A service that federates as clouds do: it has no credential, knows the URL of an issuer, and
/// compares issuer, subject and audience.
struct Cloud {
    client: Client,
    server_url: String,
}

/// What a service was configured to accept.
struct Trust<'a> {
    issuer: &'a str,
    subject: &'a str,
    audience: &'a str,
}

impl Cloud {
    async fn new(server: &TestServer) -> anyhow::Result<Self> {
        Ok(Self {
            client: server.client("").await?,
            server_url: server.url(),
        })
    }

    /// Returns the keys that the issuer publishes, or the status code of its discovery.
    async fn discover(&self, issuer: &str) -> anyhow::Result<Result<KeySet, u16>> {
        // The name of the issuer leads to the server.
        let path = issuer.strip_prefix(ISSUER).unwrap_or("/nowhere");
        let found = self.client.get(&format!("{path}{CONFIGURATION}")).await?;
        if found.status != 200 {
            return Ok(Err(found.status));
        }
        assert_eq!(found.header("cache-control"), "public, max-age=3600");
        let configuration = found.json();
        assert_eq!(configuration["issuer"], issuer);
        let keys = configuration["jwks_uri"].as_str().unwrap_or_default();
        assert_eq!(keys, format!("{}{path}{KEYS}", self.server_url));
        let keys = keys.strip_prefix(&self.server_url).unwrap_or_default();
        let keys = self.client.get(keys).await?;
        assert_eq!(keys.status, 200, "{}", keys.text());
        Ok(Ok(KeySet::from_jwks(&keys.body)?))
    }

    async fn accepts(&self, trust: &Trust<'_>, token: &str) -> anyhow::Result<bool> {
        let Ok(keys) = self.discover(trust.issuer).await? else {
            return Ok(false);
        };
        let signed = Signed::parse(token)?;
        let Ok(claims) = signed.verify(&keys) else {
            return Ok(false);
        };
        Ok(claims.text("iss") == Some(trust.issuer)
            && claims.text("sub") == Some(trust.subject)
            && claims.audiences()? == [trust.audience])
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

#[tokio::test]
async fn cloud_that_trusts_one_tenants_issuer_rejects_equal_names_of_others() -> anyhow::Result<()>
{
    let server = TestServer::start().await?;
    let cloud = Cloud::new(&server).await?;
    let mut tokens = Vec::new();
    for client in [
        server.tenant("t1").await?,
        server.tenant("t2").await?,
        server.system().await?,
    ] {
        robot(&client).await?;
        tokens.push(token(&client, json!({"audiences": ["sts"]})).await?);
    }
    let expected = [
        issuer_of(&server, "t1").await?,
        issuer_of(&server, "t2").await?,
        ISSUER.to_owned(),
    ];
    assert_ne!(expected[0], expected[1]);
    for (token, issuer) in tokens.iter().zip(&expected) {
        let claims = claims(token);
        assert_eq!(text(&claims, "iss"), issuer);
        assert_eq!(
            text(&claims, "sub"),
            "system:serviceaccount:default:robot",
            "the subjects are equal: only the issuer differs"
        );
    }
    for (trusted, issuer) in expected.iter().enumerate() {
        let trust = Trust {
            issuer,
            subject: "system:serviceaccount:default:robot",
            audience: "sts",
        };
        for (holder, token) in tokens.iter().enumerate() {
            let accepted = cloud.accepts(&trust, token).await?;
            assert_eq!(accepted, trusted == holder, "{issuer}: {}", claims(token));
        }
    }
    Ok(())
}

#[tokio::test]
async fn recreated_tenant_has_another_issuer_and_the_former_one_is_gone() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let cloud = Cloud::new(&server).await?;
    let system = server.system().await?;
    let client = server.tenant("t1").await?;
    robot(&client).await?;
    let old = token(&client, json!({"audiences": ["sts"]})).await?;
    let former = issuer_of(&server, "t1").await?;
    assert!(cloud.discover(&former).await?.is_ok());
    delete(&system, "/api/v1/tenants/t1").await?;
    system.until_gone("/api/v1/tenants/t1").await?;
    assert_eq!(cloud.discover(&former).await?, Err(404));
    let client = server.tenant("t1").await?;
    robot(&client).await?;
    let issuer = issuer_of(&server, "t1").await?;
    assert_ne!(issuer, former);
    assert_eq!(cloud.discover(&former).await?, Err(404));
    let new = token(&client, json!({"audiences": ["sts"]})).await?;
    let subject = "system:serviceaccount:default:robot";
    for (trusted, token, expected) in [
        (&former, &old, false),
        (&former, &new, false),
        (&issuer, &old, false),
        (&issuer, &new, true),
    ] {
        let trust = Trust {
            issuer: trusted,
            subject,
            audience: "sts",
        };
        let accepted = cloud.accepts(&trust, token).await?;
        assert_eq!(accepted, expected, "{trusted}: {}", claims(token));
    }
    Ok(())
}

#[tokio::test]
async fn unknown_issuers_are_alike() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    robot(&one).await?;
    let issuer = issuer_of(&server, "t1").await?;
    let uid = issuer.rsplit('/').next().unwrap_or_default();
    let anonymous = server.client("").await?;
    let nil = "00000000-0000-0000-0000-000000000000";
    for document in [CONFIGURATION, KEYS] {
        let path = |tenant: &str, uid: &str| format!("/tenants/{tenant}/issuers/{uid}{document}");
        assert_eq!(anonymous.get(&path("t1", uid)).await?.status, 200);
        // Any credential sees the same, also one that is not valid.
        for client in [&one, &two, &server.client("wrong").await?] {
            let (seen, public) = (
                client.get(&path("t1", uid)).await?,
                anonymous.get(&path("t1", uid)).await?,
            );
            assert_eq!((seen.status, seen.body), (200, public.body));
        }
        for client in [&anonymous, &one, &server.system().await?] {
            for unknown in [
                path("t1", nil),
                path("t1", &uid.to_uppercase()),
                path("t2", uid),
                path("ghost", uid),
                path("ghost", nil),
                path("system", uid),
                path("system", nil),
                format!("/issuers/{uid}{document}"),
            ] {
                let answer = client.get(&unknown).await?;
                let seen = (answer.status, answer.text());
                assert_eq!(seen, (404, "404 page not found\n".to_owned()), "{unknown}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn space_shows_its_own_issuer_to_its_principals() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, one) = (server.system().await?, server.tenant("t1").await?);
    let two = server.tenant("t2").await?;
    robot(&one).await?;
    let holder = server.client(&token(&one, json!({})).await?).await?;
    let (of_one, of_two) = (
        issuer_of(&server, "t1").await?,
        issuer_of(&server, "t2").await?,
    );
    let prefixed = |tenant: &str| format!("/tenants/{tenant}{CONFIGURATION}");
    let anonymous = server.client("").await?;
    let plain = CONFIGURATION.to_owned();
    for (client, path, issuer, cached) in [
        (&anonymous, &plain, ISSUER, "public"),
        (&anonymous, &prefixed("system"), ISSUER, "public"),
        (&system, &plain, ISSUER, "public"),
        (&system, &prefixed("t1"), &of_one, "private"),
        (&one, &plain, &of_one, "private"),
        (&one, &prefixed("t1"), &of_one, "private"),
        (&two, &plain, &of_two, "private"),
        (&holder, &plain, &of_one, "private"),
    ] {
        let found = client.get(path).await?;
        assert_eq!(found.status, 200, "{path}: {}", found.text());
        assert_eq!(text(&found.json(), "issuer"), issuer, "{path}");
        let keys = issuer.replace(ISSUER, &server.url());
        assert_eq!(found.json()["jwks_uri"], format!("{keys}{KEYS}"));
        let caching = format!("{cached}, max-age=3600");
        assert_eq!(found.header("cache-control"), caching, "{path}");
        assert_eq!(found.header("vary"), "Authorization", "{path}");
    }
    // The issuer contains the UID of the tenant, which other spaces do not see.
    for (client, path, status) in [
        (&anonymous, prefixed("t1"), 401),
        (&anonymous, prefixed("ghost"), 401),
        (&server.client("wrong").await?, plain, 401),
        (&two, prefixed("t1"), 403),
        (&two, prefixed("ghost"), 403),
        (&holder, prefixed("system"), 403),
    ] {
        let refused = client.get(&path).await?;
        assert_eq!(refused.status, status, "{path}: {}", refused.text());
        assert!(!refused.text().contains("issuers/"), "{}", refused.text());
    }
    Ok(())
}

/// Tokens of earlier versions name the plain issuer in every tenant.
#[tokio::test]
async fn tokens_of_the_plain_issuer_stay_valid_in_their_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    robot(&one).await?;
    let issuer = issuer_of(&server, "t1").await?;
    let now = claims(&token(&one, json!({})).await?);
    assert_eq!(now["aud"], json!([issuer]));
    let with = |issuer: &str, audience: &str| {
        let mut claims = now.clone();
        (claims["iss"], claims["aud"]) = (issuer.into(), json!([audience]));
        sign(&server, &claims)
    };
    for (iss, aud) in [
        (ISSUER, ISSUER),
        (&issuer, &issuer),
        (&issuer, ISSUER),
        (ISSUER, &issuer),
    ] {
        let signed = with(iss, aud);
        let (status, user) = whoami(&server, &signed).await?;
        assert_eq!(status, 201, "{iss} for {aud}");
        assert_eq!(user["extra"]["insula.dev/tenant"], json!(["t1"]));
        assert_eq!(review(&one, &signed, &[]).await?["audiences"], json!([aud]));
        assert_eq!(
            review(&two, &signed, &[]).await?["authenticated"],
            Value::Null
        );
    }
    Ok(())
}

#[tokio::test]
async fn token_with_an_issuer_of_another_space_is_rejected() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, one) = (server.system().await?, server.tenant("t1").await?);
    server.tenant("t2").await?;
    robot(&one).await?;
    robot(&system).await?;
    let of_one = issuer_of(&server, "t1").await?;
    let of_two = issuer_of(&server, "t2").await?;
    let nil = "00000000-0000-0000-0000-000000000000";
    let former = format!("{ISSUER}/tenants/t1/issuers/{nil}");
    let in_one = claims(&token(&one, json!({})).await?);
    let in_system = claims(&token(&system, json!({})).await?);
    assert_eq!(in_system["iss"], ISSUER);
    let prefixed = format!("{of_one}/");
    for (claims, issuer) in [
        (&in_one, of_two.as_str()),
        (&in_one, &former),
        (&in_one, &prefixed),
        (&in_one, &format!("{ISSUER}/")),
        (&in_one, &format!("{ISSUER}/tenants/t1")),
        (&in_system, &of_one),
        (&in_system, &of_two),
    ] {
        for audience in [ISSUER, &of_one, issuer] {
            let mut claims = claims.clone();
            (claims["iss"], claims["aud"]) = (issuer.into(), json!([audience]));
            let (status, user) = whoami(&server, &sign(&server, &claims)).await?;
            assert_eq!((status, user), (401, Value::Null), "{claims}");
        }
    }
    // Another tenant's issuer as the audience is as foreign as any other.
    let token = token(&one, json!({"audiences": [of_two]})).await?;
    assert_eq!(whoami(&server, &token).await?.0, 401);
    Ok(())
}

#[tokio::test]
async fn token_secrets_keep_the_issuer_of_kubernetes() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let uid = robot(&client).await?["metadata"]["uid"].clone();
    let issuer = issuer_of(&server, "t1").await?;
    let token = sign(
        &server,
        &kept_claims(&uid, &json!(issuer.rsplit('/').next())),
    );
    let secret = json!({"metadata": {"name": "kept"}, "stringData": {"token": token}});
    create(&client, SECRETS, secret).await?;
    assert_eq!(whoami(&server, &token).await?.0, 201);
    // It is for this server, by either of its names in the tenant.
    for (asked, expected) in [
        (&[][..], json!([issuer, ISSUER])),
        (&[ISSUER], json!([ISSUER])),
        (&[issuer.as_str(), "zzz"], json!([issuer])),
    ] {
        assert_eq!(review(&client, &token, asked).await?["audiences"], expected);
    }
    Ok(())
}
